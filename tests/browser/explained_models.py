"""Models for the page's JavaScript: their description and weights, as a page carries them."""

import base64
import json
from dataclasses import asdict
from typing import Any

import safetensors.torch
import torch

import pellucid
from pellucid.config import ModelConfig

OPENING = """
const { readWeights } = await viewer("model/tensors.js"), { buildModel } = await viewer("model/families.js");
const model = buildModel(JSON.parse(a.config), readWeights(new Uint8Array(Buffer.from(a.weights, "base64"))));
const named = (id) => ({ text: `w${id}`, piece: `w${id}` });
"""
"""Opens the model in Node: `model`, and `named`, which names words by their ids."""


def random_model(config: ModelConfig) -> Any:
    """A model of this shape whose weights, norms and biases included, are all at random and not small."""
    torch.manual_seed(5)
    model = pellucid.build_model(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.uniform_(0.5, 1.5)
            elif parameter.dim() == 1:
                parameter.normal_(std=0.2)
            else:
                parameter.mul_(1.4)
    return model


def carried(model: Any) -> dict[str, str]:
    """The model's config and weights, tied ones once."""
    seen: set[int] = set()
    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            tensors[name] = tensor.contiguous().clone()
    return {
        "config": json.dumps(asdict(model.config)),
        "weights": base64.b64encode(safetensors.torch.save(tensors)).decode("ascii"),
    }
