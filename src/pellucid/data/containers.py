"""Corpora in other files than lines of text: Parquet, folders of `datasets`, TMX, and OPUS's zips of Moses files.

Each is read as a stream of pairs, from some pair on; a pair is numbered as its row, its unit or its line.

    .parquet           columns, by `data.jsonl_keys`; a dot goes into a column of tables
    a folder           that `save_to_disk` of `datasets` has written: Arrow files, their order in `state.json`
    .tmx, .tmx.gz      translation units; languages by `data.jsonl_keys`, or the source language and the only other one
    .zip               OPUS's: two members, `NAME.de-en.de` and `NAME.de-en.en`, line by line translations of each other
"""

import gzip
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, cast
from xml.etree import ElementTree

from pellucid.config import DataConfig
from pellucid.config.data import OnBadUtf8
from pellucid.data.lines import Told, decode_line, existing, raw_lines
from pellucid.errors import DataError, did_you_mean, install, shown
from pellucid.files.compression import GZIP_MAGIC

ENDINGS = (".parquet", ".tmx", ".tmx.gz", ".zip")
STATE, DICTIONARY = "state.json", "dataset_dict.json"
ROWS = 4096
"""Rows that are in memory together."""
UNNAMED = DataConfig().jsonl_keys
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
LANGUAGES_SHOWN = 10
CODES = {"bpt", "ept", "ph", "it", "ut"}
"""The elements of a TMX segment that hold what another program writes, and no text."""

Row = tuple[str, str]


def is_container(path: str) -> bool:
    """Tells whether a path, by its name, is one of them; a folder always is."""
    return path.lower().endswith(ENDINGS) or Path(path).is_dir()


def holds_pairs(path: str) -> bool:
    """Tells whether a path is one of them; of folders, one that `datasets` has written."""
    folder = Path(path)
    return any((folder / name).is_file() for name in (STATE, DICTIONARY)) if folder.is_dir() else is_container(path)


def read_container(
    path: str, keys: Sequence[str], on_bad_utf8: OnBadUtf8, told: Told, skip: int = 0
) -> Iterator[tuple[str | None, str | None]]:
    """Yields the sides of each pair behind the first `skip`; None for a line that is not UTF-8 and is left out.

    Args:
        keys: the columns or the languages of the two sides; of one text alone, one.

    Raises DataError for what is missing or damaged, for columns and languages that are not there, and for a value that
    is not a text, with its row.
    """
    lower = path.lower()
    if Path(path).is_dir():
        return _rows(path, keys, skip, _arrow_batches)
    if lower.endswith(".parquet"):
        return _rows(path, keys, skip, _parquet_batches)
    if lower.endswith(".zip"):
        return _zipped(path, keys, on_bad_utf8, told, skip)
    return _units(path, keys, skip)


# Columns


def _rows(
    path: str, keys: Sequence[str], skip: int, batches: Callable[[Path, Sequence[str], int], Iterator[tuple[int, Any]]]
) -> Iterator[Row]:
    """Yields what stands in columns, named as in `datasets`: a class by its name, where the file has names."""
    place = Path(path) if Path(path).is_dir() else existing(Path(path))
    _need_pyarrow()
    with _damage_in_words(path):
        for first, batch in batches(place, keys, skip):
            names = _class_names(batch.schema)
            columns = [_column(batch, key, path) for key in keys]
            for number, values in enumerate(zip(*columns, strict=True), start=first + 1):
                if number > skip:
                    sides = [_text(value, key, number, path, names) for value, key in zip(values, keys, strict=True)]
                    yield sides[0], sides[-1]


def _parquet_batches(path: Path, columns: Sequence[str], skip: int) -> Iterator[tuple[int, Any]]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        there, first = [_top(name, file.schema_arrow.names, path) for name in columns], 0
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if first + rows <= skip:  # whole groups are passed over unread
                first += rows
                continue
            for batch in file.iter_batches(ROWS, row_groups=[group], columns=there):
                yield first, batch
                first += batch.num_rows


def _arrow_batches(path: Path, columns: Sequence[str], skip: int) -> Iterator[tuple[int, Any]]:
    import pyarrow

    if (path / DICTIONARY).is_file() and not (path / STATE).is_file():
        parts = ", ".join(f"`{path / part.parent.name}`" for part in sorted(path.glob(f"*/{STATE}")))
        raise DataError(f"`{shown(path)}` holds several parts of a data set", f"name one of them: {parts}")
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        files = [path / Path(entry["filename"]).name for entry in state["_data_files"]]
    except FileNotFoundError:
        raise DataError(
            f"`{shown(path)}` is a folder, and none that `datasets` has saved: no {STATE} in it",
            "name the file in it, or a folder that `save_to_disk` has written",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"`{shown(path / STATE)}` is damaged: {error!r}", "save the data set again") from error
    first = 0
    for file in files:
        with pyarrow.memory_map(str(existing(file))) as source, pyarrow.ipc.open_stream(source) as reader:
            for whole in reader:
                for start in range(0, whole.num_rows, ROWS):
                    batch = whole.slice(start, ROWS)
                    if first + batch.num_rows > skip:
                        yield first, batch
                    first += batch.num_rows


