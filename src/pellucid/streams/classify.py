"""`pellucid classify`: lines from a stream through a classifier, in their order."""

import json
from collections.abc import Iterator, Sequence
from functools import partial

from pellucid.data.lines import origin
from pellucid.errors import DataError
from pellucid.process import keep_freed_memory
from pellucid.streams.identity import identity
from pellucid.streams.streams import Stream, answer_lines, opened
from pellucid.tasks.classifier import Classification, Classifier, Text
from pellucid.text.tokenizer import UnknownShare
from pellucid.text.tokenizers import Tokenizers


def classify_stream(
    folder: str,
    stream: Stream,
    *,
    pairs: bool,
    batch_tokens: int | None,
    as_json: bool,
    device: str,
    dtype: str | None,
) -> None:
    """Labels the lines of a stream.

    With `pairs`, a line is two texts with a tab between them; DataError for one that is not.
    """
    keep_freed_memory()
    with opened(stream) as source:
        classifier = Classifier.load(folder, device, dtype)
        unknown = UnknownShare(classifier.tokenizer)

        def answer(lines: list[str], place: int) -> Iterator[str]:
            unknown.look_at(lines)
            texts: Sequence[Text] = lines
            if pairs:
                texts = [_pair(line, place + i, stream.input) for i, line in enumerate(lines, start=1)]
            found = classifier.classify(texts, batch_tokens=batch_tokens)
            return (_as_json(label) if as_json else label.label for label in found)

        settings = {"pairs": pairs, "as_json": as_json, "labels": classifier.labels}
        tokenizers = Tokenizers(classifier.tokenizer, classifier.tokenizer)
        command = partial(identity, "classify", classifier.model, tokenizers, settings)
        nothing = ("\t" if pairs else "", "null" if as_json else "")
        answer_lines(stream, source, answer, command=command, nothing=nothing)


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
