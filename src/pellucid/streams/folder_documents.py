"""Translates documents of a folder, each as a whole: a document without an intact output is translated anew."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, PellucidError, format_value
from pellucid.files.lock import lock_or_fail
from pellucid.files.reading import hash_file
from pellucid.files.writing import convert_write_errors
from pellucid.streams.file_results import FileResult, is_of_the_disk, make_failure
from pellucid.streams.folder_files import FileJob
from pellucid.streams.partial_output import OutputLockedError
from pellucid.workers import Answering

if TYPE_CHECKING:
    from pellucid.tasks.translator import Translator

Progress = Callable[[FileJob, float], object]
"""Is called with a document and the fraction of it that is translated."""


@dataclass(frozen=True)
class DocumentsRequest:
    """The documents of a folder, by their names, and the settings of their translation; can be sent to a process."""

    shards: Mapping[str, FileJob]
    command: Mapping[str, Any]
    options: Mapping[str, Any]
    """The options of the search."""
    label: str | None
    """The code of the target language for labels; None: that of the model."""
    fresh: bool


def make_answering(
    request: DocumentsRequest, progress: Progress | None, translator: "Translator"
) -> Answering[str, FileResult]:
    """Returns the function that translates documents by their names, in this process or in a worker."""

    def answer(names: Sequence[str], _: int) -> list[FileResult]:
        return [translate_file(request, translator, request.shards[name], progress) for name in names]

    return answer


def translate_file(
    request: DocumentsRequest, translator: "Translator", shard: FileJob, progress: Progress | None = None
) -> FileResult:
    """Translates a document of a folder. Its output and its record appear when the document is complete.

    Raises DataError for a full disk; any other error is the result of the document.
    """
    from pellucid.tasks.document_translation import make_report

    def note(done: int, every: int) -> None:
        if progress is not None:
            progress(shard, done / every)

    try:
        with ExitStack() as stack:
            for folder in (shard.output.parent, shard.own.parent):
                with convert_write_errors(folder, "folder"):
                    folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(convert_write_errors(shard.own))
            stack.enter_context(lock_or_fail(shard.lock, lambda: _refuse_locked(shard)))
            if not request.fresh:
                shard.refuse_other(request.command)
                if shard.lacks() is None:  # another process has finished it
                    return FileResult(shard.name, "done before")
            digest = hash_file(shard.input)
            outcome = translator.translate_document(
                shard.input, shard.output, progress=note, label=request.label, **request.options
            )
            if hash_file(shard.input) != digest:
                raise DataError(
                    f"`{format_value(shard.input)}` changed while it was being read", "run the same command again"
                )
            shard.write_record(request.command, len(outcome.units), digest)
            report = json.dumps(make_report(shard.name, outcome), ensure_ascii=False)
            return FileResult(shard.name, "translated", units=outcome.translated, report=report)
    except OutputLockedError:
        return FileResult(shard.name, "held by another process")
    except Exception as error:
        if isinstance(error, (PellucidError, OSError)) and is_of_the_disk(error):
            raise
        return make_failure(shard, error)


def _refuse_locked(shard: FileJob) -> OutputLockedError:
    return OutputLockedError(f"another process translates `{format_value(shard.input)}`", "wait for its end")
