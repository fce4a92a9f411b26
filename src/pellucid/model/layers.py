"""Section 3.1: the two stacks of figure 1, one layer of each, and the residual sum around every sublayer.

the paper                                   norm_first

x ─┬─> sublayer ─> dropout ─> + ─> norm     x ─┬─> norm ─> sublayer ─> dropout ─> + ─>
   └──────────────────────────┘                └──────────────────────────────────┘
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pellucid.config import ModelConfig
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.attention_positions import Distances, get_query_key_positions
from pellucid.model.cache import DecoderCache, LayerCache
from pellucid.model.checks import check_memory
from pellucid.model.fast.dropout import Dropout
from pellucid.model.feed_forward import FeedForward
from pellucid.model.norm import make_norm
from pellucid.model.observers import notify_residual

Factory = Callable[..., nn.Module]
"""Makes a sublayer or a norm from a config."""


class Stack(nn.Module):
    """A stack of N layers. The paper's stacks have neither a final `norm` nor `relative`.

    `relative` is the module that computes Distances, of rotary or relative positions: these act within the attention of
    each layer. The paper's positions are added to the embeddings.
    """

    def __init__(
        self, layers: Iterable[nn.Module], norm: nn.Module | None = None, relative: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.relative = relative
        self.layers: nn.ModuleList = nn.ModuleList(layers)
        self.norm = norm
        self.recompute: bool = False  # train.gradient_checkpointing

    def _call_layer(self, layer: nn.Module, *inputs: Any) -> Tensor:
        """Returns layer(*inputs); in training with `recompute` by gradient checkpointing, which has the same result."""
        if self.recompute and self.training:
            return checkpoint(layer, *inputs, use_reentrant=False)
        return layer(*inputs)


class Encoder(Stack):
    """The left stack."""

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, S, D) -> (B, S, D). `mask` is broadcastable to (B, H, S, S)."""
        distances = None if self.relative is None else self.relative(*get_query_key_positions(x))
        for layer in self.layers:
            x = self._call_layer(layer, x, mask, distances)
        return x if self.norm is None else self.norm(x)


class Decoder(Stack):
    """The right stack. If its layers have cross-attention, each call needs a memory."""

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None,
        memory_mask: Tensor | None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """(B, T, D), (B, S, D) -> (B, T, D). `mask` is broadcastable to (B, H, T, T), `memory_mask` to (B, H, T, S).

        With a `cache`, in a step of decoding, T is the W hypotheses, and `mask` is the cache's, (B, 1, W, M).
        """
        distances = None if self.relative is None else self.relative(*get_query_key_positions(x, cache))
        for index, layer in enumerate(self.layers):
            layer_cache = None if cache is None else cache.layers[index]
            x = self._call_layer(layer, x, memory, mask, memory_mask, layer_cache, distances)
        return x if self.norm is None else self.norm(x)


class ResidualConnections(nn.Module):
    """The base class of both layers: `add` is the residual sum around each of their sublayers.

    Dropout applies to the sublayer's output (section 5.4); the norm to the sum, or with `norm_first` to the input.
    """

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
        notify_residual(self, norm, x, added, after)
        return after


class EncoderLayer(ResidualConnections):
    """Self-attention (the second use of attention in section 3.2.3), then a feed-forward network.

    `new_norm` makes the norm of each sublayer.
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
    def from_config(
        cls,
        config: ModelConfig,
        make_attention: Factory = MultiHeadAttention.from_config,
        make_feed_forward: Factory = FeedForward.from_config,
        make_norm: Factory = make_norm,
    ) -> Self:
        """Returns the layer for `config`."""
        self_attn, feed_forward = make_attention(config), make_feed_forward(config)
        new_norm = partial(make_norm, config)
        return cls(self_attn, feed_forward, new_norm, config.dropout, norm_first=config.norm == "pre")

    def forward(self, x: Tensor, mask: Tensor | None, distances: Distances | None = None) -> Tensor:
        """(B, S, D) -> (B, S, D). `mask` is broadcastable to (B, H, S, S)."""
        # None: no memory, `x` attends to itself. All arguments are passed, as custom attention need not have defaults.
        x = self.add(
            x, self.self_attn_norm, lambda x: self.self_attn(x, None, mask=mask, cache=None, distances=distances)
        )
        return self.add(x, self.feed_forward_norm, self.feed_forward)


class DecoderLayer(ResidualConnections):
    """Masked self-attention, attention over the encoder's memory if there is one, then a feed-forward network.

    These are the third and the first use of attention in section 3.2.3.
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
        if cross_attn is not None:
            self.cross_attn_norm: nn.Module = new_norm()
        self.feed_forward = feed_forward
        self.feed_forward_norm: nn.Module = new_norm()

    @classmethod
    def from_config(
        cls,
        config: ModelConfig,
        has_memory: bool = True,
        make_attention: Factory = MultiHeadAttention.from_config,
        make_feed_forward: Factory = FeedForward.from_config,
        make_norm: Factory = make_norm,
    ) -> Self:
        """Returns the layer for `config`; with `has_memory=False` it has no cross-attention."""
        self_attn = make_attention(config)
        cross_attn = make_attention(config, query_norm=config.cross_query_norm) if has_memory else None
        feed_forward, new_norm = make_feed_forward(config), partial(make_norm, config)
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
        if (cross_attn := self.cross_attn) is not None:
            x = self.add(
                x, self.cross_attn_norm, lambda x: cross_attn(x, memory, mask=memory_mask, cache=cache, distances=None)
            )
        return self.add(x, self.feed_forward_norm, self.feed_forward)


def set_gradient_checkpointing(model: nn.Module, recompute: bool) -> None:
    """Sets whether the stacks in `model` recompute their layers' activations in the backward pass."""
    for stack in model.modules():
        if isinstance(stack, Stack):
            stack.recompute = recompute
