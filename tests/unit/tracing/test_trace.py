"""The data of a trace: weights rebuilt from queries and keys, and errors for what is not there."""

from typing import Any

import numpy as np
import pytest

from pellucid.errors import DataError
from pellucid.tasks.tracing import trace
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.search import SearchNode, SearchTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from tests.unit.tracing.models import classifier, source, traced_pair


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
    with pytest.raises(DataError, match="`x` was made from weights"):
        ready.scores(0, 0)


@pytest.mark.parametrize(
    ("layer", "head", "message"),
    [
        (2, 0, r"`layer=2` of `cross` must be in 0\.\.1"),
        (0, 6, r"`head=6` of `cross` must be in 0\.\.5"),
        (-1, 0, r"`layer=-1` of"),
        (True, 0, r"`layer=True` of `cross` must be in 0\.\.1"),
        (0, "1", r'`head="1"` of `cross`'),
        (0.5, 0, r"`layer=0\.5` of"),
    ],
)
def test_layers_and_heads_are_checked(layer: Any, head: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        traced_pair()["cross"].weights(layer, head)


def test_an_attention_that_is_not_there_names_those_that_are() -> None:
    found = traced_pair()
    assert list(found) == ["encoder.self", "decoder.self", "cross"]
    with pytest.raises(DataError, match="no attention `croos`") as caught:
        found["croos"]
    assert "encoder.self, decoder.self, cross" in str(caught.value.hint)


def test_a_trace_shows_itself_in_a_few_lines() -> None:
    found = traced_pair()
    lines = repr(found).splitlines()
    assert lines[0] == "Trace of Transformer (family encoder-decoder, d_model 12)"
    ids = " ".join(str(token.id) for token in found.sequences["src"])
    assert lines[1] == f"  src: 5 tokens, {ids}"
    assert lines[4:6] == [
        "  AttentionTrace(encoder.self: 2 layers x 6 heads, 5 src x 5 src, heads of width 2)",
        "  AttentionTrace(decoder.self: 2 layers x 6 heads, 4 tgt x 4 tgt, heads of width 2, masked)",
    ]
    assert lines[-1] == f"  faithfulness {found.faithfulness:.2g}"
    assert found.predictions is not None
    mean = np.mean([np.exp(one.log_prob) for one in found.predictions])
    assert lines[7] == f"  predictions of 4 tokens, on average {mean:.0%} for the output"
    assert len(lines) == 9


def test_classes_and_the_stream_take_a_line_each() -> None:
    found = trace(classifier(), source(4), residual=True)
    assert found.classes is not None
    best = sorted(found.classes, key=lambda label: -found.classes[label])
    told = ", ".join(f"{label} {found.classes[label]:.2f}" for label in best)
    assert repr(found).splitlines()[3:5] == [f"  classes: {told}", "  residual stream at 5 places"]


def test_long_and_hostile_tokens_are_cut_and_escaped() -> None:
    tokens = tuple(Token(text=piece, piece=piece) for piece in ["\x1b[2Jx", "y" * 50, *"abcdefghijkl"])
    ready = AttentionTrace(name="decoder.self", queries="tgt", keys="tgt", ready=np.ones((1, 2, 14, 14), np.float32))
    found = Trace(model={}, sequences={"tgt": tokens}, attentions={"decoder.self": ready}, faithfulness=0.0)
    assert repr(found).splitlines() == [
        "Trace of a model ()",
        "  tgt: 14 tokens, \\x1b[2Jx " + "y" * 19 + "… a b c d e f g h i j …",
        "  AttentionTrace(decoder.self: 1 layers x 2 heads, 14 tgt x 14 tgt, given weights)",
    ]


def test_a_search_shows_its_size() -> None:
    node = SearchNode(None, Token("<s>", "<s>"), 0.0, 0.0, 0.0, "live", 0)
    assert repr(SearchTrace(3, 0.7, (node,) * 50)) == "SearchTrace(beam_size 3, length_penalty 0.7, 50 nodes)"


def test_grouped_heads_are_told() -> None:
    q, k = np.ones((1, 4, 2, 3), np.float32), np.ones((1, 2, 2, 3), np.float32)
    shown = repr(AttentionTrace(name="x", queries="src", keys="src", q=q, k=k))
    assert shown == "AttentionTrace(x: 1 layers x 4 heads, 2 src x 2 src, heads of width 3, 2 of keys)"
