"""Parses the spelling of vocabularies: the bytes of a piece, and whether a word begins with it."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from pellucid.files.reading import parse_json
from pellucid.text.hugging_face import HuggingFaceTokenizer, byte_characters
from pellucid.text.remapped_sentencepiece import RemappedSentencePiece
from pellucid.text.subwords import unescape
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.vocabulary import FIRST_BYTE_ID, Vocabulary

Spelling = Literal["marks", "byte-level", "wordpiece", "word-ends", "continued", "words"]
"""
marks       ▁ is a space, <0xEC> a byte (SentencePiece)
byte-level  each character is a byte: Ġ a space, Ċ a line's end (GPT-2)
wordpiece   ## continues a word (BERT)
word-ends   </w> ends a word (the first GPT)
continued   @@ is followed by more of the word (subword-nmt)
words       each piece is a word
"""

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPECIAL = re.compile(r"\[[A-Z]+\d*\]|<(?!0x[0-9A-F]{2}>)[^<>\s]+>|>>[^<>\s]+<<")
_CODE = re.compile(r">>[^<>\s]+<<")
_TAG = re.compile(r"<2[A-Za-z0-9_]+>")
_BYTES = byte_characters()


@dataclass(frozen=True, slots=True)
class Piece:
    """Describes a token in the spelling of its vocabulary."""

    spelled: str
    content: bytes = b""
    begins: bool | None = None
    """True if a word begins here; None: the text decides."""
    special: bool = False


def parse_pieces(tokenizer: TokenizerBase, ids: Sequence[int], also_special: Collection[int] = ()) -> list[Piece]:
    """Returns the pieces of ids; `also_special` are special ids that the tokenizer does not list."""
    special = _special_ids(tokenizer) | set(also_special)
    if isinstance(tokenizer, Vocabulary) and tokenizer.kind in ("characters", "bytes"):
        return [
            Piece(spelled, b"" if i in special else _get_bytes(tokenizer, i), special=i in special)
            for i, spelled in zip(ids, tokenizer.tokens(ids), strict=True)
        ]
    spelled = _spell(tokenizer, ids)
    spelling = _detect_spelling(tokenizer, spelled)
    return _link(
        [
            Piece(s, special=True) if i in special or _is_code(tokenizer, s) else _read(spelling, s)
            for i, s in zip(ids, spelled, strict=True)
        ]
    )


def guess_pieces(spelled: Sequence[str], special: Sequence[bool] | None = None) -> list[Piece]:
    """Returns pieces without their tokenizer, in the spelling of transformers' `convert_ids_to_tokens`.

    `special` marks the special pieces; None: pieces that look special, as `[CLS]` and `</s>` do.
    """
    special = [_SPECIAL.fullmatch(s) is not None for s in spelled] if special is None else special
    spelling = _guess([s for s, is_special in zip(spelled, special, strict=True) if not is_special])
    return _link(
        [
            Piece(s, special=True) if is_special else _read(spelling, s)
            for s, is_special in zip(spelled, special, strict=True)
        ]
    )


def _special_ids(tokenizer: TokenizerBase) -> set[int]:
    special = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id}
    if isinstance(tokenizer, HuggingFaceTokenizer | RemappedSentencePiece):
        special |= set(tokenizer.hidden.values()) - {tokenizer.unk_id}  # the unknown token represents text
    return special


def _is_code(tokenizer: TokenizerBase, spelled: str) -> bool:
    """Returns True if a piece is a language code of OPUS-MT or the language tag of a Pellucid model."""
    if isinstance(tokenizer, RemappedSentencePiece):
        return spelled in tokenizer.tags or _CODE.fullmatch(spelled) is not None
    return _TAG.fullmatch(spelled) is not None


def _get_bytes(vocabulary: Vocabulary, i: int) -> bytes:
    if vocabulary.byte_fallback and FIRST_BYTE_ID <= i < FIRST_BYTE_ID + 256:
        return bytes([i - FIRST_BYTE_ID])
    return vocabulary.decode([i]).encode("utf-8", "replace")


def _spell(tokenizer: TokenizerBase, ids: Sequence[int]) -> list[str]:
    """Returns the pieces as the vocabulary file spells them, which a byte-level tokenizer does not show."""
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        return tokenizer.tokens(ids)
    known = _invert_ids(tokenizer)
    return [known.get(i, "<unk>") for i in ids]


@lru_cache(maxsize=2)
def _invert_ids(tokenizer: HuggingFaceTokenizer) -> dict[int, str]:
    return {i: spelled for spelled, i in tokenizer.ids.items()}


def _detect_spelling(tokenizer: TokenizerBase, spelled: Sequence[str]) -> Spelling:
    if isinstance(tokenizer, Vocabulary):
        return "continued" if any(s.endswith("@@") for s in spelled) else "words"
    return _read_spelling(tokenizer) if isinstance(tokenizer, HuggingFaceTokenizer) else "marks"


@lru_cache(maxsize=2)
def _read_spelling(tokenizer: HuggingFaceTokenizer) -> Spelling:
    """Returns the spelling that a tokenizer.json declares."""
    table = parse_json(tokenizer.data)
    decoder, model = table.get("decoder") or {}, table["model"]
    if any(part.get("type") == "ByteLevel" for part in [decoder, *decoder.get("decoders", [])]):
        return "byte-level"
    if model.get("end_of_word_suffix"):
        return "word-ends"
    kinds: dict[str, Spelling] = {"WordPiece": "wordpiece", "WordLevel": "words"}
    return kinds.get(model.get("type", ""), "marks")


def _guess(ordinary: Sequence[str]) -> Spelling:
    if any(s.startswith("##") for s in ordinary):
        return "wordpiece"
    if any("▁" in s or _BYTE.fullmatch(s) for s in ordinary):
        return "marks"
    if any(s.endswith("</w>") for s in ordinary):
        return "word-ends"
    if any(s.endswith("@@") for s in ordinary):
        return "continued"
    return "byte-level" if _is_byte_level("".join(ordinary)) else "words"


def _is_byte_level(text: str) -> bool:
    """Returns True if a text is spelled by bytes: a character represents another one, and all form valid UTF-8."""
    if not any(ord(character) > 0xFF for character in text) or not set(text) <= set(_BYTES):
        return False
    try:
        bytes(_BYTES[character] for character in text).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _read(spelling: Spelling, spelled: str) -> Piece:
    if spelling == "byte-level" and set(spelled) <= set(_BYTES):
        return Piece(spelled, bytes(_BYTES[character] for character in spelled))
    if spelling == "marks":
        byte = _BYTE.fullmatch(spelled)
        return Piece(spelled, bytes([int(byte[1], 16)]) if byte else _utf8(unescape(spelled.replace("▁", " "))))
    if spelling == "wordpiece":
        return Piece(spelled, _utf8(spelled.removeprefix("##")), begins=not spelled.startswith("##"))
    if spelling == "word-ends":
        return Piece(spelled, _utf8(spelled.removesuffix("</w>")), begins=True)
    if spelling == "continued":
        return Piece(spelled, _utf8(spelled.removesuffix("@@")), begins=True)
    return Piece(spelled, _utf8(spelled), begins=True if spelling == "words" else None)


def _link(pieces: list[Piece]) -> list[Piece]:
    """Corrects word beginnings: a mark at the end of a piece applies to the next piece."""
    ends_words = any(piece.spelled.endswith("</w>") for piece in pieces)
    linked = pieces[:1]
    for before, piece in pairwise(pieces):
        goes_on = before.spelled.endswith("@@") or (ends_words and not before.spelled.endswith("</w>"))
        goes_on = goes_on and piece.begins is True and not before.special
        linked.append(replace(piece, begins=False) if goes_on else piece)
    return linked


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
