"""The order of sublayer, dropout, residual sum and norm."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.model.build import Builder
from pellucid.model.layers import DecoderLayer, EncoderLayer, ResidualConnections
from pellucid.model.masks import causal_mask
from pellucid.model.observers import observe_attention, observe_residuals
from tests.tiny_model import tiny_config

D = 12


class Double(nn.Module):
    """A norm that can be followed by eye."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


def add_ten(x: Tensor) -> Tensor:
    return x + 10


@pytest.mark.parametrize(("norm_first", "expected"), [(False, 2 * (3 + 13)), (True, 3 + (2 * 3 + 10))])
def test_where_the_norm_stands(norm_first: bool, expected: float) -> None:
    assert ResidualConnections(0.0, norm_first).add(torch.tensor([3.0]), Double(), add_ten).item() == expected


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_falls_on_the_sublayer_not_on_the_residual(norm_first: bool) -> None:
    x = torch.ones(1000)
    output = ResidualConnections(0.5, norm_first).add(x, nn.Identity(), add_ten)
    assert set(output.tolist()) == {1.0, 23.0}


def layer_inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Target, memory, causal mask, mask of the memory."""
    memory_mask = torch.tensor([[True, True, False], [True, False, False]])[:, None, None]
    return torch.randn(2, 4, D), torch.randn(2, 3, D), causal_mask(4), memory_mask


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_encoder_layer_step_by_step(norm: str) -> None:
    layer = EncoderLayer.from_config(tiny_config(norm=norm))
    x = torch.randn(2, 3, D)
    mask = torch.tensor([[True, True, False], [True, True, True]])[:, None, None]
    first = layer.add(x, layer.self_attn_norm, lambda x: layer.self_attn(x, mask=mask))
    expected = layer.add(first, layer.feed_forward_norm, layer.feed_forward)
    assert torch.equal(layer(x, mask), expected)
    assert not torch.equal(layer(x, None), expected)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_decoder_layer_step_by_step(norm: str) -> None:
    layer = DecoderLayer.from_config(tiny_config(norm=norm))
    x, memory, mask, memory_mask = layer_inputs()
    first = layer.add(x, layer.self_attn_norm, lambda x: layer.self_attn(x, mask=mask))
    second = layer.add(first, layer.cross_attn_norm, lambda x: layer.cross_attn(x, memory, mask=memory_mask))
    expected = layer.add(second, layer.feed_forward_norm, layer.feed_forward)
    assert torch.equal(layer(x, memory, mask, memory_mask), expected)
    assert not torch.equal(layer(x, memory, None, memory_mask), expected)
    assert not torch.equal(layer(x, memory, mask, None), expected)


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("dropout", "dropout"),
        ("attention_dropout", "self_attn.dropout"),
        ("attention_dropout", "cross_attn.dropout"),
        ("feed_forward_dropout", "feed_forward.dropout"),
    ],
)
def test_each_dropout_has_its_place(field: str, place: str) -> None:
    fields: dict[str, Any] = {"dropout": 0.0, field: 0.25}
    layer = DecoderLayer.from_config(tiny_config(**fields))
    rates = {name: module.p for name, module in layer.named_modules() if name.endswith("dropout")}
    assert rates.pop(place) == 0.25
    others = {name for name, rate in rates.items() if rate}
    assert others == ({"self_attn.dropout", "cross_attn.dropout"} - {place} if field == "attention_dropout" else set())


@pytest.mark.parametrize("layer_class", [EncoderLayer, DecoderLayer])
def test_the_norms_follow_the_biases_and_the_epsilon(layer_class: type[EncoderLayer | DecoderLayer]) -> None:
    layer = layer_class.from_config(tiny_config(bias=False, norm_eps=0.125))
    norms = [module for module in layer.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == (2 if layer_class is EncoderLayer else 3)
    assert {(norm.eps, norm.bias) for norm in norms} == {(0.125, None)}


def test_cross_attention_without_a_memory_is_refused() -> None:
    decoder = Builder(tiny_config()).decoder()
    with pytest.raises(DataError, match="`memory` is None, but this decoder has cross-attention") as caught:
        decoder(torch.randn(2, 4, D), None, causal_mask(4), None)
    assert "has_memory=False" in caught.value.hint
    without = Builder(tiny_config()).decoder(has_memory=False)
    assert without(torch.randn(2, 4, D), None, causal_mask(4), None).shape == (2, 4, D)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_observer_sees_each_residual_sum(norm: str) -> None:
    layer, inputs = DecoderLayer.from_config(tiny_config(norm=norm)), layer_inputs()
    seen: list[tuple[nn.Module, nn.Module, Tensor, Tensor, Tensor]] = []
    with observe_residuals(lambda *told: seen.append(told)):
        output = layer(*inputs)
    assert [norm for _, norm, *_ in seen] == [layer.self_attn_norm, layer.cross_attn_norm, layer.feed_forward_norm]
    assert {told[0] for told in seen} == {layer}
    assert [told[2] for told in seen] == [inputs[0], seen[0][4], seen[1][4]]  # what goes on is what comes in
    assert seen[-1][4] is output
    for _, norm_module, before, added, after in seen:
        assert torch.equal(after, before + added if norm == "pre" else norm_module(before + added))


def test_residual_sums_are_as_they_were_with_and_without_an_observer() -> None:
    layer, inputs = DecoderLayer.from_config(tiny_config(dropout=0.3)), layer_inputs()
    torch.manual_seed(3)
    expected = layer(*inputs)
    torch.manual_seed(3)
    with observe_residuals(lambda *told: None):
        assert torch.equal(layer(*inputs), expected)


def test_the_observer_of_a_models_sums_sees_that_model_alone_and_attention_goes_to_its_own() -> None:
    own, other = (DecoderLayer.from_config(tiny_config()) for _ in range(2))
    calls: list[str] = []
    with (
        observe_residuals(lambda *_: calls.append("all")),
        observe_attention(lambda *_: calls.append("attention")),
        observe_residuals(lambda *_: calls.append("own"), own),
    ):
        own(*layer_inputs())
        other(*layer_inputs())
    own(*layer_inputs())
    assert calls == ["attention", "own"] * 2 + ["own"] + ["attention", "all"] * 2 + ["all"]


@pytest.mark.slow
def test_a_compiled_layer_has_no_break_and_is_not_observed() -> None:
    layer, seen = DecoderLayer.from_config(tiny_config()).eval(), []
    inputs = layer_inputs()
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    with observe_residuals(lambda *told: seen.append(told)):
        torch.testing.assert_close(compiled(*inputs), layer.forward(*inputs))
    assert len(seen) == 3  # of the layer that was not compiled
