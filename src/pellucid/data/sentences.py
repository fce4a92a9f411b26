"""Many sentences in two arrays, as they are mapped from disk: their ids, and where each one starts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
"""Numbers of sentences, or of draws of them."""


@dataclass(frozen=True)
class Texts:
    """Many sentences in UTF-8, back to back; sentence i is utf8[bounds[i]:bounds[i + 1]]."""

    utf8: npt.NDArray[np.uint8]
    bounds: npt.NDArray[np.int64]

    def __getitem__(self, index: int) -> str:
        return self.utf8[self.bounds[index] : self.bounds[index + 1]].tobytes().decode("utf-8")


@dataclass(frozen=True)
class Sentences:
    """The ids of many sentences, back to back; sentence i is ids[offsets[i]:offsets[i + 1]]."""

    ids: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]
    texts: Texts | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Returns the tokens of each sentence."""
        return np.diff(self.offsets)
