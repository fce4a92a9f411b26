"""Confidence: words have the probability of all their pieces, whatever stands beside the line."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pellucid.config import SamplingConfig
from pellucid.tasks.confidence import ForcedDecoding, compute_word_features, estimate_confidence
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizer_training import train_tokenizer
from tests.rounding import NETWORK
from tests.toy_task import reversed_letters
from tests.unit.evaluation.test_calibration import MADE

PAIRS = reversed_letters(60, seed=9)
SOURCES = [source for source, _ in PAIRS]


def test_a_words_probability_is_the_product_of_its_pieces() -> None:
    lines = [f"{word} walking walked talking talked ." for word in ("dogs", "cats", "walkers", "talkers")] * 20
    tokenizer = train_tokenizer("bpe", lines, vocab_size=40, byte_fallback=False)
    ids = tokenizer.encode("walking dogs.")
    values = [-0.1 * (i + 1) for i in range(len(ids) + 1)]
    words, features = compute_word_features(tokenizer, [ForcedDecoding([3], ids, values)])
    assert [text for text, _ in words] == ["walking", "dogs", "."]
    assert len(ids) > 3, "some word has several pieces"
    assert math.fsum(value for _, value in words) == pytest.approx(math.fsum(values[:-1]))
    sure = estimate_confidence(tokenizer, None, "x", "walking dogs.", [ForcedDecoding([3], ids, values)])
    assert [word.probability for word in sure.words] == pytest.approx([math.exp(value) for _, value in words])
    assert sure.probability == pytest.approx(np.mean([word.probability for word in sure.words]))
    assert not sure.calibrated
    fitted = estimate_confidence(tokenizer, MADE, "x", "walking dogs.", [ForcedDecoding([3], ids, values)])
    odds = math.log(math.exp(words[0][1]) / (1 - math.exp(words[0][1])))
    assert features[0][0] == pytest.approx(odds)
    assert fitted.words[0].probability == pytest.approx(1 / (1 + math.exp(-0.5 - odds)))


@pytest.mark.slow
def test_a_line_has_the_same_in_every_batch_and_costs_nothing_unasked(translator: Translator) -> None:
    asked = translator.translate(SOURCES[:12], confidence=True)
    plain = translator.translate(SOURCES[:12])
    assert [replace(t, confidence=None) for t in asked] == [
        replace(t, score=pytest.approx(t.score, abs=NETWORK)) for t in plain
    ]
    assert all(t.confidence is None for t in plain)
    for source, together in zip(SOURCES[:12], asked, strict=True):
        (alone,) = translator.translate([source], confidence=True)
        here, there = together.confidence, alone.confidence
        assert here is not None
        assert there is not None
        assert [word.text for word in here.words] == together.text.split() == [word.text for word in there.words]
        values = [[word.log_probability for word in one.words] for one in (here, there)]
        assert values[0] == pytest.approx(values[1], abs=NETWORK)


def test_the_log_probabilities_are_those_of_the_search(translator: Translator) -> None:
    for found in translator.translate(SOURCES[:5], confidence=True, max_length=30):
        sure = found.confidence
        assert sure is not None
        assert sure.log_probability is not None
        assert sure.log_probability * (len(found.tokens) + 1) == pytest.approx(found.score, abs=1e-4)


def test_an_empty_line_has_no_words(translator: Translator) -> None:
    found = translator.translate(["", "a b"], confidence=True)[0].confidence
    assert found is not None
    assert (found.probability, found.words, found.flags) == (None, [], [])


def test_drawn_translations_and_given_pairs_have_it_too(translator: Translator) -> None:
    (drawn,) = translator.sample(["a b c"], SamplingConfig(seed=3), confidence=True)
    (scored,) = translator.score_sequences(["a b c"], [drawn.text], confidence=True)
    assert drawn.confidence is not None
    assert scored.confidence is not None
    values = [[word.log_probability for word in one.words] for one in (drawn.confidence, scored.confidence)]
    assert values[0] == pytest.approx(values[1], abs=NETWORK)
    assert translator.score_sequences(["a b c"], ["a b c"])[0].confidence is None
