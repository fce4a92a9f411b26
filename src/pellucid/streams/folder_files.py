"""The files of an input folder, their outputs of the same names in another folder, and records of the finished ones.

Partial outputs are stored in `.pellucid` within the output folder, and so is a record of each finished output: its
input, its command and its digest. The rest of the output folder contains only the outputs.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

from pellucid.config.tables import rename_options
from pellucid.documents.kinds import kind_by_name
from pellucid.errors import ConfigError, DataError, format_argument, format_value
from pellucid.files.compression import compress, zstd
from pellucid.files.reading import TABLE, WHOLE, hash_file, read_stored_table
from pellucid.files.records import RecordFormat, find_changed_keys, find_damaged
from pellucid.files.writing import atomic_path, replace_atomically
from pellucid.streams.columns import ColumnSource, check_parquet, write_translated
from pellucid.streams.source import LineSource

# "pellucid-shard/1" names a corpus of ids (data/shards), too: records of earlier versions have it.
FORMAT = RecordFormat("pellucid-translated-file/1", {"command": TABLE, "lines": WHOLE}, earlier=("pellucid-shard/1",))
OWN = ".pellucid"
"""The folder of partial outputs and records."""
RESERVED = (".partial", ".json", ".failed")
"""The endings of Pellucid's files for an input `a`: `a.partial`, `a.partial.json`, `a.json` and `a.failed`."""
MOST_NAME_BYTES = 255 - len(".partial.json")
"""Bytes at most of an input's name that Pellucid's files share: a longer name leaves no room for their endings."""
COMPRESSED = (".gz", ".zst")
TABLES = (".parquet",)


@dataclass(frozen=True)
class Share:
    """The share of the files that process `number` (from 1) of `count` processes takes: every `count`-th file."""

    number: int
    count: int

    @classmethod
    def parse(cls, word: str) -> "Share":
        """Parses `2/8`. Raises ConfigError for another form."""
        number, slash, count = word.partition("/")
        if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
            return cls(int(number), int(count))
        raise ConfigError(
            f"{format_argument('worker', word)} must be a number and a total, from 1/N to N/N",
            "as in `2/8`, the second of eight",
        )


