"""Records the inputs of attention() during a forward pass, and checks the recording against the output."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.families import DecoderOnly, EncoderOnly, Model
from pellucid.model.observers import observe_attention, observe_residuals
from pellucid.model.transformer import Transformer
from pellucid.tracing.attention import Array, AttentionTrace
from pellucid.tracing.module_copy import copy_module_tree

M = TypeVar("M", bound=Model)

Site = tuple[str, nn.Module | None]
"""A kind of attention, and the block of one layer that computes it; None for a layer without such a block."""


@dataclass(frozen=True)
class AttentionCall:
    """A call of attention() in a model, with the tensors that it took and returned; shapes as there."""

    name: str
    """The kind of attention."""
    layer: int
    """The number of the layer, among the layers of this kind."""
    block: nn.Module
    """The module that makes the call."""
    q: Tensor  # (B, H, L, K)
    k: Tensor  # (B, Hkv, M, K)
    v: Tensor  # (B, Hkv, M, K)
    mask: Tensor | None
    bias: Tensor | None
    output: Tensor  # (B, H, L, K)


SEQUENCES = {"encoder.self": ("src", "src"), "decoder.self": ("tgt", "tgt"), "cross": ("out", "src")}
"""The sequences of the rows and of the columns."""


def list_attention(model: Model) -> list[Site]:
    """Returns the attention blocks of a model in the order of a forward pass, one per layer of each kind.

    A custom layer is recognized by its attributes `self_attn` and `cross_attn`.
    """
    sites: list[Site] = []
    if isinstance(model, Transformer | EncoderOnly):
        sites += [("encoder.self", getattr(layer, "self_attn", None)) for layer in model.encoder.layers]
    if isinstance(model, Transformer | DecoderOnly):
        for layer in model.decoder.layers:
            sites.append(("decoder.self", getattr(layer, "self_attn", None)))
            if isinstance(model, Transformer):
                sites.append(("cross", getattr(layer, "cross_attn", None)))
    return sites


@contextmanager
def observe_model(
    model: M, see: Callable[[AttentionCall], None], see_sum: Callable[..., None] | None = None
) -> Iterator[M]:
    """Yields a copy of the model in evaluation mode, which calls `see` for each call of attention().

    Modules that do not call attention() are not observed.

    `see_sum(place, norm, before, added, after)` is called for each residual sum: the sublayer's place in the model, as
    "decoder.layers.0.cross_attn", and the arguments of an observer of sums.
    """
    copied = copy_module_tree(model)
    copied.eval()
    running: list[tuple[str, int, nn.Module]] = []  # the innermost last
    layers: dict[str, int] = {}
    for name, block in list_attention(copied):
        layer = layers[name] = layers.get(name, -1) + 1
        if block is not None:
            block.register_forward_pre_hook(partial(_begin, running, (name, layer, block)))
            block.register_forward_hook(partial(_end, running))

    def observe(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, output: Tensor) -> None:
        if running:
            see(AttentionCall(*running[-1], q, k, v, mask, bias, output))

    if see_sum is None:
        with observe_attention(observe, copied):
            yield copied
    else:
        places = {module: name for name, module in copied.named_modules()}
        with observe_attention(observe, copied), observe_residuals(partial(_see_sum, places, see_sum), copied):
            yield copied


def _see_sum(
    places: dict[nn.Module, str], see: Callable[..., None], layer: nn.Module, norm: nn.Module, *seen: Tensor
) -> None:
    """Finds the place of the sublayer that a norm of a layer belongs to: `self_attn_norm` belongs to `self_attn`.

    Raises DataError if several sublayers of a layer share a norm.
    """
    names = [name for name, module in layer._modules.items() if module is norm]
    if len(names) > 1:
        raise DataError(
            f"`{'` and `'.join(names)}` of `{places[layer]}` are the same module, so their sums cannot be "
            "distinguished",
            "use a separate norm in each sublayer",
        )
    sublayer = names[0].removesuffix("_norm") if names else "sublayer"
    see(f"{places[layer]}.{sublayer}", norm, *seen)


def _begin(running: list[tuple[str, int, nn.Module]], site: tuple[str, int, nn.Module], *_: object) -> None:
    running.append(site)


def _end(running: list[tuple[str, int, nn.Module]], *_: object) -> None:
    running.pop()


@dataclass(frozen=True)
class AttentionRecord:
    """One call of attention() without its batch dimension of one, on the model's device, in single precision."""

    q: Tensor  # (H, L, K)
    k: Tensor  # (Hkv, M, K)
    mask: Tensor | None  # (L, M), bool
    bias: Tensor | None  # (1 or H, L, M)
    value_norms: Tensor | None  # (H, M)
    difference: Tensor
    """The largest absolute difference over the output."""
    v: Tensor | None = None  # (Hkv, M, K)


