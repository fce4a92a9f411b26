"""Corpora in containers instead of lines of text: Parquet, folders of `datasets`, TMX, and OPUS's zips of Moses files.

Each is read as a stream of pairs, from any pair on; a pair has the number of its row, its unit or its line. Content
that is skipped or changed is reported as an issue.

    .parquet           columns, by `data.jsonl_keys`; a dot selects a field of a struct column
    a folder           written by `save_to_disk` of `datasets`: Arrow files, their order in `state.json`
    .tmx, .tmx.gz      translation units: see `translation_memory`
    .zip               members with a line for each sentence: see `zipped`
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pellucid.config import DataConfig
from pellucid.config.data import OnBadUtf8
from pellucid.data.issues import IssueCallback
from pellucid.data.lines import check_text_file
from pellucid.data.translation_memory import read_units
from pellucid.data.zipped import read_zip
from pellucid.errors import DataError, did_you_mean, format_install_command, format_list, format_value
from pellucid.files.budget import (
    MOST_SETTINGS_BYTES,
    MOST_TEXT_BYTES,
    MOST_TOGETHER_BYTES,
    open_regular,
    read_bytes,
    resolve_inside,
)

ENDINGS = (".parquet", ".tmx", ".tmx.gz", ".zip")
STATE, DICTIONARY = "state.json", "dataset_dict.json"
ROWS = 512
"""Rows of a table that are in memory together, at most."""
UNNAMED = DataConfig().jsonl_keys
AGAIN = "save the data set again"


def is_container(path: str) -> bool:
    """Returns True if a path is a container by its name; a folder always is one."""
    return path.lower().endswith(ENDINGS) or Path(path).is_dir()


def holds_pairs(path: str) -> bool:
    """Returns True if a path is a container of pairs; a folder is one if `datasets` has written it."""
    folder = Path(path)
    return any((folder / name).is_file() for name in (STATE, DICTIONARY)) if folder.is_dir() else is_container(path)


def read_container(
    path: str, keys: Sequence[str], on_bad_utf8: OnBadUtf8, note: IssueCallback, skip: int = 0
) -> Iterator[tuple[str | None, str | None]]:
    """Yields the sides of each pair after the first `skip`; None for a skipped line that is not UTF-8.

    Args:
        keys: the columns or languages of the two sides; for monolingual data, one.
        note: called for content of the file that is skipped or changed.

    Raises DataError for a missing or damaged file, for missing columns and languages, and for a value that is not a
    text, with its row.
    """
    lower, named = path.lower(), tuple(keys) != UNNAMED[: len(keys)]
    if Path(path).is_dir():
        return _rows(path, keys, note, skip, _arrow_batches)
    if lower.endswith(".parquet"):
        return _rows(path, keys, note, skip, _parquet_batches)
    if lower.endswith(".zip"):
        return read_zip(path, keys, named, on_bad_utf8, note, skip)
    return read_units(path, keys, named, note, skip)


# Columns

Batches = Callable[[Path, Sequence[str], int], Iterator[tuple[int, Any]]]


def _rows(
    path: str, keys: Sequence[str], note: IssueCallback, skip: int, batches: Batches
) -> Iterator[tuple[str, str]]:
    """Yields the values of columns, with a class by its name if the file has the class names of `datasets`."""
    place = Path(path) if Path(path).is_dir() else check_text_file(Path(path))
    check_pyarrow()
    with damage_in_words(path):
        is_first = not skip
        for first, batch in batches(place, keys, skip):
            names = _class_names(batch.schema)
            if is_first:
                _note_others(batch.schema, keys, path, note)
                is_first = False
            columns = [iterate_texts(_column(batch, key, path), key, first, path) for key in keys]
            for number, values in enumerate(zip(*columns, strict=True), start=first + 1):
                if number > skip:
                    sides = [_text(value, key, number, path, names) for value, key in zip(values, keys, strict=True)]
                    yield sides[0], sides[-1]


def _parquet_batches(path: Path, keys: Sequence[str], skip: int) -> Iterator[tuple[int, Any]]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        there, first = [_leaf(key, file.schema_arrow, path) for key in keys], 0
        repeated = find_repeating_columns(file.metadata)
    with parquet.ParquetFile(path, read_dictionary=[name for name in there if name in repeated]) as file:
        whole = file.schema_arrow
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if first + rows <= skip:  # skips whole groups unread
                first += rows
                continue
            together = rows_together(file.metadata.row_group(group), there)
            for batch in file.iter_batches(together, row_groups=[group], columns=there):
                yield first, _set_names(batch, whole)
                first += batch.num_rows


def _set_names(batch: Any, whole: Any) -> Any:
    """Returns a batch of some columns with the names of all columns in its metadata."""
    return batch.replace_schema_metadata(
        {**(batch.schema.metadata or {}), **(whole.metadata or {}), b"columns": json.dumps(whole.names).encode()}
    )


def find_repeating_columns(metadata: Any) -> set[str]:
    """Returns the paths of the columns of a Parquet file that may store a text once for many rows."""
    found = set[str]()
    for group in range(metadata.num_row_groups):
        chunks = map(metadata.row_group(group).column, range(metadata.num_columns))
        found.update(
            chunk.path_in_schema for chunk in chunks
            if chunk.physical_type == "BYTE_ARRAY" and any("DICTIONARY" in encoding for encoding in chunk.encodings)
        )  # fmt: skip
    return found


def rows_together(group: Any, columns: Sequence[str] | None = None) -> int:
    """Returns the number of rows of a group whose bytes, in these columns or in all, are within the budget."""
    chunks = map(group.column, range(group.num_columns))
    size = sum(
        chunk.total_uncompressed_size for chunk in chunks
        if columns is None or any(f"{chunk.path_in_schema}.".startswith(f"{name}.") for name in columns)
    )  # fmt: skip
    return max(1, min(ROWS, MOST_TOGETHER_BYTES * group.num_rows // max(1, size)))


def _arrow_batches(path: Path, columns: Sequence[str], skip: int) -> Iterator[tuple[int, Any]]:
    import pyarrow

    if (path / DICTIONARY).is_file() and not (path / STATE).is_file():
        parts = format_list(path / part.parent.name for part in sorted(path.glob(f"*/{STATE}")))
        raise DataError(f"`{format_value(path)}` holds several splits of a data set", f"name one of them: {parts}")
    if not (path / STATE).exists():
        raise DataError(
            f"`{format_value(path)}` is not a folder saved by `datasets`: it has no {STATE}",
            "name a file in it, or a folder written by `save_to_disk`",
        )
    try:
        state = json.loads(read_bytes(path / STATE, MOST_SETTINGS_BYTES, DataError, AGAIN))
        files = [Path(entry["filename"]).name for entry in state["_data_files"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"`{format_value(path / STATE)}` is damaged: {format_value(repr(error))}", AGAIN) from error
    first = 0
    for name in files:
        file = resolve_inside(path, name, DataError, AGAIN)
        open_regular(check_text_file(file), DataError, AGAIN).close()
        with pyarrow.memory_map(str(file)) as source, pyarrow.ipc.open_stream(source) as reader:
            for whole in reader:
                for start in range(0, whole.num_rows, ROWS):
                    batch = whole.slice(start, ROWS)
                    if first + batch.num_rows > skip:
                        yield first, batch
                    first += batch.num_rows


def _column(batch: Any, key: str, path: str) -> Any:
    """Returns a column; a dot in the key selects a field of a struct column."""
    from pyarrow import compute, types

    name = _top(key, batch.schema.names, path)
    column = batch.column(batch.schema.get_field_index(name))
    for part in [] if name == key else key.split(".")[1:]:
        if not types.is_struct(column.type):
            raise _no_key(name, part, path, f"it holds {column.type}")
        if part not in (there := [field.name for field in column.type]):
            raise _no_key(name, part, path, f"its keys: {format_list(there)}")
        column = compute.struct_field(column, part)
    return column


def _leaf(key: str, schema: Any, path: Path) -> str:
    """Returns the path of a key's column in a Parquet file. Raises DataError if it is missing."""
    from pyarrow import types

    name = _top(key, schema.names, path)
    if name == key:
        return name
    kind = schema.field(name).type
    for part in key.split(".")[1:]:
        if not types.is_struct(kind):
            raise _no_key(name, part, path, f"it holds {kind}")
        if part not in (there := [field.name for field in kind]):
            raise _no_key(name, part, path, f"its keys: {format_list(there)}")
        kind = kind.field(part).type
    return key


