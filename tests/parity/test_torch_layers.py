"""The same weights in nn.MultiheadAttention and in the two layers of torch.nn give the same numbers."""

import pytest
import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.attention import MultiHeadAttention, attention_weights
from pellucid.model.layers import DecoderLayer, EncoderLayer
from pellucid.model.masks import causal_mask
from pellucid.model.observers import observe_attention
from tests.parity.torch_weights import close, copy_weights, pairs
from tests.tiny_model import tiny_config

B, L, M, D, H = 3, 5, 7, 12, 3
WORDS = torch.arange(M) < torch.tensor([[7], [4], [1]])
"""True where a key is a word, (B, M)."""


def random_biases(module: nn.Module) -> None:
    """Biases and norms that are not what they begin with."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)


def attention_pair(bias: bool, num_heads: int = H) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    ours = MultiHeadAttention(D, num_heads, bias=bias)
    theirs = nn.MultiheadAttention(D, num_heads, bias=bias, batch_first=True)
    random_biases(ours)
    copy_weights(ours, theirs)
    return ours, theirs


def check_gradients(
    output: Tensor, expected: Tensor, ours: nn.Module, theirs: nn.Module, decoder: bool = False
) -> None:
    """Asserts that the outputs agree, and the gradients of all parameters."""
    close(output, expected, "output")
    direction = torch.randn_like(output) / output.numel() ** 0.5
    (output * direction).sum().backward()
    (expected * direction).sum().backward()
    for name, parameter, counterpart in pairs(ours, theirs, decoder):
        close(parameter.grad, counterpart.grad, name)


def leaves(*tensors: Tensor) -> list[Tensor]:
    """Copies whose gradients are kept."""
    return [tensor.clone().requires_grad_() for tensor in tensors]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("num_heads", [1, 3, 12])
def test_self_attention(bias: bool, num_heads: int) -> None:
    ours, theirs = attention_pair(bias, num_heads)
    data = torch.randn(B, M, D)
    (x,), (y,) = leaves(data), leaves(data)
    mask = causal_mask(M) & WORDS[:, None, None]
    blocked = {"key_padding_mask": ~WORDS, "attn_mask": ~causal_mask(M)[0, 0]}
    check_gradients(ours(x, mask=mask), theirs(y, y, y, **blocked, need_weights=False)[0], ours, theirs)
    close(x.grad, y.grad, "gradient of the input")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("with_mask", [True, False])
def test_cross_attention(bias: bool, with_mask: bool) -> None:
    ours, theirs = attention_pair(bias)
    data = torch.randn(B, L, D), torch.randn(B, M, D)
    (x, memory), (y, keys) = leaves(*data), leaves(*data)
    output = ours(x, memory, mask=WORDS[:, None, None] if with_mask else None)
    expected = theirs(y, keys, keys, key_padding_mask=~WORDS if with_mask else None, need_weights=False)[0]
    check_gradients(output, expected, ours, theirs)
    close(x.grad, y.grad, "gradient of the queries")
    close(memory.grad, keys.grad, "gradient of the memory")


def test_a_mask_of_each_head() -> None:
    ours, theirs = attention_pair(bias=True)
    x, memory = torch.randn(B, L, D), torch.randn(B, M, D)
    mask = torch.rand(B, H, L, M) < 0.5
    mask[..., 0] = True
    expected, _ = theirs(x, memory, memory, attn_mask=~mask.flatten(0, 1), need_weights=False)
    close(ours(x, memory, mask=mask), expected, "output")


def test_the_weights_of_each_head() -> None:
    ours, theirs = attention_pair(bias=True)
    x, memory = torch.randn(B, L, D), torch.randn(B, M, D)
    seen: list[Tensor] = []
    with observe_attention(lambda q, k, v, mask, bias, output: seen.append(attention_weights(q, k, mask, bias))):
        ours(x, memory, mask=WORDS[:, None, None])
    _, weights = theirs(x, memory, memory, key_padding_mask=~WORDS, average_attn_weights=False)
    assert len(seen) == 1
    close(seen[0], weights, "weights")


def layer_options(config: ModelConfig) -> dict[str, object]:
    return {
        "dim_feedforward": config.d_ff,
        "dropout": 0.0,
        "activation": config.activation,
        "layer_norm_eps": config.norm_eps,
        "batch_first": True,
        "norm_first": config.norm == "pre",
        "bias": config.bias,
    }


LAYER_VARIANTS = [
    tiny_config(norm=norm, activation=activation, bias=bias)
    for norm in ("post", "pre")
    for activation in ("relu", "gelu")
    for bias in (True, False)
]
each_variant = pytest.mark.parametrize(
    "config", LAYER_VARIANTS, ids=lambda c: f"{c.norm} {c.activation} {'bias' if c.bias else 'no bias'}"
)


@each_variant
def test_encoder_layer(config: ModelConfig) -> None:
    ours = EncoderLayer.from_config(config)
    random_biases(ours)
    theirs = nn.TransformerEncoderLayer(D, H, **layer_options(config))
    copy_weights(ours, theirs)
    data = torch.randn(B, M, D)
    (x,), (y,) = leaves(data), leaves(data)
    check_gradients(ours(x, WORDS[:, None, None]), theirs(y, src_key_padding_mask=~WORDS), ours, theirs)
    close(x.grad, y.grad, "gradient of the input")


@each_variant
def test_decoder_layer(config: ModelConfig) -> None:
    ours = DecoderLayer.from_config(config)
    random_biases(ours)
    theirs = nn.TransformerDecoderLayer(D, H, **layer_options(config))
    copy_weights(ours, theirs, in_decoder=True)
    data = torch.randn(B, L, D), torch.randn(B, M, D)
    (x, memory), (y, keys) = leaves(*data), leaves(*data)
    output = ours(x, memory, causal_mask(L), WORDS[:, None, None])
    expected = theirs(y, keys, tgt_mask=~causal_mask(L)[0, 0], memory_key_padding_mask=~WORDS)
    check_gradients(output, expected, ours, theirs, decoder=True)
    close(x.grad, y.grad, "gradient of the input")
    close(memory.grad, keys.grad, "gradient of the memory")
