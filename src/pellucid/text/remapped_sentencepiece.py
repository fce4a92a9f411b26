"""SentencePiece models with remapped ids: Marian, M2M-100, XLM-R, mBART, NLLB, T5."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from pellucid.errors import CheckpointError, format_value
from pellucid.files.reading import ID, parse_json
from pellucid.text.added_tokens import AddedTokens
from pellucid.text.sentencepiece_file import message, read_model
from pellucid.text.special_ids import SpecialIds, clean_up_spaces
from pellucid.text.subwords import open_sentencepiece

NUMBERED_KIND = "sentencepiece-numbered"
FORMAT = "pellucid-piece-numbers/1"
_SPACE_MARK = "▁"
CODE: re.Pattern[str] = re.compile(r">>[^<]*<<")
"""A language code of OPUS-MT, which selects the target language at the beginning of a source."""
_TAG = re.compile(r"<2\w+>")


class RemappedSentencePiece:
    """A SentencePiece model and the ids of its pieces.

    A piece without an id is unknown. If the vocabulary has language codes like `>>fra<<` (OPUS-MT), such a code at the
    beginning of a text is one id, and so is an added tag like `<2fr>`; no other text encodes to a special token or to a
    language code. An added token is one id anywhere in a text. Decoding drops all special tokens, `unk` included;
    `tokens` shows special tokens by their names.
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
        added: AddedTokens | None = None,
    ) -> None:
        """Takes a model and the ids of its pieces.

        Args:
            proto: the bytes of a SentencePiece model. ids: the id of each piece and special token.
            hidden: special tokens beyond pad, begin, end and unknown, language codes included.
            clean_up: as in HuggingFaceTokenizer. strip: decode without white space at both ends.
            name: the name of the model in errors.
            added: the added tokens, whose ids are in `ids`; if None, there are none.

        Raises CheckpointError for other bytes.
        """
        self.proto = proto
        self.ids: dict[str, int] = dict(ids)
        self.special = special
        self.clean_up = clean_up
        self.strip = strip
        self.added: AddedTokens = added or AddedTokens()
        self.pad_id: int = special.pad_id
        self.bos_id: int = special.bos_id
        self.eos_id: int = special.eos_id
        self.unk_id: int = special.unk_id
        self._model = open_sentencepiece(proto, name)
        self.size: int = max([*self.ids.values(), *asdict(special).values()]) + 1
        self.hidden: dict[str, int] = {token: self.ids[token] for token in hidden}
        number = self._model.get_piece_size()
        controls = [i for i, is_control in enumerate(self._model.is_control(list(range(number)))) if is_control]
        controls = [ids[piece] for piece in self._model.id_to_piece(controls) if piece in ids]
        self.silent: frozenset[int] = frozenset({*asdict(special).values(), *self.hidden.values(), *controls})
        """The ids that decoding drops: special tokens, hidden tokens, and SentencePiece's control symbols."""
        self._pieces = {i: piece for piece, i in self.ids.items()}
        self._of_text = {piece: i for piece, i in self.ids.items() if i not in self.silent}
        self._has_codes = any(CODE.fullmatch(piece) for piece in self.ids)
        self.tags: frozenset[str] = frozenset(token for token in self.hidden if _TAG.fullmatch(token))
        """The added tags."""
        # Protocol Buffers merge a field that occurs twice: this sets the model's `add_dummy_prefix` to false.
        bare = proto + message(3, message(3, 0)) if self.added.one_prefix and self.added.tokens else b""
        self._bare_model = open_sentencepiece(bare, name) if bare else self._model

    @property
    def without_id(self) -> list[str]:
        """The pieces of the model that have no id; they are read as the unknown token."""
        return [piece for piece in read_model(self.proto).ids if piece not in self.ids]

    def encode(self, text: str) -> list[int]:
        return self.encode_lines([text])[0]

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns encode() of each line, on all cores."""
        codes, texts = zip(*map(self._split, lines), strict=True) if lines else ((), ())
        if self.added.tokens:
            return [code + self._encode_with_added(text) for code, text in zip(codes, texts, strict=True)]
        return [code + ids for code, ids in zip(codes, self._encode_texts(texts), strict=True)]

    def _encode_texts(self, texts: Sequence[str], *, bare: bool = False) -> list[list[int]]:
        """Returns the ids of each text's pieces; if `bare`, without the space that the model puts before a text."""
        model = self._bare_model if bare else self._model
        cut: list[list[str]] = model.encode([text.encode("utf-8", "replace") for text in texts], out_type=str)
        return [[self._of_text.get(piece, self.unk_id) for piece in pieces] for pieces in cut]

    def _encode_with_added(self, text: str) -> list[int]:
        """Returns the ids of a text that may contain added tokens."""
        ids: list[int] = []
        parts = list(self.added.split(text))
        for place, (part, is_added) in enumerate(parts):
            if is_added:
                ids.append(self.ids[part])
                continue
            bare = place > 0 and not (self.added.keeps_spaces and part[:1].isspace())
            found = self._encode_texts([part], bare=bare)[0] if part else []
            spaced = self.added.keeps_spaces and part != part.rstrip() and len(parts) > 1
            if spaced and (place + 1 < len(parts) or not part.strip()):
                found.append(self._of_text.get(_SPACE_MARK, self.unk_id))
            ids += found
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        pieces = [self._pieces[i] for i in map(int, ids) if i in self._pieces and i not in self.silent]
        text: str = self._model.decode_pieces(pieces).replace(_SPACE_MARK, " ")
        if self.strip:
            text = text.strip()
        return clean_up_spaces(text) if self.clean_up else text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces.get(int(i), "<unk>") for i in ids]

    def add_tags(self, tags: Sequence[str]) -> "RemappedSentencePiece":
        """Returns a tokenizer that encodes each tag at the beginning of a text as a new id after all others."""
        ids = {**self.ids, **{tag: self.size + place for place, tag in enumerate(tags)}}
        hidden = [*self.hidden, *tags]
        return RemappedSentencePiece(self.proto, ids, self.special, hidden, self.clean_up, self.strip, added=self.added)

    def save(self, path: Path) -> Path:
        """Writes the model in SentencePiece's format, readable by its tools; save_numbers() writes the ids."""
        file = path.with_suffix(".model")
        file.write_bytes(self.proto)
        return file

    def save_numbers(self, path: Path) -> Path:
        """Writes the ids of the pieces as JSON."""
        file = path.with_suffix(".json")
        table = {"format": FORMAT, **asdict(self.special), "clean_up": self.clean_up, "strip": self.strip}
        table |= {"hidden": list(self.hidden), "ids": self.ids}
        if self.added.tokens:
            table["added"] = self.added.to_table()
        file.write_text(json.dumps(table, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
        return file

    @classmethod
    def from_files(cls, proto: bytes, numbers: bytes, name: str) -> "RemappedSentencePiece":
        """Returns the tokenizer that save() and save_numbers() wrote. Raises CheckpointError for anything else."""
        try:
            table = parse_json(numbers)
            special = SpecialIds(**{field.name: int(table[field.name]) for field in fields(SpecialIds)})
            ids = {str(piece): int(i) for piece, i in table["ids"].items()}
            if odd := [i for i in (*ids.values(), *asdict(special).values()) if not ID.fits(i)]:
                raise ValueError(f"it has {format_value(odd[0])} where {ID.words} should be")
            hidden = [token for token in table["hidden"] if ids[token] >= 0]
            added = AddedTokens.from_table(table.get("added"))
            if unknown := [token.content for token in added.tokens if token.content not in ids]:
                raise ValueError(f"its added token {format_value(unknown[0])} has no id")
            if table["format"] != FORMAT:
                raise ValueError(f"its format is {format_value(table['format'])}, not {FORMAT}")
        except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the piece numbers of `{name}` are malformed: {format_value(str(error))}",
                "copy the model's folder again",
            ) from error
        cleaned, stripped = table.get("clean_up") is True, table.get("strip") is True
        return cls(proto, ids, special, hidden, cleaned, stripped, name, added)

    def _split(self, text: str) -> tuple[list[int], str]:
        """Returns the id of the language code or tag at the beginning of a text, if any, and the rest."""
        if self.tags and (tag := _TAG.match(text)) and tag[0] in self.tags:
            return [self.ids[tag[0]]], text[tag.end() :].removeprefix(" ")
        code = CODE.match(text) if self._has_codes else None
        return ([self.ids.get(code[0], self.unk_id)], text[code.end() :]) if code else ([], text)
