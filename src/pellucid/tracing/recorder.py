"""What attention() works on, taken where the model computes it and checked there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.errors import DataError
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.transformer import DecoderOnly, EncoderOnly, Model, Transformer
from pellucid.tracing.attention import Array, AttentionTrace

Site = tuple[str, MultiHeadAttention]
"""A block of a model, and which kind of attention it is."""

SEQUENCES = {"encoder.self": ("src", "src"), "decoder.self": ("tgt", "tgt"), "cross": ("out", "src")}
"""The sequences that name rows and columns."""


def sites_of(model: Model) -> list[Site]:
    """The attention blocks of a model, in the order in which a pass comes to them."""
    sites: list[Site] = []
    if isinstance(model, Transformer | EncoderOnly):
        sites += [("encoder.self", layer.self_attn) for layer in model.encoder.layers]  # type: ignore[misc]
    if isinstance(model, Transformer | DecoderOnly):
        for layer in model.decoder.layers:
            sites.append(("decoder.self", layer.self_attn))  # type: ignore[arg-type]
            if layer.cross_attn is not None:
                sites.append(("cross", layer.cross_attn))  # type: ignore[arg-type]
    return sites


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


class Recorder:
    """An observer that files the calls of a pass under the kinds of attention of its `sites`."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self._sites = sites
        self._place = 0
        self.calls: dict[str, list[Call]] = {name: [] for name, _ in sites}

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, output: Tensor
    ) -> None:
        if self._place == len(self._sites):
            raise DataError(
                f"the model has {len(self._sites)} attention blocks, but its pass called attention() more often",
                "a trace holds one call of each: call pellucid.attention once in an attention module of your own",
            )
        name, block = self._sites[self._place]
        self._place += 1
        self.calls[name].append(record(q, k, v, mask, bias, output, block))

    def attentions(self, rotary_base: float | None = None) -> dict[str, AttentionTrace]:
        """What was recorded, by name; `rotary_base` is that of the model's self-attention.

        Raises DataError where an attention block was not seen to call attention().
        """
        if self._place != len(self._sites):
            raise DataError(
                f"the model has {len(self._sites)} attention blocks, but its pass called attention() {self._place} "
                "times",
                "only what goes through pellucid.attention is recorded; of what torch.compile made of a part, nothing",
            )
        return {
            name: gather(name, *SEQUENCES[name], calls, None if name == "cross" else rotary_base)
            for name, calls in self.calls.items()
        }

    @property
    def faithfulness(self) -> float:
        """The largest difference of all calls."""
        return largest_difference(call for calls in self.calls.values() for call in calls)


def record(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    output: Tensor,
    block: MultiHeadAttention,
    with_norms: bool = True,
) -> Call:
    """A call of `block` with a batch of one, shapes as attention() has them."""
    heads_per_key = block.q_width // block.kv_width
    kept_mask = None if mask is None or mask.all() else mask[0, 0].expand(q.size(2), k.size(2))  # (L, M)
    kept_bias = None if bias is None else bias[0].float()  # (1 or H, L, M)
    q, k, v, output = q[0].float(), k[0, ::heads_per_key].float(), v[0].float(), output[0].float()
    norms = value_norms(v, block.out_proj.weight) if with_norms else None
    return Call(q, k, kept_mask, kept_bias, norms, difference(q, k, v, kept_mask, kept_bias, output))


def difference(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, output: Tensor) -> Tensor:
    """max |softmax(q k^T / sqrt(K) + bias) v - output|, from what is recorded of a call.

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
    """||v W^O_h||, the length of what each key's value adds to the output: (H, M, K), (D, H * K) -> (H, M).

    By way of W^O_h^T W^O_h, (K, K), which is far smaller than the vectors themselves.
    """
    of_heads = out_weight.float().view(out_weight.size(0), v.size(0), -1).transpose(0, 1)  # (H, D, K)
    gram = of_heads.transpose(1, 2) @ of_heads  # (H, K, K)
    return ((v @ gram) * v).sum(dim=-1).clamp(min=0).sqrt()


def largest_difference(calls: Iterable[Call]) -> float:
    """Of all calls."""
    return torch.stack([call.difference for call in calls]).max().item()


def gather(
    name: str, queries: str, keys: str, calls: Sequence[Call], rotary_base: float | None = None
) -> AttentionTrace:
    """The calls of all layers as one trace. Raises DataError where the layers' masks differ."""
    mask = calls[0].mask
    if any((call.mask is None) != (mask is None) or not _equal(call.mask, mask) for call in calls):
        raise DataError(f"the layers of `{name}` have different masks", "a trace holds one for all of them")
    return AttentionTrace(
        name=name,
        queries=queries,
        keys=keys,
        q=_stacked([call.q for call in calls]),
        k=_stacked([call.k for call in calls]),
        mask=None if mask is None or bool(mask.all()) else mask.cpu().numpy().copy(),
        bias=_biases(calls),
        rotary_base=rotary_base,
        value_norms=_stacked([call.value_norms for call in calls if call.value_norms is not None]),
    )


def _equal(mask: Tensor | None, other: Tensor | None) -> bool:
    return mask is other or (mask is not None and other is not None and torch.equal(mask, other))


def _biases(calls: Sequence[Call]) -> Array | None:
    """(1 or N, 1 or H, L, M): once where all layers share one."""
    given = [call.bias for call in calls if call.bias is not None]
    shared = all(bias is given[0] or torch.equal(bias, given[0]) for bias in given)
    return _stacked(given[:1] if shared else given)


def _stacked(tensors: Sequence[Tensor]) -> Array | None:
    if not tensors:
        return None
    stacked: Array = torch.stack(list(tensors)).cpu().numpy()
    return stacked
