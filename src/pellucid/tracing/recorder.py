"""Records what attention() works on, where the model computes it, and checks it there."""

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
from pellucid.model.observing import observing, observing_sums
from pellucid.model.transformer import Transformer
from pellucid.tracing.apart import apart
from pellucid.tracing.attention import Array, AttentionTrace

M = TypeVar("M", bound=Model)

Site = tuple[str, nn.Module | None]
"""A kind of attention, and the block of one layer that computes it; None in a layer that has no such block."""

SEQUENCES = {"encoder.self": ("src", "src"), "decoder.self": ("tgt", "tgt"), "cross": ("out", "src")}
"""The sequences that name rows and columns."""


def sites_of(model: Model) -> list[Site]:
    """Returns the attention blocks of a model, in the order in which a pass comes to them; of each kind one a layer.

    A layer of somebody's own is known by its attributes `self_attn` and `cross_attn`.
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
def watched(model: M, see: Callable[..., None], see_sum: Callable[..., None] | None = None) -> Iterator[M]:
    """Gives a copy of the model in evaluation mode, each of whose calls of attention() is told to `see`.

    `see(name, layer, block, q, k, v, mask, bias, output)`: the kind of attention, the number of its layer there, the
    module whose call it is, and what an observer sees. Attention that does not call attention() is not told.

    `see_sum(place, norm, before, added, after)` is told of each residual sum: the sublayer's place in the model, as
    "decoder.layers.0.cross_attn", and what an observer of sums sees.
    """
    copied = apart(model)
    copied.eval()
    running: list[tuple[str, int, nn.Module]] = []  # the innermost last
    layers: dict[str, int] = {}
    for name, block in sites_of(copied):
        layer = layers[name] = layers.get(name, -1) + 1
        if block is not None:
            block.register_forward_pre_hook(partial(_begin, running, (name, layer, block)))
            block.register_forward_hook(partial(_end, running))

    def observe(*seen: Tensor | None) -> None:
        if running:
            see(*running[-1], *seen)

    if see_sum is None:
        with observing(observe, copied):
            yield copied
    else:
        places = {module: name for name, module in copied.named_modules()}
        with observing(observe, copied), observing_sums(partial(_see_sum, places, see_sum), copied):
            yield copied


def _see_sum(
    places: dict[nn.Module, str], see: Callable[..., None], layer: nn.Module, norm: nn.Module, *seen: Tensor
) -> None:
    """Finds the place of the sublayer that a norm of a layer belongs to: `self_attn_norm` is that of `self_attn`.

    Raises DataError where several sublayers of a layer have one norm.
    """
    names = [name for name, module in layer._modules.items() if module is norm]
    if len(names) > 1:
        raise DataError(
            f"`{'` and `'.join(names)}` of `{places[layer]}` are one module, so a sum cannot be told from the others",
            "give each sublayer a norm of its own",
        )
    sublayer = names[0].removesuffix("_norm") if names else "sublayer"
    see(f"{places[layer]}.{sublayer}", norm, *seen)


def _begin(running: list[tuple[str, int, nn.Module]], site: tuple[str, int, nn.Module], *_: object) -> None:
    running.append(site)


def _end(running: list[tuple[str, int, nn.Module]], *_: object) -> None:
    running.pop()


@dataclass(frozen=True)
class Call:
    """One call of attention(), its batch of one left out; on the model's device, in single precision."""

    q: Tensor  # (H, L, K)
    k: Tensor  # (Hkv, M, K)
    mask: Tensor | None  # (L, M), bool
    bias: Tensor | None  # (1 or H, L, M)
    value_norms: Tensor | None  # (H, M)
    difference: Tensor
    """The largest, over all numbers of the output."""
    v: Tensor | None = None  # (Hkv, M, K)


class Recorder:
    """Files the calls of a pass by the kind of attention and the layer. Its method `see` is told by `watched`."""

    def __init__(self, model: Model) -> None:
        self._names = [name for name, _ in sites_of(model)]
        self._calls: dict[tuple[str, int], Call] = {}

    def see(
        self,
        name: str,
        layer: int,
        block: nn.Module,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        output: Tensor,
    ) -> None:
        """Records a call. Raises DataError for the second one of a block."""
        if (name, layer) in self._calls:
            raise DataError(
                f"the `{name}` attention of layer {layer}, a {type(block).__name__}, called attention() more than once",
                "a trace holds one call of each: call pellucid.attention once in an attention module of your own",
            )
        self._calls[name, layer] = record(q, k, v, mask, bias, output, block)

    @property
    def without_weights(self) -> dict[str, tuple[int, ...]]:
        """The layers of each kind of attention that never called attention(), so that nothing is known of them."""
        silent: dict[str, tuple[int, ...]] = {}
        for name in dict.fromkeys(self._names):
            layers = range(self._names.count(name))
            if missing := tuple(layer for layer in layers if (name, layer) not in self._calls):
                silent[name] = missing
        return silent

    def attentions(self, rotary_base: float | None = None) -> dict[str, AttentionTrace]:
        """Returns what was recorded, by name; `rotary_base` is that of the model's self-attention."""
        found = {}
        for name in dict.fromkeys(self._names):
            calls = [self._calls[name, layer] for layer in range(len(self._names)) if (name, layer) in self._calls]
            if calls:
                found[name] = gather(name, *SEQUENCES[name], calls, None if name == "cross" else rotary_base)
        return found

    @property
    def faithfulness(self) -> float:
        """The largest difference of all calls."""
        return largest_difference(self._calls.values())


