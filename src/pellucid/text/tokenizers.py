"""The tokenizers of a model, source and target, and their files in its folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Self

from pellucid.errors import CheckpointError, shown
from pellucid.files.reading import MOST_TOKENIZER_BYTES, read_bytes
from pellucid.text.hugging_face import HUGGING_FACE_KIND, HuggingFaceTokenizer
from pellucid.text.numbered import NUMBERED_KIND, NumberedSubwords
from pellucid.text.subwords import FOREIGN_KIND, SUBWORD_KINDS, Subwords
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.vocabulary import VOCABULARY_KINDS, Vocabulary


@dataclass(frozen=True)
class Tokenizers:
    """How a model reads its source and writes its target; one object for both where the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """One vocabulary for both sides."""
        return self.source is self.target

    def save(self, folder: Path) -> dict[str, object]:
        """Writes `tokenizer.*`, or `source.*` and `target.*`, and returns the table that load() reads.

        `tokenizer.json` is the name of another format: a joint vocabulary is called `vocabulary.json`, the ids of a
        joint SentencePiece model's pieces `numbers.json`.

        The table can be written as JSON: {"kind": "bpe", "joint": true, "files": {"tokenizer": "tokenizer.model"},
        "sha256": {"tokenizer": "..."}}; a target of its own kind adds "target_kind". Of somebody else's tokenizers
        `tokenizer.json` adds "options", a SentencePiece model with other ids a second file, `tokenizer_numbers`.
        """
        sides = {"tokenizer": self.source} if self.joint else {"source": self.source, "target": self.target}
        paths = {}
        for side, tokenizer in sides.items():
            own = isinstance(tokenizer, Vocabulary) and self.joint
            paths[side] = tokenizer.save(folder / ("vocabulary" if own else side))
            if isinstance(tokenizer, NumberedSubwords):
                paths[f"{side}_numbers"] = tokenizer.save_numbers(folder / ("numbers" if self.joint else side))
        table: dict[str, object] = {"kind": self.source.kind, "joint": self.joint}
        if self.target.kind != self.source.kind:
            table["target_kind"] = self.target.kind
        table["files"] = {side: path.name for side, path in paths.items()}
        table["sha256"] = {side: sha256(path.read_bytes()).hexdigest() for side, path in paths.items()}
        options = {side: t.options() for side, t in sides.items() if isinstance(t, HuggingFaceTokenizer)}
        return table | ({"options": options} if options else {})

    @classmethod
    def load(cls, folder: Path, table: Mapping[str, object]) -> Self:
        """The tokenizers that save() wrote to `folder`. Only data is read, nothing executed.

        Raises CheckpointError where a file is missing or not the one that was saved, or the table is malformed.
        """
        if table.get("joint") is True:
            tokenizer = _load_side(folder, table, "tokenizer", "kind")
            return cls(tokenizer, tokenizer)
        target_kind = "target_kind" if "target_kind" in table else "kind"
        return cls(_load_side(folder, table, "source", "kind"), _load_side(folder, table, "target", target_kind))


def _load_side(folder: Path, table: Mapping[str, object], side: str, kind_key: str) -> Tokenizer:
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
    """The file of a part of the tokenizers, checked against what was saved."""
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