def _no_key(name: str, part: str, path: str | Path, has: str) -> DataError:
    return DataError(
        f"the column `{format_value(name)}` of `{format_value(path)}` has no `{format_value(part)}`; {has}",
        "select the source and the target with `data.jsonl_keys`",
    )


def iterate_texts(column: Any, key: str, first: int, path: str | Path) -> Iterator[Any]:
    """Yields the values of a column, one at a time: a text that is stored once for many rows is one string.

    Args:
        first: the number of rows before the column's first one, for messages.

    Raises DataError for a text that exceeds the budget.
    """
    from pyarrow import compute, types

    if types.is_dictionary(column.type) and is_text(column.type.value_type):
        used = compute.unique(column.indices.drop_null())
        values = dict(zip(used.to_pylist(), iterate_texts(column.dictionary.take(used), key, first, path), strict=True))
        yield from (None if place is None else values[place] for place in column.indices.to_pylist())
        return
    if not is_text(column.type):
        yield from (value.as_py() for value in column)
        return
    sizes = compute.binary_length(column).fill_null(0).to_pylist()
    start = 0
    while start < len(sizes):
        end, together = start, 0
        while end < len(sizes) and (end == start or together + sizes[end] <= MOST_TOGETHER_BYTES):
            if sizes[end] > MOST_TEXT_BYTES:
                raise DataError(
                    f"`{format_value(key)}` near row {first + end + 1:,} of `{format_value(path)}` has "
                    f"{sizes[end]:,} bytes; at most "
                    f"{MOST_TEXT_BYTES:,} are read",
                    "check that the column holds text, one sentence or passage per row",
                )
            together += sizes[end]
            end += 1
        yield from column.slice(start, end - start).to_pylist()
        start = end


