"""The texts of a Parquet file: a column, read in chunks, and the same table with translations."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pellucid.data.chunks import MOST
from pellucid.data.containers import find_repeating_columns, is_text, iterate_texts, rows_together
from pellucid.errors import DataError, did_you_mean, format_argument, format_install_command, format_list, format_value
from pellucid.files.budget import MOST_TOGETHER_BYTES

TRANSLATION = "translation"
"""The column that translations are written to."""


class ColumnSource:
    """The texts of a column, taken like the lines of a file: counted and hashed. Null is no text."""

    is_regular = True
    is_ready = True

    def __init__(self, path: Path, column: str | None) -> None:
        """Opens the file. If `column` is None, reads the only column of strings.

        Raises DataError if it is not a Parquet file, lacks the column, or has several columns of strings.
        """
        self.path = path
        self.number: int = 0
        """The number of texts that were taken."""
        self._hash = hashlib.sha256()
        check_parquet()
        with _open(path) as file:
            self._column = _find_column(file.schema_arrow, path, column)
            repeating = find_repeating_columns(file.metadata) & {self._column}
        self._file = _open(path, repeating)
        self._texts = self._read()

    def take(self, most: int) -> list[str | None]:
        """Returns the next texts, at most `most`, and stops once they have MOST_TOGETHER_BYTES; an empty list at the
        end.

        Raises DataError for a damaged file, and for a text beyond the budget.
        """
        taken, size = list[str | None](), 0
        for text in islice(self._texts, most):
            taken.append(text)
            size += len(text or "")
            if size >= MOST_TOGETHER_BYTES:
                break
        self.number += len(taken)
        for text in taken:
            self._hash.update(b"\0" if text is None else json.dumps(text).encode())
            self._hash.update(b"\n")
        return taken

    @property
    def digest(self) -> str:
        """The SHA-256 of all texts that were taken."""
        return self._hash.hexdigest()

    @property
    def share(self) -> float:
        """The fraction of the file that has been read, from 0 to 1."""
        rows = self._file.metadata.num_rows
        return self.number / rows if rows else 1.0

    def skip(self, number: int, digest: str) -> bool:
        """Skips `number` texts and returns True if `digest` is theirs; else rewinds and returns False."""
        while self.number < number and self.take(min(number - self.number, MOST)):
            pass
        if self.number == number and self.digest == digest:
            return True
        self.number, self._hash, self._texts = 0, hashlib.sha256(), self._read()
        return False

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _read(self) -> Iterator[str | None]:
        with _damage_in_words(self.path):
            first = 0
            for batch in _batches(self._file, [self._column]):
                yield from iterate_texts(batch.column(0), self._column, first, self.path)
                first += batch.num_rows


def write_translated(source: Path, answers: Path, target: Path) -> None:
    """Writes the table of a Parquet file with an additional last column `translation`.

    Args:
        answers: a file with a line of JSON for each row, a string or null.

    Raises DataError if the file is damaged, or the numbers of rows and answers differ.
    """
    import pyarrow
    from pyarrow import parquet

    with _open(source) as file:
        whole = file.schema_arrow
        repeating = find_repeating_columns(file.metadata) & {field.name for field in whole if is_text(field.type)}
    with (
        _damage_in_words(source),
        _open(source, repeating) as file,
        answers.open(encoding="utf-8", newline="\n") as lines,
    ):
        schema = whole.append(pyarrow.field(TRANSLATION, pyarrow.string()))
        with parquet.ParquetWriter(target, schema) as writer:
            for batch in chain.from_iterable(map(_parts, _batches(file, None))):
                texts = [json.loads(next(lines)) for _ in range(batch.num_rows)]
                columns = [column.cast(field.type) for column, field in zip(batch.columns, whole, strict=True)]
                columns.append(pyarrow.array(texts, pyarrow.string()))
                writer.write_batch(pyarrow.record_batch(columns, schema=schema))


def _batches(file: Any, columns: list[str] | None) -> Iterator[Any]:
    """Yields the rows of a file in batches, which are within a row group and within the memory budget."""
    for group in range(file.metadata.num_row_groups):
        together = rows_together(file.metadata.row_group(group), columns)
        yield from file.iter_batches(together, row_groups=[group], columns=columns)


def _parts(batch: Any) -> Iterator[Any]:
    """Yields a batch in parts that are small enough to expand dictionary-encoded texts to one copy per row."""
    from pyarrow import compute, types

    size = sum(
        compute.max(compute.binary_length(column.dictionary)).as_py() or 0
        for column in batch.columns if types.is_dictionary(column.type)
    )  # fmt: skip
    rows = max(1, MOST_TOGETHER_BYTES // max(1, size))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def check_parquet() -> None:
    """Raises DataError if the library that reads Parquet is missing."""
    try:
        import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(
            "reading and writing Parquet requires the extra `parquet`", format_install_command("parquet")
        ) from error


def _open(path: Path, repeating: Iterable[str] = ()) -> Any:
    """Opens a file; texts of the `repeating` columns stay dictionary-encoded, so that each is read once."""
    from pyarrow import parquet

    with _damage_in_words(path):
        return parquet.ParquetFile(path, read_dictionary=sorted(repeating))


def _find_column(schema: Any, path: Path, column: str | None) -> str:
    texts = [field.name for field in schema if is_text(field.type)]
    named = format_list(texts) or "none"
    if TRANSLATION in schema.names:
        raise DataError(f"`{format_value(path)}` already has a column `{TRANSLATION}`", "rename it, or leave it out")
    if column is None and len(texts) == 1:
        return str(texts[0])
    if column is None:
        raise DataError(f"`{format_value(path)}` has several columns of strings: {named}", "select one with `column=`")
    if column not in texts:
        raise DataError(
            f"`{format_value(path)}` has no column of strings that {format_argument('column', column)} names"
            f"{did_you_mean(column, texts)}",
            f"its columns of strings: {named}",
        )
    return column


@contextmanager
def _damage_in_words(path: Path) -> Iterator[None]:
    """Converts the errors of pyarrow for an unreadable file to DataError."""
    import pyarrow

    try:
        yield
    except PermissionError as error:
        raise DataError(f"cannot read `{format_value(path)}`: {error.strerror}", "check its permissions") from error
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system, such as a full disk, not of pyarrow
            raise
        raise DataError(
            f"`{format_value(path)}` is damaged, or not a Parquet file: {error}", "download it again"
        ) from error
