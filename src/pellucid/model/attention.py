"""Section 3.2: scaled dot-product attention and multi-head attention.

Two paths give the same values and gradients, up to rounding: the explicit one, which reads like equation 1, and
PyTorch's fused kernel.
At the end `observing` lets others see what each call works on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError, DataError
from pellucid.model.cache import LayerCache
from pellucid.model.fast.dropout import Dropout, dropout
from pellucid.model.fast.linear import Linear
from pellucid.model.masks import check_mask, fits
from pellucid.model.norm import norm_of_width
from pellucid.model.relative import Distances, rotate


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Returns softmax(q k^T / sqrt(K) + bias): (B, H, L, K), (B, H, M, K) -> (B, H, L, M).

    Rows sum to one, or to zero where `mask` (as in `attention`) leaves nothing to attend to.
    """
    scores = (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)  # (B, H, L, M)
    if bias is not None:
        scores = scores + bias  # (B, H, L, M)
    if mask is None:
        return scores.softmax(dim=-1)  # (B, H, L, M)
    # The smallest number, not minus infinity: a row that is masked whole then has no NaN, in value or gradient.
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)  # (B, H, L, M)
    return scores.softmax(dim=-1).masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)  # (B, H, L, M)


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
    """Returns softmax(q k^T / sqrt(K)) v, equation 1 of the paper: (B, H, L, K).

    Args:
        q: (B, H, L, K).
        k, v: (B, H, M, K); or of fewer heads, each shared by as many neighbouring heads of `q`.
        mask: bool, True = may attend, broadcastable to (B, H, L, M); of two dimensions it is (L, M), the same for all
            sentences. A query that may attend to nothing gets zeros.
        dropout_p: probability that a weight is dropped.
        fused: PyTorch's kernel or the explicit path; None: the explicit one on a CPU, the kernel elsewhere.
        bias: added to the scores, broadcastable to (B, H, L, M).
        block: the module whose attention this is, by which an observer knows its model's calls.

    Raises DataError for a mask that is not bool or has another shape, and for keys that do not fit the queries.
    """
    if q.size(-1) != k.size(-1) or q.size(1) % k.size(1) or k.size(2) != v.size(2):
        raise DataError(
            f"queries of shape {tuple(q.shape)}, keys {tuple(k.shape)} and values {tuple(v.shape)} do not fit: they "
            "are (B, H, L, K), (B, H, M, K) and (B, H, M, K)",
            "queries and keys have one width, keys and values one length; the heads of keys divide those of queries",
        )
    if mask is not None and not fits(mask, q.size(0), q.size(1), q.size(2), k.size(2)):
        check_mask(mask, q.size(0), q.size(1), q.size(2), k.size(2))
    if k.size(1) != q.size(1):
        shared = q.size(1) // k.size(1)
        k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)  # (B, H, M, K)
    if fused is None:
        # On a CPU the explicit path is the faster one for sentences of up to about 50 tokens, twice as fast at 16, and
        # slower for longer ones (benchmarks/attention_paths.py); a GPU's kernel never writes the weights to memory.
        fused = not q.is_cpu
    if fused:
        added = mask
        if bias is not None:  # the kernel takes one tensor: where there are both, minus infinity stands for the mask
            added = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=added, dropout_p=dropout_p)  # (B, H, L, K)
    else:
        output = dropout(attention_weights(q, k, mask, bias), dropout_p) @ v  # (B, H, L, K)
    # TorchDynamo cannot read a ContextVar: who wants to observe a compiled model observes it uncompiled.
    if not torch.compiler.is_dynamo_compiling() and (observation := _observation.get()) is not None:
        observation.tell(block, q, k, v, mask, bias, output)
    return output


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: H attentions side by side, each of width K, by default d_model / H.

    `qkv_proj` packs W^Q, W^K and W^V, in that order, K rows for each head. `num_kv_heads`: fewer heads of keys and
    values than of queries (Ainslie et al. 2023). `head_width`: another K. `qkv_bias`: biases there, where they differ
    from `out_proj`'s. `qk_norm`: makes a norm of a given width, for queries and for keys (Henry et al. 2020).

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
    ) -> None:
        super().__init__()
        if head_width is None and d_model % num_heads:
            raise ConfigError(f"`d_model` ({d_model}) must be divisible by `num_heads` ({num_heads})")
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if num_heads % num_kv_heads:
            raise ConfigError(f"`num_heads` ({num_heads}) must be divisible by `num_kv_heads` ({num_kv_heads})")
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_width: int = d_model // num_heads if head_width is None else head_width
        self.q_width: int = num_heads * self.head_width
        self.kv_width: int = num_kv_heads * self.head_width
        self.dropout: Dropout = Dropout(dropout)
        self.qkv_proj: Linear = Linear(d_model, sum(self.qkv_widths), bias=bias if qkv_bias is None else qkv_bias)
        self.q_norm: nn.Module = nn.Identity() if qk_norm is None else qk_norm(self.head_width)
        self.k_norm: nn.Module = nn.Identity() if qk_norm is None else qk_norm(self.head_width)
        self.out_proj: Linear = Linear(self.q_width, d_model, bias=bias)

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """Returns the attention that `config` describes."""
        return cls(
            config.d_model, config.num_heads, config.attention_dropout, config.bias,
            num_kv_heads=config.num_kv_heads, head_width=config.head_width, qkv_bias=config.qkv_bias,
            qk_norm=(lambda width: norm_of_width(config, width)) if config.qk_norm else None,
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
            mask: bool, True = may attend, broadcastable to (B, H, L, M).
            cache: keys and values of earlier steps; the new ones are added.
            distances: positions that act within self-attention, of `x` and of all keys of the cache; None for a memory.

        Returns: (B, L, D).

        Raises DataError for a third tensor, and for what does not fit: an input, a memory, a mask.
        """
        if others:
            raise DataError(
                f"{2 + len(others)} tensors are given: this attention takes `x` and `memory`, and makes queries, keys "
                "and values of them itself",
                "write attention(x) for self-attention and attention(x, memory) for a memory; the mask is `mask=`",
            )
        if x.dim() != 3 or x.size(2) != self.d_model:
            raise DataError(
                f"`x` has shape {tuple(x.shape)}; this attention takes (B, L, D), a vector of {self.d_model} a token",
                "write x[None] for a single sentence" if x.dim() == 2 else "",
            )
        if memory is not None and (memory.dim() != 3 or memory.size(0) != x.size(0) or memory.size(2) != self.d_model):
            raise DataError(
                f"`memory` has shape {tuple(memory.shape)}, `x` {tuple(x.shape)}; they are (B, M, D) and (B, L, D), "
                f"with vectors of {self.d_model}",
                "each sentence of `x` needs its row of `memory`",
            )
        bias, turn = (None, None) if distances is None else (distances.bias, distances.rotation)
        if memory is None:
            q, k, v = map(self.split_heads, self.qkv_proj(x).split(self.qkv_widths, dim=-1))
            q, k = self.q_norm(q), self.k_norm(k)
            if turn is not None:
                q, k = rotate(q, turn), rotate(k, turn)
            if cache is not None:
                k, v = cache.extend_self(k, v)
        else:
            q = self.q_norm(self.split_heads(self.qkv_proj.some_rows(x, slice(self.q_width))))
            k, v = self.memory_heads(memory) if cache is None else cache.keep_memory(memory, self.memory_heads)
        dropout_p = self.dropout.p if self.training else 0.0
        output = attention(q, k, v, mask, dropout_p, bias=bias, block=self)  # (B, H, L, K)
        return self.out_proj(self.join_heads(output))  # (B, L, D)

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, L, H * K) -> (B, H, L, K)."""
        return x.view(x.size(0), x.size(1), -1, self.head_width).transpose(1, 2)

    def join_heads(self, x: Tensor) -> Tensor:
        """(B, H, L, K) -> (B, L, H * K)."""
        return x.transpose(1, 2).reshape(x.size(0), x.size(2), -1)

    def memory_heads(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the keys and values of (B, M, D), each (B, H, M, K)."""
        k, v = self.qkv_proj.some_rows(memory, slice(self.q_width, None)).chunk(2, dim=-1)
        return self.k_norm(self.split_heads(k)), self.split_heads(v)


Observer = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor], None]
"""Called with q, k, v, mask, bias and output of a call of attention()."""


@dataclass(frozen=True)
class _Observation:
    """An observer, the modules whose calls it sees (None: all), and who observed before."""

    observer: Observer
    modules: frozenset[nn.Module] | None
    outer: "_Observation | None"

    def tell(self, block: nn.Module | None, *seen: Tensor | None) -> None:
        """Tells the innermost observer that may see a call of `block`; without a block, the innermost of all."""
        if self.modules is None or block is None or block in self.modules:
            self.observer(*seen)  # type: ignore[arg-type]
        elif self.outer is not None:
            self.outer.tell(block, *seen)


# Belongs to a thread or an asyncio task, not to the process: what others compute meanwhile is not observed.
_observation: ContextVar[_Observation | None] = ContextVar("pellucid_observation", default=None)


@contextmanager
def observing(observer: Observer, model: nn.Module | None = None) -> Iterator[None]:
    """Calls `observer(q, k, v, mask, bias, output)` at each attention() within.

    Within means: by this thread, or this asyncio task. With a `model`, the observer sees the calls of that model's
    modules, and those that name no `block`. Of several observers one within the other, the innermost that may see a
    call does. Without an observer a call costs one look.
    """
    modules = None if model is None else frozenset(model.modules())
    token = _observation.set(_Observation(observer, modules, _observation.get()))
    try:
        yield
    finally:
        _observation.reset(token)
