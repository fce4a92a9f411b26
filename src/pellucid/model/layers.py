"""Section 3.1: one layer of the encoder, one of the decoder.

norm="post" (the paper)                     norm="pre"

x ─┬─> sublayer ─> dropout ─> + ─> norm     x ─┬─> norm ─> sublayer ─> dropout ─> + ─>
   └──────────────────────────┘                └──────────────────────────────────┘
"""

from collections.abc import Callable
from typing import Self

from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.cache import LayerCache
from pellucid.model.dropout import Dropout
from pellucid.model.feed_forward import FeedForward


class Sublayers(nn.Module):
    """What both layers share: the residual sum, with dropout and the norm on one side of it or the other."""

    def __init__(self, dropout: float, norm: str) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.pre_norm = norm == "pre"

    def add(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """The residual sum of `x` and `sublayer`, (B, L, D) -> (B, L, D)."""
        if self.pre_norm:
            x = x + self.dropout(sublayer(norm(x)))
        else:
            x = norm(x + self.dropout(sublayer(x)))
        return x


class EncoderLayer(Sublayers):
    """Self-attention, then a feed-forward network."""

    def __init__(
        self, self_attn: MultiHeadAttention, feed_forward: FeedForward, dropout: float, norm: str, norm_eps: float
    ) -> None:
        super().__init__(dropout, norm)
        d_model, bias = self_attn.d_model, self_attn.out_proj.bias is not None
        self.self_attn = self_attn
        self.self_attn_norm = nn.LayerNorm(d_model, norm_eps, bias=bias)
        self.feed_forward = feed_forward
        self.feed_forward_norm = nn.LayerNorm(d_model, norm_eps, bias=bias)

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """The layer that `config` describes."""
        return cls(_attention(config), _feed_forward(config), config.dropout, config.norm, config.norm_eps)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, S, D) -> (B, S, D). `mask` is broadcastable to (B, H, S, S)."""
        x = self.add(x, self.self_attn_norm, lambda x: self.self_attn(x, mask=mask))
        return self.add(x, self.feed_forward_norm, self.feed_forward)


class DecoderLayer(Sublayers):
    """Masked self-attention, attention over the encoder's memory, then a feed-forward network."""

    def __init__(
        self,
        self_attn: MultiHeadAttention,
        cross_attn: MultiHeadAttention,
        feed_forward: FeedForward,
        dropout: float,
        norm: str,
        norm_eps: float,
    ) -> None:
        super().__init__(dropout, norm)
        d_model, bias = self_attn.d_model, self_attn.out_proj.bias is not None
        self.self_attn = self_attn
        self.self_attn_norm = nn.LayerNorm(d_model, norm_eps, bias=bias)
        self.cross_attn = cross_attn
        self.cross_attn_norm = nn.LayerNorm(d_model, norm_eps, bias=bias)
        self.feed_forward = feed_forward
        self.feed_forward_norm = nn.LayerNorm(d_model, norm_eps, bias=bias)

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """The layer that `config` describes."""
        blocks = _attention(config), _attention(config), _feed_forward(config)
        return cls(*blocks, config.dropout, config.norm, config.norm_eps)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        memory_mask: Tensor | None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """(B, T, D), (B, S, D) -> (B, T, D). `mask` is broadcastable to (B, H, T, T), `memory_mask` to (B, H, T, S)."""
        x = self.add(x, self.self_attn_norm, lambda x: self.self_attn(x, mask=mask, cache=cache))
        x = self.add(x, self.cross_attn_norm, lambda x: self.cross_attn(x, memory, memory_mask, cache))
        return self.add(x, self.feed_forward_norm, self.feed_forward)


def _attention(config: ModelConfig) -> MultiHeadAttention:
    return MultiHeadAttention(config.d_model, config.num_heads, config.attention_dropout, config.bias)


def _feed_forward(config: ModelConfig) -> FeedForward:
    return FeedForward(
        config.d_model, config.d_ff, config.activation, config.gated, config.feed_forward_dropout, config.bias
    )
