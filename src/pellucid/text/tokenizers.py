"""The tokenizers of a model, source and target, and their files in its folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import overload

from pellucid.errors import CheckpointError, ConfigError, format_value
from pellucid.files.budget import MOST_TOKENIZER_BYTES, read_bytes
from pellucid.text.hugging_face import HUGGING_FACE_KIND, HuggingFaceTokenizer
from pellucid.text.remapped_sentencepiece import NUMBERED_KIND, RemappedSentencePiece
from pellucid.text.subwords import FOREIGN_KIND, SUBWORD_KINDS, SentencePieceTokenizer
from pellucid.text.tokenizer import OWN_KIND, Tokenizer, TokenizerAdapter, TokenizerBase, adapt_tokenizer
from pellucid.text.vocabulary import VOCABULARY_KINDS, Vocabulary


@dataclass(frozen=True, init=False)
class TokenizerPair:
    """The tokenizers of a model: one for the source and one for the target, or a joint one for both."""

    source: TokenizerBase
    target: TokenizerBase

    def __init__(self, source: Tokenizer, target: Tokenizer | None = None) -> None:
        """Takes the tokenizers of both sides; if `target` is None or the same object, both share one vocabulary.

        A custom tokenizer is wrapped in a `TokenizerAdapter`. Raises ConfigError for an object that is not a
        `Tokenizer`.
        """
        first = adapt_tokenizer(source)
        object.__setattr__(self, "source", first)
        object.__setattr__(self, "target", first if target is None or target is source else adapt_tokenizer(target))

    @property
    def joint(self) -> bool:
        """Returns True if both sides share one vocabulary."""
        return self.source is self.target

    def describe_pieces_without_ids(self) -> str:
        """Returns a text with the number of SentencePiece pieces that have no id, or "" if each has one."""
        sides = [("tokenizer", self.source)] if self.joint else [("source", self.source), ("target", self.target)]
        told = []
        for side, tokenizer in sides:
            if isinstance(tokenizer, RemappedSentencePiece) and (pieces := tokenizer.without_id):
                listed = ", ".join(f"`{format_value(piece)}`" for piece in pieces[:3]) + (
                    ", ..." if len(pieces) > 3 else ""
                )
                told.append(f"{len(pieces):,} of the {side}'s pieces have no id ({listed})")
        return f"{' and '.join(told)}; they are read as unknown tokens" if told else ""

    @overload
    @classmethod
    def from_given(cls, given: None) -> None: ...

    @overload
    @classmethod
    def from_given(cls, given: "GivenTokenizers") -> "TokenizerPair": ...

    @overload
    @classmethod
    def from_given(cls, given: "GivenTokenizers | None") -> "TokenizerPair | None": ...

    @classmethod
    def from_given(cls, given: "GivenTokenizers | None") -> "TokenizerPair | None":
        """Returns a pair from one tokenizer for both sides, from two, or from a pair; None for None.

        Raises ConfigError for any other number of tokenizers.
        """
        if given is None or isinstance(given, TokenizerPair):
            return given
        if not isinstance(given, tuple | list):
            return cls(given)
        if len(given) != 2:
            raise ConfigError(f"`tokenizer` holds {len(given)} tokenizers", "give one for both sides, or two")
        return cls(*given)

    def save(self, folder: Path) -> dict[str, object]:
        """Writes `tokenizer.*`, or `source.*` and `target.*`, and returns the table that load() reads.

        Since `tokenizer.json` is the name of another format, a joint vocabulary is called `vocabulary.json`, and the
        ids of a joint SentencePiece model's pieces `numbers.json`.

        The table can be written as JSON: {"kind": "bpe", "joint": true, "files": {"tokenizer": "tokenizer.model"},
        "sha256": {"tokenizer": "..."}}; a target of another kind adds "target_kind". An imported `tokenizer.json` adds
        "options", and a SentencePiece model with remapped ids adds a second file, `tokenizer_numbers`. A custom
        tokenizer has no file, only a record that identifies it, "own".
        """
        sides = {"tokenizer": self.source} if self.joint else {"source": self.source, "target": self.target}
        paths = {}
        for side, tokenizer in sides.items():
            if isinstance(tokenizer, TokenizerAdapter):
                continue
            name = "vocabulary" if isinstance(tokenizer, Vocabulary) and self.joint else side
            paths[side] = tokenizer.save(folder / name)
            if isinstance(tokenizer, RemappedSentencePiece):
                paths[f"{side}_numbers"] = tokenizer.save_numbers(folder / ("numbers" if self.joint else side))
        table: dict[str, object] = {"kind": self.source.kind, "joint": self.joint}
        if self.target.kind != self.source.kind:
            table["target_kind"] = self.target.kind
        table["files"] = {side: path.name for side, path in paths.items()}
        table["sha256"] = {side: sha256(path.read_bytes()).hexdigest() for side, path in paths.items()}
        options = {side: t.options() for side, t in sides.items() if isinstance(t, HuggingFaceTokenizer)}
        own = {side: tokenizer.record() for side, tokenizer in sides.items() if isinstance(tokenizer, TokenizerAdapter)}
        return table | ({"options": options} if options else {}) | ({"own": own} if own else {})

    @classmethod
    def load(cls, folder: Path, table: Mapping[str, object], given: "GivenTokenizers | None" = None) -> "TokenizerPair":
        """Returns the tokenizers that save() wrote to `folder`. Only data is read; no code is executed.

        `given` are custom tokenizers, required for a folder that was saved with them.

        Raises CheckpointError if a file is missing or differs from the saved one, if the table is malformed, or if a
        custom tokenizer is missing or differs from the saved one; ConfigError if `given` is passed for a folder that
        has its own tokenizer.
        """
        own = table.get("own")
        own = own if isinstance(own, dict) else {}
        if given is not None and not own:
            raise ConfigError(f"`tokenizer=` is given, but `{folder}` has its own tokenizer", "leave it out")
        pair = cls.from_given(given)

        def load(side: str, kind_key: str) -> TokenizerBase:
            if table.get(kind_key) != OWN_KIND:
                return _load_side(folder, table, side, kind_key)
            return _get_custom(
                own.get(side), None if pair is None else pair.target if side == "target" else pair.source
            )

        if table.get("joint") is True:
            return cls(load("tokenizer", "kind"))
        return cls(load("source", "kind"), load("target", "target_kind" if "target_kind" in table else "kind"))


GivenTokenizers = TokenizerPair | Tokenizer | tuple[Tokenizer, Tokenizer]
"""Tokenizers as a caller passes them: one for both sides, or source and target."""


def _get_custom(record: object, given: TokenizerBase | None) -> TokenizerBase:
    """Returns the given custom tokenizer, checked against the record in the folder."""
    if not isinstance(record, dict):
        raise CheckpointError("the tokenizer's table has no name for its `own` tokenizer", "copy the folder again")
    if not isinstance(given, TokenizerAdapter):
        name = format_value(str(record.get("class")))
        raise CheckpointError(
            f"the model uses the custom tokenizer `{name}`, which is not in its folder",
            f"pass it as `tokenizer=`, as in `load(folder, tokenizer={name.rpartition('.')[2]}(...))`",
        )
    given.check(record)
    return given


def _load_side(folder: Path, table: Mapping[str, object], side: str, kind_key: str) -> TokenizerBase:
    kind = table.get(kind_key)
    if kind not in (*SUBWORD_KINDS, *VOCABULARY_KINDS, FOREIGN_KIND, HUGGING_FACE_KIND, NUMBERED_KIND):
        raise CheckpointError(
            f"unknown kind of tokenizer `{format_value(kind)}`", "the model may require a newer version of pellucid"
        )
    path, data = _read(folder, table, side)
    if kind in VOCABULARY_KINDS:
        return Vocabulary.from_bytes(data, str(path))
    if kind == HUGGING_FACE_KIND:
        options = table.get("options")
        return HuggingFaceTokenizer.from_options(
            data, options.get(side) if isinstance(options, dict) else None, str(path)
        )
    if kind == NUMBERED_KIND:
        return RemappedSentencePiece.from_files(data, _read(folder, table, f"{side}_numbers")[1], str(path))
    return SentencePieceTokenizer(data, str(kind), str(path))


def _read(folder: Path, table: Mapping[str, object], part: str) -> tuple[Path, bytes]:
    """Returns the path and the content of a tokenizer file, checked against the SHA-256 in the table."""
    name, digest = _entry(table, "files", part), _entry(table, "sha256", part)
    if name in ("", ".", "..") or set(name) & set("/\\:\0"):
        raise CheckpointError(
            f"the tokenizer's file `{format_value(name)}` must be in the model's folder", "use a plain file name"
        )
    path = folder / name
    data = read_bytes(path, MOST_TOKENIZER_BYTES)
    if sha256(data).hexdigest() != digest:
        raise CheckpointError(
            f"`{path}` ({len(data)} bytes) is not the file that was saved with the model: its SHA-256 is not "
            f"{format_value(digest)}",
            "copy the model's folder again",
        )
    return path, data


def _entry(table: Mapping[str, object], key: str, side: str) -> str:
    entries = table.get(key)
    value = entries.get(side) if isinstance(entries, dict) else None
    if not isinstance(value, str):
        raise CheckpointError(f"the tokenizer's table has no `{key}.{side}`", "copy the model's folder again")
    return value
