"""Section 3.1: the two stacks of figure 1, one layer of each, and the residual sum around every sublayer.

the paper                                   norm_first

x ─┬─> sublayer ─> dropout ─> + ─> norm     x ─┬─> norm ─> sublayer ─> dropout ─> + ─>
   └──────────────────────────┘                └──────────────────────────────────┘
"""

from collections.abc import Callable
from functools import partial
from typing import Self

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pellucid.config import ModelConfig
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.cache import DecoderCache, LayerCache
from pellucid.model.checks import check_memory
from pellucid.model.fast.dropout import Dropout
from pellucid.model.feed_forward import FeedForward
from pellucid.model.norm import make_norm
from pellucid.model.observing import tell_of_sum
from pellucid.model.parts import OURS, Parts
from pellucid.model.relative import Distances, make_distances, positions_of


class Encoder(nn.Module):
    """The left stack: N layers, and a final norm where the config has one (`norm = "pre"`); the paper has none."""

    def __init__(self, config: ModelConfig, parts: Parts = OURS) -> None:
        super().__init__()
        # Makes Distances, a rotation or a bias for attention; None for the paper's positions, which are added.
        self.relative: nn.Module | None = make_distances(config, parts, causal=False)
        self.layers: nn.ModuleList = nn.ModuleList(
            parts.make("encoder_layer", config, lambda config: EncoderLayer.from_config(config, parts))
            for _ in range(config.num_encoder_layers)
        )
        self.norm: nn.Module | None = make_norm(config, parts) if config.has_final_norm else None
        self.recompute: bool = False  # train.recompute

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, S, D) -> (B, S, D). `mask` is broadcastable to (B, H, S, S)."""
        distances = None if self.relative is None else self.relative(*positions_of(x))
        for layer in self.layers:
            x = _through(layer, self.recompute and self.training)(x, mask, distances)
        return x if self.norm is None else self.norm(x)


class Decoder(nn.Module):
    """The right stack: N layers, and a final norm as the encoder's.

    Built with `has_memory=False`, its layers have no cross-attention; else each call needs a memory.
    """

    def __init__(self, config: ModelConfig, parts: Parts = OURS, has_memory: bool = True) -> None:
        super().__init__()
        self.relative: nn.Module | None = make_distances(config, parts, causal=True)
        self.layers: nn.ModuleList = nn.ModuleList(
            parts.make("decoder_layer", config, lambda config: DecoderLayer.from_config(config, parts, has_memory))
            for _ in range(config.num_decoder_layers)
        )
        self.norm: nn.Module | None = make_norm(config, parts) if config.has_final_norm else None
        self.recompute: bool = False  # train.recompute

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None,
        memory_mask: Tensor | None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """(B, T, D), (B, S, D) -> (B, T, D). `mask` is broadcastable to (B, H, T, T), `memory_mask` to (B, H, T, S).

        With a `cache`, in a step of decoding, T is the W hypotheses, and `mask` is that of the cache, (B, 1, W, M).
        """
        distances = None if self.relative is None else self.relative(*positions_of(x, cache))
        for index, layer in enumerate(self.layers):
            through = _through(layer, self.recompute and self.training)
            x = through(x, memory, mask, memory_mask, None if cache is None else cache.layers[index], distances)
        return x if self.norm is None else self.norm(x)


def recompute_in(model: nn.Module, recompute: bool) -> None:
    """Has each stack of layers in `model` compute them again for the gradients, instead of keeping their parts."""
    for stack in model.modules():
        if isinstance(stack, Encoder | Decoder):
            stack.recompute = recompute


def _through(layer: nn.Module, recompute: bool) -> Callable[..., Tensor]:
    """Returns the way through a layer: itself, or one that keeps nothing of what it computes for the backward pass."""
    return partial(checkpoint, layer, use_reentrant=False) if recompute else layer


class ResidualSums(nn.Module):
    """The residual sum around a sublayer, dropout (section 5.4), and a norm before the sublayer or behind the sum."""

    def __init__(self, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.dropout: Dropout = Dropout(dropout)
        self.norm_first = norm_first

    def add(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Returns LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x)): (B, L, D) -> (B, L, D)."""
        if self.norm_first:
            added = self.dropout(sublayer(norm(x)))  # (B, L, D)
            after = x + added
        else:
            added = self.dropout(sublayer(x))  # (B, L, D)
            after = norm(x + added)
        tell_of_sum(self, norm, x, added, after)
        return after


