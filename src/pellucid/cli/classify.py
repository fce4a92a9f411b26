"""`pellucid classify`."""

from typing import Annotated

from pellucid.cli.options import (
    Device,
    Dtype,
    FreshOutput,
    Input,
    Model,
    OnBadLines,
    Output,
    Revision,
    Text,
    ThreadsOfAWorker,
    Workers,
    add_revision,
    flag,
    optional,
    prepare_process,
)


def classify(
    model: Model,
    text: Text = None,
    /,
    *,
    input: Input = "-",
    output: Output = "-",
    on_bad_utf8: OnBadLines = "error",
    fresh: FreshOutput = False,
    text_pairs: Annotated[bool, flag("each line has two texts, separated by a tab")] = False,
    batch_tokens: Annotated[int | None, optional("N", "tokens per batch")] = None,
    json: Annotated[bool, flag("print a JSON object per line, with the probability of each label")] = False,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
    threads: ThreadsOfAWorker = None,
    workers: Workers = 1,
) -> int:
    """Label texts, one per line. The output has one label per input line, in the order of the input.

    example: pellucid classify run < texts.txt > labels.txt
    """
    from functools import partial
    from json import dumps

    from pellucid.streams.streams import fingerprint_request, open_input, open_output_stream, text_stream
    from pellucid.streams.workers import run_workers
    from pellucid.tasks.classifier import Classifier
    from pellucid.text.tokenizer import UnknownTokenMonitor

    model = add_revision(model, revision)
    stream = text_stream(text, input, output, on_bad_utf8, fresh)
    each = prepare_process(threads, workers)
    with open_input(stream) as source:
        load = partial(Classifier.load, model, device, dtype)
        classifier = load()
        unknown = UnknownTokenMonitor(classifier.tokenizers.source)
        settings = {"text_pairs": text_pairs, "as_json": json, "labels": classifier.labels}
        nothing = ("\t" if text_pairs else "", "null" if json else "")
        command = partial(fingerprint_request, "classify", classifier, settings)
        with (
            run_workers(workers, each, classifier, load, {"batch_tokens": batch_tokens}) as answered,
            open_output_stream(stream, source, command=command, nothing=nothing, workers=workers) as answers,
        ):
            chunks = (
                (
                    place,
                    [_pair(line, place + i, stream.input) for i, line in enumerate(lines, 1)] if text_pairs else lines,
                )
                for place, lines in unknown.monitor(answers)
            )
            for found in answered(chunks, answers.is_ready):
                answers.write(dumps(one.to_json(), ensure_ascii=False) if json else one.label for one in found)
    return 0


def _pair(line: str, number: int, path: str) -> tuple[str, str]:
    """Returns the two texts of a line. Raises DataError if the line does not have exactly one tab."""
    from pellucid.data.lines import format_display_name
    from pellucid.errors import DataError

    first, *others = line.split("\t")
    if len(others) != 1:
        raise DataError(
            f"line {number:,} of {format_display_name(path)} is not a pair: it has {len(others)} tabs",
            "separate two texts by one tab, or leave --text-pairs out",
        )
    return first, others[0]
