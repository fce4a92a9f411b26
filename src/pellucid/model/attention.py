"""Section 3.2: scaled dot-product attention and multi-head attention.

Two paths give the same values and gradients, up to rounding (where no weight is dropped): the explicit one, which reads
like equation 1, and PyTorch's fused kernel.
"""

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.config.model import check_heads
from pellucid.model.cache import LayerCache
from pellucid.model.checks import check_attended, check_attention
from pellucid.model.fast.dropout import Dropout, dropout
from pellucid.model.fast.kernel import fused_attention
from pellucid.model.fast.linear import Linear
from pellucid.model.masks import is_own_causal
from pellucid.model.norm import norm_of_width
from pellucid.model.observing import tell_observer
from pellucid.model.relative import Distances, rotate

LONG = 64
"""The positions on both sides from which PyTorch's kernel is the faster one on a CPU."""


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Returns softmax(q k^T / sqrt(d_k) + bias), where `mask` allows: (B, H, L, K), (B, H, M, K) -> (B, H, L, M).

    Rows sum to one, or to zero where `mask` (as in `attention`) leaves nothing to attend to.
    """
    # The scale is taken into the queries: half precision then overflows less easily than in the product.
    scores = (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)  # (B, H, L, M)
    if bias is not None:
        scores = scores + bias  # (B, H, L, M)
    if mask is None:
        return scores.softmax(dim=-1)  # (B, H, L, M)
    # The most negative number, not minus infinity: a row that is masked whole then has no NaN, in value or gradient.
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)  # (B, H, L, M)
    sees_nothing = ~mask.any(dim=-1, keepdim=True)
    return scores.softmax(dim=-1).masked_fill(sees_nothing, 0.0)  # (B, H, L, M)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    fused: bool | None = None,
    bias: Tensor | None = None,
    *,
    block: nn.Module | None = None,
) -> Tensor:
    """Returns softmax(q k^T / sqrt(d_k) + bias) v, equation 1 of the paper, which has no bias: (B, H, L, K).

    Args:
        q: (B, H, L, K).
        k, v: (B, H, M, K); or of G heads, each shared by H / G neighbouring heads of `q`.
        mask: bool, True = may attend, broadcastable to (B, H, L, M); of two dimensions it is (L, M), the same for all
            sentences. A query that may attend to nothing gets zeros.
        dropout_p: probability that a weight is dropped.
        fused: PyTorch's kernel or the explicit path; None: the explicit one on a CPU where a side has fewer than 64
            positions, weights are dropped or there is a bias, the kernel elsewhere.
        bias: added to the scores, broadcastable to (B, H, L, M).
        block: the module whose attention this is, by which an observer knows its model's calls.

    Raises DataError for a mask that is not bool or has another shape, and for keys or values that do not fit.
    """
    check_attention(q, k, v, mask)
    if k.size(1) != q.size(1):
        shared = q.size(1) // k.size(1)
        k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)  # (B, H, M, K)
    if fused is None:
        fused = _kernel_is_faster(q, k, dropout_p, bias)
    if fused:  # the kernel gives zeros for a row that is masked whole
        is_causal = bias is None and is_own_causal(mask, q.size(2), k.size(2))
        attn_mask = None if is_causal else mask
        if bias is not None:  # the kernel takes one tensor: where there are both, minus infinity stands for the mask
            bias = bias.to(torch.promote_types(bias.dtype, q.dtype))  # a narrower one it reads wrongly
            attn_mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        output = fused_attention(q, k, v, attn_mask, dropout_p, is_causal)  # (B, H, L, K)
    else:
        output = dropout(attention_weights(q, k, mask, bias), dropout_p) @ v  # (B, H, L, K)
    tell_observer(block, q, k, v, mask, bias, output)
    return output


def _kernel_is_faster(q: Tensor, k: Tensor, dropout_p: float, bias: Tensor | None) -> bool:
    """Tells which path to take, by shapes alone: what is measured anew could change a run's digits when it goes on.

    The kernel never writes weights to memory, which on a CPU pays from about 64 positions on
    (benchmarks/attention_paths.py). There it can neither drop weights nor learn a bias, and a graph that is exported
    has one path for all lengths.
    """
    if not q.is_cpu:
        return True
    plain = dropout_p == 0.0 and bias is None and not torch.compiler.is_exporting()
    return plain and min(q.size(2), k.size(2)) >= LONG


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: Concat(head_1, ..., head_H) W^O; each head is an attention of width K, by default d_model / H.

    `qkv_proj` packs W^Q, W^K and W^V, in that order; its first rows are head 1 of W^Q. `out_proj` is W^O.

    Beyond the paper: `num_kv_heads`, fewer heads of keys and values than of queries (Ainslie et al. 2023);
    `head_width`, another K (the setting `head_dim`); `qkv_bias`, biases in `qkv_proj` where they differ from
    `out_proj`'s; `qk_norm`, which makes a norm of a given width, for queries and for keys (Henry et al. 2020), or
    with `query_norm=False` for keys alone.

    Raises ConfigError where `num_heads` does not divide `d_model` and no `head_width` is given, or `num_kv_heads` does
    not divide `num_heads`.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        num_kv_heads: int | None = None,
        head_width: int | None = None,
        qkv_bias: bool | None = None,
        qk_norm: Callable[[int], nn.Module] | None = None,
        query_norm: bool = True,
    ) -> None:
        super().__init__()
        check_heads(d_model, num_heads, num_kv_heads, head_width)
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_width: int = d_model // num_heads if head_width is None else head_width
        self.q_width: int = num_heads * self.head_width
        self.kv_width: int = num_kv_heads * self.head_width
        self.dropout: Dropout = Dropout(dropout)
        self.qkv_proj: Linear = Linear(d_model, sum(self.qkv_widths), bias=bias if qkv_bias is None else qkv_bias)
        self.q_norm: nn.Module = nn.Identity() if qk_norm is None or not query_norm else qk_norm(self.head_width)
        self.k_norm: nn.Module = nn.Identity() if qk_norm is None else qk_norm(self.head_width)
        self.out_proj: Linear = Linear(self.q_width, d_model, bias=bias)

    @classmethod
    def from_config(cls, config: ModelConfig, *, query_norm: bool = True) -> Self:
        """Returns the attention that `config` describes; where it has norms, `query_norm` says whether of queries."""
        return cls(
            config.d_model, config.num_heads, config.attention_dropout, config.bias,
            num_kv_heads=config.num_kv_heads, head_width=config.head_width, qkv_bias=config.qkv_bias,
            qk_norm=(lambda width: norm_of_width(config, width)) if config.qk_norm else None, query_norm=query_norm,
        )  # fmt: skip

    @property
    def qkv_widths(self) -> list[int]:
        """Counts the rows of `qkv_proj` that make queries, keys and values."""
        return [self.q_width, self.kv_width, self.kv_width]

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *others: Tensor,
        mask: Tensor | None = None,
        cache: LayerCache | None = None,
        distances: Distances | None = None,
    ) -> Tensor:
        """Attends from `x` to itself, or to `memory` where one is given.

        Args:
            x: (B, L, D). memory: (B, M, D).
            others: none; taken so that attention(q, k, v), as torch.nn has it, is refused in words.
            mask: bool, True = may attend, broadcastable to (B, H, L, M).
            cache: keys and values of earlier steps, to which the new ones are added; those of a memory are kept.
            distances: positions that act within self-attention, of `x` and of all keys of the cache; None for a memory.

        Returns: (B, L, D).

        Raises DataError for a third tensor, and for what does not fit: an input, a memory, a mask.
        """
        check_attended(x, memory, others, self.d_model)
        q, k, v = self.project(x, memory, cache, None if distances is None else distances.rotation)
        bias = None if distances is None else distances.bias
        # Of the module its probability alone: attention() drops by itself, as the fused kernel does.
        dropout_p = self.dropout.p if self.training else 0.0
        output = attention(q, k, v, mask, dropout_p, bias=bias, block=self)  # (B, H, L, K)
        return self.out_proj(self.join_heads(output))  # (B, L, D)

    def project(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        cache: LayerCache | None = None,
        rotation: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries (B, H, L, K), and the keys and values (B, G, M, K) of `x` itself or of `memory`.

        G is `num_kv_heads`, H by default. A `cache` puts those of earlier steps in front, and those of a memory are
        computed once and kept there. `rotation` turns queries and keys by their positions.
        """
        if memory is not None:
            q = self.q_norm(self.split_heads(self.qkv_proj.some_rows(x, slice(self.q_width))))  # (B, H, L, K)
            k, v = self.keys_and_values(memory) if cache is None else cache.keep_memory(memory, self.keys_and_values)
            return q, k, v
        q, k, v = map(self.split_heads, torch.split(self.qkv_proj(x), self.qkv_widths, dim=-1))
        q = self.q_norm(q)  # (B, H, L, K)
        k = self.k_norm(k)  # (B, G, L, K)
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        return (q, k, v) if cache is None else (q, *cache.extend_self(k, v))

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the keys and values of (B, M, D), each (B, G, M, K)."""
        k, v = self.qkv_proj.some_rows(memory, slice(self.q_width, None)).chunk(2, dim=-1)
        return self.k_norm(self.split_heads(k)), self.split_heads(v)

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, L, H * K) -> (B, H, L, K); or G heads, of keys and values."""
        return x.view(x.size(0), x.size(1), -1, self.head_width).transpose(1, 2)

    def join_heads(self, x: Tensor) -> Tensor:
        """(B, H, L, K) -> (B, L, H * K)."""
        return x.transpose(1, 2).reshape(x.size(0), x.size(2), -1)
