"""Translation memories: a file of corrections that grows, and corpora with both sides, such as TMX.

The file of corrections is an SQLite database. SQLite's rollback journal makes each call of `remember_pairs` one
transaction: a process that is killed while it writes leaves the file as it was, and two processes write one after the
other.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from pellucid.data.lines import check_text_file
from pellucid.data.parallel import ParallelText, holds_both_sides
from pellucid.errors import DataError, format_value
from pellucid.files.budget import MOST_TEXT_BYTES
from pellucid.files.writing import check_writable

MEMORY = "memory.sqlite"
"""The name of the memory of a model folder."""
APPLICATION = 0x50654D65
"""The application id in the head of the file: `PeMe`."""
VERSION = 1
MOST_WAIT = 60.0
"""Seconds at most that a process waits for another one that writes."""
_MAGIC = b"SQLite format 3\0"
_COUNTER = slice(24, 28)
"""The bytes of the head of an SQLite file that change with each transaction."""
_HEAD = 100

Languages = tuple[str, str]
"""The codes of the source and the target language; "" for one that is not known."""


def resolve_memory(path: str | Path) -> Path:
    """Returns the file of a memory; in a model folder, the file with the name `memory.sqlite`."""
    return Path(path) / MEMORY if Path(path).is_dir() else Path(path)


def remember_pairs(path: str | Path, pairs: Iterable[tuple[str, str]], languages: Languages = ("", "")) -> int:
    """Adds corrections to the file of a memory, in one transaction, and returns how many are new.

    A source may have several translations: the last one is used. A pair is not new if it is the last one of its source.

    Args:
        path: the file, which is created if it does not exist; or a model folder, for its `memory.sqlite`.
        pairs: sources with their translations.
        languages: the codes of the two languages, for a model of several languages.

    Raises DataError for a pair without text on one side, for a file that is no such memory, for a write that fails, and
    if another process writes for more than `MOST_WAIT` seconds.
    """
    file = resolve_memory(path)
    rows = [_check_pair(number, pair) for number, pair in enumerate(pairs, start=1)]
    check_writable(file)
    if file.exists():
        _check_head(file)
    added, now = 0, datetime.now(UTC).isoformat(timespec="seconds")
    with _connect(file, "rwc") as memory:
        memory.execute("BEGIN IMMEDIATE")
        _prepare(memory, file)
        for source, target in rows:
            last = memory.execute(
                "SELECT target FROM units WHERE source = ? AND source_language = ? AND target_language = ? "
                "ORDER BY id DESC LIMIT 1",
                (source, *languages),
            ).fetchone()
            if last != (target,):
                memory.execute(
                    "INSERT INTO units (source, target, source_language, target_language, added) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (source, target, *languages, now),
                )
                added += 1
        memory.execute("COMMIT")
    return added


def read_memory(path: str | Path, languages: Languages = ("", "")) -> list[tuple[str, str]]:
    """Returns the pairs of a memory in their order, without empty sides: of SQLite, TMX or a file with both sides.

    Args:
        languages: the codes of the two languages. A unit with other codes is left out; where one of the two is not
            known, a TMX file is read from the source language of its head.

    Raises DataError for a file that does not exist, is damaged or is no memory.
    """
    file = check_text_file(resolve_memory(path))
    if _is_database(file):
        with _connect(file, "rw") as memory:
            _check_application(memory, file)
            rows = memory.execute(
                "SELECT source, target FROM units WHERE (source_language IN ('', ?1) OR ?1 = '') "
                "AND (target_language IN ('', ?2) OR ?2 = '') ORDER BY id",
                languages,
            ).fetchall()
    elif holds_both_sides(str(file)):
        keys = languages if all(languages) and ".tmx" in file.name.lower() else ("src", "tgt")
        rows = [*ParallelText(str(file), "", jsonl_keys=keys).pairs("error")]
    else:
        raise DataError(
            f"`{format_value(file)}` is no translation memory",
            "name a .tmx or .tsv file, or the file that the verb `remember` wrote",
        )
    return [(source, target) for source, target in rows if source and target and source.strip() and target.strip()]


def identify_memory(path: str | Path) -> tuple[object, ...]:
    """Returns a value that differs when the file of a memory has changed. Raises DataError if it does not exist."""
    file = check_text_file(resolve_memory(path))
    stat = file.stat()
    with file.open("rb") as opened:
        head = opened.read(_HEAD)
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, head[_COUNTER] if head.startswith(_MAGIC) else b""


def _check_pair(number: int, pair: Sequence[str]) -> tuple[str, str]:
    source, target = pair
    for side, text in (("source", source), ("translation", target)):
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"correction {number:,} has no {side}", "leave it out, or fill it in")
        if len(text.encode("utf-8", "replace")) > MOST_TEXT_BYTES:
            raise DataError(
                f"the {side} of correction {number:,} has more than {MOST_TEXT_BYTES:,} bytes", "use single sentences"
            )
    return source.strip(), target.strip()


def _is_database(file: Path) -> bool:
    """Returns True for an SQLite file, and for an empty one, whose first writer was killed."""
    with file.open("rb") as opened:
        head = opened.read(len(_MAGIC))
    return head in (b"", _MAGIC)


def _check_head(file: Path) -> None:
    if not _is_database(check_text_file(file)):
        raise DataError(
            f"`{format_value(file)}` is no file of corrections, but another file",
            "name another file; a TMX file is copied by `src=` into a new one",
        )


@contextmanager
def _connect(file: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Yields a connection that writes at COMMIT alone; errors of SQLite become DataError."""
    try:
        address = f"file:{quote(str(file.absolute()))}?mode={mode}"
        with closing(sqlite3.connect(address, MOST_WAIT, isolation_level=None, uri=True)) as memory:
            memory.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4 * MOST_TEXT_BYTES)
            memory.execute("PRAGMA trusted_schema = OFF")
            yield memory
    except sqlite3.Error as error:
        is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        raise DataError(
            f"`{format_value(file)}` could not be {'read' if mode == 'rw' else 'written'}: {error}",
            "another process writes: try again" if is_busy else "check the file and the disk; nothing was changed",
        ) from error


def _prepare(memory: sqlite3.Connection, file: Path) -> None:
    """Creates the table of an empty file; checks that of another one."""
    if memory.execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
        _check_application(memory, file)
        return
    memory.execute(f"PRAGMA application_id = {APPLICATION}")
    memory.execute(f"PRAGMA user_version = {VERSION}")
    memory.execute(
        "CREATE TABLE units (id INTEGER PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL, "
        "source_language TEXT NOT NULL, target_language TEXT NOT NULL, added TEXT NOT NULL)"
    )
    memory.execute("CREATE INDEX units_by_source ON units (source)")


def _check_application(memory: sqlite3.Connection, file: Path) -> None:
    application, version = (
        memory.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        raise DataError(f"`{format_value(file)}` is a database of another program", "name another file")
    if version != VERSION:
        raise DataError(
            f"`{format_value(file)}` has the format version {version}, and this program reads {VERSION}",
            "update this program",
        )
