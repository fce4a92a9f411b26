"""Links read off weights that are known, and what they score against gold."""

import unicodedata

import numpy as np
import pytest

from pellucid.analysis.aligning_head import (
    Agreement,
    HeadAgreement,
    best_head,
    find_aligning_head,
    find_head,
    score_heads,
)
from pellucid.analysis.alignment import (
    Gold,
    LinkExtraction,
    align_trace,
    assign_words,
    extract_links,
    read_gold,
    soft_alignment,
    write_links,
)
from pellucid.analysis.weights import all_weights, average_weights
from pellucid.errors import ConfigError, DataError
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.pictures.alignment import alignment_state
from tests.unit.views.drawn import translation

END = Token("</s>", "</s>", special=True)
SRC = (Token("ein", "▁ein", word=0), Token("Hund", "▁Hund", word=1), Token("e", "e", word=1), END)
OUT = (Token("two", "▁two", word=0), Token("dog", "▁dog", word=1), Token("s", "s", word=1), END)
# What each step looks at while it writes; END is where it looks when it knows what comes.
WRITES = np.array([[0.6, 0.1, 0.1, 0.2], [0.1, 0.2, 0.1, 0.6], [0.1, 0.1, 0.5, 0.3], [0.0, 0.3, 0.2, 0.5]], np.float32)
DIAGONAL = np.eye(4, dtype=np.float32)
BACKWARDS = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]], np.float32)
GOLD = Gold(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1)}))


def trace_of(*heads, layers=1):
    weights = np.stack(heads).reshape(layers, -1, 4, 4)
    cross = AttentionTrace(name="cross", queries="out", keys="src", ready=weights)
    return Trace(model={}, sequences={"src": SRC, "out": OUT}, attentions={"cross": cross}, faithfulness=0.0)


def test_a_word_is_the_mean_of_its_rows_on_the_sum_of_its_columns():
    soft = soft_alignment(WRITES, OUT, SRC, LinkExtraction(row="writes"))
    np.testing.assert_allclose(soft.weights, [[0.6, 0.2], [0.1, 0.45]], atol=1e-6)
    assert (soft.targets, soft.sources) == ([0, 1], [0, 1])


def test_the_row_that_reads_a_token_is_the_one_after_it():
    soft = soft_alignment(WRITES, OUT, SRC, LinkExtraction(row="reads"))
    np.testing.assert_allclose(soft.weights, [[0.1, 0.3], [0.05, 0.55]], atol=1e-6)


def test_a_text_without_an_end_token_ends_with_the_row_that_writes():
    soft = soft_alignment(WRITES[:3], OUT[:3], SRC, LinkExtraction(row="reads", level="tokens"))
    np.testing.assert_allclose(soft.weights, [[0.1, 0.2, 0.1], [0.1, 0.1, 0.5], [0.1, 0.1, 0.5]], atol=1e-6)


def test_tokens_are_numbered_without_the_special_ones():
    out = (END, *OUT)
    soft = soft_alignment(
        np.concatenate([DIAGONAL[:1], DIAGONAL]), out, SRC, LinkExtraction(row="writes", level="tokens")
    )
    assert extract_links(soft, LinkExtraction()) == {(0, 0), (1, 1), (2, 2)}


@pytest.mark.parametrize(
    ("method", "threshold", "links"),
    [
        ("argmax", 0.2, "0-0 0-1 1-2"),
        ("mutual", 0.2, "0-0 1-2"),
        ("threshold", 0.35, "0-0 0-1 1-1 1-2"),
        ("threshold", 0.9, ""),
    ],
)
def test_methods(method, threshold, links):
    weights = np.array([[0.7, 0.3], [0.4, 0.35], [0.1, 0.4]], np.float32)
    tokens = [Token(str(n), str(n), word=n) for n in range(3)]
    how = LinkExtraction(method=method, threshold=threshold, row="writes")
    assert write_links(extract_links(soft_alignment(weights, tokens, tokens[:2], how), how)) == links


def test_a_head_a_layer_or_all():
    trace = trace_of(DIAGONAL, BACKWARDS, DIAGONAL, DIAGONAL, layers=2)
    how = LinkExtraction(row="writes")
    assert write_links(align_trace(trace, 0, 1, how)) == "1-0 0-1"
    assert (
        write_links(align_trace(trace, 1, None, how)) == write_links(align_trace(trace, None, None, how)) == "0-0 1-1"
    )
    np.testing.assert_array_equal(average_weights(trace["cross"], 0), (DIAGONAL + BACKWARDS) / 2)
    assert all_weights(trace["cross"]).shape == (2, 2, 4, 4)
    with pytest.raises(DataError, match=r"`head` \(1\) needs a `layer`"):
        average_weights(trace["cross"], None, 1)
    with pytest.raises(DataError, match=r"`layer=2` of `cross` must be in 0..1"):
        align_trace(trace, 2)


