"""Translates the lines of a text, which may have files of prefixes or terms next to it: part of `translate`."""

import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from pellucid.cli.text_notes import TextNotes
from pellucid.streams.source import PairSource
from pellucid.streams.streams import LineStream, open_input, open_output_stream
from pellucid.streams.translate_job import Translating
from pellucid.streams.workers import run_workers
from pellucid.tasks.flag_report import LineReport
from pellucid.tasks.segmenter import LongTextWarning
from pellucid.terminal import log_line
from pellucid.text.tokenizer import UnknownTokenMonitor


def translate_lines(
    translating: Translating,
    stream: LineStream,
    parallel: Sequence[str],
    name: str,
    report: str | None,
    *,
    workers: int,
    threads: int | None,
) -> None:
    """Writes the translations of the lines of a stream, and its notes to standard error.

    Args:
        parallel: files with a line for each line of the stream: its prefix, or its terms.
        name: the name of the input in the report.
        report: the file of the totals and the flagged lines; None: no report.
        workers: the number of processes that translate.
        threads: the number of threads of each.

    Raises the errors of the model, of the search and of the streams.
    """
    with warnings.catch_warnings(), ExitStack() as stack:
        source: Any = stack.enter_context(open_input(stream))
        for file in parallel:
            second = LineStream(file, stream.output, stream.on_bad_utf8)
            source = PairSource(source, stack.enter_context(open_input(second)))
        warnings.simplefilter("ignore", LongTextWarning)  # TextNotes reports it once, at the end
        translator = translating.load()
        listed, read = LineReport(), deque[tuple[int, list[str]]]()
        notes, unknown = TextNotes(translator.text), UnknownTokenMonitor(translator.tokenizers.source)
        nothing: Any = translating.nothing if not parallel else (("", ""), translating.nothing[1])
        with (
            run_workers(workers, threads, translator, translating.load, translating.answering) as answered,
            open_output_stream(
                stream, source, command=lambda: translating.identity(translator), nothing=nothing, workers=workers,
            ) as answers,
        ):  # fmt: skip

            def read_lines() -> Iterator[tuple[int, list[Any]]]:
                for place, lines in unknown.monitor(answers):
                    read.append((place, [line if isinstance(line, str) else line[0] for line in lines]))
                    yield place, lines

            for found in answered(read_lines(), answers.is_ready):
                notes.add(found)
                listed.add(name, *read.popleft(), found)
                answers.write(translating.line(each) for each in found)
    if report is not None:
        listed.write(report)
    for note in notes.lines():
        log_line(f"note: {note}")
