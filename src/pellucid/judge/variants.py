"""Compares an output with every variant of a reference: right, with one wrong choice, or with two."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Choices = Mapping[str, str]
"""The wrong choices of a variant, by axis; all other axes are right."""
Axes = Mapping[str, Mapping[str, str]]
"""For each axis its wrong values, each with the id of the mistake."""

NEAR = {torch.float64: (1e-7, 1e-8)}
"""The relative and absolute rounding in double precision; exact comparison of two ways to compute the same."""
NEAR_SINGLE = 1e-4, 1e-5
"""The same where the learner's code works in single precision."""


def list_variants(axes: Axes, most: int = 2) -> Iterator[Choices]:
    """Yields the choices of every variant with up to `most` mistakes, the fewest first."""
    for count in range(most + 1):
        for names in itertools.combinations(axes, count):
            for values in itertools.product(*(axes[name] for name in names)):
                yield dict(zip(names, values, strict=True))


def is_same(output: object, expected: Tensor, rtol: float | None = None, atol: float | None = None) -> bool:
    """Returns True if an output equals a tensor in shape and, up to rounding, in its values. NaN equals NaN."""
    if not isinstance(output, Tensor) or output.shape != expected.shape:
        return False
    near = NEAR.get(output.dtype, NEAR_SINGLE)
    return bool(torch.isclose(
        output.double(), expected.double(), rtol=near[0] if rtol is None else rtol,
        atol=near[1] if atol is None else atol, equal_nan=True,
    ).all())  # fmt: skip


@dataclass
class Variants:
    """The outputs of a reference for one input, by its wrong choices; computed once, when they are first needed."""

    axes: Axes
    compute: Callable[[Choices], Tensor | None]
    most: int = 2
    _known: list[tuple[Choices, Tensor]] = field(default_factory=list, init=False)
    _rest: Iterator[Choices] | None = field(default=None, init=False)

    def __iter__(self) -> Iterator[tuple[Choices, Tensor]]:
        """Yields choices and output of each variant; a variant that the input does not allow is left out."""
        yield from self._known
        if self._rest is None:
            self._rest = list_variants(self.axes, self.most)
        for choices in self._rest:
            output = self.compute(choices)
            if output is not None:
                self._known.append((choices, output))
                yield choices, output

    def find(
        self, output: object, exactly: int | None = None, same: Callable[[object, Tensor], bool] = is_same
    ) -> Choices | None:
        """Returns the choices of the first variant, of the fewest mistakes, that has this output; None if none has.

        `exactly` limits the search to variants with this number of mistakes.
        """
        if not isinstance(output, Tensor):
            return None
        for choices, expected in self:
            if exactly is not None and len(choices) > exactly:
                break
            if (exactly is None or len(choices) == exactly) and same(output, expected):
                return choices
        return None

    def name(self, choices: Choices) -> tuple[str, ...]:
        """Returns the ids of the mistakes of `choices`."""
        return tuple(self.axes[axis][value] for axis, value in choices.items())


def describe_difference(output: object, expected: Tensor) -> str:
    """Returns where an output first differs from the expected one, in words of both languages: places and numbers."""
    if not isinstance(output, Tensor):
        return f"{type(output).__name__}"
    if output.shape != expected.shape:
        return f"{tuple(output.shape)} != {tuple(expected.shape)}"
    different = ~torch.isclose(output.double(), expected.double(), rtol=1e-4, atol=1e-5, equal_nan=True)
    if not bool(different.any()):
        return ""
    place: Sequence[int] = different.nonzero()[0].tolist()
    index: Any = tuple(place)
    return f"[{', '.join(map(str, place))}]: {output[index].item():.4g} != {expected[index].item():.4g}"
