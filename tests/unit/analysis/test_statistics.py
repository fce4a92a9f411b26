"""Heads whose kind is known: their statistics by hand."""

import numpy as np
import pytest

from pellucid.analysis.statistics import STATISTICS, make_sink_mask, row_entropy, statistics
from pellucid.errors import DataError
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.tokens import Token


def ready(weights, mask=None):
    """A trace of ready-made weights (H, L, M), one layer of them."""
    return AttentionTrace(
        name="encoder.self", queries="src", keys="src", ready=np.asarray(weights, np.float32)[None], mask=mask
    )


def uniform(length):
    return np.full((length, length), 1 / length)


def shifted(length):
    """Each row on the one before it, the first on itself."""
    weights = np.eye(length, k=-1)
    weights[0, 0] = 1
    return weights


def test_the_names_are_in_order_and_there_is_a_value_a_head():
    found = statistics(ready([np.eye(4), uniform(4), shifted(4)]))
    assert tuple(found) == STATISTICS
    assert all(values.shape == (1, 3) and values.dtype == np.float32 for values in found.values())


@pytest.mark.parametrize(
    ("name", "diagonal", "even", "shift"),
    [
        ("entropy", 0, np.log(4), 0),
        ("distance", 0, 1.25, 0.75),
        ("diagonality", 1, 1 - 1.25 / 4, 1 - 0.75 / 4),
        ("previous", 0, 0.25, 1),
        ("sink", 0.25, 0.25, 0.5),
    ],
)
def test_a_diagonal_an_even_and_a_previous_token_head(name, diagonal, even, shift):
    found = statistics(ready([np.eye(4), uniform(4), shifted(4)]))
    np.testing.assert_allclose(found[name][0], [diagonal, even, shift], atol=1e-6)


def test_rows_with_nothing_to_attend_to_are_left_out():
    weights = np.eye(4)
    weights[2:] = 0
    weights[1] = [0.5, 0.5, 0, 0]
    found = statistics(ready([weights]))
    assert found["entropy"][0, 0] == pytest.approx(np.log(2) / 2)
    assert found["distance"][0, 0] == pytest.approx(0.25)
    assert found["previous"][0, 0] == pytest.approx(0.5)
    nothing = statistics(ready(np.zeros((1, 2, 2))))
    assert all(float(values[0, 0]) == 0 for values in nothing.values())


def test_a_row_that_may_attend_to_the_sink_alone_says_nothing_about_it():
    causal = np.tril(np.ones((3, 3), bool))
    weights = np.array([[1, 0, 0], [0.2, 0.8, 0], [0.4, 0.4, 0.2]])
    assert statistics(ready([weights], causal))["sink"][0, 0] == pytest.approx(0.3)


def test_sinks_are_the_first_and_the_special_tokens():
    tokens = [Token("Ein", "▁Ein"), Token("Hund", "▁Hund"), Token("</s>", "</s>", special=True)]
    sinks = make_sink_mask(tokens)
    assert sinks.tolist() == [True, False, True]
    weights = np.array([[[0.1, 0.6, 0.3]] * 3])
    assert statistics(ready(weights), sinks)["sink"][0, 0] == pytest.approx(0.4)
    assert statistics(ready(weights))["sink"][0, 0] == pytest.approx(0.1)


def test_the_diagonal_of_two_lengths_runs_from_corner_to_corner():
    weights = np.zeros((1, 2, 6))
    weights[0, 0, 1] = weights[0, 1, 4] = 1
    attention = AttentionTrace(name="cross", queries="out", keys="src", ready=weights.astype(np.float32)[None])
    assert statistics(attention)["diagonality"][0, 0] == pytest.approx(1)


def test_more_rows_than_columns():
    weights = np.full((1, 5, 2), 0.5)
    attention = AttentionTrace(name="cross", queries="out", keys="src", ready=weights.astype(np.float32)[None])
    assert statistics(attention)["previous"][0, 0] == pytest.approx(0.5)


def test_sinks_of_another_length():
    with pytest.raises(DataError, match=r"`sinks` has the shape \(2,\), but `encoder.self` has 4 columns"):
        statistics(ready([np.eye(4)]), np.ones(2, bool))


def test_the_entropy_of_each_row():
    rows = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 0, 0]], np.float32)
    np.testing.assert_allclose(row_entropy(rows), [0, np.log(2), 0], atol=1e-6)


def test_weights_rebuilt_from_queries_and_keys_give_the_same():
    q, k = np.random.default_rng(0).standard_normal((2, 2, 3, 7, 4)).astype(np.float32)
    mask = np.tril(np.ones((7, 7), bool))
    rebuilt = AttentionTrace(name="decoder.self", queries="tgt", keys="tgt", q=q, k=k, mask=mask)
    weights = np.stack([[rebuilt.weights(layer, head) for head in range(3)] for layer in range(2)])
    copied = AttentionTrace(name="decoder.self", queries="tgt", keys="tgt", ready=weights, mask=mask)
    for name, values in statistics(rebuilt).items():
        np.testing.assert_array_equal(values, statistics(copied)[name])