def _column(batch: Any, key: str, path: str) -> list[Any]:
    """Returns the values of a column, dots leading into tables."""
    name = _top(key, batch.schema.names, path)
    inner = [] if name == key else key.split(".")[1:]
    values = batch.column(batch.schema.get_field_index(name)).to_pylist()
    for part in inner:
        found: Any = next((value for value in values if value is not None), {})
        if not isinstance(found, dict) or part not in found:
            has = f"its keys: {', '.join(map(str, found))}" if isinstance(found, dict) else f"it holds {shown(found)}"
            raise DataError(
                f"the column `{shown(name)}` of `{shown(path)}` has no `{shown(part)}`; {has}",
                "`data.jsonl_keys` says which ones are read",
            )
        values = [None if value is None else value.get(part) for value in values]
    return values


def _top(key: str, names: Sequence[str], path: str | Path) -> str:
    """Returns the column that a key names, or leads into. Raises DataError where there is none."""
    name = key if key in names else key.partition(".")[0]
    if name not in names:
        there = ", ".join(f"`{shown(each)}`" for each in names) or "none"
        raise DataError(
            f"`{shown(path)}` has no column `{shown(name)}`{did_you_mean(name, names)}; its columns: {there}",
            "`data.jsonl_keys` says which ones are read",
        )
    return name


def _text(value: Any, key: str, number: int, path: str, names: dict[str, list[str]]) -> str:
    """Returns a value as text: nothing as an empty one, a class as its name or number."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if type(value) is int and key.partition(".")[0] in names:
        classes = names[key.partition(".")[0]]
        return classes[value] if 0 <= value < len(classes) else str(value)
    raise DataError(
        f"`{shown(key)}` in row {number:,} of `{shown(path)}` is {shown(value)}, not a string",
        "name a column of strings by `data.jsonl_keys`",
    )


def _class_names(schema: Any) -> dict[str, list[str]]:
    """Returns the names of the classes that numbers in a column stand for, as `datasets` notes them in a file."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: list(f["names"]) for name, f in features.items() if isinstance(f, dict) and f.get("names")}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def _need_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError(
            "reading Parquet, and folders of `datasets`, needs the extra `parquet`", install("parquet")
        ) from error


@contextmanager
def _damage_in_words(path: str) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"`{shown(path)}` is damaged, or of another format: {reason}", "fetch it again") from error
    except OSError as error:
        if error.errno is not None:  # the system's, not pyarrow's
            raise
        raise DataError(f"`{shown(path)}` is damaged: {str(error).partition(chr(10))[0]}", "fetch it again") from error


# Translation memories


def _units(path: str, keys: Sequence[str], skip: int) -> Iterator[Row]:
    """Yields the segments of each translation unit; a unit without one of the languages as an empty side."""
    named = tuple(keys) != UNNAMED[: len(keys)]
    wanted, number = [_code(key) for key in keys] if named else [], 0
    missing, there = set(wanted), set[str]()
    with existing(Path(path)).open("rb") as raw:
        file: Any = gzip.GzipFile(fileobj=raw) if raw.peek(2).startswith(GZIP_MAGIC) else raw
        try:
            events = ElementTree.iterparse(file, ("start", "end"))
            _, root = next(events)
            if _name(root) != "tmx":
                raise DataError(f"`{shown(path)}` is not TMX: it holds <{shown(_name(root))}>", "give another file")
            for event, element in events:
                if event == "start" and _name(element) == "header" and not wanted:
                    source = element.get("srclang", "")
                    wanted = [_code(source)] if source and source != "*all*" else []
                if event == "start" or _name(element) != "tu":
                    continue
                number += 1
                sides = {
                    _code(tuv.get(LANGUAGE) or tuv.get("lang") or ""): tuv for tuv in element if _name(tuv) == "tuv"
                }
                if not named and len(wanted) < 2:
                    wanted = _only_two(wanted, list(sides), number, path)
                if missing:
                    missing = {language for language in missing if _side(sides, language) is None}
                    there.update(sides if len(there) < LANGUAGES_SHOWN else ())
                if number > skip:
                    found = [_segment(_side(sides, language)) for language in wanted[: len(keys)]]
                    yield found[0], found[-1]
                root.clear()
                element.clear()
        except ElementTree.ParseError as error:
            raise DataError(f"`{shown(path)}` is not XML behind unit {number:,}: {error}", "fetch it again") from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"`{shown(path)}` is a damaged gzip file behind unit {number:,}: {error}", "fetch it again"
            ) from error
    if not number:
        raise DataError(f"`{shown(path)}` holds no translation unit", "is it a translation memory?")
    if missing:
        absent, has = (", ".join(f"`{shown(code)}`" for code in sorted(codes)) for codes in (missing, there))
        raise DataError(
            f"none of the {number:,} units of `{shown(path)}` is in {absent}; its languages: {has or 'none'}",
            "`data.jsonl_keys` says which ones are read",
        )


