"""A line in sentences: cut where the model knows single ones, joined as it stood, the best of each together."""

import warnings
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.errors import ConfigError
from pellucid.tasks.segmentation import combine_n_best, join_segments, split_ids, split_segments
from pellucid.tasks.segmenter import LongTextWarning
from pellucid.tasks.translation import Sentence
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from tests.unit.decoding.models import random_model
from tests.unit.tasks.test_translator import copier

LETTERS = Vocabulary("characters", tuple(" abcdefghABCDEFGH.!。\u3000"))
BYTES = Vocabulary("bytes", (), byte_fallback=True)
WORDS = Vocabulary("words", tuple("ABabcd.!"))
SINGLE = TrainingTextStats(sentence_ends=1.0, several_sentences=0.0, source_length=12)
PARAGRAPHS = TrainingTextStats(sentence_ends=1.0, several_sentences=0.9, source_length=12)
DATES = TrainingTextStats(sentence_ends=0.0, several_sentences=0.0, source_length=12)
LINE = "Bad cab.  Faded!   A bed. "
PARTS = ["Bad cab.", "Faded!", "A bed."]


def translator(text: TrainingTextStats | None = SINGLE, **decode: Any) -> Translator:
    """A random model of letters."""
    config = DecodeConfig(**{"beam_size": 3, "max_length": 6} | decode)
    return Translator(random_model(0, LETTERS.size, sharpness=2.0), TokenizerPair(LETTERS, LETTERS), config, text=text)


def copying(text: TrainingTextStats | None = SINGLE, tokenizer: Vocabulary = LETTERS) -> Translator:
    """A translator that gives back what it is given."""
    found = copier(tokenizer)
    found.text = text
    return found


def sources(t: Translator, line: str = LINE, **options: Any) -> list[str]:
    return [sentence.source for sentence in t.translate([line], **options)[0].sentences]


@pytest.mark.parametrize(
    ("text", "line", "options", "cut"),
    [
        (SINGLE, LINE, {}, True),
        (SINGLE, LINE, {"segment": None}, True),
        (SINGLE, LINE, {"segment": "off"}, False),
        (SINGLE, "A bed. A cab", {}, True),
        (SINGLE, "A bed and a cab.", {"max_length": 3}, False),
        (PARAGRAPHS, LINE, {}, True),
        (PARAGRAPHS, "A bed. A cab", {}, False),
        (DATES, LINE, {}, False),
        (None, LINE, {}, False),
    ],
)
def test_when_a_line_is_cut(text: TrainingTextStats | None, line: str, options: dict[str, Any], cut: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LongTextWarning)
        found = sources(translator(text), line, **options)
    assert (len(found) > 1) == cut
    assert found == (PARTS if cut and line == LINE else ["A bed.", "A cab"] if cut else [line])


