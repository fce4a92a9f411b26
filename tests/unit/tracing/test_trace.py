"""The data of a trace: weights rebuilt from queries and keys, and errors for what is not there."""

import numpy as np
import pytest

from pellucid.errors import DataError
from pellucid.tracing.trace import AttentionTrace
from tests.unit.tracing.models import traced_pair


def test_a_row_that_may_attend_to_nothing_is_zero() -> None:
    q = np.ones((1, 1, 2, 3), dtype=np.float32)
    mask = np.array([[True, False], [False, False]])
    found = AttentionTrace(name="x", queries="src", keys="src", q=q, k=q, mask=mask)
    assert found.weights(0, 0).tolist() == [[1.0, 0.0], [0.0, 0.0]]


def test_scores_are_minus_infinity_where_masked() -> None:
    scores = traced_pair()["decoder.self"].scores(0, 0)
    assert np.isneginf(scores[0, 1:]).all()
    assert np.isfinite(np.tril(scores)).all()


def test_ready_made_weights_have_no_scores() -> None:
    ready = AttentionTrace(name="x", queries="src", keys="src", ready=np.ones((1, 1, 1, 1), dtype=np.float32))
    assert ready.weights(0, 0).tolist() == [[1.0]]
    with pytest.raises(DataError, match="`x` holds ready-made weights"):
        ready.scores(0, 0)


@pytest.mark.parametrize(
    ("layer", "head", "message"),
    [
        (2, 0, r"`layer` \(2\) of `cross` must be in 0\.\.1"),
        (0, 6, r"`head` \(6\) of `cross` must be in 0\.\.5"),
        (-1, 0, r"`layer` \(-1\)"),
    ],
)
def test_layers_and_heads_are_checked(layer: int, head: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        traced_pair()["cross"].weights(layer, head)


def test_an_attention_that_is_not_there_names_those_that_are() -> None:
    found = traced_pair()
    assert list(found) == ["encoder.self", "decoder.self", "cross"]
    with pytest.raises(DataError, match="no attention `croos`") as caught:
        found["croos"]
    assert "encoder.self, decoder.self, cross" in str(caught.value.hint)
