"""Duplicate pairs, exact or except for case, punctuation and spaces, by hashes of eight bytes each."""

import unicodedata
from array import array
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.int64]

CHUNK_SIZE = 1 << 20
"""Hashes that are looked up together, to limit memory."""


class _Plain(dict[int, int | None]):
    """Characters without punctuation, symbols, spaces and controls, for str.translate."""

    def __missing__(self, character: int) -> int | None:
        # Marks stay: without its vowel signs a word of Devanagari is another word.
        self[character] = found = None if unicodedata.category(chr(character))[0] in "PSZC" else character
        return found


_PLAIN = _Plain()


def normalize_for_dedup(line: str) -> str:
    """Returns only the letters, marks and digits of a line, in lower case: equal for lines that are nearly equal."""
    if not line.isascii():
        line = unicodedata.normalize("NFKC", line)
    return line.casefold().translate(_PLAIN)


def hash_pair(source: str, target: str) -> int:
    """Returns a hash of a pair; the same in each process, unlike Python's `hash`."""
    digest = blake2b(f"{source}\n{target}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class DuplicateIndex:
    """The hashes of all pairs, and the first occurrence of each duplicate that was met. Pairs are counted from 0."""

    def __init__(self, hashes: "array[int]") -> None:
        """`hashes`: one per pair; 0 excludes a pair."""
        self._hashes = np.frombuffer(hashes, np.int64) if hashes else np.zeros(0, np.int64)
        in_order = np.sort(self._hashes)
        again = in_order[1:] == in_order[:-1]
        repeated = np.unique(in_order[1:][again])
        self._repeated: Hashes = repeated[repeated != 0]
        self._is_repeated = np.zeros(len(self._hashes), np.bool_)
        for start in range(0, len(self._hashes) if len(self._repeated) else 0, CHUNK_SIZE):
            some = self._hashes[start : start + CHUNK_SIZE]
            places = np.searchsorted(self._repeated, some).clip(max=len(self._repeated) - 1)
            self._is_repeated[start : start + CHUNK_SIZE] = self._repeated[places] == some
        self._first = np.full(len(self._repeated), -1, np.int64)

    def __len__(self) -> int:
        return len(self._hashes)

    def first_occurrence(self, number: int) -> int:
        """Returns the number of the first pair met that is equal to pair `number`; -1 if none has been met."""
        place = self._place(number)
        return -1 if place < 0 else int(self._first[place])

    def meet(self, number: int) -> None:
        """Records a pair, unless an equal pair was met before."""
        place = self._place(number)
        if place >= 0 and self._first[place] < 0:
            self._first[place] = number

    def _place(self, number: int) -> int:
        if not self._is_repeated[number]:
            return -1
        return int(np.searchsorted(self._repeated, self._hashes[number]))