@dataclass(frozen=True)
class FileJob:
    """An input file, its output and the record of the output."""

    name: str
    """The path within both folders, with slashes."""
    input: Path
    output: Path
    own: Path
    """The path prefix of the partial output and of the record."""

    ENDINGS: ClassVar[Sequence[str]] = (*COMPRESSED, *TABLES)

    @property
    def record(self) -> Path:
        """The file that records the input and the command of the output."""
        return self.own.with_name(f"{self.own.name}.json")

    @property
    def failure(self) -> Path:
        """The empty file that marks an input on which the last command failed: such files are tried last."""
        return self.own.with_name(f"{self.own.name}.failed")

    @property
    def has_failed(self) -> bool:
        """True if the last command failed on this file."""
        return os.path.lexists(self.failure)

    def note_failure(self, failed: bool) -> None:
        """Records for the next command whether the file failed; errors of the disk are ignored."""
        with suppress(OSError):
            if not failed:
                self.failure.unlink(missing_ok=True)
            elif not self.has_failed:
                self.failure.parent.mkdir(parents=True, exist_ok=True)
                self.failure.touch()

    @property
    def is_table(self) -> bool:
        """True for a Parquet file, which has a column of texts."""
        return self.input.suffix in TABLES

    @property
    def is_document(self) -> bool:
        """True for a document by its name. A plain text is a file of lines."""
        return kind_by_name(self.input) not in ("", "txt")

    @property
    def lock(self) -> Path:
        """The lock of a document that is being translated."""
        return self.own.with_name(f"{self.own.name}.partial")

    def select_settings(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the settings that determine this output: `column` that of tables, `label` that of documents."""
        without = {*([] if self.is_table else ["column"]), *([] if self.is_document else ["label"])}
        return {name: value for name, value in command.items() if name not in without}

    def source(self, on_bad_utf8: str, column: str | None) -> LineSource | ColumnSource:
        """Opens the lines of the input. Raises DataError if they cannot be read."""
        if not self.input.is_file():  # a pipe would block
            what = "it is not a regular file" if self.input.exists() else "no such file"
            raise DataError(f"cannot read `{format_value(self.input)}`: {what}", "remove it from the folder")
        if self.is_table:
            return ColumnSource(self.input, column)
        return LineSource(str(self.input), on_bad_utf8)

    def place(self, plain: Path, target: Path) -> None:
        """Creates the output from the finished lines in the format of the input's name, and removes the lines' file."""
        if self.input.suffix not in self.ENDINGS:
            replace_atomically(plain, target)
            return
        with atomic_path(target) as temporary:
            if self.is_table:
                write_translated(self.input, plain, temporary)
            else:
                compress(plain, self.input.suffix, temporary)
        plain.unlink()

    def write_record(self, command: Mapping[str, Any], lines: int, input_sha256: str) -> None:
        """Writes the record of the finished output."""
        name = self.name.encode(errors="backslashreplace").decode()
        FORMAT.write(
            self.record, input=name, input_sha256=input_sha256, lines=lines,
            output_bytes=self.output.stat().st_size, output_sha256=hash_file(self.output),
            command=self.select_settings(command),
        )  # fmt: skip

    def read_record(self) -> dict[str, Any] | None:
        """Returns the record, or None if it is missing or unreadable."""
        return FORMAT.read(self.record)

    def lacks(self) -> str | None:
        """Returns the reason why the file must be processed, by any command; None if its output is intact."""
        record = self.read_record()
        if record is None:
            return "their outputs have no record" if self.output.exists() else ""
        if not self.output.exists():
            return "their outputs are missing"
        # A file that is not regular, such as a pipe, is not opened: source() rejects it.
        if find_damaged(self.output.parent, {self.output.name: record.get("output_sha256", "")}):
            return "their outputs have been changed"
        if find_damaged(self.input.parent, {self.input.name: record.get("input_sha256", "")}):
            return "their inputs have changed"
        return None

    def refuse_other(self, command: Mapping[str, Any]) -> None:
        """Raises ConfigError if the output exists and is of another command."""
        record = self.read_record()
        if record is None or not self.output.exists():
            return
        earlier, now = self.select_settings(rename_options(record["command"])), self.select_settings(command)
        if earlier == now:
            return
        names = " and ".join(f"`{format_value(name)}`" for name in find_changed_keys(earlier, now)[:5])
        raise ConfigError(
            f"`{format_value(self.output)}` is the output of another command with other {names}",
            "set `output_dir=` to another folder, or start over with `fresh=True`",
        )


def find_shards(input_dir: Path, output_dir: Path) -> list[FileJob]:
    """Returns the files of a folder and its subfolders, sorted by name; hidden files are skipped.

    Raises DataError if the folder does not exist, cannot be listed, or has no files; ConfigError if one folder is
    inside the other.
    """
    source, target = _resolve(input_dir), _resolve(output_dir)
    if not source.is_dir():
        what = "is a file, not a folder" if source.exists() else "does not exist"
        raise DataError(f"`{format_value(input_dir)}` {what}", "set `input_dir=` to the folder with the texts")
    if target.exists() and not target.is_dir():
        raise DataError(f"`{format_value(output_dir)}` is a file, not a folder", "set `output_dir=` to another folder")
    if source == target or source in target.parents or target in source.parents:
        raise ConfigError(
            f"`{format_value(input_dir)}` and `{format_value(output_dir)}` must not contain each other: outputs "
            "would be inputs",
            "set `output_dir=` to a folder elsewhere",
        )
    names = sorted(path.relative_to(source).as_posix() for path in _files(source))
    if not names:
        raise DataError(f"no files in `{format_value(input_dir)}`", "hidden files are skipped")
    return [FileJob(name, source / name, target / name, target / OWN / _make_own_name(name)) for name in names]


def _make_own_name(name: str) -> str:
    """Returns the path in OWN for an input: its own path, except for names that Pellucid's files could have, or that
    are too long. The replacements begin with a dot, as no input's name does.
    """
    *folders, file = name.split("/")
    folders = [f".{folder}" if folder.endswith(RESERVED) else folder for folder in folders]
    if len(os.fsencode(file)) > MOST_NAME_BYTES:
        file = f".{sha256(os.fsencode(file)).hexdigest()}"
    elif file.endswith((".partial", ".failed")):
        file = f".{file}"
    return "/".join([*folders, file])


def check_libraries(shards: Sequence[FileJob]) -> None:
    """Raises DataError if a library is missing that one of the files requires."""
    if any(shard.input.suffix == ".zst" for shard in shards):
        zstd()
    if any(shard.is_table for shard in shards):
        check_parquet()


def find_orphans(output_dir: Path, shards: Sequence[FileJob]) -> list[str]:
    """Returns the names of existing outputs whose inputs no longer exist."""
    target = _resolve(output_dir)
    known = {shard.record for shard in shards}
    records = (
        Path(place, file) for place, _, files in os.walk(target / OWN) for file in files
        if file.endswith(".json") and not file.endswith(".partial.json")
    )  # fmt: skip
    names = (read_stored_table(path).get("input") for path in records if path not in known)
    return sorted(name for name in names if isinstance(name, str) and _is_output(target, name))


def _is_output(target: Path, name: str) -> bool:
    """Returns True if an output with this name from a record exists."""
    try:
        return not os.path.isabs(name) and ".." not in name.split("/") and (target / name).is_file()
    except (OSError, ValueError):
        return False


def _files(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise DataError(
            f"cannot list `{format_value(Path(error.filename))}`: {error.strerror}",
            "check the permissions of the folder",
        ) from error

    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place, name) for name in files if not name.startswith("."))


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (RuntimeError, ValueError, OSError) as error:
        raise DataError(f"`{format_value(path)}` is not a valid path: {error}", "name another folder") from error
