"""Texts passed as Python objects instead of files: pairs, or the rows of a `datasets` object."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.config import DataConfig
from pellucid.config.data import OnBadUtf8
from pellucid.data.issues import IssueCallback, ignore_issue
from pellucid.data.parallel import ParallelText, Side, fix_lone_surrogates
from pellucid.errors import ConfigError, DataError, format_value

SPLITS: dict[str, tuple[str, ...]] = {"train": ("train",), "valid": ("validation", "valid", "dev"), "test": ("test",)}
"""The possible names of the parts of a data set."""
COLUMNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "translate": (("src", "tgt"), ("source", "target")),
    "classify": (("text", "label"), ("sentence", "label"), ("src", "tgt")),
    "generate": (("text",), ("sentence",), ("src",)),
}
"""By task, the possible names of the columns of a text and of its translation or label."""
ROWS = {
    "translate": "a pair (source, target)",
    "classify": "a pair (text, label)",
    "generate": "a text",
}


@dataclass(frozen=True)
class _SeenItems:
    """The number and the digests of the texts at their first complete reading."""

    count: int
    digests: tuple[str, str]


@dataclass(frozen=True)
class InMemoryText(ParallelText):
    """Rows that can be read repeatedly; `src` is their name in messages.

    A row is a pair or, for monolingual data, a string; or a table with the columns of COLUMNS, the columns of
    `data.jsonl_keys`, or {"translation": {"de": ..., "en": ...}}.
    """

    rows: Iterable[Any] = ()
    task: str = "translate"
    languages: tuple[str, ...] = ()
    """The languages of source and target in a table {"translation": ...}; if empty, its first two, in order."""
    _seen: list[_SeenItems] = field(default_factory=list, compare=False)

    def __str__(self) -> str:
        return f"`{self.src}`"

    @property
    def is_json(self) -> bool:
        """False: the rows are Python objects."""
        return False

    def pairs(
        self, on_bad_utf8: OnBadUtf8, note: IssueCallback = ignore_issue, skip: int = 0
    ) -> Iterator[tuple[Side, Side]]:
        """Yields the rows after the first `skip` as pairs.

        A line break within a text becomes a space, and is reported to `note`.

        Raises DataError for a row that does not fit the task, or if the rows differ from the first reading: a resumed
        run reads them again.
        """
        number, seen = 0, self._seen[0] if self._seen else None
        hashes = hashlib.sha256(), hashlib.sha256()
        for number, row in enumerate(self.rows, start=1):
            found: list[Side] = []
            for text, digest in zip(self._sides(row, number), hashes, strict=True):
                digest.update(f"{text}\n".encode("utf-8", "surrogatepass"))
                if "\n" in text and self.task != "continuous":
                    note("line_break", self.src, number, "")
                    text = text.replace("\r\n", " ").replace("\n", " ")
                found.append(fix_lone_surrogates(text, self.src, number, on_bad_utf8, note))
            if seen is not None and number == seen.count:
                self._check_same(number, hashes, seen)
            if number > skip:
                yield found[0], found[1]
        if seen is None:
            self._seen.append(_SeenItems(number, (hashes[0].hexdigest(), hashes[1].hexdigest())))
        elif number < seen.count:
            self._check_same(number, hashes, seen)

    def sources(self) -> Iterator[str]:
        """Yields only the sources."""
        return (source or "" for source, _ in self.pairs("replace"))

    @property
    def digests(self) -> tuple[str, str]:
        """The SHA-256 of both sides, equal to that of files with these lines."""
        if not self._seen:
            for _ in self.pairs("replace"):
                pass
        return self._seen[0].digests

    def _check_same(self, number: int, hashes: Sequence[Any], seen: _SeenItems) -> None:
        if number != seen.count or tuple(each.hexdigest() for each in hashes) != seen.digests:
            raise DataError(
                f"{self} returned different rows when it was read again, and training reads its texts several times",
                "pass an iterable that gives the same rows in the same order each time, such as a list",
            )

    def _sides(self, row: Any, number: int) -> tuple[str, str]:
        """Returns both sides of a row; for a monolingual row, its text twice."""
        place, task = f"row {number:,} of {self}", "generate" if self.alone else self.task
        if isinstance(row, Mapping):
            texts = self._columns(row, place, task)
        elif self.alone and isinstance(row, str):
            texts = [row]
        elif isinstance(row, Sequence) and not isinstance(row, str | bytes) and len(row) == (1 if self.alone else 2):
            texts = list(row)
        else:
            raise DataError(
                f"{place} is {format_value(row)}, not {ROWS[task]}", f"each row must be {ROWS[task]}, or a mapping"
            )
        if task == "classify":
            texts[1] = self._label(texts[1])
        for text in texts:
            if not isinstance(text, str):
                raise DataError(
                    f"{place} holds {format_value(text)}, which is not a string", f"each row must be {ROWS[task]}"
                )
        return texts[0], texts[-1]

    def _columns(self, row: Mapping[str, Any], place: str, task: str) -> list[Any]:
        """Returns the values of the columns of a row that is a table."""
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
            f"{place} has the columns {', '.join(f'`{name}`' for name in row)}, and it is not clear which of them "
            f"hold {ROWS[task]}",
            'select the columns with `data.jsonl_keys`, as in ["question", "answer"]',
        )

    def _label(self, label: Any) -> Any:
        """Returns the name of a label that is a number: its class name in the data set, else its digits."""
        if isinstance(label, str) or not hasattr(label, "__index__"):
            return label
        features = getattr(self.rows, "features", None)
        for column in ("label", "labels"):
            names = getattr(features.get(column), "names", None) if isinstance(features, Mapping) else None
            if names and 0 <= int(label) < len(names):
                return str(names[int(label)])
        return str(int(label))


def _value(row: Mapping[str, Any], column: str) -> Any:
    """Returns the value of a column; a dot selects a value of a table within the row. None if it is missing."""
    value: Any = row
    for part in [column] if column in row else column.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def load_in_memory_texts(
    data: Any, settings: DataConfig, task: str, languages: tuple[str, ...] = ()
) -> dict[str, InMemoryText]:
    """Returns the parts of `data` by name, "train" and optionally "valid" and "test", as texts to train on.

    Args:
        data: an iterable of rows that can be read repeatedly; or a mapping with "train" and optionally "validation"
            and "test", such as a DatasetDict.
        languages: the codes of source and target.

    Raises ConfigError for an iterator, which can be read only once, or an object that is not iterable.
    """
    splits: dict[str, Any] = {"train": data}
    if isinstance(data, Mapping):
        splits = {name: data[key] for name, keys in SPLITS.items() for key in keys if key in data}
        if "train" not in splits:
            raise ConfigError(
                f"`data` is a mapping of {', '.join(f'`{format_value(key)}`' for key in data)}, without a `train`",
                'pass pairs, or {"train": pairs, "validation": pairs}',
            )
    for rows in splits.values():
        if not isinstance(rows, Iterable) or isinstance(rows, str | bytes):
            raise ConfigError(
                f"`data` is {format_value(rows)}, which is not an iterable of rows",
                f"pass an iterable in which each row must be {ROWS[task]}",
            )
        if iter(rows) is rows:
            raise ConfigError(
                f"`data` is a {type(rows).__name__}, which can be read only once, and training reads its texts "
                "several times",
                "pass a list, or an object whose `__iter__` starts over",
            )
    alone = task == "generate"
    return {
        name: InMemoryText(
            "data" if name == "train" else f"data[{name}]", "", jsonl_keys=settings.jsonl_keys, alone=alone, rows=rows,
            task="continuous" if alone and settings.text == "continuous" else task, languages=languages,
        )
        for name, rows in splits.items()
    }  # fmt: skip
