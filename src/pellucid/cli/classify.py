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
    at_revision,
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
    pairs: Annotated[bool, flag("each line is two texts, with a tab between them")] = False,
    batch_tokens: Annotated[int | None, optional("N", "tokens of all texts at a time")] = None,
    json: Annotated[bool, flag("a JSON object a line, with the probability of each label")] = False,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
    threads: ThreadsOfAWorker = None,
    workers: Workers = 1,
) -> int:
    """Label texts, one a line: as many labels come out as lines went in, in their order.

    example: pellucid classify run < texts.txt > labels.txt
    """
    from functools import partial
    from json import dumps

    from pellucid.streams.streams import answering, identity, opened, text_stream
    from pellucid.streams.workers import answering_by
    from pellucid.tasks.classifier import Classifier
    from pellucid.text.tokenizer import UnknownShare

    model = at_revision(model, revision)
    stream = text_stream(text, input, output, on_bad_utf8, fresh)
    each = prepare_process(threads, workers)
    with opened(stream) as source:
        load = partial(Classifier.load, model, device, dtype)
        classifier = load()
        unknown = UnknownShare(classifier.tokenizers.source)
        settings = {"pairs": pairs, "as_json": json, "labels": classifier.labels}
        nothing = ("\t" if pairs else "", "null" if json else "")
        command = partial(identity, "classify", classifier, settings)
        with (
            answering_by(workers, each, classifier, load, {"batch_tokens": batch_tokens}) as answered,
            answering(stream, source, command=command, nothing=nothing, workers=workers) as answers,
        ):
            stretches = (
                (place, [_pair(line, place + i, stream.input) for i, line in enumerate(lines, 1)] if pairs else lines)
                for place, lines in unknown.passing(answers)
            )
            for found in answered(stretches, answers.is_ready):
                answers.write(dumps(one.to_json(), ensure_ascii=False) if json else one.label for one in found)
    return 0


def _pair(line: str, number: int, path: str) -> tuple[str, str]:
    """Returns the two texts of a line. Raises DataError where a tab does not part it into two."""
    from pellucid.data.lines import origin
    from pellucid.errors import DataError

    first, *others = line.split("\t")
    if len(others) != 1:
        raise DataError(
            f"line {number:,} of {origin(path)} is no pair: it has {len(others)} tabs",
            "write two texts with one tab between them, or leave --pairs out",
        )
    return first, others[0]
