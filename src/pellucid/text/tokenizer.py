"""What every tokenizer can do: text into ids and ids into text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

PAD_ID = 0
BOS_ID = 1
EOS_ID = 2
UNK_ID = 3
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
"""The special tokens as they are shown, by id in every tokenizer that is trained here."""


class Tokenizer(Protocol):
    """Text <-> ids. What a tokenizer does not write exactly, its class says.

    Half of a surrogate pair is no Unicode character: it is read as `?` or as unknown.
    """

    @property
    def kind(self) -> str:
        """bpe, unigram, words, characters, bytes, spaces, or sentencepiece for a model that came from elsewhere."""

    @property
    def size(self) -> int:
        """Ids in the vocabulary, special ids included."""

    @property
    def pad_id(self) -> int: ...

    @property
    def bos_id(self) -> int: ...

    @property
    def eos_id(self) -> int: ...

    @property
    def unk_id(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without begin and end; no text encodes to pad, begin or end."""

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """encode() of each line; the fast way for many."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of any ids below `size`; pad, begin and end are left out."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The visible piece of each id; special ids as `<pad>`, `<s>`, `</s>` and `<unk>`."""

    def save(self, path: Path) -> Path:
        """Writes one file named as `path` but with the suffix of its format, and returns its path."""
