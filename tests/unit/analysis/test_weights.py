"""From pieces to words, and without the tokens in the way."""

import numpy as np
import pytest

from pellucid.analysis.weights import (
    describe_hidden,
    group_tokens_by_word,
    hide_tokens,
    make_visible_mask,
    merge_words,
    word_tokens,
)
from pellucid.errors import DataError
from pellucid.tracing.tokens import Token

START = Token("<s>", "<s>", special=True)
TOKENS = (START, Token("Hund", "▁Hund", word=0), Token("e", "e", word=0), Token("안", "▁안", word=1))
ROWS = TOKENS[1:]
WEIGHTS = np.array([[0.4, 0.3, 0.2, 0.1], [0.0, 0.5, 0.3, 0.2], [0.1, 0.2, 0.3, 0.4]], np.float32)


def test_pieces_of_a_word_stand_together():
    assert group_tokens_by_word(TOKENS) == [[0], [1, 2], [3]]
    assert [(token.text, token.piece) for token in word_tokens(TOKENS)] == [
        ("<s>", "<s>"), ("Hunde", "▁Hunde"), ("안", "▁안"),
    ]  # fmt: skip
    assert word_tokens(TOKENS)[0] == START


def test_the_same_word_number_in_two_segments_is_two_words():
    pair = (Token("a", "a", word=0), Token("b", "b", word=0, segment=1), START, START)
    assert group_tokens_by_word(pair) == [[0], [1], [2], [3]]


def test_a_word_gets_the_sum_over_its_keys_and_the_mean_over_its_queries():
    merged = merge_words(WEIGHTS, ROWS, TOKENS)
    np.testing.assert_allclose(merged, [[0.2, 0.65, 0.15], [0.1, 0.5, 0.4]], atol=1e-6)
    np.testing.assert_allclose(merged.sum(axis=-1), 1, atol=1e-6)
    np.testing.assert_array_equal(merge_words(np.stack([WEIGHTS] * 2), ROWS, TOKENS)[1], merged)


def test_hiding_the_special_tokens_scales_each_row_and_tells_the_share():
    weights, share = hide_tokens(
        WEIGHTS, ROWS, TOKENS, make_visible_mask(ROWS), make_visible_mask(TOKENS, special=False)
    )
    np.testing.assert_allclose(weights[0], [0.5, 1 / 3, 1 / 6], atol=1e-6)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)
    assert share == pytest.approx(0.5 / 3)
    assert describe_hidden([START, START], share) == "hidden: <s> (17 % of the weight of the rows shown)"
    assert describe_hidden([], 0.0) == ""


def test_a_hidden_row_leaves_the_share_of_the_others():
    kept_rows = np.array([False, True, True])
    weights, share = hide_tokens(WEIGHTS, ROWS, TOKENS, kept_rows, make_visible_mask(TOKENS, sink=False))
    assert weights.shape == (2, 3)
    assert share == pytest.approx(0.05)


def test_a_row_with_all_its_weight_on_what_is_hidden_is_empty():
    weights, share = hide_tokens(
        np.array([[1, 0]], np.float32), ROWS[:1], TOKENS[:2], np.array([True]), np.array([False, True])
    )
    assert weights.tolist() == [[0]]
    assert share == 1


def test_weights_that_do_not_fit():
    with pytest.raises(DataError, match=r"shape \(3, 4\) do not fit 4 row and 4 column tokens"):
        merge_words(WEIGHTS, TOKENS, TOKENS)
