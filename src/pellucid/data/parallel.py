"""A parallel corpus in its files: two with a line for each sentence, or one with both sides."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

from pellucid.config import DataConfig
from pellucid.config.data import OnBadUtf8, language_tag
from pellucid.data.containers import ENDINGS, holds_pairs, is_container, read_container
from pellucid.data.faults import Fault
from pellucid.data.lines import bad_byte, read_mended_lines
from pellucid.errors import ConfigError, DataError, shown

JSON_LINES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
BOTH_SIDES = (".tsv", ".tsv.gz", ".tsv.zst", *JSON_LINES, *ENDINGS)


def holds_both_sides(path: str) -> bool:
    """Tells whether a file, by its name, may hold source and target; a folder of `datasets` does."""
    return path.lower().endswith(BOTH_SIDES) or is_container(path)


def from_columns(line: str, place: str, columns: Sequence[int]) -> list[str]:
    """Returns the sides in those columns, counted from 1. Tabs separate them; nothing is quoted.

    Raises DataError at `place`, "line 5 of `x.tsv`", where there are too few.
    """
    cells = line.split("\t")
    if len(cells) < max(columns):
        raise DataError(
            f"{place} has {len(cells)} column{'s' * (len(cells) > 1)}, but source and target are columns "
            f"{columns[0]} and {columns[1]}",
            "columns are separated by tabs; `data.tsv_columns` says which ones are read",
        )
    return [cells[column - 1] for column in columns]


def from_json(line: str, place: str, keys: Sequence[str]) -> list[str]:
    """Returns the strings under those keys of an object. Raises DataError at `place` where it has none."""
    try:
        table = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not JSON: {error}", "each line must be an object of its own") from error
    return [_string(table, key, place) for key in keys]


def _string(table: Any, key: str, place: str) -> str:
    """Returns the string under a key, dots leading into tables within the table."""
    value = table
    for part in [key] if isinstance(table, dict) and key in table else key.split("."):
        if not isinstance(value, dict) or part not in value:
            found = f"its keys: {', '.join(value)}" if isinstance(value, dict) else f"it is {_shown(value)}"
            raise DataError(f"{place} has no `{key}`; {found}", "`data.jsonl_keys` says which ones are read")
        value = value[part]
    if not isinstance(value, str):
        raise DataError(f"`{key}` in {place} is {_shown(value)}, not a string", "give both sides as JSON strings")
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}..."


END = "\n"
"""Stands for a line that the shorter of two files lacks; no line is equal to it."""

Side = str | None
"""A sentence; None where it is left out since it is not UTF-8."""


class Note(Protocol):
    """A callable that is told of each fault that is mended in reading."""

    def __call__(self, fault: Fault, path: str, line: int, detail: str) -> None: ...


def unheard(fault: Fault, path: str, line: int, detail: str) -> None:
    """Takes note of nothing, for a reader who knows the faults already."""


@dataclass(frozen=True)
class ParallelText:
    """The place of a corpus; `tgt` is empty where `src` holds both sides."""

    src: str
    tgt: str
    tsv_columns: tuple[int, ...] = (1, 2)
    jsonl_keys: tuple[str, ...] = ("src", "tgt")
    alone: bool = False
    """There is one side, which is read for both: a language model's text."""
    tag: str = ""
    """Stands before each source in training."""
    pair: str = ""
    """Its languages, as in "de-en"; empty: not named."""

    def __str__(self) -> str:
        return f"`{self.src}` and `{self.tgt}`" if self.tgt else f"`{self.src}`"

    @property
    def tgt_file(self) -> str:
        """Returns the file in which the targets stand."""
        return self.tgt or self.src

    @property
    def is_json(self) -> bool:
        """Tells whether `src` holds both sides as JSON lines."""
        return not self.tgt and not self.alone and self.src.lower().endswith(JSON_LINES)

    def pairs(self, on_bad_utf8: OnBadUtf8, note: Note = unheard, skip: int = 0) -> Iterator[tuple[Side, Side]]:
        """Yields the pairs in their order, as many as the longer file has lines, with END for what the shorter one
        lacks. The first `skip` are passed over.

        Raises DataError for a file that is not there or damaged, and for a line that is not of its format.
        """
        if not self.tgt and is_container(self.src):
            yield from self._contained(on_bad_utf8, note, skip)
            return
        if self.alone:
            yield from ((line, line) for line in _lines(self.src, on_bad_utf8, note, skip))
            return
        if self.tgt:
            sides = (_lines(path, on_bad_utf8, note, skip) for path in (self.src, self.tgt))
            yield from zip_longest(*sides, fillvalue=END)
            return
        for number, line in enumerate(_lines(self.src, on_bad_utf8, note, skip), start=skip + 1):
            if line is None:
                yield None, None
            elif not line.strip():  # an empty pair, so that numbers stay those of the file
                yield "", ""
            elif self.is_json:
                yield self._from_json(line, number, on_bad_utf8, note)
            else:
                source, target = from_columns(line, _place(number, self.src), self.tsv_columns)
                yield source, target

    def sources(self) -> Iterator[str]:
        """Yields the sources alone, with U+FFFD for what is not UTF-8; the targets need not be there."""
        if self.tgt or not holds_both_sides(self.src) or (self.alone and not is_container(self.src)):
            sides: Iterator[Side] = _lines(self.src, "replace", unheard)
        else:
            sides = (source for source, _ in self.pairs("replace"))
        return (side or "" for side in sides)

    def _contained(self, on_bad_utf8: OnBadUtf8, note: Note, skip: int) -> Iterator[tuple[Side, Side]]:
        """Yields the pairs of a container; a line's end within a text becomes a space, which `note` hears of."""
        keys = self.jsonl_keys[: 1 if self.alone else 2]

        def told(number: int, error: UnicodeDecodeError) -> None:
            note("utf8", self.src, number, bad_byte(error))

        rows = read_container(self.src, keys, on_bad_utf8, told, skip)
        for number, row in enumerate(rows, start=skip + 1):
            sides: list[Side] = []
            for text in row:
                if text is not None and ("\n" in text or "\r" in text):
                    note("line_break", self.src, number, "")
                    text = text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
                sides.append(text if text is None else without_halves(text, self.src, number, on_bad_utf8, note))
            yield sides[0], sides[1]

    def _from_json(self, line: str, number: int, on_bad_utf8: OnBadUtf8, note: Note) -> tuple[Side, Side]:
        found = from_json(line, _place(number, self.src), self.jsonl_keys)
        if broken := [key for key, text in zip(self.jsonl_keys, found, strict=True) if "\n" in text]:
            note("line_break", self.src, number, f"in `{'` and `'.join(broken)}`")
        # What reads the model's output takes lines.
        lines = (text.replace("\r\n", " ").replace("\n", " ") for text in found)
        source, target = (without_halves(text, self.src, number, on_bad_utf8, note) for text in lines)
        return source, target


