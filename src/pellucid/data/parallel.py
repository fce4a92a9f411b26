"""A parallel corpus in files: two files with one sentence per line, or one file with both sides."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pellucid.config import DataConfig
from pellucid.config.data import OnBadUtf8, language_tag
from pellucid.data.containers import ENDINGS, holds_pairs, is_container, read_container
from pellucid.data.issues import IssueCallback, ignore_issue
from pellucid.data.lines import note_bytes, read_lines_lenient
from pellucid.data.tables import NO_PAIR, TextTable
from pellucid.errors import ConfigError, DataError, format_list, format_value
from pellucid.files.budget import MOST_TEXT_BYTES
from pellucid.files.formats import detect_format

JSON_LINES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
BOTH_SIDES = (".tsv", ".tsv.gz", ".tsv.zst", *JSON_LINES, *ENDINGS)


def holds_both_sides(path: str) -> bool:
    """Returns True if a file, by its name, may contain source and target; a folder of `datasets` does."""
    return path.lower().endswith(BOTH_SIDES) or is_container(path)


def from_json(line: str, place: str, keys: Sequence[str]) -> list[str]:
    """Returns the strings under `keys` of an object. Raises DataError with `place` if one is missing."""
    try:
        table = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not JSON: {error}", "each line must be one JSON object") from error
    return [_get_string(table, key, place) for key in keys]


def _get_string(table: Any, key: str, place: str) -> str:
    """Returns the string under a key; dots separate the keys of nested tables."""
    value = table
    for part in [key] if isinstance(table, dict) and key in table else key.split("."):
        if not isinstance(value, dict) or part not in value:
            found = (
                f"its keys: {format_list(value)}" if isinstance(value, dict) else f"it is {_format_json_value(value)}"
            )
            raise DataError(
                f"{place} has no `{key}`; {found}", "select the source and the target with `data.jsonl_keys`"
            )
        value = value[part]
    if not isinstance(value, str):
        raise DataError(
            f"`{key}` in {place} is {_format_json_value(value)}, not a string", "write both sides as JSON strings"
        )
    return value


def _other_keys(table: dict[str, Any], keys: Sequence[str]) -> list[str]:
    """Returns the unread keys of an object, and of each nested table with a key that is read."""
    others = []
    for name, value in table.items():
        inner = [key.partition(".")[2] for key in keys if key.partition(".")[0] == name and key != name]
        if inner and isinstance(value, dict):
            others += [f"{name}.{other}" for other in _other_keys(value, inner)]
        elif name not in keys:
            others.append(name)
    return others


def _format_json_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}..."


MOST_NAMED = 3
"""Texts at most that a message names one by one."""
END = "\n"
"""Represents a line that is missing in the shorter of two files; no line is equal to it."""

Side = str | None
"""A sentence; None if it is dropped because it is not UTF-8."""


@dataclass(frozen=True)
class ParallelText:
    """The files of a corpus; `tgt` is empty if `src` contains both sides."""

    src: str
    tgt: str
    tsv_columns: tuple[int, ...] = (1, 2)
    jsonl_keys: tuple[str, ...] = ("src", "tgt")
    alone: bool = False
    """True if there is one side, which is read for both: a language model's text."""
    tag: str = ""
    """The tag prepended to each source in training."""
    pair: str = ""
    """The language pair, as in "de-en"; empty if not named."""

    def __str__(self) -> str:
        return f"`{self.src}` and `{self.tgt}`" if self.tgt else f"`{self.src}`"

    @property
    def tgt_file(self) -> str:
        """Returns the file that contains the targets."""
        return self.tgt or self.src

    @property
    def is_json(self) -> bool:
        """Returns True if `src` contains both sides as JSON lines."""
        return not self.tgt and not self.alone and self.src.lower().endswith(JSON_LINES)

    def pairs(
        self, on_bad_utf8: OnBadUtf8, note: IssueCallback = ignore_issue, skip: int = 0
    ) -> Iterator[tuple[Side, Side]]:
        """Yields the pairs in their order, one per line of the longer file, with END for the lines that the shorter one
        lacks. The first `skip` pairs are skipped.

        Raises DataError for a missing or damaged file, and for a malformed line.
        """
        if not self.tgt and is_container(self.src):
            yield from self._read_container(on_bad_utf8, note, skip)
            return
        if self.alone:
            yield from ((line, line) for line in _lines(self.src, on_bad_utf8, note, skip))
            return
        if self.tgt:
            lines = (_lines(path, on_bad_utf8, note, skip) for path in (self.src, self.tgt))
            yield from zip_longest(*lines, fillvalue=END)
            return
        rows = read_lines_lenient(self.src, on_bad_utf8, note_bytes(self.src, note), skip, MOST_TEXT_BYTES)
        table = (
            TextTable(self.src, self.tsv_columns) if self.is_json else TextTable.from_file(self.src, self.tsv_columns)
        )
        for number, line in enumerate(rows, start=skip + 1):
            if line is None:
                yield None, None
            elif not line.strip():
                yield NO_PAIR
            elif self.is_json:
                yield self._from_json(line, number, on_bad_utf8, note)
            else:
                sides = table.sides(line, number, note)
                yield sides[0], sides[1]

    def replace_sides(self, row: str, sides: Sequence[str]) -> str:
        """Returns a row of the file, a line of TSV or JSON, with `sides` replaced; the rest of the row is unchanged."""
        if self.alone:
            return sides[0]
        if not self.is_json:
            cells = row.split("\t")
            for column, side in zip(self.tsv_columns, sides, strict=True):
                cells[column - 1] = side.replace("\t", " ")
            return "\t".join(cells)
        table = json.loads(row)
        for key, side in zip(self.jsonl_keys, sides, strict=True):
            parts = [key] if key in table else key.split(".")
            within = table
            for part in parts[:-1]:
                within = within[part]
            within[parts[-1]] = side
        return json.dumps(table, ensure_ascii=False)

    def sources(self) -> Iterator[str]:
        """Yields the sources only, with U+FFFD for bytes that are not UTF-8; the targets need not exist."""
        if self.tgt or not holds_both_sides(self.src) or (self.alone and not is_container(self.src)):
            sides: Iterator[Side] = _lines(self.src, "replace", ignore_issue)
        else:
            sides = (source for source, _ in self.pairs("replace"))
        return (side or "" for side in sides)

    def _read_container(self, on_bad_utf8: OnBadUtf8, note: IssueCallback, skip: int) -> Iterator[tuple[Side, Side]]:
        """Yields the pairs of a container; a line break within a text is replaced by a space and reported to `note`."""
        keys = self.jsonl_keys[: 1 if self.alone else 2]

        rows = read_container(self.src, keys, on_bad_utf8, note, skip)
        for number, row in enumerate(rows, start=skip + 1):
            sides: list[Side] = []
            for text in row:
                if text is not None and ("\n" in text or "\r" in text):
                    note("line_break", self.src, number, "")
                    text = text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
                sides.append(text if text is None else fix_lone_surrogates(text, self.src, number, on_bad_utf8, note))
            yield sides[0], sides[1]

    def _from_json(self, line: str, number: int, on_bad_utf8: OnBadUtf8, note: IssueCallback) -> tuple[Side, Side]:
        found = from_json(line, _place(number, self.src), self.jsonl_keys)
        if number == 1:
            others = _other_keys(json.loads(line), self.jsonl_keys)
            for place, _ in enumerate(others):
                note("others", self.src, 0, f"the keys {format_list(others)}" if place == 0 else "", "parts")
        if broken := [key for key, text in zip(self.jsonl_keys, found, strict=True) if "\n" in text]:
            note("line_break", self.src, number, f"in `{'` and `'.join(broken)}`")
        # Readers of the model's output expect lines.
        lines = (text.replace("\r\n", " ").replace("\n", " ") for text in found)
        source, target = (fix_lone_surrogates(text, self.src, number, on_bad_utf8, note) for text in lines)
        return source, target