class Recorder:
    """Stores the calls of a forward pass by kind of attention and layer; observe_model() calls its method `see`."""

    def __init__(self, model: Model) -> None:
        self._names = [name for name, _ in list_attention(model)]
        self._calls: dict[tuple[str, int], AttentionRecord] = {}

    def see(self, call: AttentionCall) -> None:
        """Records a call. Raises DataError for a second call of a block."""
        if (call.name, call.layer) in self._calls:
            raise DataError(
                f"the `{call.name}` attention of layer {call.layer}, a {type(call.block).__name__}, called attention() "
                "more than once",
                "a trace records one call of each: call pellucid.attention once in a custom attention module",
            )
        self._calls[call.name, call.layer] = record_attention(call)

    @property
    def without_weights(self) -> dict[str, tuple[int, ...]]:
        """The layers of each kind of attention that never called attention() and so have no recording."""
        silent: dict[str, tuple[int, ...]] = {}
        for name in dict.fromkeys(self._names):
            layers = range(self._names.count(name))
            if missing := tuple(layer for layer in layers if (name, layer) not in self._calls):
                silent[name] = missing
        return silent

    def attentions(self, rotary_base: float | None = None) -> dict[str, AttentionTrace]:
        """Returns the recorded attentions by name; `rotary_base` is the base of the model's self-attention."""
        found = {}
        for name in dict.fromkeys(self._names):
            calls = [self._calls[name, layer] for layer in range(len(self._names)) if (name, layer) in self._calls]
            if calls:
                found[name] = build_attention_trace(
                    name, *SEQUENCES[name], calls, None if name == "cross" else rotary_base
                )
        return found

    @property
    def faithfulness(self) -> float:
        """The largest difference over all calls."""
        return largest_difference(self._calls.values())


def record_attention(call: AttentionCall, with_values: bool = True) -> AttentionRecord:
    """Returns the record of a call with a batch of one.

    Without values, neither the values nor their norms are kept.
    """
    ours = call.block if isinstance(call.block, MultiHeadAttention) else None
    heads_per_key = 1 if ours is None else ours.q_width // ours.kv_width
    size = call.q.size(2), call.k.size(2)
    mask, bias = call.mask, call.bias
    kept_mask = None if mask is None or mask.all() else _expand(mask).expand(-1, *size)  # (1 or H, L, M)
    if kept_mask is not None:
        if not (kept_mask == kept_mask[:1]).all():
            raise DataError("the heads of an attention have different masks", "a trace has one mask for all of them")
        kept_mask = kept_mask[0]  # (L, M)
    kept_bias = None if bias is None else _expand(bias).float().expand(-1, *size)  # (1 or H, L, M)
    q, k = call.q[0].float(), call.k[0, ::heads_per_key].float()
    v, output = call.v[0].float(), call.output[0].float()
    norms = value_norms(v, ours.out_proj.weight) if with_values and ours is not None else None
    kept_values = v[::heads_per_key] if with_values else None
    return AttentionRecord(
        q,
        k,
        kept_mask,
        kept_bias,
        norms,
        measure_reconstruction_error(q, k, v, kept_mask, kept_bias, output),
        kept_values,
    )


def _expand(tensor: Tensor) -> Tensor:
    """Returns a tensor broadcastable to (1, H, L, M) as (1 or H, 1 or L, 1 or M)."""
    return tensor[(None,) * (4 - tensor.dim())][0]


