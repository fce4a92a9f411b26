"""Texts that a program hands over in place of files: pairs from Python, or the rows of a `datasets` object."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.config import DataConfig
from pellucid.config.data import OnBadUtf8
from pellucid.data.parallel import Note, ParallelText, Side, unheard, without_halves
from pellucid.errors import ConfigError, DataError, shown

SPLITS: dict[str, tuple[str, ...]] = {"train": ("train",), "valid": ("validation", "valid", "dev"), "test": ("test",)}
"""The names that the parts of a data set may have."""
COLUMNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "translate": (("src", "tgt"), ("source", "target")),
    "classify": (("text", "label"), ("sentence", "label"), ("src", "tgt")),
    "generate": (("text",), ("sentence",), ("src",)),
}
"""By task, what the columns of a table may be called that hold a text and its translation or label."""
ROWS = {
    "translate": "a pair (source, target)",
    "classify": "a pair (text, label)",
    "generate": "a text",
}


@dataclass(frozen=True)
class _Seen:
    """The texts' number and digest when they were first read to the end."""

    count: int
    digests: tuple[str, str]


@dataclass(frozen=True)
class GivenText(ParallelText):
    """Rows that can be read again and again; `src` is what messages call them.

    A row is a pair or, where texts stand alone, a string; or a table with columns as COLUMNS has them, as
    `data.jsonl_keys` names them, or {"translation": {"de": ..., "en": ...}}.
    """

    rows: Iterable[Any] = ()
    task: str = "translate"
    languages: tuple[str, ...] = ()
    """The languages of source and target, by which a table {"translation": ...} is read; empty: as they stand there."""
    _seen: list[_Seen] = field(default_factory=list, compare=False)

    def __str__(self) -> str:
        return f"`{self.src}`"

    @property
    def is_json(self) -> bool:
        """False: the rows are Python's."""
        return False

    def pairs(self, on_bad_utf8: OnBadUtf8, note: Note = unheard, skip: int = 0) -> Iterator[tuple[Side, Side]]:
        """Yields the rows behind the first `skip` as pairs.

        A line's end within a text becomes a space, and `note` hears of it.

        Raises DataError for a row that is not one of this task, or where the rows are others than the first time: a run
        that goes on reads them again.
        """
        number, seen = 0, self._seen[0] if self._seen else None
        hashes = hashlib.sha256(), hashlib.sha256()
        for number, row in enumerate(self.rows, start=1):
            found: list[Side] = []
            for text, digest in zip(self._sides(row, number), hashes, strict=True):
                digest.update(f"{text}\n".encode("utf-8", "surrogatepass"))
                if "\n" in text and self.task != "running":
                    note("line_break", self.src, number, "")
                    text = text.replace("\r\n", " ").replace("\n", " ")
                found.append(without_halves(text, self.src, number, on_bad_utf8, note))
            if seen is not None and number == seen.count:
                self._check_same(number, hashes, seen)
            if number > skip:
                yield found[0], found[1]
        if seen is None:
            self._seen.append(_Seen(number, (hashes[0].hexdigest(), hashes[1].hexdigest())))
        elif number < seen.count:
            self._check_same(number, hashes, seen)

    def sources(self) -> Iterator[str]:
        """Yields the sources alone."""
        return (source or "" for source, _ in self.pairs("replace"))

    @property
    def digests(self) -> tuple[str, str]:
        """The SHA-256 of both sides: those of files with these lines."""
        if not self._seen:
            for _ in self.pairs("replace"):
                pass
        return self._seen[0].digests

    def _check_same(self, number: int, hashes: Sequence[Any], seen: _Seen) -> None:
        if number != seen.count or tuple(each.hexdigest() for each in hashes) != seen.digests:
            raise DataError(
                f"{self} gave other rows when it was read again: training reads its texts several times",
                "hand over what gives the same rows in the same order each time, such as a list",
            )

    def _sides(self, row: Any, number: int) -> tuple[str, str]:
        """Returns both sides of a row; of a text alone, the text twice."""
        place, task = f"row {number:,} of {self}", "generate" if self.alone else self.task
        if isinstance(row, Mapping):
            texts = self._columns(row, place, task)
        elif self.alone and isinstance(row, str):
            texts = [row]
        elif isinstance(row, Sequence) and not isinstance(row, str | bytes) and len(row) == (1 if self.alone else 2):
            texts = list(row)
        else:
            raise DataError(f"{place} is {shown(row)}, not {ROWS[task]}", f"each row is {ROWS[task]}, or a table")
        if task == "classify":
            texts[1] = self._label(texts[1])
        for text in texts:
            if not isinstance(text, str):
                raise DataError(f"{place} holds {shown(text)}, which is not a text", f"each row is {ROWS[task]}")
        return texts[0], texts[-1]

    def _columns(self, row: Mapping[str, Any], place: str, task: str) -> list[Any]:
        """Returns what stands in the columns of a row that is a table."""
        named = self.jsonl_keys if self.jsonl_keys != DataConfig().jsonl_keys else None
        for columns in (named[: 1 if self.alone else 2],) if named else COLUMNS[task]:
            values = [_value(row, column) for column in columns]
            if all(value is not None for value in values):
                return values
        table = row.get("translation")
        if named is None and task == "translate" and isinstance(table, Mapping) and len(table) >= 2:
            codes = self.languages if set(self.languages) <= set(table) else ()
            return [table[code] for code in (codes or tuple(table))[:2]]
        raise DataError(
            f"{place} has the columns {', '.join(f'`{name}`' for name in row)}: which hold {ROWS[task]} is not known",
            'name them by `data.jsonl_keys`, as in ["question", "answer"]',
        )

    def _label(self, label: Any) -> Any:
        """Returns the name of a label that is a number: that of the data set's own, where it has names."""
        if isinstance(label, str) or not hasattr(label, "__index__"):
            return label
        features = getattr(self.rows, "features", None)
        for column in ("label", "labels"):
            names = getattr(features.get(column), "names", None) if isinstance(features, Mapping) else None
            if names and 0 <= int(label) < len(names):
                return str(names[int(label)])
        return str(int(label))