def parallel_texts(data: DataConfig, *, alone: bool = False) -> tuple[ParallelText, ...]:
    """Returns the corpora to train on. Raises ConfigError where their files, or their weights, do not go together.

    `alone` says that there are no targets: each text is its own.
    """
    texts = _alone(data, "src", "tgt") if alone else _paired(data, "src", "tgt")
    mixes = len(data.weights_from) or 1
    if data.weights and len(data.weights) != mixes * len(texts):
        times = f", {mixes} times, as `data.weights_from` ({list(data.weights_from)}) says" if mixes > 1 else ""
        raise ConfigError(
            f"`data.weights` ({list(data.weights)}) must be as many as the corpora ({len(texts)}){times}",
            "give a weight for each file in `data.src`",
        )
    if data.tgt_lang:
        return tuple(map(_between, texts, data.pairs(len(texts))))
    if not data.tags:
        return texts
    if alone or len(data.tags) != len(texts):
        raise ConfigError(
            f"`data.tags` ({list(data.tags)}) "
            + ("mean nothing to texts alone" if alone else f"must be as many as the corpora ({len(texts)})"),
            "leave them out" if alone else "give a tag for each file in `data.src`",
        )
    return tuple(replace(text, tag=tag) for text, tag in zip(texts, data.tags, strict=True))


def held_out_text(data: DataConfig, name: str, *, alone: bool = False) -> ParallelText | None:
    """Returns the text named "valid" or "test", or None; of several the first one.

    Raises ConfigError where one of its sides is missing.
    """
    return next(iter(held_out_texts(data, name, alone=alone)), None)


