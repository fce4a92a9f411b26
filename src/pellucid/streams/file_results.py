"""The result of a file of a folder, and the errors that are of one file or of all."""

from dataclasses import dataclass
from typing import Literal

from pellucid.errors import PellucidError, format_value, get_hint
from pellucid.files.writing import is_disk_failure
from pellucid.streams.folder_files import FileJob

State = Literal["translated", "done before", "held by another process", "failed"]


@dataclass(frozen=True)
class FileResult:
    """The result of a file: its state, and for a failure the reason and a remedy."""

    name: str
    state: State
    lines: int = 0
    """The lines translated by this command; for a resumed file, only the lines after the resumed position."""
    error: str = ""
    hint: str = ""
    units: int | None = None
    """The units of a document that were translated; None: a file of lines."""
    report: str = ""
    """The report of a document, as JSON."""


def make_failure(shard: FileJob, error: Exception) -> FileResult:
    """Returns the result of a file that an error ended."""
    if isinstance(error, PellucidError):
        return FileResult(shard.name, "failed", error=str(error), hint=get_hint(error))
    if isinstance(error, OSError):
        said = f"cannot use `{format_value(shard.input)}`: {error.strerror or error}"
        return FileResult(shard.name, "failed", error=said, hint=get_hint(error))
    return FileResult(shard.name, "failed", error=f"`{format_value(shard.input)}`: {type(error).__name__}: {error}")


def is_of_the_disk(error: BaseException) -> bool:
    """Returns True if the error is caused by the disk of the outputs, and thus concerns all files."""
    return any(isinstance(each, OSError) and is_disk_failure(each) for each in (error, error.__cause__))
