"""Section 3.2: scaled dot-product attention and multi-head attention.

The one place where attention weights are computed. Two paths give the same values and gradients: the explicit one,
which reads like equation 1, and PyTorch's fused kernel. `observing` lets others see what each call works on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.errors import ConfigError
from pellucid.model.cache import LayerCache
from pellucid.model.dropout import Dropout, dropout
from pellucid.model.linear import Linear

Observer = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor], None]
_observer: Observer | None = None


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout_p: float = 0.0, fused: bool | None = None
) -> Tensor:
    """softmax(q k^T / sqrt(K)) v, equation 1 of the paper.

    Args:
        q: (B, H, L, K). k, v: (B, H, M, K).
        mask: bool, True = may attend, broadcastable to (B, H, L, M). A query that may attend to nothing gets zeros.
        dropout_p: probability that a weight is dropped.
        fused: PyTorch's kernel or the explicit path; None: the faster one.

    Returns: (B, H, L, K).
    """
    if fused is None:
        # On a CPU the explicit path is the faster one for sentences of up to about 50 tokens, twice as fast at 16
        # (benchmarks/attention_paths.py); a GPU's kernel never writes the weights to memory.
        fused = not q.is_cpu
    if fused:
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout_p)  # (B, H, L, K)
    else:
        weights = dropout(attention_weights(q, k, mask), dropout_p)  # (B, H, L, M)
        output = weights @ v  # (B, H, L, K)
    if _observer is not None:
        _observer(q, k, v, mask, output)
    return output


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
    """softmax(q k^T / sqrt(K)): (B, H, L, K), (B, H, M, K) -> (B, H, L, M).

    Rows sum to one, or to zero where `mask` (as in `attention`) leaves nothing to attend to.
    """
    scores: Tensor = (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)  # (B, H, L, M)
    if mask is None:
        return scores.softmax(dim=-1)  # (B, H, L, M)
    # The smallest number, not minus infinity: a row that is masked whole then has no NaN, in value or gradient.
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)  # (B, H, L, M)
    return scores.softmax(dim=-1).masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)  # (B, H, L, M)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Calls `observer(q, k, v, mask, output)` at each attention() within the context; nothing is paid without one."""
    global _observer
    before, _observer = _observer, observer
    try:
        yield
    finally:
        _observer = before


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: H attentions side by side, each of width K = d_model / H.

    `qkv_proj` packs W^Q, W^K and W^V, in that order, each d_model rows of which K belong to a head.

    Raises ConfigError where `d_model` is no multiple of `num_heads`.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ConfigError(f"`d_model` ({d_model}) must be divisible by `num_heads` ({num_heads})")
        self.d_model = d_model
        self.num_heads = num_heads
        self.dropout = Dropout(dropout)
        self.qkv_proj = Linear(d_model, 3 * d_model, bias=bias)
        self.out_proj = Linear(d_model, d_model, bias=bias)

    def forward(
        self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None, cache: LayerCache | None = None
    ) -> Tensor:
        """Attends from `x` to itself, or to `memory` where one is given.

        Args:
            x: (B, L, D). memory: (B, M, D).
            mask: bool, True = may attend, broadcastable to (B, H, L, M).
            cache: keys and values of earlier steps; the new ones are added.

        Returns: (B, L, D).
        """
        if memory is None:
            q, k, v = (self.split_heads(part) for part in self.qkv_proj(x).chunk(3, dim=-1))
            if cache is not None:
                k, v = cache.extend_self(k, v)
        else:
            q = self.split_heads(self._project(x, 0, 1))
            k, v = self._memory_heads(memory) if cache is None else cache.keep_memory(memory, self._memory_heads)
        output = attention(q, k, v, mask, self.dropout.p if self.training else 0.0)  # (B, H, L, K)
        joined: Tensor = self.out_proj(self.join_heads(output))  # (B, L, D)
        return joined

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, L, D) -> (B, H, L, K)."""
        return x.view(x.size(0), x.size(1), self.num_heads, -1).transpose(1, 2)  # (B, H, L, K)

    def join_heads(self, x: Tensor) -> Tensor:
        """(B, H, L, K) -> (B, L, D)."""
        return x.transpose(1, 2).reshape(x.size(0), x.size(2), self.d_model)  # (B, L, D)

    def _memory_heads(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values of (B, M, D), each (B, H, M, K)."""
        k, v = self._project(memory, 1, 3).chunk(2, dim=-1)  # (B, M, D)
        return self.split_heads(k), self.split_heads(v)  # (B, H, M, K)

    def _project(self, x: Tensor, first: int, last: int) -> Tensor:
        """`x` through some of the packed projections: 0 query, 1 key, 2 value."""
        return self.qkv_proj.some_rows(x, slice(first * self.d_model, last * self.d_model))