def held_out_texts(data: DataConfig, name: str, *, alone: bool = False) -> tuple[ParallelText, ...]:
    """Returns the texts named "valid" or "test", each with its languages where there are some to validate on.

    Raises ConfigError where a side is missing, or it does not show which pair of languages a text is of.
    """
    src, tgt = f"{name}_src", f"{name}_tgt"
    if not (data.files(src) or data.files(tgt)):
        return ()
    texts = (_alone if alone else _paired)(data, src, tgt)
    if not data.tgt_lang or name != "valid":
        return texts
    of_corpora = data.pairs(len(data.files("src")))
    pairs = tuple(dict.fromkeys(of_corpora))
    if len(texts) not in (len(pairs), len(of_corpora)):
        raise ConfigError(
            f"`data.{src}` names {len(texts)} text{'s' * (len(texts) > 1)} for {len(pairs)} pairs of languages: "
            f"{', '.join(map('-'.join, pairs))}",
            "give one for each of them, in this order, or none: some are then cut off the training text",
        )
    return tuple(map(_between, texts, pairs if len(texts) == len(pairs) else of_corpora))


def _between(text: ParallelText, languages: tuple[str, str]) -> ParallelText:
    """Returns the text with the pair that it is of, and the tag of its target's language before each source."""
    return replace(text, pair="-".join(languages), tag=language_tag(languages[1]))


def _alone(data: DataConfig, src: str, tgt: str) -> tuple[ParallelText, ...]:
    """Returns each source file by itself. Raises ConfigError where there is none, or a target."""
    if data.files(tgt) or not data.files(src):
        reason = f"is given ({', '.join(data.files(tgt))})" if data.files(tgt) else "is not given"
        raise ConfigError(
            f"`data.{tgt if data.files(tgt) else src}` {reason}",
            f"a language model reads the texts of `data.{src}`, and nothing else",
        )
    return tuple(ParallelText(path, "", data.tsv_columns, data.jsonl_keys, alone=True) for path in data.files(src))


def _paired(data: DataConfig, src: str, tgt: str) -> tuple[ParallelText, ...]:
    """Returns each source file with its target: the targets go, in their order, to the sources that need one.

    As many targets as sources go one to one, so that two files which happen to be called .tsv are lines of text.
    """
    sources, targets = data.files(src), data.files(tgt)
    one_to_one = len(sources) == len(targets)
    needing = [path for path in sources if one_to_one or not holds_both_sides(path)]
    if not sources or (needing and not targets):
        raise ConfigError(
            f"`data.{tgt if sources else src}` is not given",
            f"a parallel corpus needs a source and a target file, or one that holds both: {', '.join(BOTH_SIDES)}",
        )
    if len(needing) != len(targets):
        raise ConfigError(
            f"`data.{src}` names {len(needing)} files that need a target, but `data.{tgt}` names {len(targets)}",
            "give a target for each source, in the same order",
        )
    remaining = iter(targets)
    sides = [(path, next(remaining) if path in needing else "") for path in sources]
    for source, target in sides:
        if target and (both := next(filter(holds_pairs, (source, target)), None)):
            named, beside, whole = (shown(Path(path)) for path in (source, target, both))
            raise ConfigError(
                f"`data.{src}` names `{named}` and `data.{tgt}` `{beside}` for it, but `{whole}` holds both sides by "
                "itself",
                f"name it in `data.{src}` alone, and leave its target out",
            )
    return tuple(ParallelText(source, target, data.tsv_columns, data.jsonl_keys) for source, target in sides)


def _lines(path: str, on_bad_utf8: OnBadUtf8, note: Note, skip: int = 0) -> Iterator[Side]:
    return read_mended_lines(path, on_bad_utf8, lambda number, error: note("utf8", path, number, bad_byte(error)), skip)


def without_halves(text: str, path: str, number: int, on_bad_utf8: OnBadUtf8, note: Note) -> Side:
    r"""Returns text without half of a UTF-16 pair, such as "\ud800", which JSON can write and UTF-8 cannot."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X} is half of a character"
        if on_bad_utf8 == "error":
            raise DataError(f"{_place(number, path)} is not Unicode: {half}", "see `data.on_bad_utf8`") from error
        note("utf8", path, number, half)
        mended = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return mended if on_bad_utf8 == "replace" else None


def _place(number: int, path: str) -> str:
    return f"line {number:,} of `{path}`"
