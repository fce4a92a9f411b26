"""The files of a folder, each to be answered by a file of the same name in another one: found, and known when done.

What is half-made lies in `.pellucid` within the folder of the outputs, and so does a record of each that is done: of
which input and by which command it is, and its digest. Whoever puts the outputs together meets nothing else.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pellucid.errors import ConfigError, DataError, argument, shown
from pellucid.files.compression import compress, zstd
from pellucid.files.reading import sha256_of
from pellucid.files.writing import move_into_place, replacing, write_json
from pellucid.streams.columns import ColumnSource, need_parquet, write_translated
from pellucid.streams.partial_output import differing
from pellucid.streams.source import LineSource

FORMAT = "pellucid-shard/1"
OWN = ".pellucid"
"""The folder of what is half-made, and of the records."""
COMPRESSED = (".gz", ".zst")
TABLES = (".parquet",)


@dataclass(frozen=True)
class Share:
    """The part of the files that one of several processes takes: of each so many the one with its number, from 1."""

    number: int
    count: int

    @classmethod
    def of(cls, word: str) -> "Share":
        """Reads `2/8`. Raises ConfigError for another word."""
        number, slash, count = word.partition("/")
        if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
            return cls(int(number), int(count))
        raise ConfigError(
            f"{argument('worker', word)} must be a number and how many there are, from 1/N to N/N",
            "as in `2/8`, the second of eight",
        )


@dataclass(frozen=True)
class Shard:
    """A file to be answered, its output and the record of that."""

    name: str
    """Its path within both folders, with slashes."""
    input: Path
    output: Path
    own: Path
    """The path that names of what is half-made begin with."""

    ENDINGS: ClassVar[Sequence[str]] = (*COMPRESSED, *TABLES)

    @property
    def record(self) -> Path:
        """The file that says of what the output is."""
        return self.own.with_name(f"{self.own.name}.json")

    @property
    def is_table(self) -> bool:
        """True for a Parquet file, which has a column of texts."""
        return self.input.suffix in TABLES

    def decided_by(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what of a command decides this output: the column only where there are columns."""
        return {name: value for name, value in command.items() if self.is_table or name != "column"}

    def source(self, on_bad_utf8: str, column: str | None) -> LineSource | ColumnSource:
        """Opens its lines. Raises DataError where they cannot be read."""
        if not self.input.is_file():  # a pipe would be waited for
            what = "it is no file" if self.input.exists() else "there is no such file"
            raise DataError(f"cannot read `{shown(self.input)}`: {what}", "take it out of the folder")
        if self.is_table:
            return ColumnSource(self.input, column)
        return LineSource(str(self.input), on_bad_utf8)

    def place(self, plain: Path, target: Path) -> None:
        """Makes the output of the finished lines, in the form that the input has by its name; they are gone then."""
        if self.input.suffix not in self.ENDINGS:
            move_into_place(plain, target)
            return
        with replacing(target) as temporary:
            if self.is_table:
                write_translated(self.input, plain, temporary)
            else:
                compress(plain, self.input.suffix, temporary)
        plain.unlink()

    def write_record(self, command: Mapping[str, Any], lines: int, input_sha256: str) -> None:
        """Records that the output is there, and of what it is."""
        name = self.name.encode(errors="backslashreplace").decode()
        table = {
            "format": FORMAT, "input": name, "input_sha256": input_sha256, "lines": lines,
            "output_bytes": self.output.stat().st_size, "output_sha256": sha256_of(self.output),
            "command": self.decided_by(command),
        }  # fmt: skip
        write_json(self.record, table)

    def recorded(self) -> dict[str, Any] | None:
        """Returns the record, where there is one that can be read."""
        try:
            table = json.loads(self.record.read_text(encoding="utf-8"))
            whole = table["format"] == FORMAT and isinstance(table["command"], dict) and type(table["lines"]) is int
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return table if whole else None

    def lacks(self) -> str | None:
        """Says in words why it must be answered, by whatever command; None: its output is there, whole and its own."""
        record = self.recorded()
        if record is None:
            return "nothing says what their outputs are of" if self.output.exists() else ""
        try:
            if (
                self.output.stat().st_size != record["output_bytes"]
                or sha256_of(self.output) != record["output_sha256"]
            ):
                return "their outputs have been changed"
        except FileNotFoundError:
            return "their outputs are gone"
        return None if sha256_of(self.input) == record["input_sha256"] else "their inputs have changed"

    def refuse_other(self, command: Mapping[str, Any]) -> None:
        """Raises ConfigError where the output is there, and another command's."""
        record = self.recorded()
        if record is None or not self.output.exists():
            return
        earlier, now = self.decided_by(record["command"]), self.decided_by(command)
        if earlier == now:
            return
        names = " and ".join(f"`{shown(name)}`" for name in differing(earlier, now)[:5])
        raise ConfigError(
            f"`{shown(self.output)}` is of another command, whose {names} differed",
            "name another folder by `output_dir=`, or begin all anew with `fresh=True`",
        )


def find_shards(input_dir: Path, output_dir: Path) -> list[Shard]:
    """Returns the files of a folder and the folders in it, in the order of their names; hidden ones are passed over.

    Raises DataError where there is no such folder, none of its files can be listed, or it has none; ConfigError where
    one folder lies in the other.
    """
    source, target = _resolved(input_dir), _resolved(output_dir)
    if not source.is_dir():
        what = "is a file, not a folder" if source.exists() else "is not there"
        raise DataError(f"`{shown(input_dir)}` {what}", "name the folder with the texts by `input_dir=`")
    if target.exists() and not target.is_dir():
        raise DataError(f"`{shown(output_dir)}` is a file, not a folder", "name another folder by `output_dir=`")
    if source == target or source in target.parents or target in source.parents:
        raise ConfigError(
            f"`{shown(input_dir)}` and `{shown(output_dir)}` must not lie in one another: outputs would be inputs",
            "name a folder elsewhere by `output_dir=`",
        )
    names = sorted(path.relative_to(source).as_posix() for path in _files(source))
    if not names:
        raise DataError(f"there are no files in `{shown(input_dir)}`", "hidden files are passed over")
    return [Shard(name, source / name, target / name, target / OWN / name) for name in names]


def needed(shards: Sequence[Shard]) -> None:
    """Raises DataError where a library is missing that reads one of them."""
    if any(shard.input.suffix == ".zst" for shard in shards):
        zstd()
    if any(shard.is_table for shard in shards):
        need_parquet()


def strays(output_dir: Path, shards: Sequence[Shard]) -> list[str]:
    """Returns the names of outputs that are there, and whose inputs are not there any more."""
    own = _resolved(output_dir) / OWN
    known = {shard.name for shard in shards}
    records = (path.relative_to(own).as_posix().removesuffix(".json") for path in _files(own)) if own.is_dir() else ()
    return sorted(
        name for name in records
        if name not in known and not name.endswith(".partial") and (_resolved(output_dir) / name).is_file()
    )  # fmt: skip


def _files(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise DataError(
            f"cannot list `{shown(Path(error.filename))}`: {error.strerror}", "check who may read the folder"
        ) from error

    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place, name) for name in files if not name.startswith("."))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (RuntimeError, ValueError, OSError) as error:
        raise DataError(f"`{shown(path)}` is no path: {error}", "name another folder") from error
