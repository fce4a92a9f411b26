"""The tensors of a state dict, requested by name and shape."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import CheckpointError
from pellucid.weights.tutorials.layouts import find_layout

WHOLE_CHECKPOINTS = ("model_state_dict", "state_dict", "model")
"""The keys under which a whole checkpoint stores the state dict."""
SETTINGS, HEADS = ("model_args", "hyper_parameters", "config"), ("n_head", "n_heads", "num_heads", "nhead")
"""The keys under which a whole checkpoint stores the model's settings, and the names of the number of heads there."""
PREFIXES = ("module.", "_orig_mod.", "model.", "model/")
"""The prefixes that DataParallel, torch.compile and modules around a model put before every name."""
SUFFIXES = (":0", "/.ATTRIBUTES/VARIABLE_VALUE")
"""The suffixes that TensorFlow adds to the names of variables."""
BOOKKEEPING = ("_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter", "optimizer", "/.OPTIMIZER_SLOT/")
"""The words in TensorFlow's names of variables outside the model."""
SHOWN = 5
WRITES = r"(^|[._/])(lm_head|out_head|head|output|unembed|embed_out|gpt|tril|causal_mask|decoder)([._/]|$)"
"""The words in names of decoders."""
CROSS = r"cross|src_attn|enc_attn|encoder_attn|encoder_attention|enc_dec|multihead_attn|EncDec"
"""The words in names of attentions to an encoder."""


def read_state_dict(state_dict: Mapping[str, Any]) -> dict[str, Tensor]:
    """Returns the tensors of a state dict, or of a whole checkpoint that holds one, by the names that the model gave
    them.

    Raises CheckpointError if there are none, or if some values are not tensors.
    """
    for key in WHOLE_CHECKPOINTS:
        if isinstance(state_dict, Mapping) and isinstance(state_dict.get(key), Mapping):
            return read_state_dict(state_dict[key])
    if not isinstance(state_dict, Mapping) or not state_dict:
        raise CheckpointError(
            f"expected a state dict, a mapping of names to tensors, not {_describe(state_dict)}",
            "save `model.state_dict()`, not the model",
        )
    tensors = {_bare(str(name)): _tensor(str(name), value) for name, value in state_dict.items() if _is_part(str(name))}
    while prefix := next((p for p in PREFIXES if tensors and all(name.startswith(p) for name in tensors)), None):
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


def read_num_heads(state_dict: Mapping[str, Any]) -> int | None:
    """Returns the number of heads that a whole checkpoint stores next to its weights, as nanoGPT's does, or None."""
    tables = [state_dict.get(key) for key in SETTINGS if isinstance(state_dict, Mapping)]
    told = [table.get(name) for table in tables if isinstance(table, Mapping) for name in HEADS]
    return next((number for number in told if type(number) is int), None)


def _is_part(name: str) -> bool:
    return not any(word in name for word in BOOKKEEPING if "/" in name or word == name)


def _bare(name: str) -> str:
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _tensor(name: str, value: object) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return torch.from_numpy(np.array(value))
    raise CheckpointError(
        f"`{name}` is {_describe(value)}, not a tensor",
        "pass the state dict itself; a checkpoint stores it under "
        + " or ".join(f"`{key}`" for key in WHOLE_CHECKPOINTS),
    )


def _describe(value: object) -> str:
    if isinstance(value, Mapping) and not value:
        return "an empty one"
    return f"a `{type(value).__name__}`"


