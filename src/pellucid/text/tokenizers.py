"""The tokenizers of a model, source and target, and their files in its folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import overload

from pellucid.errors import CheckpointError, ConfigError, shown
from pellucid.files.reading import MOST_TOKENIZER_BYTES, read_bytes
from pellucid.text.hugging_face import HUGGING_FACE_KIND, HuggingFaceTokenizer
from pellucid.text.numbered import NUMBERED_KIND, NumberedSubwords
from pellucid.text.subwords import FOREIGN_KIND, SUBWORD_KINDS, Subwords
from pellucid.text.tokenizer import OWN_KIND, CompleteTokenizer, OwnTokenizer, Tokenizer, completed
from pellucid.text.vocabulary import VOCABULARY_KINDS, Vocabulary


@dataclass(frozen=True, init=False)
class Tokenizers:
    """The tokenizers of a model: it reads its source by one and writes its target by the other, or one does both."""

    source: CompleteTokenizer
    target: CompleteTokenizer

    def __init__(self, source: Tokenizer, target: Tokenizer | None = None) -> None:
        """Takes the tokenizers of both sides; None, or the same object: one vocabulary for both.

        A tokenizer of one's own is given what it lacks. Raises ConfigError for an object that is not a `Tokenizer`.
        """
        first = completed(source)
        object.__setattr__(self, "source", first)
        object.__setattr__(self, "target", first if target is None or target is source else completed(target))

    @property
    def joint(self) -> bool:
        """Tells whether both sides have one vocabulary."""
        return self.source is self.target

    @overload
    @classmethod
    def of(cls, given: None) -> None: ...

    @overload
    @classmethod
    def of(cls, given: "GivenTokenizers") -> "Tokenizers": ...

    @overload
    @classmethod
    def of(cls, given: "GivenTokenizers | None") -> "Tokenizers | None": ...

    @classmethod
    def of(cls, given: "GivenTokenizers | None") -> "Tokenizers | None":
        """Returns the tokenizers of both sides: of one for both, of a pair, or as they are; None for None.

        Raises ConfigError for another number of them.
        """
        if given is None or isinstance(given, Tokenizers):
            return given
        if not isinstance(given, tuple | list):
            return cls(given)
        if len(given) != 2:
            raise ConfigError(f"`tokenizer` holds {len(given)} tokenizers", "give one for both sides, or two")
        return cls(*given)

    def save(self, folder: Path) -> dict[str, object]:
        """Writes `tokenizer.*`, or `source.*` and `target.*`, and returns the table that load() reads.

        `tokenizer.json` is the name of another format: a joint vocabulary is called `vocabulary.json`, the ids of a
        joint SentencePiece model's pieces `numbers.json`.

        The table can be written as JSON: {"kind": "bpe", "joint": true, "files": {"tokenizer": "tokenizer.model"},
        "sha256": {"tokenizer": "..."}}; a target of its own kind adds "target_kind". Of somebody else's tokenizers
        `tokenizer.json` adds "options", a SentencePiece model with other ids a second file, `tokenizer_numbers`. A
        tokenizer of one's own has no file, but a record of what it is, "own".
        """
        sides = {"tokenizer": self.source} if self.joint else {"source": self.source, "target": self.target}
        paths = {}
        for side, tokenizer in sides.items():
            if isinstance(tokenizer, OwnTokenizer):
                continue
            name = "vocabulary" if isinstance(tokenizer, Vocabulary) and self.joint else side
            paths[side] = tokenizer.save(folder / name)
            if isinstance(tokenizer, NumberedSubwords):
                paths[f"{side}_numbers"] = tokenizer.save_numbers(folder / ("numbers" if self.joint else side))
        table: dict[str, object] = {"kind": self.source.kind, "joint": self.joint}
        if self.target.kind != self.source.kind:
            table["target_kind"] = self.target.kind
        table["files"] = {side: path.name for side, path in paths.items()}
        table["sha256"] = {side: sha256(path.read_bytes()).hexdigest() for side, path in paths.items()}
        options = {side: t.options() for side, t in sides.items() if isinstance(t, HuggingFaceTokenizer)}
        own = {side: tokenizer.record() for side, tokenizer in sides.items() if isinstance(tokenizer, OwnTokenizer)}
        return table | ({"options": options} if options else {}) | ({"own": own} if own else {})

    @classmethod
    def load(cls, folder: Path, table: Mapping[str, object], given: "GivenTokenizers | None" = None) -> "Tokenizers":
        """Returns the tokenizers that save() wrote to `folder`. Only data is read, nothing executed.

        `given` are tokenizers of one's own, for a folder that was saved with them.

        Raises CheckpointError where a file is missing or not the one that was saved, the table is malformed, or a
        tokenizer of one's own is not given or another one; ConfigError where one is given that the folder does not ask
        for.
        """
        own = table.get("own")
        own = own if isinstance(own, dict) else {}
        if given is not None and not own:
            raise ConfigError(f"`tokenizer=` is given, but `{folder}` holds a tokenizer itself", "leave it out")
        pair = cls.of(given)

        def loaded(side: str, kind_key: str) -> CompleteTokenizer:
            if table.get(kind_key) != OWN_KIND:
                return _load_side(folder, table, side, kind_key)
            return _own(own.get(side), None if pair is None else pair.target if side == "target" else pair.source)

        if table.get("joint") is True:
            return cls(loaded("tokenizer", "kind"))
        return cls(loaded("source", "kind"), loaded("target", "target_kind" if "target_kind" in table else "kind"))


GivenTokenizers = Tokenizers | Tokenizer | tuple[Tokenizer, Tokenizer]
"""Tokenizers as somebody hands them over: one for both sides, or source and target."""


def _own(record: object, given: CompleteTokenizer | None) -> CompleteTokenizer:
    """Returns the tokenizer of one's own that a folder was saved with, from those that are given."""
    if not isinstance(record, dict):
        raise CheckpointError("the tokenizer's table does not say which `own` one it means", "copy the folder again")
    if not isinstance(given, OwnTokenizer):
        name = shown(str(record.get("class")))
        raise CheckpointError(
            f"the model reads text by a tokenizer of its own, `{name}`, which is not in its folder",
            f"hand it over as `tokenizer=`, as in `load(folder, tokenizer={name.rpartition('.')[2]}(...))`",
        )
    given.check(record)
    return given


