"""The decoder's step on plain tensors: what its layers compute, in fewer calls.

A step reads one token of each hypothesis. Its products are small, so that it costs what its calls cost: modules,
checks, and masks that each layer prepares anew. Here they are some 40 % of that, and masks are made once a step.

It stands in for layers that are all Pellucid's own and that nobody watches. All others go through their modules.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model.attention import MultiHeadAttention
from pellucid.model.cache import DecoderCache, LayerCache
from pellucid.model.fast.dropout import Dropout
from pellucid.model.fast.kernel import fused_attention
from pellucid.model.fast.linear import Linear
from pellucid.model.fast.products import LEAST_WORK, linear
from pellucid.model.fast.queue import has_queue
from pellucid.model.feed_forward import FeedForward
from pellucid.model.layers import Decoder, DecoderLayer
from pellucid.model.observing import is_observed

Norm = Callable[[Tensor], Tensor]
Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]
Weights = tuple[Tensor, Tensor | None]
"""A projection's matrix and, where it has one, its bias."""
OURS = {
    Decoder, DecoderLayer, MultiHeadAttention, FeedForward, Linear, Dropout, nn.ModuleList, nn.LayerNorm, nn.RMSNorm,
    nn.Identity,
}  # fmt: skip
"""The modules whose work is done here, exactly these: a subclass may compute something else."""


class PlainDecoder:
    """Does the work of a Decoder in a step; made for one search by `of`."""

    def __init__(self, decoder: Decoder) -> None:
        self._layers = [_Layer.of(layer) for layer in decoder.layers if isinstance(layer, DecoderLayer)]
        self._norm = _norm_of(decoder.norm)
        self._widest: int = max((layer.up[0].numel() for layer in self._layers), default=0)
        self._memory_mask: Tensor | None = None
        self._hidden: Tensor | None = None

    @classmethod
    def of(cls, decoder: Decoder, cache: DecoderCache) -> "PlainDecoder | None":
        """Returns what does the work of `decoder` with `cache`; None where its modules must do it."""
        return cls(decoder) if not torch.compiler.is_compiling() and _can_stand_in(decoder, cache) else None

    @staticmethod
    def may_step() -> bool:
        """Tells whether a step may be taken here: nobody observes it, asks for gradients, or records a graph."""
        return not (torch.is_grad_enabled() or is_observed() or torch.compiler.is_compiling())

    def step(self, x: Tensor, own_past: Tensor, cache: DecoderCache) -> Tensor:
        """Returns what the decoder gives: (B, W, D), mask (B, 1, W, M) -> (B, W, D)."""
        B, W, D = x.shape
        hidden = None if W == 1 else _hidden(own_past, x, self._layers[0].heads)  # one hypothesis sees all that it read
        memory_hidden = self._of_memory(cache.memory_mask, x)
        x, take = x.reshape(B * W, D), linear if B * W * self._widest >= LEAST_WORK else F.linear
        for layer, kept in zip(self._layers, cache.layers, strict=True):
            x = layer.step(x, (B, W), kept, hidden, cache.memory, memory_hidden, take)
        return self._norm(x).view(B, W, D)

    def _of_memory(self, mask: Tensor | None, like: Tensor) -> Tensor | None:
        """Returns `_hidden` of the memory's mask, which is another one only when sentences have gone."""
        if mask is not self._memory_mask:
            self._memory_mask = mask
            # A GPU would have to be waited for to know that there is nothing to hide.
            shows_all = mask is None or (not has_queue(mask.device) and bool(mask.all()))
            self._hidden = None if mask is None or shows_all else _hidden(mask, like, self._layers[0].heads)
        return self._hidden


class _Sublayer(NamedTuple):
    """An attention's tensors: to ask a module for one takes as long as a small operator."""

    norm: Norm
    project: Weights
    """To queries, keys and values; to queries alone where keys and values are the memory's."""
    back: Weights
    q_norm: Norm | None
    """The norm of each head's queries, and below of its keys; None: they have none."""
    k_norm: Norm | None

    @classmethod
    def of(cls, block: MultiHeadAttention, norm: nn.Module | None, rows: slice) -> "_Sublayer":
        """Takes the rows of the packed projection that a step needs."""
        weight, bias = _weights(block.qkv_proj)
        project = weight[rows], None if bias is None else bias[rows]
        heads = (None if isinstance(each, nn.Identity) else _norm_of(each) for each in (block.q_norm, block.k_norm))
        return cls(_norm_of(norm), project, _weights(block.out_proj), *heads)