def test_options_that_there_are_not():
    with pytest.raises(ConfigError, match="`method` 'both' is unknown"):
        LinkExtraction(method="both")
    with pytest.raises(ConfigError, match=r"`threshold` \(0\) must be above 0"):
        LinkExtraction(threshold=0)


def test_tokens_without_words():
    tokens = [Token("17", "17"), END]
    with pytest.raises(DataError, match="form no words"):
        soft_alignment(np.eye(2, dtype=np.float32), tokens, tokens, LinkExtraction())


def test_gold_as_the_tools_write_it():
    sure, possible = frozenset({(0, 0), (1, 2)}), frozenset({(0, 0), (1, 2), (3, 4), (5, 6)})
    assert list(read_gold(["0-0 1-2 3?4 5p6", ""])) == [Gold(sure, possible), Gold(frozenset(), frozenset())]
    assert next(read_gold(["1-1 2-3 4?5 6p7"], one_based=True)) == Gold(sure, possible)
    with pytest.raises(DataError, match="line 2 of the alignments holds `0:1`"):
        list(read_gold(["0-0", "0:1"]))
    with pytest.raises(DataError, match="line 1 of the alignments holds `0-1`, but its words count from 1"):
        list(read_gold(["0-1"], one_based=True))


def test_scores_of_a_case_by_hand():
    # A = {a, b, c}, S = {a, d}, P = {a, d, b}: precision 2/3, recall 1/2, AER 1 - 3/5.
    links = frozenset({(0, 0), (1, 1), (2, 2)})
    gold = Gold(frozenset({(0, 0), (3, 3)}), frozenset({(0, 0), (3, 3), (1, 1)}))
    found = Agreement.from_links(links, gold)
    assert (found.precision, found.recall) == (pytest.approx(2 / 3), pytest.approx(1 / 2))
    assert (found.f1, found.aer) == (pytest.approx(4 / 7), pytest.approx(2 / 5))
    twice = found + found
    assert twice == Agreement(6, 4, 2, 4)
    assert twice.to_json()["aer"] == pytest.approx(2 / 5)
    assert (Agreement().precision, Agreement().recall, Agreement().f1, Agreement().aer) == (0, 0, 0, 0)


def test_the_best_head_is_found():
    trace = trace_of(BACKWARDS, WRITES, DIAGONAL, BACKWARDS, layers=2)
    rows = score_heads([trace, trace], [GOLD, GOLD], LinkExtraction(row="writes"))
    best = best_head(rows)
    assert (best.layer, best.head, best.agreement.aer) == (0, 1, 0)
    assert [(row.layer, row.head) for row in rows] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (0, None),
        (1, None),
        (None, None),
    ]
    assert rows[0].agreement == Agreement(4, 4, 0, 0)
    assert (rows[0].name, rows[-2].name) == (
        "layer 0, head 0, row that writes",
        "layer 1, mean of the heads, row that writes",
    )


def test_of_equal_error_rates_the_better_f1_counts():
    rows = [HeadAgreement(0, 0, Agreement(2, 2, 0, 2)), HeadAgreement(0, 1, Agreement(2, 2, 1, 1))]
    assert rows[0].agreement.aer == rows[1].agreement.aer
    assert best_head(rows).head == 1
    with pytest.raises(DataError, match="no head can be selected"):
        best_head([HeadAgreement(0, None, Agreement())])


@pytest.mark.parametrize("count", [1, 3])
def test_gold_for_other_sentences(count):
    trace = trace_of(DIAGONAL)
    with pytest.raises(DataError, match="gold alignments do not match"):
        score_heads([trace, trace], [GOLD] * count)


def test_without_gold_the_head_is_found_that_agrees_with_itself():
    fixed, late = np.zeros((4, 4), np.float32), np.roll(np.eye(4, dtype=np.float32), 1, axis=0)
    fixed[:, 0] = 1
    found = find_head([trace_of(fixed, DIAGONAL)], LinkExtraction(level="tokens"))
    assert (found.layer, found.head, found.row, found.share) == (0, 1, "writes", 1)
    assert found.name == "layer 0, head 1, row that writes"
    found = find_head([trace_of(fixed, late)], LinkExtraction(level="tokens"))
    assert (found.head, found.row, found.mutual, found.links) == (1, "reads", 3, 3)
    assert find_head([trace_of(fixed, late)], LinkExtraction(level="tokens"), rows=("writes",)).share < 1
    with pytest.raises(DataError, match="no head can be selected"):
        find_head([])


