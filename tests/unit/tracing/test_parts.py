"""Traces of models with parts of somebody's own: what calls attention() is recorded, of the rest it is said."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pellucid
from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import DataError
from pellucid.model.families import EncoderOnly
from pellucid.model.transformer import Transformer
from pellucid.tasks.tracing import trace, trace_search
from tests import own_parts
from tests.own_parts import Averaging
from tests.rounding import of_attention
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, tiny_config, words


def transformer(name: str) -> Transformer:
    return Transformer(tiny_config(), own_parts.ALL[name]).eval()


@pytest.mark.parametrize("name", own_parts.ALL)
def test_every_part_is_traced(name: str, tmp_path: Path) -> None:
    model = transformer(name)
    found = trace(model, words(SRC_VOCAB_SIZE, 7), words(TGT_VOCAB_SIZE, 5))
    silent = {
        "averaging": {"encoder.self": (0, 1), "decoder.self": (0, 1), "cross": (0, 1)},
        "linearised": {"encoder.self": (0, 1), "decoder.self": (0, 1), "cross": (0, 1)},
        "decoder layer": {"decoder.self": (0, 1)},
    }.get(name, {})
    assert found.without_weights == silent
    assert set(found) == {"encoder.self", "decoder.self", "cross"} - set(silent)
    assert found.faithfulness < 1e-4
    again = pellucid.load_trace(found.save(tmp_path / "x.trace"))
    assert again.without_weights == silent
    assert repr(again) == repr(found)


def test_a_window_and_a_slope_are_in_the_weights() -> None:
    found = trace(transformer("windowed alibi"), words(SRC_VOCAB_SIZE, 7), words(TGT_VOCAB_SIZE, 5))
    places = np.arange(7)
    near = np.abs(places[:, None] - places[None, :]) < own_parts.Windowed.width
    np.testing.assert_array_equal(found["encoder.self"].mask, near)
    np.testing.assert_array_equal(found["encoder.self"].weights(0, 1) > 0, near)
    bias = found["encoder.self"].bias
    assert bias is not None
    assert bias.shape == (1, 3, 7, 7)
    assert bias[0, 0, 6, 2] == pytest.approx(-4 * 2 ** (-8 / 3))
    assert found["cross"].bias is None


def test_what_is_said_of_layers_without_weights() -> None:
    found = trace(transformer("decoder layer"), words(SRC_VOCAB_SIZE, 7), words(TGT_VOCAB_SIZE, 5))
    assert "decoder.self: no weights of layers 0, 1, which did not call attention()" in repr(found)
    with pytest.raises(DataError, match=r"the trace has no weights of `decoder\.self`: none of its layers") as caught:
        found["decoder.self"]
    assert "pellucid.attention(q, k, v, ..., block=self)" in caught.value.hint


def test_a_stack_of_which_some_layers_are_recorded() -> None:
    class Every2nd:
        made = 0

        def __call__(self, config: ModelConfig) -> nn.Module:
            self.made += 1
            return Averaging(config) if self.made == 2 else pellucid.MultiHeadAttention.from_config(config)

    config = ModelConfig.encoder(vocab_size=30, num_layers=3, d_model=12, d_ff=20, num_heads=3)
    model = EncoderOnly(config, pellucid.Parts(attention=Every2nd())).eval()
    ids, seen = words(30, 1, 6), []
    with (
        torch.inference_mode(),
        pellucid.model.observers.observe_attention(lambda q, k, v, mask, bias, output: seen.append((q, k, v)), model),
    ):
        model(ids)
    found = trace(model, ids)
    assert found.without_weights == {"encoder.self": (1,)}
    assert found["encoder.self"].num_layers == 2
    for layer, (q, k, v) in enumerate(seen):
        weights = pellucid.attention_weights(q, k)[0, 2].numpy()
        np.testing.assert_allclose(found["encoder.self"].weights(layer, 2), weights, atol=of_attention(q, k, v))


class Plain(nn.Module):
    """Attention of one head without Pellucid's projections, which calls attention() without naming itself."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model)

    def forward(self, x: Tensor, memory: Tensor | None = None, *, mask: Tensor | None = None, **_: object) -> Tensor:
        assert mask is not None or memory is None
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        seen = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
        return pellucid.attention(q[:, None], k[:, None], v[:, None], seen)[:, 0]


def test_attention_of_another_shape_is_recorded() -> None:
    config = ModelConfig.encoder(vocab_size=30, num_layers=2, d_model=12, d_ff=20, num_heads=3)
    found = trace(EncoderOnly(config, pellucid.Parts(attention=Plain)).eval(), words(30, 1, 6))["encoder.self"]
    assert (found.num_heads, found.head_width, found.value_norms) == (1, 12, None)
    np.testing.assert_array_equal(found.mask, np.tril(np.ones((6, 6), dtype=bool)))


def test_heads_with_different_masks_are_an_error() -> None:
    class Uneven(pellucid.MultiHeadAttention):
        def forward(self, x: Tensor, *args: Tensor | None, mask: Tensor | None = None, **others: object) -> Tensor:
            heads = torch.ones(1, self.num_heads, x.size(1), x.size(1), dtype=torch.bool)
            heads[:, 0] = heads[:, 0].tril()
            return super().forward(x, *args, mask=heads, **others)

    config = ModelConfig.encoder(vocab_size=30, num_layers=2, d_model=12, d_ff=20, num_heads=3)
    model = EncoderOnly(config, pellucid.Parts(attention=Uneven.from_config)).eval()
    with pytest.raises(DataError, match="the heads of an attention have different masks"):
        trace(model, words(30, 1, 6))


@pytest.mark.parametrize("name", own_parts.ALL)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_search_is_traced(name: str, beam_size: int) -> None:
    model = transformer(name)
    ids = words(SRC_VOCAB_SIZE, 5).tolist()
    found = trace_search(model, None, DecodeConfig(beam_size=beam_size, max_length=6), ids)
    assert found.search is not None
    assert ("search.cross" in found) == (name not in ("averaging", "linearised"))
    if "search.cross" in found:
        assert found["search.cross"].size == (len(found.sequences["search"]), 6)
        np.testing.assert_allclose(found["search.cross"].weights(1, 2).sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["heads", "model", "flow"])
def test_nothing_to_see_is_said(name: str) -> None:
    found = trace(transformer("averaging"), words(SRC_VOCAB_SIZE, 7), words(TGT_VOCAB_SIZE, 5))
    with pytest.raises(DataError, match="the trace has no attention weights: no layer of its model called") as caught:
        pellucid.view(found, name)
    assert "block=self" in caught.value.hint