def describe_texts(texts: Sequence[ParallelText]) -> str:
    """Returns a description of texts for a message: both files of each; for many texts, file count and first text."""
    if len(texts) <= MOST_NAMED:
        return " and ".join(map(str, texts))
    files = sum(1 + bool(text.tgt) for text in texts)
    return f"{files:,} files ({texts[0]} ...)"


def parallel_texts(data: DataConfig, *, alone: bool = False) -> tuple[ParallelText, ...]:
    """Returns the training corpora. Raises ConfigError if their files or their weights do not match.

    If `alone`, there are no targets: each text is its own target.
    """
    texts = _list_sources(data, "src", "tgt") if alone else _pair_files(data, "src", "tgt")
    mixes = len(data.corpus_weights_from) or 1
    if data.corpus_weights and len(data.corpus_weights) != mixes * len(texts):
        times = (
            f", {mixes} times, for `data.corpus_weights_from` ({list(data.corpus_weights_from)})" if mixes > 1 else ""
        )
        raise ConfigError(
            f"`data.corpus_weights` ({list(data.corpus_weights)}) must have one value per corpus ({len(texts)}){times}",
            "set one weight per file in `data.src=`",
        )
    if data.tgt_lang:
        return tuple(map(_between, texts, data.pairs(len(texts))))
    if not data.corpus_tags:
        return texts
    if alone or len(data.corpus_tags) != len(texts):
        raise ConfigError(
            f"`data.corpus_tags` ({list(data.corpus_tags)}) "
            + ("have no effect on monolingual texts" if alone else f"must have one value per corpus ({len(texts)})"),
            "leave them out" if alone else "set one tag per file in `data.src=`",
        )
    return tuple(replace(text, tag=tag) for text, tag in zip(texts, data.corpus_tags, strict=True))


def get_held_out_text(data: DataConfig, name: str, *, alone: bool = False) -> ParallelText | None:
    """Returns the text named "valid" or "test", or None; if there are several, the first one.

    Raises ConfigError if one of its sides is missing.
    """
    return next(iter(list_held_out_texts(data, name, alone=alone)), None)


