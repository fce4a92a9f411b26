"""Many sentences in two memory-mapped arrays: their ids and their offsets."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
"""Indices of sentences, or of draws."""


@dataclass(frozen=True)
class PackedTexts:
    """Many sentences in UTF-8, concatenated; sentence i is utf8[bounds[i]:bounds[i + 1]]."""

    utf8: npt.NDArray[np.uint8]
    bounds: npt.NDArray[np.int64]

    def __getitem__(self, index: int) -> str:
        return self.utf8[self.bounds[index] : self.bounds[index + 1]].tobytes().decode("utf-8")


@dataclass(frozen=True)
class SentenceLengths:
    """The number of tokens of sentences that start at `offsets`, read from disk on access."""

    offsets: npt.NDArray[np.int64]
    around: int = 0
    """Tokens added to each sentence."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, sentences: Indices) -> Indices:
        return self.offsets[sentences + 1] - self.offsets[sentences] + self.around


@dataclass(frozen=True)
class Sentences:
    """The ids of many sentences, concatenated; sentence i is ids[offsets[i]:offsets[i + 1]]."""

    ids: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]
    texts: PackedTexts | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Returns the number of tokens of each sentence."""
        return np.diff(self.offsets)
