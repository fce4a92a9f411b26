"""Two attentions side by side: distances that are known."""

import numpy as np
import pytest

from pellucid.analysis.compare import compare, compare_attentions, row_distances
from pellucid.errors import DataError
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.trace import Trace


def attention(weights, name="encoder.self"):
    return AttentionTrace(name=name, queries="src", keys="src", ready=np.asarray(weights, np.float32))


def trace_of(*attentions):
    return Trace(model={}, sequences={}, attentions={one.name: one for one in attentions}, faithfulness=0.0)


A = np.array([[1, 0], [0.5, 0.5]], np.float32)
B = np.array([[0, 1], [0.5, 0.5]], np.float32)


def test_rows_that_have_nothing_in_common_are_at_distance_one():
    np.testing.assert_allclose(row_distances(A, B), [1, 0], atol=1e-6)
    half = row_distances(np.array([[1, 0]], np.float32), np.array([[0.5, 0.5]], np.float32))
    # m = (3/4, 1/4): H(m) = 0.8112781 bits, of which half a bit is taken.
    assert half[0] == pytest.approx(np.sqrt(0.8112781 - 0.5), abs=1e-6)


def test_rows_without_anything_to_attend_to():
    nothing = np.zeros((1, 2), np.float32)
    assert row_distances(nothing, nothing)[0] == 0
    assert row_distances(nothing, A[:1])[0] == pytest.approx(np.sqrt(0.5))


def test_the_distance_is_symmetric_and_small_for_near_rows():
    near = np.array([[0.5, 0.5]], np.float32), np.array([[0.5001, 0.4999]], np.float32)
    assert row_distances(*near) == row_distances(*near[::-1])
    assert 0 < row_distances(*near)[0] < 1e-3


def test_traces_by_head():
    found = compare(trace_of(attention([[A, B]])), trace_of(attention([[A, A]])))["encoder.self"]
    np.testing.assert_allclose(found.distances(), [[0, 0.5]], atol=1e-6)
    np.testing.assert_allclose(found.difference(0, 1), [[-1, 1], [0, 0]])


def test_shapes_that_do_not_fit():
    with pytest.raises(DataError, match="they have 2 and 1 heads"):
        compare_attentions(attention([[A, B]]), attention([[A]]))
    with pytest.raises(DataError, match="they have 2 and 3 rows, 2 and 3 columns"):
        compare_attentions(attention([[A]]), attention([[np.eye(3)]]))
    with pytest.raises(DataError, match=r"one trace has encoder\.self, the other cross"):
        compare(trace_of(attention([[A]])), trace_of(attention([[A]], "cross")))