def _only_two(source: Sequence[str], languages: Sequence[str], number: int, path: str) -> list[str]:
    """Returns source and target where the first unit leaves no choice."""
    first = next((code for code in languages if source and _same(code, source[0])), languages[0] if languages else "")
    others = [code for code in languages if code != first]
    if len(others) != 1:
        there = ", ".join(f"`{shown(code)}`" for code in languages)
        raise DataError(
            f"unit {number:,} of `{shown(path)}` is in {len(languages)} languages ({there})",
            'name source and target by `data.jsonl_keys`, as in ["de", "en"]',
        )
    return [first, others[0]]


def _side(sides: dict[str, ElementTree.Element], language: str) -> ElementTree.Element | None:
    return next((unit for code, unit in sides.items() if _same(code, language)), None)


def _same(code: str, wanted: str) -> bool:
    return code == wanted or code.startswith(f"{wanted}-")


def _code(language: str) -> str:
    return language.strip().lower().replace("_", "-")


def _segment(unit: ElementTree.Element | None) -> str:
    segment = None if unit is None else next((part for part in unit if _name(part) == "seg"), None)
    return "" if segment is None else " ".join("".join(_texts(segment)).split())


def _texts(element: ElementTree.Element) -> Iterator[str]:
    yield element.text or ""
    for part in element:
        if _name(part) not in CODES:
            yield from _texts(part)
        yield part.tail or ""


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


# OPUS's zips


def _zipped(
    path: str, keys: Sequence[str], on_bad_utf8: OnBadUtf8, told: Told, skip: int
) -> Iterator[tuple[str | None, str | None]]:
    """Yields the lines of the two members side by side. Raises DataError where they are not equally many."""
    try:
        with zipfile.ZipFile(existing(Path(path))) as archive:
            names = _members(archive.namelist(), keys, path)
            counts = [skip] * len(names)

            def lines(side: int) -> Iterator[str | None]:
                inside = f"{path}/{names[side]}"
                with archive.open(names[side]) as member:
                    for raw in raw_lines(cast(BinaryIO, member), inside, skip=skip):
                        counts[side] += 1
                        yield decode_line(raw, counts[side], inside, on_bad_utf8, told)

            for pair in zip_longest(*map(lines, range(len(names))), fillvalue=_MISSING):
                if _MISSING in pair:
                    rest = counts.copy()
                    for side, name in enumerate(names):
                        with archive.open(name) as member:
                            rest[side] = sum(1 for _ in raw_lines(cast(BinaryIO, member), name))
                    raise DataError(
                        f"`{names[0]}` and `{names[1]}` in `{shown(path)}` must have as many lines as each other, but "
                        f"have {rest[0]:,} and {rest[1]:,}",
                        "fetch it again",
                    )
                yield pair[0], pair[-1]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"`{shown(path)}` is a damaged zip file, or a locked one: {error}", "fetch it again") from error


_MISSING = "\n"
"""Stands for a line that the shorter member lacks; no line is equal to it."""


def _members(names: Sequence[str], keys: Sequence[str], path: str) -> list[str]:
    """Returns the members that hold the languages, or those two that a name like `X.de-en.de` says."""
    by_ending = {name.rpartition(".")[2].lower(): name for name in names if not name.endswith("/")}
    if tuple(keys) == UNNAMED[: len(keys)]:
        pairs = [found for name in names if (found := re.search(r"\.([\w-]+?)-([\w-]+)\.([\w-]+)$", name))]
        keys = next((list(found.groups()[:2]) for found in pairs if found[3] in found.groups()[:2]), [])[: len(keys)]
    if not keys or any(key.lower() not in by_ending for key in keys):
        missing = next((f"`{shown(key)}`" for key in keys if key.lower() not in by_ending), "two languages")
        raise DataError(
            f"`{shown(path)}` has no member for {missing}; it has {', '.join(f'`{shown(name)}`' for name in names)}",
            'name the endings of source and target by `data.jsonl_keys`, as in ["de", "en"]',
        )
    return [by_ending[key.lower()] for key in keys]
