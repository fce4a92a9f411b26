"""The texts of a Parquet file: a column read a stretch at a time, and the same table with their translations."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from pellucid.data.lines import STRETCH
from pellucid.errors import DataError, argument, did_you_mean, install, shown

TRANSLATION = "translation"
"""The column that translations are written to."""


class ColumnSource:
    """The texts of a column, which are taken as the lines of a file are: counted and hashed. Null is no text."""

    is_regular = True
    is_ready = True

    def __init__(self, path: Path, column: str | None) -> None:
        """Opens the file; `column` None: its only column of strings.

        Raises DataError where it is no Parquet file, or has no such column, or several to choose from.
        """
        self.path = path
        self.number: int = 0
        """The number of texts that were taken."""
        self._hash = hashlib.sha256()
        need_parquet()
        self._file = _opened(path)
        with _damage_in_words(path):
            self._column = _column_of(self._file.schema_arrow, path, column)
        self._left: list[str | None] = []
        self._texts = self._read()

    def take(self, most: int) -> list[str | None]:
        """Returns the next texts, `most` at most; at the end there is none. Raises DataError for a damaged file."""
        while len(self._left) < most and (more := next(self._texts, None)) is not None:
            self._left += more
        taken, self._left = self._left[:most], self._left[most:]
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
        """The part of the file that has been read, from 0 to 1."""
        rows = self._file.metadata.num_rows
        return self.number / rows if rows else 1.0

    def skip(self, number: int, digest: str) -> bool:
        """Passes over so many texts if this is their digest; else stands at the beginning as before. Says which."""
        while self.number < number and self.take(min(number - self.number, STRETCH)):
            pass
        if self.number == number and self.digest == digest:
            return True
        self.number, self._hash, self._left, self._texts = 0, hashlib.sha256(), [], self._read()
        return False

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _read(self) -> Iterator[list[str | None]]:
        with _damage_in_words(self.path):
            for batch in self._file.iter_batches(batch_size=STRETCH, columns=[self._column]):
                yield batch.column(0).to_pylist()


def write_translated(source: Path, answers: Path, target: Path) -> None:
    """Writes the table of a Parquet file with the column `translation` behind the others.

    Args:
        answers: a file with a line of JSON for each row, a string or null.

    Raises DataError where the file is damaged, or has another number of rows than there are answers.
    """
    import pyarrow
    from pyarrow import parquet

    with _damage_in_words(source), _opened(source) as file, answers.open(encoding="utf-8", newline="\n") as lines:
        schema = file.schema_arrow.append(pyarrow.field(TRANSLATION, pyarrow.string()))
        with parquet.ParquetWriter(target, schema) as writer:
            for batch in file.iter_batches(batch_size=STRETCH):
                texts = [json.loads(next(lines)) for _ in range(batch.num_rows)]
                column = pyarrow.array(texts, pyarrow.string())
                writer.write_batch(pyarrow.record_batch([*batch.columns, column], schema=schema))


def need_parquet() -> None:
    """Raises DataError where the library is missing that reads Parquet."""
    try:
        import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError("reading and writing Parquet needs the extra `parquet`", install("parquet")) from error


def _opened(path: Path) -> Any:
    from pyarrow import parquet

    with _damage_in_words(path):
        return parquet.ParquetFile(path)


def _column_of(schema: Any, path: Path, column: str | None) -> str:
    import pyarrow

    kinds = (pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_string_view)
    texts = [field.name for field in schema if any(is_kind(field.type) for is_kind in kinds)]
    named = ", ".join(f"`{shown(name)}`" for name in texts) or "none"
    if TRANSLATION in schema.names:
        raise DataError(f"`{shown(path)}` has a column `{TRANSLATION}` already", "rename it, or leave it out")
    if column is None and len(texts) == 1:
        return str(texts[0])
    if column is None:
        raise DataError(f"which column of `{shown(path)}` is it? Those of strings: {named}", "name it by `column=`")
    if column not in texts:
        raise DataError(
            f"`{shown(path)}` has no column of strings that {argument('column', column)} names"
            f"{did_you_mean(column, texts)}",
            f"its columns of strings: {named}",
        )
    return column


@contextmanager
def _damage_in_words(path: Path) -> Iterator[None]:
    """Says in a sentence what pyarrow says of a file that it cannot read."""
    import pyarrow

    try:
        yield
    except PermissionError as error:
        raise DataError(f"cannot read `{shown(path)}`: {error.strerror}", "check who may read it") from error
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's, as of a full disk; not pyarrow's
            raise
        raise DataError(f"`{shown(path)}` is a damaged Parquet file, or none: {error}", "fetch it again") from error
