"""A translator's scores are those of its translations."""

from pathlib import Path

import pytest

from pellucid.errors import DataError
from pellucid.evaluation.scores import score_corpus
from pellucid.tasks.evaluate import evaluate
from pellucid.tasks.translator import Translator


def test_scores_are_of_the_translations(finished_run: Path) -> None:
    translator = Translator.load(finished_run, "cpu")
    sources, references = ["a b c d e", "b a", ""], ["e d c b a", "a b", "c"]
    for options in ({}, {"beam_size": 1, "max_length": 3}):
        outputs = [t.text for t in translator.translate(sources, **options)]
        assert evaluate(translator, sources, references, **options) == score_corpus(outputs, references)
    both = evaluate(translator, sources, [references, sources], tokenize="char", ter=True)
    outputs = [t.text for t in translator.translate(sources)]
    assert both == score_corpus(outputs, [references, sources], tokenize="char", ter=True)
    assert "nrefs:2|" in both.signature
    assert "|tok:char|" in both.signature
    with pytest.raises(DataError, match="3 translations cannot be scored against 2 references"):
        evaluate(translator, sources, references[:2])
