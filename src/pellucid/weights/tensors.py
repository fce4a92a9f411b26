"""Parameters to and from safetensors files. Equal weights give equal files, byte for byte."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from pellucid.errors import CheckpointError, shown
from pellucid.files.writing import replacing
from pellucid.weights.sharded import sharded_like

FLOATS = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}
"""The types of stored parameters by their names in a header. Others would be cast without a word."""
_NAMES = {dtype: name for name, dtype in FLOATS.items()}
_WHOLE = {
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Numbers that only a part of somebody's own may hold beside its parameters: a counter, say."""


@dataclass(frozen=True)
class Stored:
    """A tensor as a file's header describes it."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> "Stored":
        """Describes a tensor as a header would."""
        return cls(_NAMES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch.")), tuple(tensor.shape))


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes named tensors; replaces the file in one piece."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        temporary.write_bytes(safetensors.torch.save(contiguous))


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Reads the tensors of a file, onto the CPU. Raises CheckpointError where it is missing or damaged."""
    _check_there(path)
    try:
        return safetensors.torch.load_file(path)
    except (SafetensorError, OSError, KeyError) as error:  # KeyError: a dtype that the library has no name for
        raise _damaged(path, error) from error


def read_header(path: Path) -> dict[str, Stored]:
    """Returns what a file holds, by name, without reading a number of it.

    Raises CheckpointError where it is missing or damaged.
    """
    _check_there(path)
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a table)
            return {name: Stored(each.get_dtype(), tuple(each.get_shape())) for name, each in slices.items()}
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error) from error


def _check_there(path: Path) -> None:
    if not path.is_file():
        raise CheckpointError(
            f"no weights at `{path}`", "name a model folder: it holds pellucid.json and model.safetensors"
        )


def _damaged(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"`{path}` ({path.stat().st_size:,} bytes) is damaged: {shown(str(error))}",
        "copy the file again, or train again",
    )


def parameters(model: nn.Module) -> dict[str, Tensor]:
    """Returns all that a model has learned by name, in its order; one in several places is named by its first.

    That is its parameters, and the persistent buffers of parts of somebody's own: Pellucid's modules have none.
    """
    found: dict[str, Tensor] = dict(model.named_parameters())
    for place, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            if name not in module._non_persistent_buffers_set:
                found[f"{place}.{name}" if place else name] = buffer
    return found


def set_parameters(model: nn.Module, tensors: dict[str, Tensor], origin: str) -> None:
    """Copies tensors into the model's parameters.

    `origin` says where they are from. Raises CheckpointError that counts and names what is missing, unexpected or of
    another shape, is not stored as floating-point numbers, or holds some that are not finite.
    """
    check_stored(model, {name: Stored.of(tensor) for name, tensor in tensors.items()}, origin)
    for name, tensor in tensors.items():
        check_finite(name, tensor, origin)
    for name, parameter in parameters(model).items():
        parameter.data.copy_(sharded_like(tensors[name], parameter))


def check_stored(model: nn.Module, stored: Mapping[str, Stored], origin: str) -> None:
    """Compares a model's parameters with what a file's header says; the model may be an outline.

    Raises CheckpointError that counts and names what is missing, unexpected, of another shape, or not stored as
    floating-point numbers.
    """
    own = parameters(model)
    missing = [name for name in own if name not in stored]
    unexpected = [name for name in stored if name not in own]
    if missing or unexpected:
        raise CheckpointError(
            f"{origin} misses {len(missing)} parameters of this model{_first(missing)} "
            f"and has {len(unexpected)} that it lacks{_first(unexpected)}",
            "config.json and the weights must come from the same model",
        )
    for name, parameter in own.items():
        if parameter.shape != stored[name].shape:
            raise CheckpointError(
                f"{origin}: `{name}` has shape {shown(stored[name].shape)}, the model's is {tuple(parameter.shape)}",
                "config.json and the weights must come from the same model",
            )
        if parameter.is_floating_point():
            check_dtype(name, stored[name], origin)
        elif stored[name].dtype not in (Stored.of(parameter).dtype, _WHOLE.get(parameter.dtype)):
            raise CheckpointError(
                f"{origin}: `{name}` is stored as {shown(stored[name].dtype)}, the model's is "
                f"{Stored.of(parameter).dtype}",
                "the weights and the parts must be of the same version",
            )


def check_dtype(name: str, stored: Stored, origin: str) -> None:
    """Raises CheckpointError, which calls the tensor `name`, where it does not hold floating-point numbers."""
    if stored.dtype not in FLOATS:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in FLOATS.values())
        raise CheckpointError(
            f"{origin}: `{shown(name)}` is stored as {stored.dtype}; weights are {known}",
            "quantised weights are not read: ask for those that they were made from",
        )


def check_finite(name: str, tensor: Tensor, origin: str) -> None:
    """Raises CheckpointError, which calls the tensor `name`, where some of its numbers are not finite."""
    # A sum takes one pass and no memory, and nothing hides in it: it is finite only where all numbers are.
    if math.isfinite(float(tensor.detach().sum())) or bool(torch.isfinite(tensor).all()):
        return
    count = int((~torch.isfinite(tensor)).sum())
    raise CheckpointError(
        f"{origin}: {count:,} of the {tensor.numel():,} numbers of `{shown(name)}` are not finite",
        "the weights are damaged, or their training diverged: copy the file again, or train again",
    )


def mean_of(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Returns the mean of several states, taken in double precision (section 6.1: averaging of checkpoints)."""
    return {name: _mean([state[name] for state in states]) for name in states[0]}


def _mean(tensors: list[Tensor]) -> Tensor:
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for tensor in tensors:
        total += tensor
    return (total / len(tensors)).to(tensors[0].dtype)


def _first(names: list[str]) -> str:
    return f" (first: `{shown(names[0])}`)" if names else ""
