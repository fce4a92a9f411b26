"""A vocabulary as a tokenizer: words, characters, bytes, or the tokens of pre-tokenized text."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

from pellucid.errors import CheckpointError
from pellucid.files.reading import parse_json
from pellucid.text.normalization import NORMALIZATIONS, normalize
from pellucid.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, UNK_ID
from pellucid.text.words import detokenize_words, tokenize_words

FORMAT = "pellucid-vocabulary/1"
VOCABULARY_KINDS = ("words", "characters", "bytes", "spaces")
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
FIRST_BYTE_ID = len(SPECIAL_TOKENS)
_NOT_SPACE = re.compile(r"[^ \t\n\r\f\v]+")


def tokens_before_entries(byte_fallback: bool) -> tuple[str, ...]:
    """Returns the tokens before a vocabulary's entries: special tokens, and bytes if `byte_fallback` is set."""
    return SPECIAL_TOKENS + BYTE_TOKENS if byte_fallback else SPECIAL_TOKENS


def split_entries(kind: str, text: str) -> Sequence[str]:
    """Returns the entries of `text`: words and marks, strings between spaces, or characters."""
    if kind == "words":
        return tokenize_words(text)
    return _NOT_SPACE.findall(text) if kind == "spaces" else text


@dataclass(frozen=True)
class Vocabulary:
    """The special ids, then 256 bytes if `byte_fallback` is set, then the entries.

    words       decode() writes the spacing of detokenize_words(), whatever spaces the text had
    spaces      split at ASCII white space; decode() writes one space between words
    characters  exact with `byte_fallback`: a character without an entry is written as its UTF-8 bytes
    bytes       exact: the vocabulary has no other entries

    A text is first normalized by `normalization`, and lower-cased if `lowercase` is set; "exact" refers to the result.
    An unknown entry is `<unk>`. Text that reads `<s>` or `<0x41>` is text: it never becomes a special id or a byte.
    """

    kind: str
    entries: tuple[str, ...] = field(repr=False)
    lowercase: bool = False
    byte_fallback: bool = False
    normalization: str = "none"

    pad_id: ClassVar[int] = PAD_ID
    bos_id: ClassVar[int] = BOS_ID
    eos_id: ClassVar[int] = EOS_ID
    unk_id: ClassVar[int] = UNK_ID

    @property
    def size(self) -> int:
        return len(self.listing)

    def encode(self, text: str) -> list[int]:
        text = normalize(text, self.normalization)
        if self.lowercase:
            text = text.lower()
        if self.byte_fallback:
            return self._encode_exactly(text)
        known = self._ids
        return [known.get(entry, UNK_ID) for entry in split_entries(self.kind, text)]

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        return [self.encode(line) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        kept = [i for i in ids if i > EOS_ID]
        if self.byte_fallback:
            return b"".join([self._bytes[i] for i in kept]).decode("utf-8", "replace")
        entries = [self.listing[i] for i in kept]
        if self.kind == "words":
            return detokenize_words(entries)
        return (" " if self.kind == "spaces" else "").join(entries)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._visible[i] for i in ids]

    def save(self, path: Path) -> Path:
        """Writes a readable JSON file, one entry per line; equal vocabularies give equal files."""
        table: dict[str, object] = {
            "format": FORMAT,
            "kind": self.kind,
            "lowercase": self.lowercase,
            "byte_fallback": self.byte_fallback,
        }
        if self.normalization != "none":
            table["normalize"] = self.normalization
        table["tokens"] = self.listing
        file = path.with_suffix(".json")
        file.write_bytes((json.dumps(table, ensure_ascii=False, indent=1) + "\n").encode())
        return file

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Self:
        """Returns the vocabulary of a file's bytes; `name` is the file's name in errors.

        Raises CheckpointError if the bytes are not in the format that save() writes.
        """
        try:
            table = parse_json(data.decode("utf-8"))
        except ValueError as error:
            raise CheckpointError(f"`{name}` is not a vocabulary: {error}", "copy the model's folder again") from error
        vocabulary = cls._from_table(table) if isinstance(table, dict) and table.get("format") == FORMAT else None
        if vocabulary is None:
            raise CheckpointError(f'`{name}` is not a vocabulary of format "{FORMAT}"', "copy the model's folder again")
        return vocabulary

    @classmethod
    def _from_table(cls, table: dict[str, object]) -> Self | None:
        """Returns the vocabulary that save() would write as `table`, or None."""
        tokens, byte_fallback = table.get("tokens"), bool(table.get("byte_fallback"))
        first = len(tokens_before_entries(byte_fallback))
        kind, normalization = table.get("kind"), table.get("normalize", "none")
        if kind not in VOCABULARY_KINDS or normalization not in NORMALIZATIONS or not isinstance(tokens, list):
            return None
        vocabulary = cls(
            str(kind),
            tuple(map(str, tokens[first:])),
            bool(table.get("lowercase")),
            byte_fallback,
            str(normalization),
        )
        return vocabulary if vocabulary.listing == tokens and len(vocabulary._ids) == len(vocabulary.entries) else None

    def _encode_exactly(self, text: str) -> list[int]:
        ids: list[int] = []
        for character in text if self.entries else [text]:
            known = self._ids.get(character)
            if known is not None:
                ids.append(known)
            else:
                ids += [FIRST_BYTE_ID + byte for byte in character.encode("utf-8", "replace")]
        return ids

    @cached_property
    def listing(self) -> list[str]:
        """Returns each id's token."""
        return [*tokens_before_entries(self.byte_fallback), *self.entries]

    @cached_property
    def _ids(self) -> dict[str, int]:
        """Returns each entry's id, without special tokens and bytes, so that no text can name them."""
        return {entry: i for i, entry in enumerate(self.entries, start=self.size - len(self.entries))}

    @cached_property
    def _bytes(self) -> list[bytes]:
        """Returns each id's UTF-8 bytes."""
        specials = [token.encode() for token in SPECIAL_TOKENS]
        return [
            *specials,
            *(bytes([i]) for i in range(256)),
            *(entry.encode("utf-8", "replace") for entry in self.entries),
        ]

    @cached_property
    def _visible(self) -> list[str]:
        """Returns each id's token for display: a space as ▁, an ASCII byte as its character."""
        shown = {"<0x20>": "▁", **{f"<0x{byte:02X}>": chr(byte) for byte in range(0x21, 0x7F)}}
        before = [shown.get(token, token) for token in tokens_before_entries(self.byte_fallback)]
        return [*before, *("▁" if entry == " " else entry for entry in self.entries)]
