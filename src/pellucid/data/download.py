"""Downloads from a publisher or a mirror into the cache: atomic, and verified by the checksum if one is known."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich import filesize
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bars

from pellucid.data.archive import ArchiveError, unpack
from pellucid.data.catalogue import Mirror, PublishedFile, total_size
from pellucid.data.download_cache import find_checksum_mismatch, read_recorded_sha256, record_sha256
from pellucid.data.transfer import Progress, TransferError, convert_cache_write_errors, download_url
from pellucid.errors import DataError
from pellucid.files.lock import lock_or_wait
from pellucid.files.reading import hash_file
from pellucid.terminal import log_line

STEP = 20_000_000
"""Bytes between two log lines."""


@contextmanager
def show_progress(name: str) -> Iterator[Progress]:
    """Shows the progress of a transfer: yields the callback for it."""
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
            log_line(f"  {name}: {filesize.decimal(done)}{f' of {filesize.decimal(total)}' if total else ''}")

    return progress


@dataclass(frozen=True)
class RetryPolicy:
    """The timeout, attempts and pause for each address."""

    timeout: float = 30.0
    """Seconds without a response, or without data, until a connection is closed."""
    attempts: int = 3
    """The attempts at an interrupted download, before the next address is tried."""
    pause: float = 2.0
    """Seconds before the second attempt; more before the third."""


def announce(files: Sequence[PublishedFile], cache: Path) -> None:
    """Logs the files to fetch: name, size, publisher, terms and destination."""
    for title in dict.fromkeys(file.title for file in files):
        of_set = [file for file in files if file.title == title]
        number = f"{len(of_set)} files" if len(of_set) > 1 else f"`{of_set[0].name}`"
        log_line(f"downloading {number} of {title} ({total_size(of_set)})")
        log_line(f"  from   {of_set[0].publisher}")
        log_line(f"  terms  {of_set[0].terms}")
        log_line(f"  to     {cache / of_set[0].data_set}")


def download(file: PublishedFile, cache: Path, patience: RetryPolicy | None = None) -> None:
    """Fetches a file from the first of its addresses that works, and writes its texts below `cache`.

    Resumes an interrupted download if the checksum of the file is known, which verifies the result. An archive is
    unpacked and removed; an archive that the user has put in its place is used.

    Raises DataError if no address works, with the reason of each, or if the file cannot be written.
    """
    target = cache / file.path
    with convert_cache_write_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    published = "" if file.members else file.sha256  # texts in an archive have no published checksum
    lock = target.with_name(f".{target.name}.lock")
    with ExitStack() as stack:
        with convert_cache_write_errors(target):
            stack.enter_context(
                lock_or_wait(lock, lambda: log_line(f"  waiting for another process that is downloading {target.name}"))
            )
        if all((cache / text).is_file() and not find_checksum_mismatch(cache / text, published) for text in file.texts):
            return  # another process has fetched it in the meantime
        if file.members and target.is_file():
            _take_what_lies_there(file, target)
        else:
            _fetch(file, target, patience or RetryPolicy())


def _take_what_lies_there(file: PublishedFile, target: Path) -> None:
    """Unpacks an archive that the user has fetched by hand."""
    try:
        _take(target, file, target)
    except WrongFileError as error:
        raise DataError(f"`{target}` differs from the published file: {error}", "remove or replace it") from error


def _fetch(file: PublishedFile, target: Path, patience: RetryPolicy) -> None:
    if not file.sha256 and not read_recorded_sha256(target):
        log_line(
            f"  no checksum of {file.name} is published: the checksum of this download is stored, and later "
            "downloads must match it"
        )
    failures: list[tuple[Mirror, TransferError]] = []
    for source in file.sources:
        log_line(f"  {source.url}{'' if source.tried else ' (this address has not been tried by the authors)'}")
        try:
            _fetch_from(source, file, target, patience)
            return
        except TransferError as error:
            log_line(f"    {error}")
            failures.append((source, error))
    reasons = "; ".join(f"`{source.url}`: {error}" for source, error in failures)
    by_hand = f"download it to `{target}`, or pass a folder with {' and '.join(file.texts)} as `data_dir=`"
    hints = dict.fromkeys(error.hint for _, error in failures if error.hint)
    raise DataError(f"could not download `{file.path}`: {reasons}", "; or ".join([*hints, by_hand]))


def _fetch_from(source: Mirror, file: PublishedFile, target: Path, patience: RetryPolicy) -> None:
    partial = target.with_name(f".{target.name}.partial")
    for attempt in range(1, patience.attempts + 1):
        if not file.sha256:
            partial.unlink(missing_ok=True)
        had_beginning, is_last = partial.exists(), attempt == patience.attempts
        try:
            with show_progress(file.name) as progress:
                download_url(source.url, partial, progress, size=file.bytes, timeout=patience.timeout)
            _take(partial, file, target)
            return
        except WrongFileError as error:
            partial.unlink()
            if not had_beginning or is_last:
                raise
            log_line(f"    {error}; starting over, since the partial file is of an earlier version")
        except TransferError as error:
            if not error.is_passing or is_last:
                raise
            log_line(f"    {error}; trying again")
            time.sleep(patience.pause * attempt)


class WrongFileError(TransferError):
    """Raised if the transferred content is not the expected file."""


def _take(path: Path, file: PublishedFile, target: Path) -> None:
    """Moves or unpacks the file at `path` into its place. Raises WrongFileError if it is not the expected file."""
    found, expected = hash_file(path), file.sha256 or read_recorded_sha256(target)
    if expected and found != expected:
        raise WrongFileError(f"has SHA-256 {found} instead of {expected}; the file is not used")
    try:
        with convert_cache_write_errors(target):
            if file.members:
                unpack(path, {target.parent / name: member for name, member in file.members.items()})
                if path != target:
                    path.unlink()
            else:
                os.replace(path, target)
            record_sha256(target, found)
    except ArchiveError as error:
        raise WrongFileError(f"is {error}; the file is not used") from error