def test_pieces_may_be_found_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    t = translator(max_source_length=3, n_best=2)
    lines = ["cab", LINE, "", "a bed of a cab", "  ", "Faded!"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = t.translate(lines)
        searching = t.engine.search
        monkeypatch.setattr(t.engine, "search", lambda *given: reversed(list(searching(*given))))
        assert t.translate(lines) == expected


def test_a_model_may_have_it_off() -> None:
    with pytest.warns(LongTextWarning):
        assert sources(translator(segment="off")) == [LINE]
    with pytest.raises(ConfigError, match='unknown `segment` "of"; did you mean `off`'):
        translator(segment="of")


def test_the_translation_is_that_of_the_sentences_joined() -> None:
    t = translator()
    alone = t.translate(PARTS)
    (found,) = t.translate([LINE])
    assert [s.text for s in found.sentences] == [a.text for a in alone]
    assert found.score == pytest.approx(sum(a.score for a in alone), abs=1e-4)
    assert found.tokens == [token for a in alone for token in a.tokens]
    assert found.sentences[1] == Sentence("Faded!", alone[1].text, found.sentences[1].score, 6)
    assert found.text.split() == " ".join(a.text for a in alone).split()


@pytest.mark.parametrize(
    ("tokenizer", "line", "text"),
    [
        (LETTERS, LINE, "Bad cab.  Faded!   A bed."),
        (LETTERS, " Bad. A bed.", "Bad. A bed."),
        (LETTERS, "Bad.\u3000A bed.", "Bad.\u3000A bed."),
        (LETTERS, "Bad.\u2028A bed.", "Bad. A bed."),
        (WORDS, "A b .  A c !\tB d .", "A b. A c! B d."),  # which reads every space as one
    ],
)
def test_it_is_joined_as_it_stood(tokenizer: Vocabulary, line: str, text: str) -> None:
    (found,) = copying(tokenizer=tokenizer).translate([line], max_length=20)
    assert len(found.sentences) > 1
    assert found.text == text


@pytest.mark.parametrize(
    ("line", "texts", "whole"),
    [
        ("Ja.  Nein. ", ["はい。", "いいえ。"], "はい。いいえ。"),
        ("はい。いいえ。", ["Yes.", "No."], "Yes. No."),
        ("はい。\u3000いいえ。", ["네.", "아니요."], "네. 아니요."),
        ("はい。いいえ。", ["是。", "不。"], "是。不。"),
        ("Ja.  Nein. Ach.", ["네.", " ", "아."], "네.  아."),
        ("Ja. Nein.", ["", "No."], "No."),
        ("Ja. Nein.", ["", ""], ""),
        ("Ja. ", [" 네. "], " 네. "),
    ],
)
def test_what_stands_between_depends_on_both_scripts(line: str, texts: list[str], whole: str) -> None:
    tokenizer = Vocabulary("characters", (" ",), byte_fallback=True)
    (segments,) = split_segments([line], tokenizer, 99, SINGLE)
    assert len(segments) == len(texts)
    assert join_segments(texts, segments) == whole


@given(
    st.lists(st.lists(st.integers(-20, 0).map(float), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 6),
)
def test_the_best_ways_to_choose_are_those_of_all_ways(ranks: list[list[float]], count: int) -> None:
    ranks = [sorted(falling, reverse=True) for falling in ranks]
    found = combine_n_best(ranks, count)
    ways = sorted(product(*(range(len(falling)) for falling in ranks)), key=lambda way: (-_total(ranks, way), way))
    assert [_total(ranks, way) for way in found] == [_total(ranks, way) for way in ways[:count]]
    assert len({*map(tuple, found)}) == len(found) == min(count, len(ways))
    assert found[0] == [0] * len(ranks), "the best of a line is made of the best of its sentences"


def _total(ranks: list[list[float]], way: Any) -> float:
    return sum(falling[i] for falling, i in zip(ranks, way, strict=True))


def test_the_n_best_of_several_sentences_are_the_best_of_all_ways() -> None:
    t = translator()
    parts = t.translate(PARTS, n_best=3)
    (found,) = t.translate([LINE], n_best=3)
    ways = sorted(
        (
            (sum(c.score / (len(c.tokens) + 1) for c in way), [c.text for c in way])
            for way in product(*(part.alternatives for part in parts))
        ),
        reverse=True,
    )
    assert [[s.text for s in a.sentences] for a in found.alternatives] == [texts for _, texts in ways[:3]]
    assert all(a.score == pytest.approx(sum(s.score for s in a.sentences)) for a in found.alternatives)


def test_a_draw_depends_on_its_line_and_place_in_it_alone() -> None:
    t, drawing = translator(), SamplingConfig(temperature=2.0, seed=3)
    lines = ["Bad cab.", LINE, "A cab.", "A cab. A cab."]
    found = t.sample(lines, drawing)
    assert [len(f.sentences) for f in found] == [1, 3, 1, 2]
    assert found[3].sentences[0].text != found[3].sentences[1].text, "each has numbers of its own"
    alone = [t.process_lines([line], i, sampling=drawing)[0].text for i, line in enumerate(lines)]
    assert alone == [f.text for f in found]
    assert t.sample(["Bad cab.", "A bed.", "A cab."], drawing)[2].text == found[2].text, "whatever stands beside it"
    with pytest.warns(LongTextWarning):
        assert len(t.sample(lines, drawing, segment="off")[1].sentences) == 1


@pytest.mark.slow
def test_what_is_too_long_is_said_once_a_call() -> None:
    t = translator()
    message = (
        r"^2 sentences are longer than nearly all that the model was trained on \(15 tokens; 999 of 1,000 lines "
        r"there have at most 12\): expect a worse translation$"
    )
    with pytest.warns(LongTextWarning, match=message) as caught:
        t.translate(["a" * 12, "a" * 13 + ".", "A bed. B" + "b" * 13 + "."])
    assert [warning.filename for warning in caught] == [__file__]
    for quiet in (translator(DATES), translator(None)):
        quiet.translate(["a" * 13])


def test_a_sentence_that_the_model_does_not_take_is_cut_into_pieces() -> None:
    with pytest.warns(UserWarning, match=r"^a sentence of 10 tokens is longer than the model takes \(7\); it is .* 2 "):
        (found,) = copying().translate(["A bed. Faded cab."], max_source_length=7)
    assert found.text == "A bed. Faded cab."
    assert [s.source for s in found.sentences] == ["A bed.", "Faded cab."]


def test_a_trace_reads_the_line_whole_and_says_so() -> None:
    t = translator()
    message = (
        "^the text has 3 sentences, which are read here as one line; `translate` translates each separately, so pass "
        "one sentence to see the same$"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        trace = t.trace(LINE)
    assert [warning.filename for warning in caught] == [__file__]
    assert len(trace.sequences["src"]) == len(LETTERS.encode(LINE)) + 1
    t.trace("A bed.")
    t.trace(LINE, segment="off")


def test_the_models_language_decides_where_it_is_told() -> None:
    """A code around the source is its language; where codes name the target they say nothing of the source."""
    line = "Er ist am 3. Mai da."
    tokenizer = Vocabulary("characters", (" ",), byte_fallback=True)
    assert [len(split_segments([line], tokenizer, 99, SINGLE, code)[0]) for code in ("de", "", "en")] == [1, 1, 2]


def pieces(text: str, limit: int) -> list[str]:
    """The pieces of a text of single characters, a space shown as ▁."""
    tokens = ["▁" if c == " " else c for c in text]
    return ["".join(text[i] for i in piece) for piece in split_ids(range(len(text)), tokens, limit)]


@given(text=st.text(alphabet="ab .。", max_size=60), limit=st.integers(1, 20))
def test_pieces_fit_and_join_to_the_whole(text: str, limit: int) -> None:
    found = pieces(text, limit)
    assert "".join(found) == text
    assert all(len(piece) <= limit for piece in found)
    assert all(2 * len(piece) >= limit for piece in found[:-1])  # so there are few


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("", 3, [""]),
        ("abc", 3, ["abc"]),
        ("abcd", 3, ["abc", "d"]),
        ("ab cd ef", 6, ["ab cd", " ef"]),  # between words
        ("abc. de fg", 6, ["abc.", " de fg"]),  # behind a sentence, rather than between words
        ("a. bcdefgh", 7, ["a. bcde", "fgh"]),  # but not in the first half
        ("今日は。明日は雨", 6, ["今日は。", "明日は雨"]),
        ("abcdef gh", 3, ["abc", "def", " gh"]),
    ],
)
def test_where_it_is_cut(text: str, limit: int, expected: list[str]) -> None:
    assert pieces(text, limit) == expected


def test_no_character_is_cut_through() -> None:
    text = "天地玄黃宇宙洪荒"
    ids = BYTES.encode(text)
    found = split_ids(ids, BYTES.tokens(ids), 10)
    assert [BYTES.decode(piece) for piece in found] == ["天地玄", "黃宇宙", "洪荒"]


def test_tokens_that_are_all_words_are_cut_anywhere() -> None:
    words = ["the", "dog", "runs", "over", "the", "field"]
    assert split_ids(range(6), words, 4) == [[0, 1, 2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("text", "sources", "joined"),
    [
        ("a.\nb.", ["a.", "b."], "A.\nB."),
        ("a.\n\n  b. \r\n", ["a.", "b."], "A.\n\n  B. \r\n"),
        (" \n a.\n", ["a."], " \n A.\n"),
        ("  a\n b  ", ["a", "b"], "  A\n B  "),
        ("A bed. A dog.\nA cat.", ["A bed.", "A dog.", "A cat."], "A BED. A DOG.\nA CAT."),
        ("a  b", ["a  b"], "A  B"),
        (" a ", [" a "], " A "),
    ],
)
def test_line_breaks_stay_with_the_spaces_around_them(text: str, sources: list[str], joined: str) -> None:
    tokenizer = Vocabulary("characters", (" ",), byte_fallback=True)
    (segments,) = split_segments([text], tokenizer, 99, SINGLE)
    assert [segment.source for segment in segments] == sources
    assert join_segments([segment.source.upper() for segment in segments], segments) == joined


def test_a_lost_sentence_leaves_its_line_break() -> None:
    tokenizer = Vocabulary("characters", (" ",), byte_fallback=True)
    (segments,) = split_segments(["a\nb\n\nc"], tokenizer, 99, SINGLE)
    assert join_segments(["A", "", "C"], segments) == "A\n\n\nC"
    assert join_segments(["", "", ""], segments) == "\n\n\n"


@given(text=st.text(alphabet="ab. \n", max_size=40), other=st.text(alphabet="ab", max_size=3))
def test_texts_with_line_breaks_keep_all_white_space_around_them(text: str, other: str) -> None:
    tokenizer = Vocabulary("characters", (" ",), byte_fallback=True)
    found, _ = split_segments([f"{text}\n", other], tokenizer, 99, None)
    assert join_segments([segment.source for segment in found], found) == (f"{text}\n" if text.strip() else "")
