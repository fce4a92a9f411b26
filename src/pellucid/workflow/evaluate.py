"""A translator's scores on a test set."""

from collections.abc import Sequence
from typing import Any

from pellucid.evaluation.scores import Scores, score_corpus
from pellucid.tasks.translator import Translator


def evaluate(translator: Translator, sources: Sequence[str], references: Sequence[str], **options: Any) -> Scores:
    """Translates `sources` and scores them against `references`; `options` as Translator.translate takes them.

    Raises DataError where the lists differ in length or are empty.
    """
    outputs = [translation.text for translation in translator.translate(sources, **options)]
    return score_corpus(outputs, references)
