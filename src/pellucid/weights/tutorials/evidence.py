"""Detects from the numbers of a part of a model whether it was ever trained.

A parameter that the code never uses gets no gradient, so an optimizer leaves it at its initial values. An
initialization is a range that no number leaves, a deviation, a constant, or a copy; training moves numbers out of it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

CLEAR = 8.0
"""The expected count of a part's numbers outside the initial range, had the part been trained like its neighbor: from
this count on, none outside is not chance (e^-8).
"""
EDGE = 16.0
"""The largest of N uniform numbers is within EDGE / N of the end of the range, except once in e^16."""
DEVIATIONS = 5.0
"""The standard deviations by which the mean square of a sample may differ from that of its distribution."""

Bound = Callable[[int, int], float]
"""A function from a module's inputs and outputs to a parameter of the initialization."""
RANGES: Mapping[str, Bound] = {
    "torch.nn.Linear": lambda inputs, outputs: inputs**-0.5,
    "xavier_uniform_": lambda inputs, outputs: math.sqrt(6 / (inputs + outputs)),
    "kaiming_uniform_": lambda inputs, outputs: math.sqrt(6 / inputs),
}
"""Initializations that are uniform in a range around zero, with the end of the range."""
NORMALS: Mapping[str, Bound] = {
    "normal_(std=0.02)": lambda inputs, outputs: 0.02,
    "normal_(std=0.01)": lambda inputs, outputs: 0.01,
    "xavier_normal_": lambda inputs, outputs: math.sqrt(2 / (inputs + outputs)),
    "kaiming_normal_": lambda inputs, outputs: math.sqrt(2 / inputs),
}
"""Initializations from a normal distribution, with its standard deviation."""
OF_BIASES = ("torch.nn.Linear", "normal_(std=0.02)", "normal_(std=0.01)")
"""Initializations of biases, which have too few numbers to try all: some distribution always fits them."""


@dataclass(frozen=True)
class SlipFinding:
    """The result for one part, with the numbers that support it."""

    verdict: Literal["never trained", "trained", "unclear"]
    said: str
    """A sentence without its full stop."""


def find_training(part: str, unused: Sequence[str], peer: str, used: Sequence[str], tensors: Mapping[str, Tensor]) -> (
    SlipFinding
):  # fmt: skip
    """Returns a finding on whether a part was ever trained, compared with a trained part, if there is one.

    Args:
        part, peer: the names of the two in a message.
        unused, used: the names of their matrices (out, in) and biases (out,) in `tensors`: of each bias the matrix is
            there as well.
    """
    starts = [_find_start(_numbers(unused, tensors, kind), kind) for kind in (2, 1)]
    known = [start for start in starts if start is not None]
    if len(known) < sum(bool(_numbers(unused, tensors, kind)) for kind in (2, 1)) or not known:
        return SlipFinding("trained", f"`{part}` was trained: its values are not those of an initialization")
    expected, left = 0.0, 0
    for kind, start in zip((2, 1), starts, strict=True):
        others = _numbers(used, tensors, kind)
        if start is None or not others:
            continue
        if start.is_exact:
            if not start.holds(others):
                return SlipFinding("never trained", f"`{part}` was never trained: {start.said}, and `{peer}` was")
            continue
        outside, size = start.outside(others)
        left += outside
        expected += outside / size * sum(numbers.size for numbers in _numbers(unused, tensors, kind))
        expected += CLEAR * start.differs(others)
    if expected >= CLEAR:
        others_have = f"{left:,} values of `{peer}` are outside of it" if left else f"the values of `{peer}` are not"
        return SlipFinding("never trained", f"`{part}` was never trained: {known[0].said}, and {others_have}")
    return SlipFinding(
        "unclear",
        f"the weights do not show whether `{part}` was ever trained: {known[0].said}, but `{peer}` is hardly outside "
        "of its range either",
    )


@dataclass(frozen=True)
class _Numbers:
    """A tensor in double precision, with the inputs and the outputs of its module."""

    values: Tensor
    inputs: int
    outputs: int
    rounding: float
    """The relative error of its type."""

    @property
    def size(self) -> int:
        return self.values.numel()


def _numbers(names: Sequence[str], tensors: Mapping[str, Tensor], dimensions: int) -> list[_Numbers]:
    """Returns the tensors with this number of dimensions."""
    found = []
    for name in names:
        tensor = tensors[name]
        if tensor.dim() != dimensions or not tensor.numel():
            continue
        matrix = tensor if dimensions == 2 else tensors.get(f"{name.removesuffix('bias')}weight", tensor[:, None])
        rounding = torch.finfo(tensor.dtype).eps if tensor.is_floating_point() else 0.0
        found.append(_Numbers(tensor.double(), matrix.size(-1), matrix.size(0), rounding))
    return found


