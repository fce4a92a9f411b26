"""What decides the answers of a model, in a table: by it a command knows its own half-made output again."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from pellucid.text.tokenizers import Tokenizers
from pellucid.weights.tensors import parameters

WITHOUT_EFFECT = ("batch_tokens",)
"""Settings that change how answers are computed, and not what they are: who runs out of memory may lower them."""


def identity(verb: str, model: nn.Module, tokenizers: Tokenizers, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what decides the answers of a verb, as JSON has it: equal tables write equal answers to equal lines."""
    digest = hashlib.sha256()
    weights = parameters(model)
    for name, tensor in weights.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    with TemporaryDirectory(prefix="pellucid-") as folder:
        table = tokenizers.save(Path(folder))  # which names its files by their digests
    digest.update(json.dumps(table, sort_keys=True, default=str).encode())
    effective = {name: value for name, value in settings.items() if value is not None and name not in WITHOUT_EFFECT}
    device = next(iter(weights.values())).device.type
    found = {"verb": verb, "model": digest.hexdigest(), "device": device, **effective}
    as_stored: dict[str, Any] = json.loads(json.dumps(found))  # with lists, not tuples
    return as_stored
