"""Reads and writes parameters as safetensors files. Equal weights give equal files, byte for byte."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from pellucid.errors import CheckpointError, format_value
from pellucid.files.budget import check_inside
from pellucid.files.writing import atomic_path
from pellucid.weights.sharded import shard_like

FLOATS = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}
"""The types of stored parameters by their names in a header. Other types would be cast silently."""
_NAMES = {dtype: name for name, dtype in FLOATS.items()}
_WHOLE = {
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Integer types that only a custom module may hold next to its parameters, such as a counter."""


@dataclass(frozen=True)
class Stored:
    """A tensor as a file's header describes it."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def from_tensor(cls, tensor: Tensor) -> "Stored":
        """Describes a tensor as a header does."""
        return cls(_NAMES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch.")), tuple(tensor.shape))


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes named tensors to a file atomically."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        temporary.write_bytes(safetensors.torch.save(contiguous))


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Reads the tensors of a file, onto the CPU. Raises CheckpointError if it is missing or damaged."""
    _check_there(path)
    try:
        return safetensors.torch.load_file(path)
    except (SafetensorError, OSError, KeyError) as error:  # KeyError: a dtype that the library has no name for
        raise _make_damaged_error(path, error) from error


def read_header(path: Path) -> dict[str, Stored]:
    """Returns the headers of the tensors in a file, by name, without reading their numbers.

    Raises CheckpointError if the file is missing or damaged.
    """
    _check_there(path)
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a table)
            return {name: Stored(each.get_dtype(), tuple(each.get_shape())) for name, each in slices.items()}
    except (SafetensorError, OSError) as error:
        raise _make_damaged_error(path, error) from error


def _check_there(path: Path) -> None:
    if not path.is_file():
        raise CheckpointError(
            f"no weights at `{path}`", "name a model folder: it holds pellucid.json and model.safetensors"
        )
    check_inside(path)


def _make_damaged_error(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"`{path}` ({path.stat().st_size:,} bytes) is damaged: {format_value(str(error))}",
        "copy the file again, or train again",
    )


def parameters(model: nn.Module) -> dict[str, Tensor]:
    """Returns a model's learned tensors by name, in the model's order; a shared tensor has its first name.

    These are its parameters, and the persistent buffers of custom modules: Pellucid's modules have none.
    """
    found: dict[str, Tensor] = dict(model.named_parameters())
    for place, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            if name not in module._non_persistent_buffers_set:
                found[f"{place}.{name}" if place else name] = buffer
    return found


def set_parameters(model: nn.Module, tensors: dict[str, Tensor], origin: str) -> None:
    """Copies tensors into the model's parameters.

    `origin` names their file for messages. Raises CheckpointError that counts and names the tensors that are missing,
    unexpected, of another shape, not stored as floating-point numbers, or not finite.
    """
    check_stored(model, {name: Stored.from_tensor(tensor) for name, tensor in tensors.items()}, origin)
    for name, tensor in tensors.items():
        check_finite(name, tensor, origin)
    for name, parameter in parameters(model).items():
        parameter.data.copy_(shard_like(tensors[name], parameter))


def check_stored(model: nn.Module, stored: Mapping[str, Stored], origin: str) -> None:
    """Compares a model's parameters with a file's header; the model may be on the meta device.

    Raises CheckpointError that counts and names the tensors that are missing, unexpected, of another shape, or not
    stored as floating-point numbers.
    """
    own = parameters(model)
    missing = [name for name in own if name not in stored]
    unexpected = [name for name in stored if name not in own]
    if missing or unexpected:
        raise CheckpointError(
            f"{origin} misses {len(missing)} parameters of this model{_first(missing)} and has {len(unexpected)} "
            f"unknown ones{_first(unexpected)}",
            "config.json and the weights must come from the same model",
        )
    for name, parameter in own.items():
        if parameter.shape != stored[name].shape:
            raise CheckpointError(
                f"{origin}: `{name}` has shape {format_value(stored[name].shape)}, the model's is "
                f"{tuple(parameter.shape)}",
                "config.json and the weights must come from the same model",
            )
        if parameter.is_floating_point():
            check_dtype(name, stored[name], origin)
        elif stored[name].dtype not in (Stored.from_tensor(parameter).dtype, _WHOLE.get(parameter.dtype)):
            raise CheckpointError(
                f"{origin}: `{name}` is stored as {format_value(stored[name].dtype)}, the model's is "
                f"{Stored.from_tensor(parameter).dtype}",
                "the weights and the parts must be of the same version",
            )


def check_dtype(name: str, stored: Stored, origin: str) -> None:
    """Raises CheckpointError, naming the tensor `name`, if it does not hold floating-point numbers."""
    if stored.dtype not in FLOATS:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in FLOATS.values())
        raise CheckpointError(
            f"{origin}: `{format_value(name)}` is stored as {stored.dtype}; weights are {known}",
            "quantized weights are not supported: use the original weights",
        )


def check_finite(name: str, tensor: Tensor, origin: str) -> None:
    """Raises CheckpointError, naming the tensor `name`, if some of its numbers are not finite."""
    # A sum takes one pass and no memory, and it is finite only if all numbers are.
    if math.isfinite(float(tensor.detach().sum())) or bool(torch.isfinite(tensor).all()):
        return
    count = int((~torch.isfinite(tensor)).sum())
    raise CheckpointError(
        f"{origin}: {count:,} of the {tensor.numel():,} values of `{format_value(name)}` are not finite",
        "the weights are damaged, or their training diverged: copy the file again, or train again",
    )


def average_states(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Returns the mean of several states, computed in double precision (section 6.1: averaging of checkpoints)."""
    return {name: _mean([state[name] for state in states]) for name in states[0]}


def _mean(tensors: list[Tensor]) -> Tensor:
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for tensor in tensors:
        total += tensor
    return (total / len(tensors)).to(tensors[0].dtype)


def _first(names: list[str]) -> str:
    return f" (first: `{format_value(names[0])}`)" if names else ""