@dataclass(frozen=True)
class _Start:
    """An initialization that a group of tensors still has."""

    said: str
    holds: Callable[[Sequence[_Numbers]], bool]
    bound: Bound | None = None
    """The end of its range; None if it has none."""
    deviation: Bound | None = None
    """The standard deviation of a normal distribution."""
    is_exact: bool = False
    """True if each number is known, instead of a distribution."""

    def outside(self, group: Sequence[_Numbers]) -> tuple[int, int]:
        """Returns how many of a group's numbers are outside the range, and how many there are."""
        size = sum(numbers.size for numbers in group)
        if self.bound is None:
            return 0, size
        return sum(int((_scale(one, self.bound).abs() > 1 + _slack(one)).sum()) for one in group), size

    def differs(self, group: Sequence[_Numbers]) -> bool:
        """Returns True if a group's deviation clearly differs from this normal distribution's."""
        return self.deviation is not None and _error_of_squares(group, self.deviation) > 2 * DEVIATIONS


def _find_start(group: Sequence[_Numbers], dimensions: int) -> _Start | None:
    """Returns the initialization that all tensors of a group fit, or None if no known one does."""
    if not group:
        return None
    what = "its matrices are" if dimensions == 2 else "its biases are"
    exact = {
        f"{what} constant": _are_constant,
        f"{what} the same in all layers": _are_copies,
        f"{what} orthogonal, as `orthogonal_` makes them": _are_orthogonal,
    }
    for said, holds in exact.items():
        if holds(group):
            return _Start(said, holds, is_exact=True)
    for name, bound in RANGES.items():
        if _fill_range(group, bound) and (dimensions == 2 or name in OF_BIASES):
            end = bound(group[0].inputs, group[0].outputs)
            said = f"all its values are within the initial range of `{name}` (±{end:.4g})"
            return _Start(said, partial(_fill_range, bound=bound), bound)
    for name, deviation in NORMALS.items():
        if _are_normal(group, deviation) and (dimensions == 2 or name in OF_BIASES):
            said = f"its values have the distribution of `{name}`"
            return _Start(said, partial(_are_normal, deviation=deviation), deviation=deviation)
    return None


def _scale(numbers: _Numbers, bound: Bound) -> Tensor:
    return numbers.values.flatten() / bound(numbers.inputs, numbers.outputs)


def _slack(numbers: _Numbers) -> float:
    return max(1e-6, 2 * numbers.rounding)


def _are_constant(group: Sequence[_Numbers]) -> bool:
    first = group[0].values.flatten()[0]
    return sum(one.size for one in group) > 1 and all(bool((one.values == first).all()) for one in group)


def _are_copies(group: Sequence[_Numbers]) -> bool:
    first = group[0].values
    return len(group) > 1 and all(torch.equal(one.values, first) for one in group[1:])


def _are_orthogonal(group: Sequence[_Numbers]) -> bool:
    def is_orthogonal(matrix: Tensor) -> bool:
        product = matrix @ matrix.t() if matrix.size(0) <= matrix.size(1) else matrix.t() @ matrix
        scale = float(product.diagonal().mean())
        return scale > 0 and float((product / scale - torch.eye(len(product), dtype=product.dtype)).abs().max()) < 1e-3

    return all(one.values.dim() == 2 and min(one.values.shape) > 1 and is_orthogonal(one.values) for one in group)


def _fill_range(group: Sequence[_Numbers], bound: Bound) -> bool:
    """Returns True if numbers are uniform in their range: they reach its end, do not leave it, and have its mean
    square.
    """
    numbers = torch.cat([_scale(one, bound) for one in group])
    slack, largest = max(_slack(one) for one in group), float(numbers.abs().max())
    if not 1 - EDGE / len(numbers) - slack <= largest <= 1 + slack:
        return False
    return abs(float(numbers.square().mean()) - 1 / 3) <= DEVIATIONS * math.sqrt(4 / 45 / len(numbers))


def _are_normal(group: Sequence[_Numbers], deviation: Bound) -> bool:
    """Returns True if numbers fit a normal distribution with a known deviation, by their squares and the largest."""
    numbers = torch.cat([_scale(one, deviation) for one in group])
    largest = math.sqrt(2 * math.log(len(numbers) + 1)) + 2
    if float(numbers.abs().max()) > largest or len(numbers) < EDGE:
        return False
    fourth = float(numbers.pow(4).mean())
    return _error_of_squares(group, deviation) <= DEVIATIONS and abs(fourth - 3) <= DEVIATIONS * math.sqrt(
        96 / len(numbers)
    )


def _error_of_squares(group: Sequence[_Numbers], deviation: Bound) -> float:
    """Returns the difference of a mean square from a normal distribution's, in standard deviations."""
    numbers = torch.cat([_scale(one, deviation) for one in group])
    return abs(float(numbers.square().mean()) - 1) / math.sqrt(2 / len(numbers))