def record(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    output: Tensor,
    block: nn.Module,
    with_values: bool = True,
) -> Call:
    """Records a call of `block` with a batch of one, shapes as attention() has them.

    Without values, neither they nor their lengths are kept.
    """
    ours = block if isinstance(block, MultiHeadAttention) else None
    heads_per_key = 1 if ours is None else ours.q_width // ours.kv_width
    size = q.size(2), k.size(2)
    kept_mask = None if mask is None or mask.all() else _of_one(mask).expand(-1, *size)  # (1 or H, L, M)
    if kept_mask is not None:
        if not (kept_mask == kept_mask[:1]).all():
            raise DataError("the heads of an attention have different masks", "a trace holds one for all of them")
        kept_mask = kept_mask[0]  # (L, M)
    kept_bias = None if bias is None else _of_one(bias).float().expand(-1, *size)  # (1 or H, L, M)
    q, k, v, output = q[0].float(), k[0, ::heads_per_key].float(), v[0].float(), output[0].float()
    norms = value_norms(v, ours.out_proj.weight) if with_values and ours is not None else None
    kept_values = v[::heads_per_key] if with_values else None
    return Call(q, k, kept_mask, kept_bias, norms, difference(q, k, v, kept_mask, kept_bias, output), kept_values)


def _of_one(tensor: Tensor) -> Tensor:
    """Returns what is broadcastable to (1, H, L, M) as (1 or H, 1 or L, 1 or M)."""
    return tensor[(None,) * (4 - tensor.dim())][0]


def difference(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, output: Tensor) -> Tensor:
    """Returns max |softmax(q k^T / sqrt(K) + bias) v - output|, from what is recorded of a call.

    A head at a time: its scores then stay near the processor, and a long text needs no memory for those of all heads.
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
    """Returns ||v W^O_h||, the length of what each key's value adds to the output: (H, M, K), (D, H * K) -> (H, M).

    By way of W^O_h^T W^O_h, (K, K), which is far smaller than the vectors themselves.
    """
    of_heads = out_weight.float().view(out_weight.size(0), v.size(0), -1).transpose(0, 1)  # (H, D, K)
    gram = of_heads.transpose(1, 2) @ of_heads  # (H, K, K)
    return ((v @ gram) * v).sum(dim=-1).clamp(min=0).sqrt()


def largest_difference(calls: Iterable[Call]) -> float:
    """Returns the largest difference of all calls; 0 of none."""
    differences = [call.difference for call in calls]
    return torch.stack(differences).max().item() if differences else 0.0


def gather(
    name: str, queries: str, keys: str, calls: Sequence[Call], rotary_base: float | None = None
) -> AttentionTrace:
    """Puts the calls of all layers into one trace. Raises DataError where the layers' masks or shapes differ."""
    mask = calls[0].mask
    if len(shapes := {(tuple(call.q.shape), tuple(call.k.shape)) for call in calls}) > 1:
        told = ", ".join(f"{q} and {k}" for q, k in sorted(shapes))
        raise DataError(
            f"the layers of `{name}` have queries and keys of different shapes ({told})",
            "a trace holds layers with the same number and width of heads",
        )
    if any((call.mask is None) != (mask is None) or not _equal(call.mask, mask) for call in calls):
        raise DataError(f"the layers of `{name}` have different masks", "a trace holds one for all of them")
    norms = [call.value_norms for call in calls if call.value_norms is not None]
    values = [call.v for call in calls if call.v is not None]
    return AttentionTrace(
        name=name,
        queries=queries,
        keys=keys,
        q=_stacked([call.q for call in calls]),
        k=_stacked([call.k for call in calls]),
        v=_stacked(values) if len(values) == len(calls) else None,
        mask=None if mask is None or bool(mask.all()) else mask.cpu().numpy().copy(),
        bias=_biases(calls),
        rotary_base=rotary_base,
        value_norms=_stacked(norms) if len(norms) == len(calls) else None,
    )


def _equal(mask: Tensor | None, other: Tensor | None) -> bool:
    return mask is other or (mask is not None and other is not None and torch.equal(mask, other))


def _biases(calls: Sequence[Call]) -> Array | None:
    """Returns (1 or N, 1 or H, L, M): one where all layers share it; None where there is none."""
    given = [call.bias for call in calls if call.bias is not None]
    if 0 < len(given) < len(calls):  # layers without one add nothing
        given = [torch.zeros_like(given[0]) if call.bias is None else call.bias for call in calls]
    shared = all(bias is given[0] or torch.equal(bias, given[0]) for bias in given)
    return _stacked(given[:1] if shared else given)


def _stacked(tensors: Sequence[Tensor]) -> Array | None:
    if not tensors:
        return None
    stacked: Array = torch.stack(list(tensors)).cpu().numpy()
    return stacked