def measure_reconstruction_error(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, output: Tensor
) -> Tensor:
    """Returns max |softmax(q k^T / sqrt(K) + bias) v - output|, computed from the record of a call.

    Heads are computed one by one: scores then stay in the processor's cache, and a long text needs less memory.
    """
    num_heads, q = q.size(0), q * q.size(-1) ** -0.5
    hidden = None if mask is None else (~mask).float() * torch.finfo(q.dtype).min  # (L, M)
    empty = None if mask is None else ~mask.any(dim=-1, keepdim=True)  # (L, 1)
    largest = q.new_zeros(())
    for head in range(num_heads):
        keys, values = k[head * k.size(0) // num_heads], v[head * v.size(0) // num_heads]
        scores = q[head] @ keys.T if hidden is None else torch.addmm(hidden, q[head], keys.T)  # (L, M)
        if bias is not None:
            scores += bias[head % bias.size(0)]
        rebuilt = scores.softmax(dim=-1) @ values  # (L, K)
        if empty is not None:
            rebuilt.masked_fill_(empty, 0.0)
        largest = torch.maximum(largest, (rebuilt - output[head]).abs().max())
    return largest


def value_norms(v: Tensor, out_weight: Tensor) -> Tensor:
    """Returns ||v W^O_h||, the norm of each key value's contribution: (H, M, K), (D, H * K) -> (H, M).

    It is computed by W^O_h^T W^O_h, (K, K), which is far smaller than the vectors themselves.
    """
    of_heads = out_weight.float().view(out_weight.size(0), v.size(0), -1).transpose(0, 1)  # (H, D, K)
    gram = of_heads.transpose(1, 2) @ of_heads  # (H, K, K)
    return ((v @ gram) * v).sum(dim=-1).clamp(min=0).sqrt()


def largest_difference(calls: Iterable[AttentionRecord]) -> float:
    """Returns the largest difference over all calls; 0 without calls."""
    differences = [call.difference for call in calls]
    return torch.stack(differences).max().item() if differences else 0.0


def build_attention_trace(
    name: str, queries: str, keys: str, calls: Sequence[AttentionRecord], rotary_base: float | None = None
) -> AttentionTrace:
    """Merges the calls of all layers into one trace. Raises DataError if the layers' masks or shapes differ."""
    mask = calls[0].mask
    if len(shapes := {(tuple(call.q.shape), tuple(call.k.shape)) for call in calls}) > 1:
        told = ", ".join(f"{q} and {k}" for q, k in sorted(shapes))
        raise DataError(
            f"the layers of `{name}` have queries and keys of different shapes ({told})",
            "a trace requires layers with the same number and width of heads",
        )
    if any((call.mask is None) != (mask is None) or not _equal(call.mask, mask) for call in calls):
        raise DataError(f"the layers of `{name}` have different masks", "a trace has one mask for all of them")
    norms = [call.value_norms for call in calls if call.value_norms is not None]
    values = [call.v for call in calls if call.v is not None]
    return AttentionTrace(
        name=name,
        queries=queries,
        keys=keys,
        q=_stack([call.q for call in calls]),
        k=_stack([call.k for call in calls]),
        v=_stack(values) if len(values) == len(calls) else None,
        mask=None if mask is None or bool(mask.all()) else mask.cpu().numpy().copy(),
        bias=_biases(calls),
        rotary_base=rotary_base,
        value_norms=_stack(norms) if len(norms) == len(calls) else None,
    )


def _equal(mask: Tensor | None, other: Tensor | None) -> bool:
    return mask is other or (mask is not None and other is not None and torch.equal(mask, other))


def _biases(calls: Sequence[AttentionRecord]) -> Array | None:
    """Returns (1 or N, 1 or H, L, M): a single bias if all layers share it; None if there is none."""
    given = [call.bias for call in calls if call.bias is not None]
    if 0 < len(given) < len(calls):  # layers without one add nothing
        given = [torch.zeros_like(given[0]) if call.bias is None else call.bias for call in calls]
    shared = all(bias is given[0] or torch.equal(bias, given[0]) for bias in given)
    return _stack(given[:1] if shared else given)


def _stack(tensors: Sequence[Tensor]) -> Array | None:
    if not tensors:
        return None
    stacked: Array = torch.stack(list(tensors)).cpu().numpy()
    return stacked
