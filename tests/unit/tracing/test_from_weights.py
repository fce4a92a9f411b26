"""Attention weights of another library with their tokens become a trace."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pellucid.errors import DataError
from pellucid.tracing.from_weights import trace_from_weights

TOKENS = ["[CLS]", "un", "##likely", "[SEP]"]


def layers(count: int, L: int, M: int, heads: int = 2, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """Random weights, one tensor a layer, (1, H, L, M)."""
    return tuple(torch.randn(1, heads, L, M).softmax(dim=-1).to(dtype) for _ in range(count))


def test_an_encoder() -> None:
    weights = layers(3, 4, 4)
    found = trace_from_weights(weights, TOKENS, sentence_b_start=2)
    assert list(found) == ["encoder.self"]
    np.testing.assert_array_equal(found["encoder.self"].weights(1, 1), weights[1][0, 1].numpy())
    tokens = found.sequences["src"]
    assert [(token.text, token.word, token.segment) for token in tokens] == [
        ("[CLS]", None, 0), ("un", 0, 0), ("likely", 0, 1), ("[SEP]", None, 1),
    ]  # fmt: skip
    assert found.model["family"] == "encoder"


@pytest.mark.parametrize("start", [-1, 0, 4])
def test_the_second_text_begins_among_the_tokens(start: int) -> None:
    with pytest.raises(DataError, match=rf"`sentence_b_start` \({start}\) must be in 1..3: there are 4 tokens"):
        trace_from_weights(layers(1, 4, 4), TOKENS, sentence_b_start=start)
    with pytest.raises(DataError, match="`sentence_b_start` is for a single stack"):
        trace_from_weights(encoder_attention=layers(1, 4, 4), encoder_tokens=TOKENS, sentence_b_start=2)


def test_a_decoder_is_recognised_by_what_it_does_not_see() -> None:
    weights = [layer.masked_fill(~torch.ones(4, 4, dtype=torch.bool).tril(), 0) for layer in layers(2, 4, 4)]
    found = trace_from_weights([layer / layer.sum(-1, keepdim=True) for layer in weights], TOKENS)
    assert list(found) == ["decoder.self"]
    assert list(found.sequences) == ["tgt"]


def test_an_encoder_decoder() -> None:
    found = trace_from_weights(
        encoder_attention=layers(2, 4, 4),
        decoder_attention=layers(2, 3, 3),
        cross_attention=layers(2, 3, 4),
        encoder_tokens=TOKENS,
        decoder_tokens=["<s>", "▁ja", "▁nein"],
    )
    assert list(found) == ["encoder.self", "decoder.self", "cross"]
    assert (found["cross"].queries, found["cross"].keys, found["cross"].size) == ("tgt", "src", (3, 4))
    assert found.model["family"] == "encoder-decoder"


def test_cross_attention_alone() -> None:
    found = trace_from_weights(cross_attention=layers(1, 2, 4), encoder_tokens=TOKENS, decoder_tokens=["a", "b"])
    assert list(found) == ["cross"]


@pytest.mark.parametrize("shape", [(3, 2, 4, 4), (3, 1, 2, 4, 4)])
def test_one_array_for_all_layers(shape: tuple[int, ...]) -> None:
    found = trace_from_weights(np.full(shape, 0.25), TOKENS)
    assert found["encoder.self"].num_layers == 3
    assert found["encoder.self"].num_heads == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_rounded_weights_are_made_to_sum_to_one(dtype: torch.dtype) -> None:
    found = trace_from_weights(layers(2, 50, 50, dtype=dtype), ["x"] * 50)
    sums = np.stack([found["encoder.self"].weights(0, head).sum(axis=-1) for head in range(2)])
    np.testing.assert_allclose(sums, 1, atol=1e-3)


def test_a_row_of_padding_may_be_zero() -> None:
    weights = torch.eye(4).flip(0).expand(1, 2, 4, 4).clone()
    weights[:, :, 3] = 0
    assert trace_from_weights([weights], TOKENS)["encoder.self"].weights(0, 0)[3].sum() == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"attention": (None, None)}, r"`attention` has no weights in layer 0 \(None\)"),
        ({"attention": (torch.ones(8, 2, 4, 4) / 4,)}, r"`attention` has shape \(8, 2, 4, 4\) in layer 0; a trace"),
        ({"attention": (torch.ones(4, 4) / 4,)}, r"`attention` has shape \(4, 4\) in layer 0"),
        (
            {"attention": [*layers(1, 4, 4), *layers(1, 4, 4, heads=3)]},
            "must be one array per layer, all of the same shape",
        ),
        ({"attention": ()}, "must be one array per layer"),
        ({"attention": layers(1, 5, 5)}, "`encoder.self` has 5 rows, but `src` has 4 tokens"),
        ({"attention": layers(1, 4, 5)}, "`encoder.self` has 5 columns, but `src` has 4 tokens"),
        ({"attention": [torch.ones(1, 2, 4, 4)]}, "row 0 of layer 0, head 0 sums to 4"),
        ({"attention": [torch.full((1, 2, 4, 4), torch.nan)]}, "has 32 values in `weights` that are not finite"),
        ({"attention": layers(1, 4, 4), "tokens": None}, "`tokens` is not given"),
        ({"attention": layers(1, 4, 4), "tokens": "abcd"}, "`tokens` is a string"),
        ({"attention": layers(1, 4, 4), "cross_attention": layers(1, 4, 4)}, "`attention` is for a single stack"),
        ({"tokens": TOKENS}, "no attention weights are given"),
        ({"cross_attention": layers(1, 4, 4), "encoder_tokens": TOKENS}, "`decoder_tokens` is not given"),
    ],
    ids=[
        "none", "batch", "matrix", "heads", "no-layers", "rows", "columns", "sums", "nan", "no-tokens", "text",
        "two-kinds", "nothing", "no-decoder-tokens",
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        trace_from_weights(**({"tokens": TOKENS} if "attention" in given else {}) | given)


def test_missing_weights_come_with_two_ways_out() -> None:
    with pytest.raises(DataError) as caught:
        trace_from_weights((None,), TOKENS)
    assert 'attn_implementation="eager"' in str(caught.value.hint)
    assert "trace_hugging_face" in str(caught.value.hint)
