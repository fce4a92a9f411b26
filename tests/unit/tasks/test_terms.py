"""Translations that hold terms: by a glossary, by line, in lines of several sentences, and what cannot be."""

import pytest

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.data import chunks
from pellucid.errors import ConfigError, DataError, DecodingError
from pellucid.tasks.terms import TermEncoder
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from tests.unit.decoding.models import random_model

LETTERS = Vocabulary("characters", tuple(" abcdefgh."))
LINES = ["bad cab", "", "faded", "head. bed. egg."]
TERMS = [("bad", "gag"), ("bed", "fee"), ("egg", "ah"), ("egg", "ha")]


@pytest.fixture(scope="module")
def translator() -> Translator:
    model = random_model(1, LETTERS.size, sharpness=2.0)
    return Translator(
        model,
        TokenizerPair(LETTERS, LETTERS),
        DecodeConfig(beam_size=4, max_length=12),
        text=TrainingTextStats(source_length=9, source_longest=9, sentence_ends=0.9, several_sentences=0.0),
    )


def test_each_sentence_holds_the_terms_that_it_asks_for(translator: Translator) -> None:
    free = translator.translate(LINES)
    found = translator.translate(LINES, terms=TERMS)
    assert "gag" in found[0].text
    assert [found[i].text for i in (1, 2)] == [free[i].text for i in (1, 2)]
    head, bed, egg = found[3].sentences
    assert head.text == free[3].sentences[0].text
    assert "fee" in bed.text
    assert "ah" in egg.text or "ha" in egg.text
    for place in range(4):
        (alone,) = translator.translate(LINES[place : place + 1], terms=dict(TERMS[:3]) if place < 3 else TERMS)
        assert alone.text == found[place].text


def test_each_line_holds_its_own_terms(translator: Translator) -> None:
    found = translator.translate(LINES[:3], constraints=[["ab", "ha"], [], ["gg"]], n_best=2)
    for one in found[0].alternatives:
        assert "ab" in one.text
        assert "ha" in one.text
    assert found[1].text == ""
    assert "gg" in found[2].text
    pairs = list(zip(LINES[:3], ["ab\tha", "", "gg"], strict=True))
    assert [t.text for t in translator.process_lines(pairs, 0, termed=True)] == [t.text for t in found]


@pytest.mark.slow
def test_a_stream_has_terms_however_long_it_is(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MOST", 2)
    found = translator.translate(LINES, terms=TERMS)
    assert [t.text for t in translator.stream(iter(LINES), terms=iter(TERMS))] == [t.text for t in found]
    of_lines = [["ab"], [], ["gg"]]
    found = translator.translate(LINES[:3], constraints=of_lines)
    assert [t.text for t in translator.stream(LINES[:3], constraints=iter(of_lines))] == [t.text for t in found]
    begun = translator.translate(LINES[:3], prefixes=["a", "", "b"])
    assert [t.text for t in translator.stream(LINES[:3], prefixes=["a", "", "b"])] == [t.text for t in begun]
    with pytest.raises(DataError, match="1 sources and 0 prefixes"):
        [*translator.stream(LINES[:3], prefixes=["a", ""])]
    with pytest.raises(DataError, match="3 lines, and more values of `prefixes=`"):
        [*translator.stream(LINES[:3], prefixes=["a"] * 4)]
    with pytest.raises(DataError, match="expected a list of lines, not one text"):
        [*translator.stream(LINES[:1], prefixes="a")]


def test_another_translation_of_a_term_leaves_whole_words_whole() -> None:
    one, two = (TermEncoder(LETTERS).term(choices) for choices in (("ab",), ("ab", "a.")))
    assert {spelling.whole for spelling in one.spellings if spelling.sought} == {True}
    assert {spelling.whole for spelling in two.spellings if spelling.sought} == {True, False}


def test_what_cannot_be_asked_for(translator: Translator) -> None:
    with pytest.raises(DataError, match="term 1 is Hund, not a pair"):
        translator.translate(["a"], terms=["Hund"])  # type: ignore[list-item]
    with pytest.raises(DataError, match="term 1 has no translation"):
        translator.translate(["a"], terms=[("a", " ")])
    with pytest.raises(DataError, match="`terms` is bad, not pairs of strings"):
        translator.translate(["a"], terms="bad")  # type: ignore[arg-type]
    vocabulary = Translator(
        translator.model, TokenizerPair(LETTERS, Vocabulary("words", tuple("abcdefgh"))), translator.decode
    )
    with pytest.raises(DataError, match="the model's vocabulary cannot write the term `zoo`"):
        vocabulary.translate(["a"], terms=[("a", "zoo")])
    with pytest.raises(
        DataError, match=r"the terms of the line `b` have 1\d tokens, but its translation has at most 12"
    ):
        translator.translate(["a", "b"], constraints=[[], ["abc", "def", "gha", "bad"]])
    with pytest.raises(DataError, match="the prefix and the terms of the line `a` have 15 tokens, but its translation"):
        translator.translate(["a"], constraints=[["abc", "h"]], prefixes=["e" * 9])
    assert translator.translate(["a"], constraints=[["abc", "h"]], prefixes=["abc eeeeee"])[0].text == "abc eeeeee h"
    with pytest.raises(DataError, match=r"the line `.+` is translated in 3 parts, and its terms cannot be assigned"):
        translator.translate(LINES[3:], constraints=[["a"]])
    with pytest.raises(DataError, match="1 sources and 2 lists of terms"):
        translator.translate(["a"], constraints=[["a"], []])
    with pytest.raises(DataError, match="the terms of line 1 are a, not a list of strings"):
        translator.translate(["a"], constraints=["a"])
    with pytest.raises(DecodingError, match="terms require beam search, and `beam_size` is 1"):
        translator.translate(["a"], constraints=[["a"]], beam_size=1)
    with pytest.raises(ConfigError, match="`terms=` is an option of `translate`, and has no effect on a trace"):
        translator.trace("a", terms=TERMS)
    with pytest.raises(ConfigError, match="`terms=` cannot be combined with `sampling=`"):
        translator.process_lines(["a"], 0, sampling=SamplingConfig(), terms=TERMS)
