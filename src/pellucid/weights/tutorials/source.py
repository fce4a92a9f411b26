"""The tensors of a state dict, each asked for by name and shape."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import CheckpointError
from pellucid.weights.tutorials.layouts import find_layout

WHOLE_CHECKPOINTS = ("model_state_dict", "state_dict", "model")
"""Under which of its keys a whole checkpoint keeps the state dict."""
PREFIXES = ("module.", "_orig_mod.", "model.", "model/")
"""The prefixes that DataParallel, torch.compile and modules around a model put before every name."""
SUFFIXES = (":0", "/.ATTRIBUTES/VARIABLE_VALUE")
"""The text that TensorFlow puts behind the names of variables."""
BOOKKEEPING = ("_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter", "optimizer", "/.OPTIMIZER_SLOT/")
"""The words in TensorFlow's names for what is not part of the model."""
SHOWN = 5


def read_state_dict(state_dict: Mapping[str, Any]) -> dict[str, Tensor]:
    """Returns the tensors of a state dict, or of a whole checkpoint that holds one, by the names that the model gave
    them.

    Raises CheckpointError where there are none, or something that is not a tensor is among them.
    """
    for key in WHOLE_CHECKPOINTS:
        if isinstance(state_dict, Mapping) and isinstance(state_dict.get(key), Mapping):
            return read_state_dict(state_dict[key])
    if not isinstance(state_dict, Mapping) or not state_dict:
        raise CheckpointError(
            f"a state dict is wanted, names with their tensors, not {_described(state_dict)}",
            "save `model.state_dict()`, not the model",
        )
    tensors = {_bare(str(name)): _tensor(str(name), value) for name, value in state_dict.items() if _is_part(str(name))}
    while prefix := next((p for p in PREFIXES if tensors and all(name.startswith(p) for name in tensors)), None):
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


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
        f"`{name}` is {_described(value)}, not a tensor",
        "hand over the state dict itself; a whole checkpoint keeps it under "
        + " or ".join(f"`{key}`" for key in WHOLE_CHECKPOINTS),
    )


def _described(value: object) -> str:
    if isinstance(value, Mapping) and not value:
        return "an empty one"
    return f"a `{type(value).__name__}`"


class Source:
    """The tensors of one tutorial's model. What was missing, and what nobody asked for, is said at the end."""

    def __init__(self, tensors: Mapping[str, Tensor], layout: str) -> None:
        self.tensors = tensors
        self.layout = layout
        self.used: set[str] = set()
        self.missing: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def take(self, name: str, *shape: int) -> Tensor:
        """Returns the tensor of that name, in double precision; zeros where it is missing, which `finish` reports.

        Raises CheckpointError where it has another shape.
        """
        if name not in self.tensors:
            self.missing.append(name)
            return torch.zeros(shape, dtype=torch.float64)
        self.used.add(name)
        tensor = self.tensors[name]
        if tuple(tensor.shape) != shape:
            raise CheckpointError(
                f"`{name}` has shape {tuple(tensor.shape)}, but {shape} is what the other tensors ask for",
                "the weights must all come from one model",
            )
        return tensor.double()

    def shape(self, name: str, dimensions: int) -> tuple[int, ...]:
        """Returns the shape of a tensor that decides a size. Raises CheckpointError where it is missing, or is not such
        a thing.
        """
        if name not in self.tensors:
            self.missing.append(name)
            self.finish()
        shape = tuple(self.tensors[name].shape)
        if len(shape) != dimensions:
            raise CheckpointError(
                f"`{name}` has shape {shape}, but a tensor of {dimensions} dimensions belongs there",
                "the weights must all come from one model",
            )
        return shape

    def finish(self) -> None:
        """Raises CheckpointError that names what was missing, and what nobody asked for."""
        unexpected = [name for name in self.tensors if name not in self.used]
        if self.missing:
            found = find_layout(self.tensors)
            raise CheckpointError(
                f"the state dict misses {len(self.missing)} tensors of the layout `{self.layout}`: "
                f"{_listed(self.missing)}" + (f"; it has {_listed(unexpected)}" if unexpected else ""),
                f"its names are those of the layout `{found}`"
                if found not in (None, self.layout)
                else "save the whole state dict; the names are those of the tutorial's classes",
            )
        if unexpected:
            raise CheckpointError(
                f"the state dict has {len(unexpected)} tensors that the layout `{self.layout}` does not know: "
                f"{_listed(unexpected)}",
                "they could change what the model computes; take them out if they do not",
            )


def _listed(names: Iterable[str]) -> str:
    """Returns the first few names, in backticks."""
    distinct = list(dict.fromkeys(names))
    rest = len(distinct) - SHOWN
    return ", ".join(f"`{name}`" for name in distinct[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
