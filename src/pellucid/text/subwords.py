"""Subword tokenizers: SentencePiece models, trained here (bpe, unigram) or imported."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from pellucid.errors import CheckpointError
from pellucid.text.normalization import SPACE_MARK, normalize
from pellucid.text.normalization_rules import detect_normalization
from pellucid.text.tokenizer import SPECIAL_TOKENS

SUBWORD_KINDS = ("bpe", "unigram")
FOREIGN_KIND = "sentencepiece"
ESCAPE = "\x1b"
FEW = 16
"""The number of lines up to which one core is faster: SentencePiece starts new threads for each call."""


class SentencePieceTokenizer:
    """A SentencePiece model as a tokenizer.

    A bpe or unigram model normalizes a text by the rules in its file, and with byte fallback it reproduces the
    normalized text exactly. Without normalization, it reproduces the text itself: since SentencePiece reads `▁`
    (U+2581) as a space, such a model encodes `▁` with an escape character (U+001B, doubled if the text has one).
    Without byte fallback, `▁` is read as a space and a character unseen in training as `<unk>`. An imported model
    (`kind="sentencepiece"`) encodes and decodes exactly as SentencePiece does, its normalization included.

    Special ids are the model's; a missing one gets an id after the last piece, in the order pad, begin, end.
    """

    def __init__(self, proto: bytes, kind: str, name: str = "the model") -> None:
        """Takes the bytes of a `.model` file and their name in errors. Raises CheckpointError for other bytes."""
        self.kind = kind
        self.proto = proto
        self._model = open_sentencepiece(proto, name)
        self.size: int = self._model.get_piece_size()
        self.pad_id: int = self._choose_id(self._model.pad_id())
        self.bos_id: int = self._choose_id(self._model.bos_id())
        self.eos_id: int = self._choose_id(self._model.eos_id())
        self.unk_id: int = self._model.unk_id()
        self._shown = dict(zip((self.pad_id, self.bos_id, self.eos_id, self.unk_id), SPECIAL_TOKENS, strict=True))
        self._silent = {self.pad_id, self.bos_id, self.eos_id}
        self.normalization: str = detect_normalization(proto) if kind in SUBWORD_KINDS else "none"
        has_bytes = self._model.is_byte(self._model.piece_to_id("<0x00>"))
        self.escapes: bool = kind in SUBWORD_KINDS and self.normalization == "none" and has_bytes

    def _choose_id(self, special_id: int) -> int:
        if special_id < 0:
            special_id = self.size
            self.size += 1
        return special_id

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._model.encode(self._prepare(text))
        return ids

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns encode() of each line; many lines are encoded on all cores."""
        if len(lines) <= FEW:
            return [self.encode(line) for line in lines]
        ids: list[list[int]] = self._model.encode([self._prepare(line) for line in lines])
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._model.decode([i for i in map(int, ids) if i not in self._silent])
        return unescape(text) if self.escapes else text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        shown, pieces = self._shown, self._names
        return [shown.get(i) or pieces[i] for i in map(int, ids)]

    def pieces(self) -> list[str]:
        """Returns the model's own pieces, in the order of their ids."""
        return list(self._names)

    @cached_property
    def _names(self) -> list[str]:
        """The pieces, cached: a call per token of each output would take longer than the rest of decoding."""
        names: list[str] = self._model.id_to_piece(list(range(self._model.get_piece_size())))
        return names

    def save(self, path: Path) -> Path:
        """Writes the model in SentencePiece's format, readable by its tools."""
        file = path.with_suffix(".model")
        file.write_bytes(self.proto)
        return file

    def normalize(self, text: str) -> str:
        """Returns `text` in the form that encode() segments into pieces."""
        spelled: bytes = self._model.normalize(self._prepare(text))
        return spelled.decode("utf-8")

    def _prepare(self, text: str) -> bytes:
        """Returns the text as input for the model, whose rules normalize any text except stacked marks completely."""
        if self.normalization == "nfc":
            text = normalize(text, "nfc")
        return (escape(text) if self.escapes else text).encode("utf-8", "replace")


def escape(text: str) -> str:
    """Returns `text` with every `▁` escaped; unescape() reverses it."""
    return text.replace(ESCAPE, ESCAPE + ESCAPE).replace(SPACE_MARK, ESCAPE + "_")


def unescape(text: str) -> str:
    """Returns the original of an escaped text. Any text is allowed; an escape before any other character stays."""
    if ESCAPE not in text:
        return text
    return re.sub(f"{ESCAPE}([_{ESCAPE}])", lambda match: SPACE_MARK if match[1] == "_" else ESCAPE, text)


def open_sentencepiece(proto: bytes, name: str) -> SentencePieceProcessor:
    """Returns SentencePiece with the bytes of a `.model` file; `name` is their name in errors.

    Raises CheckpointError for other bytes.
    """
    model = SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(proto)
        # Otherwise a piece that is not UTF-8 would raise an error only while a text is decoded.
        model.decode([[i] for i in range(model.get_piece_size())])
        model.id_to_piece(list(range(model.get_piece_size())))
    except (RuntimeError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"`{name}` is not a complete SentencePiece model ({len(proto)} bytes)", "copy the file again"
        ) from error
    return model
