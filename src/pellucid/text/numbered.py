"""SentencePiece models whose pieces have other ids than the model's own: Marian, M2M-100, XLM-R, mBART, NLLB, T5."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from pellucid.errors import CheckpointError, shown
from pellucid.files.reading import ID
from pellucid.text.special_ids import SpecialIds, clean_up_spaces
from pellucid.text.subwords import open_sentencepiece

NUMBERED_KIND = "sentencepiece-numbered"
FORMAT = "pellucid-piece-numbers/1"
_SPACE_MARK = "▁"
_CODE = re.compile(r">>[^<]*<<")
_TAG = re.compile(r"<2\w+>")


class NumberedSubwords:
    """A SentencePiece model and the ids of its pieces.

    A piece without an id is unknown. Where the vocabulary has language codes like `>>fra<<` (OPUS-MT), such a code at
    the beginning of a text is that one id, and so is a tag that was added, like `<2fr>`; no other text encodes to a
    special token or to a language code. Decoding leaves out all special tokens, `unk` included; `tokens` shows special
    tokens by their own names.
    """

    kind = NUMBERED_KIND

    def __init__(
        self,
        proto: bytes,
        ids: Mapping[str, int],
        special: SpecialIds,
        hidden: Sequence[str] = (),
        clean_up: bool = False,
        strip: bool = False,
        name: str = "the model",
    ) -> None:
        """Takes a model and the ids of its pieces.

        Args:
            proto: the bytes of a SentencePiece model. ids: the id of each piece and special token.
            hidden: special tokens beyond pad, begin, end and unknown, language codes included.
            clean_up: as HuggingFaceTokenizer has it. strip: decode without white space at both ends.
            name: what an error calls the model.

        Raises CheckpointError for other bytes.
        """
        self.proto = proto
        self.ids: dict[str, int] = dict(ids)
        self.special = special
        self.clean_up = clean_up
        self.strip = strip
        self.pad_id: int = special.pad_id
        self.bos_id: int = special.bos_id
        self.eos_id: int = special.eos_id
        self.unk_id: int = special.unk_id
        self._model = open_sentencepiece(proto, name)
        self.size: int = max([*self.ids.values(), *asdict(special).values()]) + 1
        self.hidden: dict[str, int] = {token: self.ids[token] for token in hidden}
        self._silent = {*asdict(special).values(), *self.hidden.values()}
        self._pieces = {i: piece for piece, i in self.ids.items()}
        self._of_text = {piece: i for piece, i in self.ids.items() if i not in self._silent}
        self._has_codes = any(_CODE.fullmatch(piece) for piece in self.ids)
        self.tags: frozenset[str] = frozenset(token for token in self.hidden if _TAG.fullmatch(token))
        """The tags that were added."""

    def encode(self, text: str) -> list[int]:
        return self.encode_lines([text])[0]

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns encode() of each line, on all cores."""
        codes, texts = zip(*map(self._split, lines), strict=True) if lines else ((), ())
        cut: list[list[str]] = self._model.encode([text.encode("utf-8", "replace") for text in texts], out_type=str)
        return [
            code + [self._of_text.get(piece, self.unk_id) for piece in pieces]
            for code, pieces in zip(codes, cut, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        pieces = [self._pieces[i] for i in map(int, ids) if i in self._pieces and i not in self._silent]
        text: str = self._model.decode_pieces(pieces).replace(_SPACE_MARK, " ")
        if self.strip:
            text = text.strip()
        return clean_up_spaces(text) if self.clean_up else text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces.get(int(i), "<unk>") for i in ids]

    def with_tags(self, tags: Sequence[str]) -> "NumberedSubwords":
        """Returns a tokenizer that reads each of the tags, at the beginning of a text, as an id behind all others."""
        ids = {**self.ids, **{tag: self.size + place for place, tag in enumerate(tags)}}
        return NumberedSubwords(self.proto, ids, self.special, [*self.hidden, *tags], self.clean_up, self.strip)

    def save(self, path: Path) -> Path:
        """Writes the model as SentencePiece does, readable by its own tools; save_numbers() writes the ids."""
        file = path.with_suffix(".model")
        file.write_bytes(self.proto)
        return file

    def save_numbers(self, path: Path) -> Path:
        """Writes the ids of the pieces as JSON."""
        file = path.with_suffix(".json")
        table = {"format": FORMAT, **asdict(self.special), "clean_up": self.clean_up, "strip": self.strip}
        table |= {"hidden": list(self.hidden), "ids": self.ids}
        file.write_text(json.dumps(table, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
        return file

    @classmethod
    def from_files(cls, proto: bytes, numbers: bytes, name: str) -> "NumberedSubwords":
        """Returns the tokenizer that save() and save_numbers() wrote. Raises CheckpointError for anything else."""
        try:
            table = json.loads(numbers)
            special = SpecialIds(**{field.name: int(table[field.name]) for field in fields(SpecialIds)})
            ids = {str(piece): int(i) for piece, i in table["ids"].items()}
            if odd := [i for i in (*ids.values(), *asdict(special).values()) if not ID.fits(i)]:
                raise ValueError(f"it has {shown(odd[0])} where {ID.words} should be")
            hidden = [token for token in table["hidden"] if ids[token] >= 0]
            if table["format"] != FORMAT:
                raise ValueError(f"its format is {shown(table['format'])}, not {FORMAT}")
        except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the piece numbers of `{name}` are malformed: {shown(str(error))}", "copy the model's folder again"
            ) from error
        return cls(proto, ids, special, hidden, table.get("clean_up") is True, table.get("strip") is True, name)

    def _split(self, text: str) -> tuple[list[int], str]:
        """Returns the language code or the tag that a text begins with, and the rest."""
        if self.tags and (tag := _TAG.match(text)) and tag[0] in self.tags:
            return [self.ids[tag[0]]], text[tag.end() :].removeprefix(" ")
        code = _CODE.match(text) if self._has_codes else None
        return ([self.ids.get(code[0], self.unk_id)], text[code.end() :]) if code else ([], text)