def _value(row: Mapping[str, Any], column: str) -> Any:
    """Returns what stands in a column, dots leading into tables within the row; None where there is nothing."""
    value: Any = row
    for part in [column] if column in row else column.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def given_texts(data: Any, settings: DataConfig, task: str, languages: tuple[str, ...] = ()) -> dict[str, GivenText]:
    """Returns the parts of `data` by name, "train" and perhaps "valid" and "test", as texts to train on.

    Args:
        data: what gives rows each time it is iterated over; or a mapping with a "train" and perhaps a "validation" and
            a "test", as a DatasetDict is.
        languages: the codes of source and target.

    Raises ConfigError for what can be read once alone, or is not iterable at all.
    """
    splits: dict[str, Any] = {"train": data}
    if isinstance(data, Mapping):
        splits = {name: data[key] for name, keys in SPLITS.items() for key in keys if key in data}
        if "train" not in splits:
            raise ConfigError(
                f"`data` is a mapping of {', '.join(f'`{shown(key)}`' for key in data)}, without a `train`",
                'hand over pairs, or {"train": pairs, "validation": pairs}',
            )
    for rows in splits.values():
        if not isinstance(rows, Iterable) or isinstance(rows, str | bytes):
            raise ConfigError(
                f"`data` is {shown(rows)}, which gives no rows", f"hand over an iterable, each row {ROWS[task]}"
            )
        if iter(rows) is rows:
            raise ConfigError(
                f"`data` is a {type(rows).__name__}, which can be read once, and training reads its texts several "
                "times",
                "hand over a list, or an object whose `__iter__` begins anew",
            )
    alone = task == "generate"
    return {
        name: GivenText(
            "data" if name == "train" else f"data[{name}]", "", jsonl_keys=settings.jsonl_keys, alone=alone, rows=rows,
            task="running" if alone and settings.text == "running" else task, languages=languages,
        )
        for name, rows in splits.items()
    }  # fmt: skip
