"""The meanings and shapes of masks: True = may attend, True = hidden, or numbers that are added to the scores."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

MEANINGS = ("keep", "hide", "add")
"""May attend is True or 1; hidden is True or 1; hidden is a large negative number that is added."""
LEAST = -1e30
"""The number that an additive mask has in hidden places."""


@dataclass(frozen=True)
class Conventions:
    """The conventions that the other parts of a learner's code fix, empty where they fix none.

    Args:
        mask: "keep", "hide" or "add", as the learner's mask functions return it.
        batch_first: False for (L, B, D), None if unknown.
    """

    mask: str = ""
    batch_first: bool | None = None

    @property
    def meanings(self) -> tuple[str, ...]:
        """Returns the meanings of a mask that count as right."""
        return (self.mask,) if self.mask else MEANINGS


def encode_mask(mask: Tensor, meaning: str) -> Iterator[Tensor]:
    """Yields the forms of a mask (True = may attend) in a meaning: bool and numbers."""
    if meaning == "add":
        yield torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, LEAST)
        return
    mask = mask if meaning == "keep" else ~mask
    yield mask
    yield mask.double()
    yield mask.long()


def read_mask(values: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yields the possible readings of a learner's mask: its meaning, and the mask with True = may attend."""
    if values.dtype == torch.bool:
        yield from (("keep", values), ("hide", ~values))
        return
    if bool((values < -1).any()):
        yield "add", values > -1
    elif bool(((values == 0) | (values == 1)).all()):
        yield from (("keep", values == 1), ("hide", values == 0))
