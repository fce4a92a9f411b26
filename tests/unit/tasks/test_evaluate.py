"""A translator's scores are those of its translations."""

from pathlib import Path

import pytest
import torch

from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.evaluation.scores import score_corpus
from pellucid.model.parts import Parts
from pellucid.tasks.evaluate import evaluate
from pellucid.tasks.translator import Translator


@pytest.mark.slow
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


def test_how_a_folder_is_opened_is_handed_on_and_refused_for_what_is_open(finished_run: Path) -> None:
    assert evaluate(finished_run, ["a b"], ["b a"], device="cpu", dtype="float32").signature
    own = Parts(norm=lambda config: torch.nn.LayerNorm(config.d_model))
    with pytest.raises(CheckpointError, match=r"has no custom parts, but norm=.* is given"):
        evaluate(finished_run, ["a b"], ["b a"], parts=own)
    with pytest.raises(ConfigError, match="`tokenizer=` is given, but"):
        evaluate(finished_run, ["a b"], ["b a"], tokenizer=Translator.load(finished_run, "cpu").tokenizers)
    with pytest.raises(ConfigError, match=r"`revision` .* is for a name on the hub"):
        evaluate(finished_run, ["a b"], ["b a"], revision="v2")
    message = "^`device=` is an option for opening a folder, but a Translator is given, which is open already$"
    with pytest.raises(ConfigError, match=message):
        evaluate(Translator.load(finished_run, "cpu"), ["a b"], ["b a"], device="cpu")