def is_text(kind: Any) -> bool:
    """Returns True if an Arrow type is a string type."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _note_others(schema: Any, keys: Sequence[str], path: str, note: IssueCallback) -> None:
    names = json.loads((schema.metadata or {}).get(b"columns", b"null")) or schema.names
    others = [name for name in names if name not in {_top(key, names, path) for key in keys}]
    for number, _ in enumerate(others):
        note("others", path, 0, f"the columns {format_list(others)}" if number == 0 else "", "parts")


def _top(key: str, names: Sequence[str], path: str | Path) -> str:
    """Returns the column that a key names, or of which it names a field. Raises DataError if there is none."""
    name = key if key in names else key.partition(".")[0]
    if name not in names:
        raise DataError(
            f"`{format_value(path)}` has no column `{format_value(name)}`{did_you_mean(name, names)}; its columns: "
            f"{format_list(names) or 'none'}",
            "select the source and the target with `data.jsonl_keys`",
        )
    return name


def _text(value: Any, key: str, number: int, path: str, names: dict[str, list[str]]) -> str:
    """Returns a value as text: null as an empty text, a class as its name or number."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if type(value) is int and key.partition(".")[0] in names:
        classes = names[key.partition(".")[0]]
        return classes[value] if 0 <= value < len(classes) else str(value)
    raise DataError(
        f"`{format_value(key)}` in row {number:,} of `{format_value(path)}` is {format_value(value)}, not a string",
        "name a column of strings by `data.jsonl_keys`",
    )


def _class_names(schema: Any) -> dict[str, list[str]]:
    """Returns the class names of each column of class numbers, from the metadata that `datasets` writes."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: list(f["names"]) for name, f in features.items() if isinstance(f, dict) and f.get("names")}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def check_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError(
            "reading Parquet files and folders of `datasets` requires the extra `parquet`",
            format_install_command("parquet"),
        ) from error


@contextmanager
def damage_in_words(path: str) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(
            f"`{format_value(path)}` is damaged or has another format: {reason}", "download it again"
        ) from error
    except OSError as error:
        if error.errno is not None:  # from the operating system, not from pyarrow
            raise
        raise DataError(
            f"`{format_value(path)}` is damaged: {str(error).partition(chr(10))[0]}", "download it again"
        ) from error
