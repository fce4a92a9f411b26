"""`pellucid translate --input-dir`: translates a folder, and returns its messages and exit status."""

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.arguments import rename_parameters
from pellucid.cli.commands import load_command
from pellucid.cli.options import prepare_process
from pellucid.errors import ConfigError, escape_message, format_argument, format_value
from pellucid.terminal import log_line

if TYPE_CHECKING:
    from pellucid.streams.file_results import FileResult
    from pellucid.streams.folder_translation import BulkTranslation
    from pellucid.tasks.flag_report import LineReport
    from pellucid.tasks.translation import Translation

MOST_NAMED = 5
"""The maximum number of files that a message names."""


def prepare_documents(
    bulk: "BulkTranslation",
    codes: tuple[str | None, str | None],
    of_lines: Mapping[str, Any],
) -> "BulkTranslation":
    """Returns the request with the languages of its documents; as it is, if the folder has none.

    Args:
        codes: the source and the target language.
        of_lines: options of lines by their names, which documents do not take.

    Raises ConfigError for such an option.
    """
    found = next((job for job in bulk.shards() if job.is_document), None)
    if found is None:
        return bulk
    for name, value in of_lines.items():
        if value:
            raise ConfigError(
                f"`{name}=` is for lines, and `{format_value(found.input)}` is a document", "leave it out"
            )
    loading = {key: value for key, value in bulk.translating.loading.items() if not key.endswith("_language")}
    return replace(bulk, translating=replace(bulk.translating, loading=loading, codes=codes), label=codes[1])


def translate_folder(
    bulk: "BulkTranslation",
    engine: str,
    threads: int | None,
    workers: int,
    worker: str | None,
    ray: str | None,
    report: str | None = None,
) -> int:
    """Translates the files of a folder, and writes the report; returns 1 if a file could not be translated.

    `report` is a file for the flagged lines and the reports of documents that this command translates.

    Raises ConfigError for options that cannot be combined, and for outputs of another command; DataError for folders
    that cannot be used.
    """
    from pellucid.cli.text_notes import TextNotes
    from pellucid.streams.folder_files import Share, find_orphans
    from pellucid.streams.folder_translation import BulkWork, select_pending
    from pellucid.streams.progress import LineProgress
    from pellucid.tasks.flag_report import LineReport
    from pellucid.tasks.segmenter import LongTextWarning
    from pellucid.text.tokenizer import UnknownTokenMonitor

    share = Share.parse(worker) if worker else None
    if ray and share:
        raise ConfigError(
            f"{format_argument('worker', worker)} is for schedulers, but Ray itself distributes the files",
            "leave it out",
        )
    if ray and report:
        raise ConfigError(
            f"{format_argument('report', report)} cannot be combined with {format_argument('ray', ray)}: the flags are "
            "on other machines",
            "leave one of them out",
        )
    listed = LineReport()
    every = bulk.shards()
    shards = bulk.shards(share)
    target = Path(bulk.output_dir)
    if left := find_orphans(target, every):
        _say(f"note: {_files(len(left))} in `{format_value(target)}` without an input file: {_format_names(left)}")
    if ray:
        from pellucid.streams.bulk_ray import translate_by_ray

        return _report_outcomes(
            _show_progress(translate_by_ray(bulk, ray, workers, threads), len(shards)), len(shards), 0, listed
        )
    each = prepare_process(threads, workers, engine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LongTextWarning)  # TextNotes reports it once, at the end
        translator = bulk.translating.load()
        notes, unknown = TextNotes(translator.text), UnknownTokenMonitor(translator.tokenizers.source)
        if len(shards) > sum(shard.read_record() is None for shard in shards):
            _say(f"checking existing files in `{format_value(target)}`")
        todo, reasons = select_pending(shards, bulk.command(translator), bulk.fresh)
        for reason, count in reasons.items():
            if reason:
                _say(f"{_files(count)} translated again: {reason}")

        def add(name: str, place: int, lines: "Sequence[str]", found: "Sequence[Translation]") -> None:
            notes.add(found)
            listed.add(name, place, lines, found)

        work = BulkWork(bulk, translator, todo, LineProgress(shown=True), _say, unknown.look_at, add)
        status = _report_outcomes(work.outcomes(workers, each), len(shards), len(shards) - len(todo), listed)
    if report is not None:
        listed.write(report)
    for note in notes.lines():
        _say(f"note: {note}")
    return status


def _report_outcomes(outcomes: "Iterable[FileResult]", count: int, done: int, listed: "LineReport") -> int:
    """Reports the results of `count` files, of which `done` were translated before; returns the exit status.

    Adds the reports of documents to `listed`.
    """
    states = Counter({"done before": done})
    lines, failed, reports = 0, list[str](), listed.documents
    try:
        for outcome in outcomes:
            states[outcome.state] += 1
            lines += outcome.lines
            if outcome.report:
                reports.append(json.loads(outcome.report))
                if not outcome.units:
                    _say(f"warning: no unit of `{format_value(outcome.name)}` was translated")
            if outcome.state == "failed":
                failed.append(outcome.name)
                hint = f" ({outcome.hint})" if outcome.hint else ""
                _say(rename_parameters(f"failed: {outcome.error}{hint}", load_command("translate")))
    finally:
        of = f"{count:,} file{'s' if count != 1 else ''}"
        parts = [f"{lines:,} lines"] if lines or not reports else []
        if reports:
            parts += [f"{sum(each['translated'] for each in reports):,} units"]
            parts += [f"{sum(len(each['flagged']) for each in reports):,} flagged"]
        first = (
            f"{states['translated']:,} translated ({', '.join(parts)})" if states["translated"] else "none translated"
        )
        others = [f"{states[state]:,} {state}" for state in ("done before", "held by another process") if states[state]]
        left = count - states.total()
        others += [f"{left:,} not done: run the same command again to continue"] if left else []
        _say(f"{of}: {', '.join([first, *others])}" + (f", {len(failed):,} failed" if failed else ""))
    if failed:
        _say(f"failed: {_format_names(sorted(failed))}; run the same command again to retry them")
    return int(bool(failed))


def _show_progress(outcomes: "Iterable[FileResult]", count: int) -> "Iterator[FileResult]":
    """Yields the results of files and shows their progress; the progress within a file is on other machines."""
    from pellucid.streams.progress import LineProgress

    lines = 0
    with LineProgress(shown=True) as progress:
        progress.begin(0, 0.0)
        for number, outcome in enumerate(outcomes, start=1):
            lines += outcome.lines
            progress.update(lines, number / count)
            yield outcome


def _files(count: int) -> str:
    return f"{count:,} file is" if count == 1 else f"{count:,} files are"


def _format_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(f"`{format_value(name)}`" for name in names[:MOST_NAMED]) + more


def _say(text: str) -> None:
    log_line(escape_message(text))