def _load_side(folder: Path, table: Mapping[str, object], side: str, kind_key: str) -> CompleteTokenizer:
    kind = table.get(kind_key)
    if kind not in (*SUBWORD_KINDS, *VOCABULARY_KINDS, FOREIGN_KIND, HUGGING_FACE_KIND, NUMBERED_KIND):
        raise CheckpointError(
            f"unknown kind of tokenizer `{shown(kind)}`", "the model may need a newer version of pellucid"
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
        return NumberedSubwords.from_files(data, _read(folder, table, f"{side}_numbers")[1], str(path))
    return Subwords(data, str(kind), str(path))


def _read(folder: Path, table: Mapping[str, object], part: str) -> tuple[Path, bytes]:
    """Returns a file of the tokenizers, checked against what was saved."""
    name, digest = _entry(table, "files", part), _entry(table, "sha256", part)
    if name in ("", ".", "..") or set(name) & set("/\\:\0"):
        raise CheckpointError(
            f"the tokenizer's file `{shown(name)}` must lie in the model's folder", "give a plain file name"
        )
    path = folder / name
    data = read_bytes(path, MOST_TOKENIZER_BYTES)
    if sha256(data).hexdigest() != digest:
        raise CheckpointError(
            f"`{path}` ({len(data)} bytes) is not the file that was saved with the model: its SHA-256 is not "
            f"{shown(digest)}",
            "copy the model's folder again",
        )
    return path, data


def _entry(table: Mapping[str, object], key: str, side: str) -> str:
    entries = table.get(key)
    value = entries.get(side) if isinstance(entries, dict) else None
    if not isinstance(value, str):
        raise CheckpointError(f"the tokenizer's table has no `{key}.{side}`", "copy the model's folder again")
    return value
