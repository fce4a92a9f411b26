from typing import Any

import numpy as np
import pytest

from pellucid.errors import ConfigError, DataError
from pellucid.tracing.trace import Trace
from pellucid.views.view_options import ViewOptions, read_heads, select
from tests.unit.views.drawn import attention, encoder, tokens, translation


def pair() -> Trace:
    both = tokens("<c>", "a", "<e>") + tokens("b", "c", "<e>", segment=1)
    return Trace(model={}, sequences={"src": both}, attentions={"encoder.self": attention(length=6)}, faithfulness=0.0)


def test_cross_attention_and_the_last_layer_are_chosen_first() -> None:
    attention, layer = ViewOptions().place(translation())
    assert (attention.name, layer, ViewOptions().heads(attention)) == ("cross", 1, [0, 1, 2])
    assert ViewOptions().place(encoder())[0].name == "encoder.self"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layer": 2}, r"`layer=2` of `encoder.self` must be in 0..1"),
        ({"layer": -1}, r"`layer=-1` of `encoder.self` must be in 0..1"),
        ({"head": 3}, r"`head=3` of `encoder.self` must be in 0..2"),
        ({"head": [0, 9]}, r"`head=9` of"),
        ({"attention": "cross"}, "the trace has no attention `cross`"),
    ],
)
def test_what_is_not_there_is_an_error_with_what_is(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ViewOptions(**given).place(encoder())


@pytest.mark.parametrize(
    ("given", "message"),
    [({"pair": "ac"}, "`pair` 'ac' is unknown"), ({"head": "average"}, "`head` 'average' is unknown")],
)
def test_unknown_words(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ViewOptions(**given)


def test_heads_are_those_chosen_or_their_mix() -> None:
    trace = encoder()
    each = select(trace, ViewOptions(layer=0))
    assert each.heads == [0, 1, 2]
    some = select(trace, ViewOptions(layer=0, head=[2, 0]))
    np.testing.assert_array_equal(some.weights, each.weights[[2, 0]])
    mean, most = (select(trace, ViewOptions(layer=0, head=mix)) for mix in ("mean", "max"))
    assert mean.heads == most.heads == [-1]
    np.testing.assert_allclose(mean.weights[0], each.weights.mean(0))
    np.testing.assert_array_equal(most.weights[0], each.weights.max(0))


def test_hidden_tokens_leave_both_sides_and_are_told() -> None:
    trace = encoder(mask=np.tril(np.ones((4, 4), np.bool_)))
    shown = select(trace, ViewOptions(layer=0, special=False))
    assert [token.piece for token in shown.rows] == ["a", "dog", "##s"]
    assert shown.weights.shape == (3, 3, 3)
    np.testing.assert_allclose(shown.weights.sum(axis=-1), 1, atol=1e-6)
    assert shown.mask is not None
    assert shown.mask.shape == (3, 3)
    assert shown.note == "hidden: <e> (0 % of the weight of the rows shown)"
    sink = select(encoder(), ViewOptions(layer=0, sink=False))
    assert [token.piece for token in sink.columns] == ["dog", "##s", "<e>"]
    assert sink.note.startswith("hidden:  a (")


def test_everything_cannot_be_hidden() -> None:
    trace = encoder(["<s>", "<e>"])
    with pytest.raises(DataError, match="no token is left to show"):
        select(trace, ViewOptions(special=False))


def test_words_are_merged_and_it_is_said() -> None:
    trace = encoder(mask=np.tril(np.ones((4, 4), np.bool_)))
    shown = select(trace, ViewOptions(merge_words=True))
    assert [token.text for token in shown.columns] == [" a", " dogs", "<e>"]
    np.testing.assert_allclose(shown.weights.sum(axis=-1), 1, atol=1e-6)
    assert shown.mask is not None
    assert shown.mask.shape == (3, 3)
    assert "the sum over the pieces of a key" in shown.note


def test_one_text_looks_at_the_other() -> None:
    whole = select(pair(), ViewOptions(layer=1))
    shown = select(pair(), ViewOptions(layer=1, pair="ab"))
    np.testing.assert_array_equal(shown.weights, whole.weights[:, :3, 3:])
    assert [token.piece for token in shown.columns] == ["b", "c", "<e>"]
    assert shown.note == "sentence A at sentence B"


def test_a_single_text_has_no_pair() -> None:
    with pytest.raises(DataError, match="`pair` 'ab' requires two texts"):
        select(encoder(), ViewOptions(pair="ab"))


@pytest.mark.parametrize(("text", "heads"), [(None, None), ("3", 3), ("0,3", [0, 3]), ("mean", "mean"), ("max", "max")])
def test_heads_as_the_command_line_has_them(text: str | None, heads: object) -> None:
    assert read_heads(text) == heads


def test_heads_that_cannot_be_read() -> None:
    with pytest.raises(ConfigError, match="`head` 'all' is unknown"):
        read_heads("all")
