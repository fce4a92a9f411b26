"""Pairs that occur again, the same or the same but for case, punctuation and spaces, by hashes of eight bytes each."""

import unicodedata
from array import array
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.int64]

STRETCH = 1 << 20
"""Hashes that are looked up together, for the sake of the memory."""


class _Plain(dict[int, int | None]):
    """Characters without punctuation, symbols, spaces and controls, for str.translate."""

    def __missing__(self, character: int) -> int | None:
        # Marks stay: without its vowel signs a word of Devanagari is another word.
        self[character] = found = None if unicodedata.category(chr(character))[0] in "PSZC" else character
        return found


_PLAIN = _Plain()


def plain(line: str) -> str:
    """Returns the letters, marks and digits of a line alone, in lower case: equal for lines that are nearly equal."""
    if not line.isascii():
        line = unicodedata.normalize("NFKC", line)
    return line.casefold().translate(_PLAIN)


def hash_of(source: str, target: str) -> int:
    """Returns a hash of a pair; the same in each process, unlike Python's own."""
    digest = blake2b(f"{source}\n{target}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class Repeats:
    """The hashes of all pairs, and which of those that occur more than once have been met. Pairs count from 0."""

    def __init__(self, hashes: "array[int]") -> None:
        """`hashes`: of each pair; 0 where a pair is not to be compared."""
        self._hashes = np.frombuffer(hashes, np.int64) if hashes else np.zeros(0, np.int64)
        in_order = np.sort(self._hashes)
        again = in_order[1:] == in_order[:-1]
        repeated = np.unique(in_order[1:][again])
        self._repeated: Hashes = repeated[repeated != 0]
        self._is_repeated = np.zeros(len(self._hashes), np.bool_)
        for start in range(0, len(self._hashes) if len(self._repeated) else 0, STRETCH):
            some = self._hashes[start : start + STRETCH]
            places = np.searchsorted(self._repeated, some).clip(max=len(self._repeated) - 1)
            self._is_repeated[start : start + STRETCH] = self._repeated[places] == some
        self._first = np.full(len(self._repeated), -1, np.int64)

    def __len__(self) -> int:
        return len(self._hashes)

    def before(self, number: int) -> int:
        """Returns the number of the pair met first that is equal to pair `number`; -1 where none has been met."""
        place = self._place(number)
        return -1 if place < 0 else int(self._first[place])

    def meet(self, number: int) -> None:
        """Takes note of a pair, unless an equal one was met before."""
        place = self._place(number)
        if place >= 0 and self._first[place] < 0:
            self._first[place] = number

    def _place(self, number: int) -> int:
        if not self._is_repeated[number]:
            return -1
        return int(np.searchsorted(self._repeated, self._hashes[number]))
