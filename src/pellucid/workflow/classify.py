"""`pellucid classify`: lines from a stream through a classifier, in their order."""

import json
import sys

from pellucid.data.corpus import origin, read_lines
from pellucid.errors import DataError
from pellucid.tasks.classifier import Classification, Classifier, Text
from pellucid.text.unknown import UnknownShare
from pellucid.workflow.process import keep_freed_memory
from pellucid.workflow.streams import stretches, writer


def classify_stream(
    folder: str,
    input_path: str,
    output_path: str,
    *,
    pairs: bool,
    batch_tokens: int | None,
    as_json: bool,
    device: str,
    dtype: str | None,
) -> None:
    """Labels the lines of a file, or of standard input for "-", to a file or standard output.

    With `pairs`, a line is two texts with a tab between them; DataError for one that is not.
    """
    keep_freed_memory()
    classifier = Classifier.load(folder, device, dtype)
    unknown = UnknownShare(classifier.tokenizer)
    with writer(output_path) as file:
        number = 0
        for lines in stretches(read_lines(input_path), at_once=input_path == "-" and sys.stdin.isatty()):
            unknown.look_at(lines)
            texts = [_pair(line, number + i, input_path) for i, line in enumerate(lines, start=1)] if pairs else lines
            for found in classifier.classify(texts, batch_tokens=batch_tokens):
                file.write((_as_json(found) if as_json else found.label) + "\n")
            number += len(lines)
            file.flush()


def _pair(line: str, number: int, path: str) -> Text:
    first, *others = line.split("\t")
    if len(others) != 1:
        raise DataError(
            f"line {number:,} of {origin(path)} is no pair: it has {len(others)} tabs",
            "write two texts with one tab between them, or leave --pairs out",
        )
    return first, others[0]


def _as_json(found: Classification) -> str:
    probabilities = {label: round(probability, 6) for label, probability in found.probabilities.items()}
    return json.dumps({"label": found.label, "probabilities": probabilities}, ensure_ascii=False)