def list_held_out_texts(data: DataConfig, name: str, *, alone: bool = False) -> tuple[ParallelText, ...]:
    """Returns the texts named "valid" or "test"; validation texts with their language pairs, if these are named.

    Raises ConfigError if a side is missing, or the language pair of a text is ambiguous.
    """
    src, tgt = f"{name}_src", f"{name}_tgt"
    if not (data.files(src) or data.files(tgt)):
        return ()
    texts = (_list_sources if alone else _pair_files)(data, src, tgt)
    if not data.tgt_lang or name != "valid":
        return texts
    of_corpora = data.pairs(len(data.files("src")))
    pairs = tuple(dict.fromkeys(of_corpora))
    if len(texts) not in (len(pairs), len(of_corpora)):
        raise ConfigError(
            f"`data.{src}=` names {len(texts)} text{'s' * (len(texts) > 1)} for {len(pairs)} pairs of languages: "
            f"{', '.join(map('-'.join, pairs))}",
            "name one for each language pair, in this order, or none: the validation pairs are then split off the "
            "training text",
        )
    return tuple(map(_between, texts, pairs if len(texts) == len(pairs) else of_corpora))


def _between(text: ParallelText, languages: tuple[str, str]) -> ParallelText:
    """Returns the text with its language pair, and with the tag of its target language for each source."""
    return replace(text, pair="-".join(languages), tag=language_tag(languages[1]))


def _check_formats(paths: Sequence[str], *, alone: bool) -> None:
    """Raises DataError for a file that is a document or an archive of an unsupported format."""
    for path in paths:
        found = detect_format(path)
        if found is None or found.is_lines or (alone and found.is_text) or Path(path).is_dir():
            continue
        if not found.is_corpus:
            advice = found.to_text if alone else found.to_pairs or found.to_text
            raise DataError(f"`{format_value(Path(path))}` is {found.name}, not lines of text", advice)
        if not is_container(path):
            endings = " or ".join(found.endings)
            raise DataError(f"`{format_value(Path(path))}` is {found.name}", f"rename it so that it ends in {endings}")


def _list_sources(data: DataConfig, src: str, tgt: str) -> tuple[ParallelText, ...]:
    """Returns each source file by itself. Raises ConfigError if there is none, or if there is a target."""
    if data.files(tgt) or not data.files(src):
        reason = f"is given ({', '.join(data.files(tgt))})" if data.files(tgt) else "is not given"
        raise ConfigError(
            f"`data.{tgt if data.files(tgt) else src}=` {reason}",
            f"a language model uses the texts of `data.{src}=` alone",
        )
    _check_formats(data.files(src), alone=True)
    return tuple(ParallelText(path, "", data.tsv_columns, data.jsonl_keys, alone=True) for path in data.files(src))


def _pair_files(data: DataConfig, src: str, tgt: str) -> tuple[ParallelText, ...]:
    """Returns each source file with its target: the targets are assigned, in order, to the sources that need one.

    If there are as many targets as sources, they are paired one to one, so that two .tsv files are lines of text.
    """
    sources, targets = data.files(src), data.files(tgt)
    _check_formats([*sources, *targets], alone=False)
    one_to_one = len(sources) == len(targets)
    needing = [path for path in sources if one_to_one or not holds_both_sides(path)]
    if not sources or (needing and not targets):
        raise ConfigError(
            f"`data.{tgt if sources else src}=` is not given",
            "a parallel corpus requires a source and a target file, or one file with both sides: "
            f"{', '.join(BOTH_SIDES)}",
        )
    if len(needing) != len(targets):
        raise ConfigError(
            f"`data.{src}=` names {len(needing)} files that require a target, but `data.{tgt}=` names {len(targets)}",
            "name a target for each source, in the same order",
        )
    remaining = iter(targets)
    sides = [(path, next(remaining) if path in needing else "") for path in sources]
    for source, target in sides:
        if target and (both := next(filter(holds_pairs, (source, target)), None)):
            named, named_target, whole = (format_value(Path(path)) for path in (source, target, both))
            raise ConfigError(
                f"`data.{src}=` names `{named}` and `data.{tgt}=` `{named_target}` for it, but `{whole}` holds both "
                "sides",
                f"name it in `data.{src}=` alone, and leave its target out",
            )
    return tuple(ParallelText(source, target, data.tsv_columns, data.jsonl_keys) for source, target in sides)


def _lines(path: str, on_bad_utf8: OnBadUtf8, note: IssueCallback, skip: int = 0) -> Iterator[Side]:
    return read_lines_lenient(path, on_bad_utf8, note_bytes(path, note), skip)


def fix_lone_surrogates(text: str, path: str, number: int, on_bad_utf8: OnBadUtf8, note: IssueCallback) -> Side:
    r"""Returns text without lone UTF-16 surrogates, such as "\ud800", which JSON can encode and UTF-8 cannot."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X} is a lone surrogate"
        if on_bad_utf8 == "error":
            raise DataError(f"{_place(number, path)} is not Unicode: {half}", "see `data.on_bad_utf8`") from error
        note("utf8", path, number, half)
        repaired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return repaired if on_bad_utf8 == "replace" else None


def _place(number: int, path: str) -> str:
    return f"line {number:,} of `{path}`"
