"""A step of decoding on plain tensors: it computes what a model's modules compute, in fewer calls.

A step reads one token per hypothesis. Its products are small, so its time is the time of its calls: modules, checks,
and masks that each layer prepares again. This step takes about 40 % of these calls and prepares its masks once.

It replaces decoders that consist of Pellucid's own modules and that nothing observes. Other decoders are called as they
are. It uses the modules' own tensors, no copies, so it follows a change of the weights.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model.attention import MultiHeadAttention
from pellucid.model.cache import DecoderCache, LayerCache
from pellucid.model.fast.dropout import Dropout
from pellucid.model.fast.gpu import is_gpu
from pellucid.model.fast.kernel import fused_attention
from pellucid.model.fast.linear import Linear
from pellucid.model.fast.products import LEAST_WORK, linear
from pellucid.model.feed_forward import FeedForward
from pellucid.model.incremental import IncrementalModel
from pellucid.model.layers import Decoder, DecoderLayer
from pellucid.model.observers import is_observed

Norm = Callable[[Tensor], Tensor]
Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]
Weights = tuple[Tensor, Tensor | None]
"""A projection's matrix and its bias, or None."""
OURS = {
    Decoder, DecoderLayer, MultiHeadAttention, FeedForward, Linear, Dropout, nn.ModuleList, nn.LayerNorm, nn.RMSNorm,
    nn.Identity,
}  # fmt: skip
"""The modules that FastStep replaces. Subclasses are excluded, since they may compute something else."""


def make_step(model: Any, cache: Any) -> Callable[[Tensor], Tensor]:
    """Returns a function that computes `model.step(tokens, cache)` of its tokens: (B, W) -> (B, W, V).

    The function is a FastStep if the model's decoder can be replaced by one, else it calls `model.step`.

        cache = model.start(ids, beam_size)
        step = make_step(model, cache)
        logits = step(tokens)              # once per token; cache.reorder and cache.select as before

    Args:
        model: a StepModel: a Transformer, a DecoderOnly, or another object with `start` and `step`.
        cache: the cache that `model.start` has returned.
    """
    if _is_replaceable(model, cache):
        return FastStep(model, cache)
    return lambda tokens: model.step(tokens, cache)


class FastStep:
    """Computes the steps of one search; `make_step` makes it."""

    def __init__(self, model: IncrementalModel, cache: DecoderCache) -> None:
        self._model = model
        self._cache = cache
        self._layers = [_Layer.from_layer(layer) for layer in model.decoder.layers if isinstance(layer, DecoderLayer)]
        self._norm = _make_norm(model.decoder.norm)
        self._widest: int = max((layer.up[0].numel() for layer in self._layers), default=0)
        self._memory_mask: Tensor | None = None
        self._hidden: Tensor | None = None

    def __call__(self, tokens: Tensor) -> Tensor:
        """Returns the logits of `model.step`: (B, W) -> (B, W, V)."""
        model, cache = self._model, self._cache
        # Checked at each step: an observer may be added during a search.
        if torch.is_grad_enabled() or is_observed() or torch.compiler.is_compiling():
            return model.step(tokens, cache)
        x = model.tgt_embedding(tokens, position=cache.length)  # (B, W, D)
        return model.output_projection(self.decode(x, cache.grow()))  # (B, W, V)

    def decode(self, x: Tensor, own_past: Tensor) -> Tensor:
        """Returns the output of the decoder: (B, W, D), mask (B, 1, W, M) -> (B, W, D)."""
        B, W, D = x.shape
        cache = self._cache
        hidden = None if W == 1 else _hidden(own_past, x, self._layers[0].heads)  # one hypothesis: no mask
        memory_hidden = self._of_memory(cache.memory_mask, x)
        x, take = x.reshape(B * W, D), linear if B * W * self._widest >= LEAST_WORK else F.linear
        for layer, kept in zip(self._layers, cache.layers, strict=True):
            x = layer.step(x, (B, W), kept, hidden, cache.memory, memory_hidden, take)
        return self._norm(x).view(B, W, D)

    def _of_memory(self, mask: Tensor | None, like: Tensor) -> Tensor | None:
        """Returns `_hidden` of the memory's mask, which changes only when sentences leave the batch."""
        if mask is not self._memory_mask:
            self._memory_mask = mask
            # Checking for an empty mask would synchronize with the GPU.
            shows_all = mask is None or (not is_gpu(mask.device) and bool(mask.all()))
            self._hidden = None if mask is None or shows_all else _hidden(mask, like, self._layers[0].heads)
        return self._hidden