class EncoderLayer(ResidualSums):
    """Self-attention (the second use of attention in section 3.2.3), then a feed-forward network.

    It takes its sublayers as modules, and `new_norm` makes the norm of each; `from_config` makes those of a config.
    """

    def __init__(
        self,
        self_attn: nn.Module,
        feed_forward: nn.Module,
        new_norm: Callable[[], nn.Module],
        dropout: float = 0.0,
        *,
        norm_first: bool = False,
    ) -> None:
        super().__init__(dropout, norm_first)
        self.self_attn = self_attn
        self.self_attn_norm: nn.Module = new_norm()
        self.feed_forward = feed_forward
        self.feed_forward_norm: nn.Module = new_norm()

    @classmethod
    def from_config(cls, config: ModelConfig, parts: Parts = OURS) -> Self:
        """Returns the layer that `config` describes."""
        self_attn = parts.make("attention", config, MultiHeadAttention.from_config)
        feed_forward = parts.make("feed_forward", config, FeedForward.from_config)
        new_norm = partial(make_norm, config, parts)
        return cls(self_attn, feed_forward, new_norm, config.dropout, norm_first=config.norm == "pre")

    def forward(self, x: Tensor, mask: Tensor | None, distances: Distances | None = None) -> Tensor:
        """(B, S, D) -> (B, S, D). `mask` is broadcastable to (B, H, S, S)."""
        # None: no memory, `x` attends to itself. All arguments, since an attention of your own need not have defaults.
        x = self.add(
            x, self.self_attn_norm, lambda x: self.self_attn(x, None, mask=mask, cache=None, distances=distances)
        )
        return self.add(x, self.feed_forward_norm, self.feed_forward)


class DecoderLayer(ResidualSums):
    """Masked self-attention, attention over the encoder's memory where there is one, then a feed-forward network.

    Those are the third and the first use of attention in section 3.2.3.
    """

    def __init__(
        self,
        self_attn: nn.Module,
        cross_attn: nn.Module | None,
        feed_forward: nn.Module,
        new_norm: Callable[[], nn.Module],
        dropout: float = 0.0,
        *,
        norm_first: bool = False,
    ) -> None:
        super().__init__(dropout, norm_first)
        self.self_attn = self_attn
        self.self_attn_norm: nn.Module = new_norm()
        self.cross_attn = cross_attn
        self.cross_attn_norm: nn.Module | None = None if cross_attn is None else new_norm()
        self.feed_forward = feed_forward
        self.feed_forward_norm: nn.Module = new_norm()

    @classmethod
    def from_config(cls, config: ModelConfig, parts: Parts = OURS, has_memory: bool = True) -> Self:
        """Returns the layer that `config` describes; without a memory to attend to, it has no cross-attention."""
        self_attn = parts.make("attention", config, MultiHeadAttention.from_config)
        over_memory = partial(MultiHeadAttention.from_config, query_norm=config.cross_query_norm)
        cross_attn = parts.make("attention", config, over_memory) if has_memory else None
        feed_forward = parts.make("feed_forward", config, FeedForward.from_config)
        new_norm = partial(make_norm, config, parts)
        return cls(self_attn, cross_attn, feed_forward, new_norm, config.dropout, norm_first=config.norm == "pre")

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None,
        memory_mask: Tensor | None,
        cache: LayerCache | None = None,
        distances: Distances | None = None,
    ) -> Tensor:
        """(B, T, D), (B, S, D) -> (B, T, D), with masks as the Decoder takes them.

        Raises DataError for cross-attention without a memory.
        """
        x = self.add(
            x, self.self_attn_norm, lambda x: self.self_attn(x, None, mask=mask, cache=cache, distances=distances)
        )
        check_memory(memory, self.cross_attn)
        cross_attn, cross_attn_norm = self.cross_attn, self.cross_attn_norm
        if cross_attn is not None and cross_attn_norm is not None:  # both or neither; as locals, mypy knows them below
            x = self.add(
                x, cross_attn_norm, lambda x: cross_attn(x, memory, mask=memory_mask, cache=cache, distances=None)
            )
        return self.add(x, self.feed_forward_norm, self.feed_forward)
