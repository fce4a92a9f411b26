"""Subwords: a SentencePiece model, trained here (bpe, unigram) or by somebody else."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from pellucid.errors import CheckpointError
from pellucid.text.normalization import SPACE_MARK, normalize
from pellucid.text.normalization_rules import normalization_of
from pellucid.text.tokenizer import SPECIAL_TOKENS

SUBWORD_KINDS = ("bpe", "unigram")
FOREIGN_KIND = "sentencepiece"
ESCAPE = "\x1b"
FEW = 16
"""The lines up to which one core is the faster way: SentencePiece starts its threads anew for each call."""


class Subwords:
    """A SentencePiece model as a tokenizer.

    A bpe or unigram model spells a text as its normalisation has it, which stands in its file, and with byte fallback
    it writes exactly that. Where it has none, it writes the text itself: SentencePiece reads `▁` (U+2581) as a space,
    so such a model sees `▁` behind an escape character (U+001B, doubled where the text has one). Without byte fallback
    `▁` reads as a space and a character unseen in training as `<unk>`. A model that came from elsewhere
    (`kind="sentencepiece"`) reads and writes exactly what SentencePiece does with it, its normalisation included.

    Special ids are the model's own; one that it lacks gets an id behind its last piece, in the order pad, begin, end.
    """

    def __init__(self, proto: bytes, kind: str, name: str = "the model") -> None:
        """Takes the bytes of a `.model` file; `name` is what an error calls them. Raises CheckpointError for others."""
        self.kind = kind
        self.proto = proto
        self._model = open_sentencepiece(proto, name)
        self.size: int = self._model.get_piece_size()
        self.pad_id: int = self._own_or_next(self._model.pad_id())
        self.bos_id: int = self._own_or_next(self._model.bos_id())
        self.eos_id: int = self._own_or_next(self._model.eos_id())
        self.unk_id: int = self._model.unk_id()
        self._shown = dict(zip((self.pad_id, self.bos_id, self.eos_id, self.unk_id), SPECIAL_TOKENS, strict=True))
        self._silent = {self.pad_id, self.bos_id, self.eos_id}
        self.normalization: str = normalization_of(proto) if kind in SUBWORD_KINDS else "none"
        has_bytes = self._model.is_byte(self._model.piece_to_id("<0x00>"))
        self.escapes: bool = kind in SUBWORD_KINDS and self.normalization == "none" and has_bytes

    def _own_or_next(self, special_id: int) -> int:
        if special_id < 0:
            special_id = self.size
            self.size += 1
        return special_id

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._model.encode(self._prepared(text))
        return ids

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns encode() of each line, of many on all cores."""
        if len(lines) <= FEW:
            return [self.encode(line) for line in lines]
        ids: list[list[int]] = self._model.encode([self._prepared(line) for line in lines])
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
        """The same, asked for once: a call for each token of each output takes longer than all the rest of them."""
        names: list[str] = self._model.id_to_piece(list(range(self._model.get_piece_size())))
        return names

    def save(self, path: Path) -> Path:
        """Writes the model as SentencePiece does, readable by its own tools."""
        file = path.with_suffix(".model")
        file.write_bytes(self.proto)
        return file

    def normalized(self, text: str) -> str:
        """Returns `text` as its pieces spell it: what encode() cuts."""
        spelled: bytes = self._model.normalize(self._prepared(text))
        return spelled.decode("utf-8")

    def _prepared(self, text: str) -> bytes:
        """Returns the text as the model's own rules leave it: they do all of it for any text but piles of marks."""
        if self.normalization == "nfc":
            text = normalize(text, "nfc")
        return (escape(text) if self.escapes else text).encode("utf-8", "replace")


def escape(text: str) -> str:
    """Returns `text` in which no `▁` is left; unescape() gives it back."""
    return text.replace(ESCAPE, ESCAPE + ESCAPE).replace(SPACE_MARK, ESCAPE + "_")


def unescape(text: str) -> str:
    """Returns what escape() was given. Any text is allowed; an escape that escapes nothing stays."""
    if ESCAPE not in text:
        return text
    return re.sub(f"{ESCAPE}([_{ESCAPE}])", lambda match: SPACE_MARK if match[1] == "_" else ESCAPE, text)


def open_sentencepiece(proto: bytes, name: str) -> SentencePieceProcessor:
    """Returns SentencePiece with the bytes of a `.model` file; `name` is what an error calls them.

    Raises CheckpointError for other bytes.
    """
    model = SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(proto)
        # A piece that is not UTF-8 would be found out in the middle of somebody's text.
        model.decode([[i] for i in range(model.get_piece_size())])
        model.id_to_piece(list(range(model.get_piece_size())))
    except (RuntimeError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"`{name}` is not a whole SentencePiece model ({len(proto)} bytes)", "copy the file again"
        ) from error
    return model