class TutorialTensors:
    """The tensors of one tutorial's model. Missing and unused tensors are reported at the end."""

    def __init__(self, tensors: Mapping[str, Tensor], layout: str) -> None:
        self.tensors = tensors
        self.layout = layout
        self.used: set[str] = set()
        self.missing: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def take(self, name: str, *shape: int) -> Tensor:
        """Returns the tensor of that name, in double precision; zeros if it is missing, which `finish` reports.

        Raises CheckpointError if it has another shape.
        """
        if name not in self.tensors:
            self.missing.append(name)
            return torch.zeros(shape, dtype=torch.float64)
        self.used.add(name)
        tensor = self.tensors[name]
        if tuple(tensor.shape) != shape:
            raise CheckpointError(
                f"`{name}` has shape {tuple(tensor.shape)}, but the other tensors require {shape}",
                "the weights must all come from one model",
            )
        return tensor.double()

    def leave_masks(self, pattern: str) -> None:
        """Marks the causal masks that some code saves with its weights as used.

        Raises CheckpointError for a tensor of such a name that is no causal mask.
        """
        for name, tensor in self.tensors.items():
            if not re.search(pattern, name) or name in self.used:
                continue
            if tensor.dim() > 0 and not is_causal_mask(tensor):
                raise CheckpointError(
                    f"`{name}` {tuple(tensor.shape)} is not a causal mask, which has this name in `{self.layout}`",
                    "another mask would change the result; remove it if it does not",
                )
            self.used.add(name)

    def shape(self, name: str, dimensions: int) -> tuple[int, ...]:
        """Returns the shape of a tensor that decides a size. Raises CheckpointError if it is missing or has other
        dimensions.
        """
        if name not in self.tensors:
            self.missing.append(name)
            self.finish()
        shape = tuple(self.tensors[name].shape)
        if len(shape) != dimensions:
            raise CheckpointError(
                f"`{name}` has shape {shape}, but the layout has a tensor of {dimensions} dimensions there",
                "the weights must all come from one model",
            )
        return shape

    def finish(self) -> None:
        """Raises CheckpointError that names the missing and the unused tensors."""
        unexpected = [name for name in self.tensors if name not in self.used]
        if self.missing:
            found = find_layout(self.tensors)
            raise CheckpointError(
                f"the state dict misses {len(self.missing)} tensors of the layout `{self.layout}`: "
                f"{_format_names(self.missing)}" + (f"; it has {_format_names(unexpected)}" if unexpected else ""),
                f"its names match the layout `{found}`"
                if found not in (None, self.layout)
                else "save the whole state dict, with the names of the tutorial's classes",
            )
        if unexpected:
            raise CheckpointError(
                f"the state dict has {len(unexpected)} tensors that are not in the layout `{self.layout}`: "
                f"{_format_names(unexpected)}",
                "they could change the result; remove them if they do not",
            )


def is_causal_mask(tensor: Tensor) -> bool:
    """Returns True if a tensor (..., L, L) marks the positions after each position, or the others: by 1, True or
    -inf.
    """
    if tensor.dim() < 2 or tensor.size(-1) != tensor.size(-2) or tensor.numel() != tensor.size(-1) ** 2:
        return False
    marked = tensor.reshape(tensor.shape[-2:]) != 0
    ones = torch.ones_like(marked)
    return torch.equal(marked, ones.tril()) or torch.equal(marked, ones.triu(diagonal=1))


def describe(tensors: Mapping[str, Tensor]) -> str:
    """Describes a state dict of an unknown layout, by its names and shapes."""
    groups: dict[str, set[int]] = {}
    for name in tensors:
        for found in re.finditer(r"(?<=[./])(\d{1,4})(?=[./])", f".{name}"):
            groups.setdefault(f".{name}"[1 : found.start()], set()).add(int(found[1]))
    stacks = sorted(groups.items(), key=lambda item: (-len(item[1]), len(item[0])))
    of_first = {before for before, _ in stacks[:1]}
    crossing = [name for name in tensors if re.search(CROSS, name)]
    layers = [f"{len(numbers)} layers `{before}N`" for before, numbers in stacks if before in of_first]
    attentions = {part for name in tensors if (part := _attention(name, of_first))}
    both = any("decoder" in name for name in tensors) and any("encoder" in name for name in tensors)
    writes = any(re.search(WRITES, name) for name in tensors)
    alone = "a decoder alone" if writes else "a single stack, an encoder or a decoder"
    kind = "an encoder and a decoder" if crossing or both else alone
    embedding = max((t for t in tensors.values() if t.dim() == 2), key=lambda t: len(t), default=None)
    rows = f", {embedding.size(0):,} words of width {embedding.size(1):,}" if embedding is not None else ""
    if not layers or not attentions:
        return f"it has {len(tensors):,} tensors ({_format_names(tensors)}), and no layers with attention among them"
    return f"it looks like {kind}: {', '.join(layers)} with {_format_names(sorted(attentions))}{rows}"


def _attention(name: str, before: Iterable[str]) -> str:
    """Returns the rest of the name of a first layer's attention; empty for another tensor."""
    start = next((f"{one}0." for one in before if name.startswith(f"{one}0.")), None)
    rest = name[len(start) :] if start else ""
    return rest if re.search(r"attn|attention|query|qkv|q_proj|\bsa\b", rest) else ""


def _format_names(names: Iterable[str]) -> str:
    """Returns the first few names, in backticks."""
    distinct = list(dict.fromkeys(names))
    rest = len(distinct) - SHOWN
    return ", ".join(f"`{name}`" for name in distinct[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
