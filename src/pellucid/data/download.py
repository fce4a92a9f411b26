"""Downloads from a publisher, or a mirror, into the cache: each file whole and as it should be, or not at all."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from rich import filesize
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bars

from pellucid.data.archive import ArchiveError, unpack
from pellucid.data.cache import damage, record_sha256, recorded_sha256
from pellucid.data.catalogue import PublishedFile, Source, total_size
from pellucid.data.transfer import Progress, TransferError, transfer, writing
from pellucid.errors import DataError
from pellucid.files.reading import sha256_of

STEP = 20_000_000
"""Bytes between two lines."""


def say(text: str) -> None:
    """Writes a line for the reader to stderr."""
    print(text, file=sys.stderr)


@contextmanager
def showing_progress(name: str) -> Iterator[Progress]:
    """Shows how far a transfer is: yields what it reports its progress to."""
    console = Console(stderr=True)
    if console.is_terminal:
        with _bar(name, console) as progress:
            yield progress
    else:
        yield _lines(name)


@contextmanager
def _bar(name: str, console: Console) -> Iterator[Progress]:
    columns = (
        TextColumn("  {task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _lines(name: str) -> Progress:
    last = 0

    def progress(done: int, total: int | None) -> None:
        nonlocal last
        if done - last >= STEP:
            last = done
            say(f"  {name}: {filesize.decimal(done)}{f' of {filesize.decimal(total)}' if total else ''}")

    return progress


@dataclass(frozen=True)
class Patience:
    """The time for which an address is tried."""

    timeout: float = 30.0
    """Seconds without an answer, or without data, until a connection is given up."""
    attempts: int = 3
    """The attempts at a download that breaks off, before the next address is tried."""
    pause: float = 2.0
    """Seconds before the second attempt; more before the third."""


def announce(files: Sequence[PublishedFile], cache: Path) -> None:
    """Says what is about to be fetched, from where, how much it is, and what it may be used for."""
    for title in dict.fromkeys(file.title for file in files):
        of_set = [file for file in files if file.title == title]
        number = f"{len(of_set)} files" if len(of_set) > 1 else f"`{of_set[0].name}`"
        say(f"fetching {number} of {title}, {total_size(of_set)}, which this machine does not have")
        say(f"  from   {of_set[0].publisher}")
        say(f"  terms  {of_set[0].terms}")
        say(f"  to     {cache / of_set[0].data_set}")


def download(file: PublishedFile, cache: Path, patience: Patience | None = None) -> None:
    """Fetches a file from the first of its addresses that gives it; then its texts lie below `cache`.

    A file whose checksum is known goes on where an earlier download of it broke off, since the checksum tells whether
    the parts fit. An archive is unpacked and not kept; one that somebody has put in its place by hand is used.

    Raises DataError where no address gives it, with the reason of each, or where it cannot be written.
    """
    target = cache / file.path
    with writing(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    published = "" if file.members else file.sha256  # of an archive's texts nobody has published a checksum
    with _alone(target):
        if all((cache / text).is_file() and not damage(cache / text, published) for text in file.texts):
            return  # another process has fetched it in the meantime
        if file.members and target.is_file():
            _take_what_lies_there(file, target)
        else:
            _fetch(file, target, patience or Patience())


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Keeps other processes from fetching the same file at the same time."""
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    with writing(target):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"  another process is fetching {target.name}; waiting for it")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _take_what_lies_there(file: PublishedFile, target: Path) -> None:
    """Takes an archive that somebody has fetched by hand."""
    try:
        _take(target, file, target)
    except WrongFileError as error:
        raise DataError(f"`{target}` is not the file that is published: {error}", "remove it, or replace it") from error


def _fetch(file: PublishedFile, target: Path, patience: Patience) -> None:
    if not file.sha256 and not recorded_sha256(target):
        say(f"  nobody has published a checksum of {file.name}: this one's is kept, and later downloads must have it")
    failures: list[tuple[Source, TransferError]] = []
    for source in file.sources:
        say(f"  {source.url}{'' if source.tried else ' (this address has not been tried by the authors)'}")
        try:
            _fetch_from(source, file, target, patience)
            return
        except TransferError as error:
            say(f"    {error}")
            failures.append((source, error))
    reasons = "; ".join(f"`{source.url}`: {error}" for source, error in failures)
    by_hand = f"fetch it by hand to `{target}`, or name a folder that has {' and '.join(file.texts)} by `data_dir=`"
    hints = dict.fromkeys(error.hint for _, error in failures if error.hint)
    raise DataError(f"could not fetch `{file.path}`: {reasons}", "; or ".join([*hints, by_hand]))


def _fetch_from(source: Source, file: PublishedFile, target: Path, patience: Patience) -> None:
    partial = target.with_name(f".{target.name}.partial")
    for attempt in range(1, patience.attempts + 1):
        if not file.sha256:
            partial.unlink(missing_ok=True)
        had_beginning, is_last = partial.exists(), attempt == patience.attempts
        try:
            with showing_progress(file.name) as progress:
                transfer(source.url, partial, progress, size=file.bytes, timeout=patience.timeout)
            _take(partial, file, target)
            return
        except WrongFileError as error:
            partial.unlink()
            if not had_beginning or is_last:
                raise
            say(f"    {error}; starting over, since its beginning was an earlier one's")
        except TransferError as error:
            if not error.is_passing or is_last:
                raise
            say(f"    {error}; trying again")
            time.sleep(patience.pause * attempt)


class WrongFileError(TransferError):
    """Raised where something has come, but it is not the file."""


def _take(path: Path, file: PublishedFile, target: Path) -> None:
    """Puts what lies at `path` in its place, if it is the file. Raises WrongFileError where it is not."""
    found, expected = sha256_of(path), file.sha256 or recorded_sha256(target)
    if expected and found != expected:
        raise WrongFileError(f"gives a file with SHA-256 {found}, but {expected} is expected: it is not used")
    try:
        with writing(target):
            if file.members:
                unpack(path, {target.parent / name: member for name, member in file.members.items()})
                if path != target:
                    path.unlink()
            else:
                os.replace(path, target)
            record_sha256(target, found)
    except ArchiveError as error:
        raise WrongFileError(f"gives {error}: it is not used") from error