def test_of_heads_that_agree_with_themselves_the_surer_one_is_found():
    found = find_head([trace_of(0.6 * DIAGONAL + 0.1, 0.8 * DIAGONAL + 0.05)], rows=("writes",))
    assert (found.head, found.share) == (1, 1)


def test_a_sentence_is_shown_by_the_head_that_agrees_best():
    late = np.roll(np.eye(4, dtype=np.float32), 1, axis=0)
    trace = trace_of(BACKWARDS, WRITES, BACKWARDS, late, layers=2)
    layer, head, extraction = find_aligning_head(trace, None, GOLD)
    assert (layer, head, extraction.row) == (0, 1, "writes")
    trace = trace_of(BACKWARDS, BACKWARDS, BACKWARDS, late, layers=2)
    layer, head, extraction = find_aligning_head(trace, None, GOLD)
    assert (layer, head, extraction.row) == (1, 1, "reads")
    assert find_aligning_head(trace, LinkExtraction(row="reads", method="mutual"), None)[2] == LinkExtraction(
        row="reads", method="mutual"
    )
    assert alignment_state(layer, head, extraction) == {
        "layer": "1", "head": "1", "alignment.by": "head", "alignment.row": "reads", "alignment.level": "words",
        "alignment.method": "argmax", "alignment.threshold": "0.2",
    }  # fmt: skip
    assert alignment_state(None, None, extraction)["alignment.by"] == "all"


def test_a_single_word_is_aligned_by_its_tokens() -> None:
    found = translation(["1", "##8", "##3"], ["2016", "-", "18", "<e>"])
    assert find_aligning_head(found, None, None)[2].level == "tokens"
    assert find_aligning_head(found, LinkExtraction(), None)[2].level == "words"
    assert find_aligning_head(translation(), None, None)[2].level == "words"


def line_words(texts, line, numbers=None):
    tokens = [Token(text, text, word=None if numbers is None else numbers[n]) for n, text in enumerate(texts)]
    return [token.word for token in assign_words([*tokens, END], line)][:-1]


def test_punctuation_goes_with_its_word():
    assert line_words(["Ein", " Hund", "e", ",", " ja"], "Ein Hunde, ja", [0, 1, 1, 2, 3]) == [0, 1, 1, 1, 2]


def test_spaces_that_are_tokens_go_with_what_stands_before_them():
    assert line_words(["a", "b", " ", "c"], "ab  c") == [0, 0, 0, 1]
    assert line_words([" ", "c"], " c") == [0, 0]


def test_a_character_in_bytes_is_one():
    tokens = [Token("안[EC]", "ì", adds="안"), Token("안[95]", "ķ", adds=""), Token("녕", "녕"), Token(" x", "x")]
    assert [token.word for token in assign_words(tokens, "안녕 x")] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    "line",
    [
        "Ma\u0308nner tragen Hu\u0308te.",
        "M\u00ad\u00e4nner tragen H\u200b\u00fcte.",
        "\ufeffM\u00e4nner\u00a0tragen \u2581H\u00fcte.",
        "M\u00e4nner \u200b tragen \ufeff H\u00fcte.",
        "M\u00c4NNER TRAGEN H\u00dcTE.",
        "\uff2d\u00e4nner tragen H\u00fcte.",
    ],
)
def test_a_line_in_another_spelling_has_the_same_words(line):
    tokens = ["M\u00e4n", "ner", " tragen", " H\u00fc", "te", "."]
    for texts in (tokens, [unicodedata.normalize("NFD", text) for text in tokens]):
        assert line_words(texts, line, [0, 0, 1, 2, 2, 3]) == [0, 0, 1, 2, 2, 2]


def test_an_unknown_token_goes_up_to_the_next_known_one():
    assert line_words(["<unk>", "wei", " m", "<unk>", "nner"], "zwei m\u00e4nner", [0, 1, 2, 3, 4]) == [0, 0, 1, 1, 1]
    assert line_words(["zwei", "[UNK]"], "zwei \u00e4\u00f6\u00fc", [0, 1]) == [0, 1]
    assert line_words(["<unk>", " hund"], "<unk> hund", [0, 3]) == [0, 1], "as the line is written"


def test_a_changed_text_keeps_its_words_where_they_are_as_many():
    assert line_words(["<unk>", "hund"], "Ein Hund", [0, 1]) == [0, 1]
    assert line_words(["Ein", "Kind"], "Ein Hund", [0, 1]) == [0, 1]
    with pytest.raises(DataError, match="`Ein Hund` has 2 words, but its tokens spell `einkind` in 1 words"):
        line_words(["einkind"], "Ein Hund", [0])
    with pytest.raises(DataError, match="has 0 words"):
        line_words([" "], "\ufeff")