class _Layer(NamedTuple):
    """The tensors of a DecoderLayer."""

    heads: int
    norm_first: bool
    self_attn: _Sublayer
    cross_attn: _Sublayer | None
    keys_and_values: Callable[[Tensor], tuple[Tensor, Tensor]]
    """Makes the keys and values of the memory."""
    norm: Norm
    """The norm of the feed-forward network."""
    gate: Weights | None
    up: Weights
    down: Weights
    activation: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, layer: DecoderLayer) -> "_Layer":
        own, cross, network = layer.self_attn, layer.cross_attn, layer.feed_forward
        assert isinstance(own, MultiHeadAttention)
        assert isinstance(network, FeedForward)
        assert cross is None or isinstance(cross, MultiHeadAttention)
        return cls(
            own.num_heads, layer.norm_first, _Sublayer.of(own, layer.self_attn_norm, slice(None)),
            None if cross is None else _Sublayer.of(cross, layer.cross_attn_norm, slice(cross.q_width)),
            (own if cross is None else cross).keys_and_values, _norm_of(layer.feed_forward_norm),
            None if network.gate_proj is None else _weights(network.gate_proj), _weights(network.up_proj),
            _weights(network.down_proj), network.activation,
        )  # fmt: skip

    def step(
        self,
        x: Tensor,
        size: tuple[int, int],
        cache: LayerCache,
        hidden: Tensor | None,
        memory: Tensor | None,
        memory_hidden: Tensor | None,
        take: Product,
    ) -> Tensor:
        """(B * W, D) -> (B * W, D), with products by `take`."""
        heads, norm_first, own, cross, keys_and_values, norm, gate, up, down, activation = self

        packed = take(own.norm(x) if norm_first else x, *own.project).view(*size, 3, heads, -1)
        q, kv = torch.split(packed.permute(2, 0, 3, 1, 4), [1, 2])  # (1 or 2, B, H, W, K)
        q = q if own.q_norm is None else own.q_norm(q)
        kv = kv if own.k_norm is None else torch.stack((own.k_norm(kv[0]), kv[1]))
        x = take(_attend(q[0], *cache.extend_packed(kv), hidden), *own.back).add_(x)
        x = x if norm_first else own.norm(x)

        if cross is not None and memory is not None:
            q = take(cross.norm(x) if norm_first else x, *cross.project).view(*size, heads, -1).transpose(1, 2)
            q = q if cross.q_norm is None else cross.q_norm(q)
            x = take(_attend(q, *cache.keep_memory(memory, keys_and_values), memory_hidden), *cross.back).add_(x)
            x = x if norm_first else cross.norm(x)

        y = norm(x) if norm_first else x
        inner = take(y, *up)
        inner = activation(inner) if gate is None else activation(take(y, *gate)).mul_(inner)
        x = take(inner, *down).add_(x)
        return x if norm_first else norm(x)


def _attend(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
    """Returns equation 1 with its heads joined: (B, H, W, K), twice (B, H, M, K) -> (B * W, H * K)."""
    B, H, W, K = q.shape
    if B == 1:  # one call for five; with more sentences the products are faster than the kernel's
        output = fused_attention(q, k, v, None if hidden is None else hidden.view(1, H, -1, k.size(2)))
        return output.transpose(1, 2).reshape(W, H * K)
    q, k, v = q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2), v.flatten(0, 1)
    if hidden is None:
        scores = torch.bmm(q * K**-0.5, k)  # (B * H, W, M)
    else:
        scores = torch.baddbmm(hidden, q, k, alpha=K**-0.5)  # (B * H, W, M)
    output = torch.bmm(scores.softmax(dim=-1), v)  # (B * H, W, K)
    return output.view(B, H, W, K).transpose(1, 2).reshape(B * W, H * K)


def _hidden(mask: Tensor, like: Tensor, heads: int) -> Tensor:
    """Returns what hides keys when it is added to scores: a mask (B, 1, 1 or W, M) -> (B * H, 1 or W, M)."""
    added = like.new_zeros(mask.shape).masked_fill_(~mask, torch.finfo(like.dtype).min)
    return added.expand(-1, heads, -1, -1).flatten(0, 1)


def _weights(layer: Linear) -> Weights:
    return layer.weight, layer.bias


def _norm_of(norm: nn.Module | None) -> Norm:
    """Returns a norm as a function of what it normalises."""
    if isinstance(norm, nn.LayerNorm):
        shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    if isinstance(norm, nn.RMSNorm):
        return partial(F.rms_norm, normalized_shape=list(norm.normalized_shape), weight=norm.weight, eps=norm.eps)
    return _no_norm


def _no_norm(x: Tensor) -> Tensor:
    return x


def _can_stand_in(decoder: Decoder, cache: DecoderCache) -> bool:
    """Tells whether all modules are ours, unwatched, in evaluation, on a CPU or GPU, with plain heads and positions."""
    if type(decoder) is not Decoder or decoder.relative is not None or decoder.training:
        return False
    parameter = next(decoder.parameters())
    # In half precision the explicit path of attention() scales before it multiplies, against overflow.
    device = parameter.device
    if not (parameter.is_cpu or has_queue(device)) or parameter.dtype not in (torch.float32, torch.float64):
        return False
    if torch.is_autocast_enabled(device.type):
        return False
    modules: list[nn.Module] = [decoder]
    for module in modules:  # which grows: decoder.modules() takes as long as a step
        watched = module._forward_hooks or module._forward_pre_hooks or "forward" in module.__dict__
        if type(module) not in OURS or watched:
            return False
        modules += filter(None, module._modules.values())
    blocks = [module for module in modules if isinstance(module, MultiHeadAttention)]
    if any(block.kv_width != block.q_width for block in blocks):
        return False
    if len({block.num_heads for block in blocks}) > 1:
        return False
    # A source that is padding alone has zeros for what is attended to.
    return cache.memory_mask is None or bool(cache.memory_mask.any(dim=-1).all())