class _Sublayer(NamedTuple):
    """An attention's tensors: reading one from a module takes as long as a small operator."""

    norm: Norm
    project: Weights
    """The projection to queries, keys and values; to queries alone if keys and values are the memory's."""
    back: Weights
    q_norm: Norm | None
    """The norm of each head's queries; the next field is that of its keys. None: no norm."""
    k_norm: Norm | None

    @classmethod
    def from_attention(cls, block: MultiHeadAttention, norm: nn.Module | None, rows: slice) -> "_Sublayer":
        """Takes the rows of the packed projection that a step needs."""
        weight, bias = _weights(block.qkv_proj)
        project = weight[rows], None if bias is None else bias[rows]
        heads = (None if isinstance(each, nn.Identity) else _make_norm(each) for each in (block.q_norm, block.k_norm))
        return cls(_make_norm(norm), project, _weights(block.out_proj), *heads)


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
    def from_layer(cls, layer: DecoderLayer) -> "_Layer":
        own, cross, network = layer.self_attn, layer.cross_attn, layer.feed_forward
        assert isinstance(own, MultiHeadAttention)
        assert isinstance(network, FeedForward)
        assert cross is None or isinstance(cross, MultiHeadAttention)
        return cls(
            own.num_heads, layer.norm_first, _Sublayer.from_attention(own, layer.self_attn_norm, slice(None)),
            None if cross is None else _Sublayer.from_attention(cross, layer.cross_attn_norm, slice(cross.q_width)),
            (own if cross is None else cross).keys_and_values, _make_norm(layer.feed_forward_norm),
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
            x = take(_attend(q, *cache.get_memory_heads(memory, keys_and_values), memory_hidden), *cross.back).add_(x)
            x = x if norm_first else cross.norm(x)

        y = norm(x) if norm_first else x
        inner = take(y, *up)
        inner = activation(inner) if gate is None else activation(take(y, *gate)).mul_(inner)
        x = take(inner, *down).add_(x)
        return x if norm_first else norm(x)


def _attend(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
    """Returns equation 1 with its heads joined: (B, H, W, K), twice (B, H, M, K) -> (B * W, H * K)."""
    B, H, W, K = q.shape
    if B == 1:  # one call in place of five; with more sentences the products are faster than the kernel
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
    """Returns a mask as a bias to add to scores: (B, 1, 1 or W, M) -> (B * H, 1 or W, M)."""
    added = like.new_zeros(mask.shape).masked_fill_(~mask, torch.finfo(like.dtype).min)
    return added.expand(-1, heads, -1, -1).flatten(0, 1)


def _weights(layer: Linear) -> Weights:
    return layer.weight, layer.bias


def _make_norm(norm: nn.Module | None) -> Norm:
    """Returns a norm as a function of its input."""
    if isinstance(norm, nn.LayerNorm):
        shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    if isinstance(norm, nn.RMSNorm):
        return partial(F.rms_norm, normalized_shape=list(norm.normalized_shape), weight=norm.weight, eps=norm.eps)
    return _no_norm


def _no_norm(x: Tensor) -> Tensor:
    return x


def _is_replaceable(model: Any, cache: Any) -> bool:
    """Returns True if a FastStep may replace `model.step`.

    All modules and the cache are Pellucid's own, without hooks, in evaluation, on a CPU or GPU, in single or double
    precision; there are as many heads of keys as of queries, and positions are added to the embeddings.
    """
    if torch.compiler.is_compiling() or not isinstance(model, IncrementalModel) or _has_own_step(model):
        return False
    return type(cache) is DecoderCache and _can_stand_in(model.decoder, cache)


def _has_own_step(model: IncrementalModel) -> bool:
    """Returns True if `step` or `step_states` is not that of IncrementalModel."""
    steps = (model.step, IncrementalModel.step), (model.step_states, IncrementalModel.step_states)
    return any(getattr(own, "__func__", None) is not ours for own, ours in steps)


def _can_stand_in(decoder: Decoder, cache: DecoderCache) -> bool:
    """Returns True if a FastStep computes what `decoder` does with `cache`."""
    if type(decoder) is not Decoder or decoder.relative is not None or decoder.training:
        return False
    parameter = next(decoder.parameters())
    # In half precision the explicit path of attention() scales before it multiplies, against overflow.
    device = parameter.device
    if not (parameter.is_cpu or is_gpu(device)) or parameter.dtype not in (torch.float32, torch.float64):
        return False
    if torch.is_autocast_enabled(device.type):
        return False
    modules: list[nn.Module] = [decoder]
    for module in modules:  # the list grows: decoder.modules() takes as long as a step
        watched = module._forward_hooks or module._forward_pre_hooks or "forward" in module.__dict__
        if type(module) not in OURS or watched:
            return False
        modules += filter(None, module._modules.values())
    blocks = [module for module in modules if isinstance(module, MultiHeadAttention)]
    if any(block.kv_width != block.q_width for block in blocks):
        return False
    if len({block.num_heads for block in blocks}) > 1:
        return False
    # The attention output of a source of padding alone is zero.
    return cache.memory_mask is None or bool(cache.memory_mask.any(dim=-1).all())
