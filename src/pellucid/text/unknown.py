"""How much of a text a vocabulary does not know."""

import warnings
from collections.abc import Sequence

from pellucid.text.tokenizer import Tokenizer

SMALL = 0.1
"""The part of a text's tokens that may be unknown without a word."""
LOOKED_AT = 1000
"""Lines that are looked at, from the first on."""


class UnknownShare:
    """Warns once where more than a small part of the lines is unknown to a tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lines_left = LOOKED_AT
        self._tokens = self._unknown = 0

    def look_at(self, lines: Sequence[str]) -> None:
        """Takes in some more lines, and warns if they make it more than a small part."""
        if not self._lines_left:
            return
        lines = lines[: self._lines_left]
        self._lines_left -= len(lines)
        for ids in self._tokenizer.encode_lines(lines):
            self._tokens += len(ids)
            self._unknown += ids.count(self._tokenizer.unk_id)
        if self._unknown > SMALL * self._tokens:
            self._lines_left = 0
            warnings.warn(
                f"{self._unknown / self._tokens:.0%} of the text ({self._unknown:,} of {self._tokens:,} tokens so far) "
                "is unknown to the model's vocabulary and read as <unk>: is it the language, the case and the spelling "
                "that the model was trained on?",
                stacklevel=2,
            )
