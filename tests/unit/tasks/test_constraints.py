"""Translations that must begin, last or vary as somebody asks: by line, by sentence, with what cannot be."""

import pytest

from pellucid.config import DecodeConfig
from pellucid.errors import ConfigError, DataError
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from tests.rounding import NETWORK
from tests.unit.decoding.models import random_model

LETTERS = Vocabulary("characters", tuple(" abcdefgh."))
LINES = ["bad cab", "", "faded", "head. bed. egg."]
PREFIXES = ["ab", "gg", "", "ha"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    model = random_model(1, LETTERS.size, sharpness=2.0)
    decode = DecodeConfig(beam_size=3, max_length=9)
    return Translator(
        model,
        TokenizerPair(LETTERS, LETTERS),
        decode,
        text=TrainingTextStats(source_length=9, source_longest=9, sentence_ends=0.9, several_sentences=0.0),
    )


def test_each_line_begins_as_it_must(translator: Translator) -> None:
    free = translator.translate(LINES)
    assert len(free[3].sentences) == 3
    found = translator.translate(LINES, prefixes=PREFIXES)
    assert [t.text[:2] for t in found] == ["ab", "", free[2].text[:2], "ha"]
    assert (found[1], found[2]) == (free[1], free[2])
    assert len(found[3].sentences) == 3
    assert found[3].sentences[1:] == free[3].sentences[1:]
    assert found[0].score == pytest.approx(translator.score(LINES[:1], [found[0].text])[0], abs=1e-4)
    (alone,) = translator.translate(LINES[3:], prefixes=PREFIXES[3:])
    assert (alone.text, alone.tokens) == (found[3].text, found[3].tokens)
    assert [part.text for part in alone.sentences] == [part.text for part in found[3].sentences]
    assert alone.score == pytest.approx(found[3].score, abs=NETWORK)


def test_a_stream_takes_pairs(translator: Translator) -> None:
    pairs = list(zip(LINES, PREFIXES, strict=True))
    assert translator.process_lines(pairs, 0, prefixed=True) == translator.translate(LINES, prefixes=PREFIXES)


def test_lengths_and_repetitions_are_a_sentences(translator: Translator) -> None:
    (found,) = translator.translate(LINES[3:], min_length=7, no_repeat_ngram_size=1, beam_size=1)
    assert all(len(set(part.text)) == len(part.text) >= 7 for part in found.sentences)


def test_what_cannot_be_asked_for(translator: Translator) -> None:
    with pytest.raises(DataError, match="4 sources and 1 prefixes: each source needs one"):
        translator.translate(LINES, prefixes=["a"])
    with pytest.raises(
        DataError, match=r"the prefix `a{12}` has 1\d tokens, but the translation of its line has at most 9"
    ):
        translator.translate(["a"], prefixes=["a" * 12])
    with pytest.raises(ConfigError, match=r"`min_length` \(12\) exceeds `max_length` \(9\)"):
        translator.translate(["a"], min_length=12)
    with pytest.raises(ConfigError, match="`prefixes=` is an option of `translate`, and has no effect on a trace"):
        translator.trace("a", prefixes=["a"])
    with pytest.raises(DataError, match="expected a list of lines"):
        translator.translate(["a"], prefixes="a")
