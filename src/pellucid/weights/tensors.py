"""Parameters to and from safetensors files. Equal weights give equal files, byte for byte."""

from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from pellucid.errors import CheckpointError
from pellucid.weights.files import replacing


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes named tensors; replaces the file in one piece."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        temporary.write_bytes(safetensors.torch.save(contiguous))


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, on the CPU. Raises CheckpointError where it is missing or damaged."""
    if not path.is_file():
        raise CheckpointError(
            f"no weights at `{path}`", "name a model folder: it holds pellucid.json and model.safetensors"
        )
    try:
        return safetensors.torch.load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"`{path}` ({path.stat().st_size:,} bytes) is damaged: {error}", "copy the file again, or train again"
        ) from error


def parameters(model: nn.Module) -> dict[str, Tensor]:
    """The parameters by name, in the model's order; one that stands in several places is named by its first."""
    return dict(model.named_parameters())


def set_parameters(model: nn.Module, tensors: dict[str, Tensor], origin: str) -> None:
    """Copies tensors into the model's parameters.

    `origin` says where they are from. Raises CheckpointError that counts and names what is missing, unexpected or of
    another shape.
    """
    own = parameters(model)
    missing = [name for name in own if name not in tensors]
    unexpected = [name for name in tensors if name not in own]
    if missing or unexpected:
        raise CheckpointError(
            f"{origin} misses {len(missing)} parameters of this model{_first(missing)} "
            f"and has {len(unexpected)} that it lacks{_first(unexpected)}",
            "config.json and the weights must come from the same model",
        )
    for name, parameter in own.items():
        if parameter.shape != tensors[name].shape:
            raise CheckpointError(
                f"{origin}: `{name}` has shape {tuple(tensors[name].shape)}, the model's is {tuple(parameter.shape)}",
                "config.json and the weights must come from the same model",
            )
    for name, parameter in own.items():
        parameter.data.copy_(tensors[name])


def mean_of(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several states, taken in double precision (section 6.1: averaging of checkpoints)."""
    return {name: _mean([state[name] for state in states]) for name in states[0]}


def _mean(tensors: list[Tensor]) -> Tensor:
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for tensor in tensors:
        total += tensor
    return (total / len(tensors)).to(tensors[0].dtype)


def _first(names: list[str]) -> str:
    return f" (first: `{names[0]}`)" if names else ""
