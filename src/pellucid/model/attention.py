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
from pellucid.model.attention_positions import Distances, apply_rotary
from pellucid.model.cache import LayerCache
from pellucid.model.checks import check_attended, check_attention
from pellucid.model.fast.dropout import Dropout, dropout
from pellucid.model.fast.kernel import fused_attention
from pellucid.model.fast.linear import Linear
from pellucid.model.masks import is_marked_causal
from pellucid.model.norm import make_norm_of_width
from pellucid.model.observers import notify_attention

LONG = 64
"""The least number of queries and of keys for which PyTorch's kernel is faster on a CPU."""


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Returns softmax(q k^T / sqrt(d_k) + bias), where `mask` allows: (B, H, L, K), (B, H, M, K) -> (B, H, L, M).

    Rows sum to one, or to zero if `mask` (as in `attention`) leaves nothing to attend to.
    """
    # The queries are scaled instead of the product, which would overflow more easily in half precision.
    scores = (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)  # (B, H, L, M)
    if bias is not None:
        scores = scores + bias  # (B, H, L, M)
    if mask is None:
        return scores.softmax(dim=-1)  # (B, H, L, M)
    # The most negative number, not minus infinity: a fully masked row then has no NaN, in value or gradient.
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
        k, v: (B, H, M, K); or with G heads, each shared by H / G neighbouring heads of `q`.
        mask: bool, True = may attend, broadcastable to (B, H, L, M); with two dimensions it is (L, M), the same for all
            sentences. The output of a query that may attend to nothing is zero.
        dropout_p: probability that a weight is dropped.
        fused: if True, PyTorch's kernel; if False, the explicit path; if None, the explicit path on a CPU with fewer
            than 64 queries or keys, with dropout or with a bias, otherwise the kernel.
        bias: added to the scores, broadcastable to (B, H, L, M).
        block: the module that calls, by which observers select the calls of their model.

    Raises DataError for a mask that is not bool or has another shape, and for keys or values that do not fit.
    """
    check_attention(q, k, v, mask)
    if k.size(1) != q.size(1):
        shared = q.size(1) // k.size(1)
        k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)  # (B, H, M, K)
    if fused is None:
        fused = _kernel_is_faster(q, k, dropout_p, bias)
    if fused:  # the kernel returns zeros for a fully masked row
        is_causal = bias is None and is_marked_causal(mask, q.size(2), k.size(2))
        attn_mask = None if is_causal else mask
        if bias is not None:  # the kernel takes one tensor: the mask becomes minus infinity in the bias
            bias = bias.to(torch.promote_types(bias.dtype, q.dtype))  # the kernel misreads a narrower dtype
            attn_mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        output = fused_attention(q, k, v, attn_mask, dropout_p, is_causal)  # (B, H, L, K)
    else:
        output = dropout(attention_weights(q, k, mask, bias), dropout_p) @ v  # (B, H, L, K)
    notify_attention(block, q, k, v, mask, bias, output)
    return output


def _kernel_is_faster(q: Tensor, k: Tensor, dropout_p: float, bias: Tensor | None) -> bool:
    """Returns True if attention() uses the kernel by default.

    The kernel never writes weights to memory, which on a CPU is faster from about 64 positions on
    (benchmarks/attention_paths.py). There it supports neither dropout nor a learned bias, and an exported graph has one
    path for all lengths. The paths round differently, so the choice depends on the arguments alone: a path chosen by
    measuring could differ in a resumed run, and change its weights.
    """
    if not q.is_cpu:
        return True
    plain = dropout_p == 0.0 and bias is None and not torch.compiler.is_exporting()
    return plain and min(q.size(2), k.size(2)) >= LONG


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: Concat(head_1, ..., head_H) W^O; each head is an attention of width K, by default d_model / H.

    `qkv_proj` packs W^Q, W^K and W^V, in that order; its first rows are head 1 of W^Q. `out_proj` is W^O.

    Beyond the paper: `num_kv_heads`, fewer heads of keys and values than of queries (Ainslie et al. 2023);
    `head_width`, another K (the setting `head_dim`); `qkv_bias`, biases in `qkv_proj` if they differ from `out_proj`'s;
    `qk_norm`, a factory of norms of a given width, for queries and keys (Henry et al. 2020), or with `query_norm=False`
    for keys alone.

    Raises ConfigError if `num_heads` does not divide `d_model` and no `head_width` is given, or if `num_kv_heads` does
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
        """Returns the attention of `config`; if it has norms, `query_norm=False` omits the norm of queries."""
        return cls(
            config.d_model, config.num_heads, config.attention_dropout, config.bias,
            num_kv_heads=config.num_kv_heads, head_width=config.head_width, qkv_bias=config.qkv_bias,
            qk_norm=(lambda width: make_norm_of_width(config, width)) if config.qk_norm else None,
            query_norm=query_norm,
        )  # fmt: skip

    @property
    def qkv_widths(self) -> list[int]:
        """Returns the numbers of rows of `qkv_proj` for queries, keys and values."""
        return [self.q_width, self.kv_width, self.kv_width]

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        cache: LayerCache | None = None,
        distances: Distances | None = None,
    ) -> Tensor:
        """Attends from `x` to itself, or to `memory` if it is given.

        Args:
            x: (B, L, D).
            memory: (B, M, D).
            mask: bool, True = may attend, broadcastable to (B, H, L, M).
            cache: keys and values of earlier steps, to which the new ones are appended; a memory's are stored once.
            distances: positions that act within self-attention, of `x` and all keys of the cache; None for a memory.

        Returns: (B, L, D).

        Raises DataError for an input, a memory or a mask that does not fit.
        """
        check_attended(x, memory, self.d_model)
        q, k, v = self.project(x, memory, cache, None if distances is None else distances.rotation)
        bias = None if distances is None else distances.bias
        # Only the module's probability is used: attention() applies dropout, as the fused kernel does.
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

        G is `num_kv_heads`, H by default. With a `cache`, keys and values of earlier steps come first, and a memory's
        are computed once and stored there. `rotation` rotates queries and keys by their positions.
        """
        if memory is not None:
            q = self.q_norm(self.split_heads(self.qkv_proj.some_rows(x, slice(self.q_width))))  # (B, H, L, K)
            if cache is None:
                return q, *self.keys_and_values(memory)
            return q, *cache.get_memory_heads(memory, self.keys_and_values)
        q, k, v = map(self.split_heads, torch.split(self.qkv_proj(x), self.qkv_widths, dim=-1))
        q = self.q_norm(q)  # (B, H, L, K)
        k = self.k_norm(k)  # (B, G, L, K)
        if rotation is not None:
            q, k = apply_rotary(q, rotation), apply_rotary(k, rotation)
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
