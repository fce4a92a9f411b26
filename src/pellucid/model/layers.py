"""Section 3.1: one layer of the encoder, one of the decoder.

norm="post" (the paper)                     norm="pre"

x ─┬─> sublayer ─> dropout ─> + ─> norm     x ─┬─> norm ─> sublayer ─> dropout ─> + ─>
   └──────────────────────────┘                └──────────────────────────────────┘
"""

from collections.abc import Callable
from functools import partial
from typing import Self

from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.cache import LayerCache
from pellucid.model.fast.dropout import Dropout
from pellucid.model.feed_forward import FeedForward
from pellucid.model.norm import make_norm
from pellucid.model.positions import Distances


class Sublayers(nn.Module):
    """What both layers share: the residual sum, with dropout and the norm on one side of it or the other."""

    def __init__(self, dropout: float, norm: str) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.pre_norm = norm == "pre"

    def add(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """The residual sum of `x` and `sublayer`, (B, L, D) -> (B, L, D)."""
        x = x + self.dropout(sublayer(norm(x))) if self.pre_norm else norm(x + self.dropout(sublayer(x)))
        return x


class EncoderLayer(Sublayers):
    """Self-attention, then a feed-forward network."""

    def __init__(
        self,
        self_attn: MultiHeadAttention,
        feed_forward: FeedForward,
        dropout: float,
        norm: str,
        norm_eps: float,
        norm_type: str = "layer",
    ) -> None:
        super().__init__(dropout, norm)
        new_norm = partial(make_norm, self_attn.d_model, norm_eps, self_attn.out_proj.bias is not None, norm_type)
        self.self_attn = self_attn
        self.self_attn_norm = new_norm()
        self.feed_forward = feed_forward
        self.feed_forward_norm = new_norm()

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """The layer that `config` describes."""
        blocks = MultiHeadAttention.from_config(config), FeedForward.from_config(config)
        return cls(*blocks, config.dropout, config.norm, config.norm_eps, config.norm_type)

    def forward(self, x: Tensor, mask: Tensor | None, distances: Distances | None = None) -> Tensor:
        """(B, S, D) -> (B, S, D). `mask` is broadcastable to (B, H, S, S)."""
        x = self.add(x, self.self_attn_norm, lambda x: self.self_attn(x, mask=mask, distances=distances))
        return self.add(x, self.feed_forward_norm, self.feed_forward)


class DecoderLayer(Sublayers):
    """Masked self-attention, attention over the encoder's memory where there is one, then a feed-forward network."""

    def __init__(
        self,
        self_attn: MultiHeadAttention,
        cross_attn: MultiHeadAttention | None,
        feed_forward: FeedForward,
        dropout: float,
        norm: str,
        norm_eps: float,
        norm_type: str = "layer",
    ) -> None:
        super().__init__(dropout, norm)
        new_norm = partial(make_norm, self_attn.d_model, norm_eps, self_attn.out_proj.bias is not None, norm_type)
        self.self_attn = self_attn
        self.self_attn_norm = new_norm()
        self.cross_attn = cross_attn
        self.cross_attn_norm = None if cross_attn is None else new_norm()
        self.feed_forward = feed_forward
        self.feed_forward_norm = new_norm()

    @classmethod
    def from_config(cls, config: ModelConfig, has_memory: bool = True) -> Self:
        """The layer that `config` describes; without a memory to attend to, it has no cross-attention."""
        self_attn = MultiHeadAttention.from_config(config)
        cross_attn = MultiHeadAttention.from_config(config) if has_memory else None
        blocks = self_attn, cross_attn, FeedForward.from_config(config)
        return cls(*blocks, config.dropout, config.norm, config.norm_eps, config.norm_type)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None,
        memory_mask: Tensor | None,
        cache: LayerCache | None = None,
        distances: Distances | None = None,
    ) -> Tensor:
        """(B, T, D), (B, S, D) -> (B, T, D). `mask` is broadcastable to (B, H, T, T), `memory_mask` to (B, H, T, S)."""
        x = self.add(x, self.self_attn_norm, lambda x: self.self_attn(x, mask=mask, cache=cache, distances=distances))
        if (cross_attn := self.cross_attn) is not None and self.cross_attn_norm is not None:
            x = self.add(x, self.cross_attn_norm, lambda x: cross_attn(x, memory, mask=memory_mask, cache=cache))
        return self.add(x, self.feed_forward_norm, self.feed_forward)
