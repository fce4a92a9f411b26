"""A model's parameters as an HTML page stores them: safetensors in single or half precision, or in 8 bits.

`viewer/model/tensors.js` reads them back, into single precision.
"""

import copy
from typing import Literal, TypeVar, get_args

import safetensors.torch
import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError, DataError, did_you_mean
from pellucid.weights.tensors import check_finite, parameters

PageWeights = Literal["float32", "float16", "int8"]
"""The types that a page's weights may have."""
SCALE = ".scale"
"""The suffix of the name of an 8-bit matrix' scales."""
KEPT = "relative.bias.weight"
"""The suffix of the name of a table that stays in single precision: it is small, and its numbers are scores
themselves.
"""

_Model = TypeVar("_Model", bound=nn.Module)


def page_weights(model: nn.Module, weights: PageWeights = "int8") -> bytes:
    """Returns the parameters of `model` as safetensors; a shared parameter is stored once.

    Args:
        weights: "float32"; "float16", in which vectors, of biases and norms, stay in single precision; "int8", in which
            row r of a matrix `x` is `x.scale`[r] * `x`[r], and vectors and the table of relative positions stay.

    Raises ConfigError for another type, and DataError for numbers that are not finite or that half precision cannot
    hold.
    """
    return safetensors.torch.save(_pack(model, weights))


def dequantise(model: _Model, weights: PageWeights = "int8") -> _Model:
    """Returns a copy of `model` in single precision, with the parameters that a page reads from `page_weights`.

    Raises the errors of `page_weights`.
    """
    packed, copied = _pack(model, weights), copy.deepcopy(model).float()
    for name, parameter in parameters(copied).items():
        numbers = packed[name].float()
        parameter.data.copy_(numbers * packed[name + SCALE][:, None] if name + SCALE in packed else numbers)
    return copied


def _pack(model: nn.Module, weights: PageWeights) -> dict[str, Tensor]:
    """Returns the parameters as a page stores them, by name, and the scales of 8-bit matrices."""
    if weights not in (known := get_args(PageWeights)):
        raise ConfigError(
            f"unknown `weights` `{weights}`{did_you_mean(str(weights), known)}", f"choose {', '.join(known)}"
        )
    packed: dict[str, Tensor] = {}
    for name, parameter in parameters(model).items():
        packed |= _pack_parameter(name, parameter, weights)
    return packed


def _pack_parameter(name: str, parameter: Tensor, weights: PageWeights) -> dict[str, Tensor]:
    """Returns one parameter as a page stores it, and the scales of an 8-bit matrix."""
    numbers = parameter.detach().to("cpu", torch.float32).contiguous()
    check_finite(name, numbers, "the model")
    if weights == "float32" or numbers.dim() != 2 or name.endswith(KEPT):
        return {name: numbers}
    if weights == "float16":
        return {name: _halves(name, numbers)}
    scale = numbers.abs().amax(dim=1) / 127  # (rows,)
    # A row of zeros has the scale 0, which cannot be a divisor.
    whole = (numbers / scale.where(scale > 0, 1.0)[:, None]).round().clamp(-127, 127)
    return {name: whole.to(torch.int8), name + SCALE: scale}


def _halves(name: str, numbers: Tensor) -> Tensor:
    halves = numbers.half()
    if not bool(halves.isfinite().all()):
        largest = float(numbers.abs().max())
        raise DataError(
            f"`{name}` has a value of magnitude {largest:g}; the maximum of half precision is 65,504",
            'use `weights="float32"` or `weights="int8"`',
        )
    return halves
