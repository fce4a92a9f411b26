"""Faults planted in a model, as people make them: by parts of their own, by a loss of their own, by hand."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pellucid

SHAPE: dict[str, Any] = {
    "d_model": 16, "d_ff": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "dropout": 0.1,
    "src_vocab_size": 20, "tgt_vocab_size": 20, "tie_embeddings": "all", "max_positions": 32,
}  # fmt: skip


def translator(parts: pellucid.Parts | None = None, **fields: Any) -> pellucid.Transformer:
    """A small encoder-decoder."""
    return pellucid.Transformer(pellucid.ModelConfig(**SHAPE | fields), parts)


class Attending(pellucid.MultiHeadAttention):
    """Attention whose faults differ in a line or two."""

    def forward(self, x: Tensor, memory: Tensor | None = None, *others: Tensor, mask: Tensor | None = None,
                cache: Any = None, distances: Any = None) -> Tensor:  # fmt: skip
        self.stepping = cache is not None and memory is None
        return super().forward(x, self.read(x, memory), mask=self.masked(mask, memory), cache=cache,
                               distances=distances)  # fmt: skip

    def read(self, x: Tensor, memory: Tensor | None) -> Tensor | None:
        return memory

    def masked(self, mask: Tensor | None, memory: Tensor | None) -> Tensor | None:
        return mask


class Leaking(Attending):
    """Attention that forgets the causal mask."""

    def masked(self, mask: Tensor | None, memory: Tensor | None) -> Tensor | None:
        return None if mask is not None and mask.size(-2) > 1 and mask.size(0) == 1 else mask


class SlightlyLeaking(pellucid.MultiHeadAttention):
    """Attention that takes 10 off what it should hide: a weight of e^-10 is left."""

    def forward(self, x: Tensor, memory: Tensor | None = None, *others: Tensor, mask: Tensor | None = None,
                cache: Any = None, distances: Any = None) -> Tensor:  # fmt: skip
        q, k, v = self.project(x, memory, cache)
        bias = None if mask is None or memory is not None else torch.zeros(mask.shape, dtype=q.dtype).masked_fill(
            ~mask, -10.0
        )  # fmt: skip
        mask = mask if memory is not None else None
        return self.out_proj(self.join_heads(pellucid.attention(q, k, v, mask, bias=bias, block=self)))


class Inverted(Attending):
    """Attention that takes True for hidden, as torch.nn does."""

    def masked(self, mask: Tensor | None, memory: Tensor | None) -> Tensor | None:
        return None if mask is None else ~mask


class ShowingPads(Attending):
    """Attention that takes no notice of the source's padding."""

    def masked(self, mask: Tensor | None, memory: Tensor | None) -> Tensor | None:
        return None if memory is not None else mask


class Blind(Attending):
    """Attention over the memory that is given zeros in its place."""

    def read(self, x: Tensor, memory: Tensor | None) -> Tensor | None:
        return None if memory is None else torch.zeros_like(memory)


class ForgettingCache(pellucid.MultiHeadAttention):
    """Attention that, in a step, attends to what was kept before this step alone."""

    def forward(self, x: Tensor, memory: Tensor | None = None, *others: Tensor, mask: Tensor | None = None,
                cache: Any = None, distances: Any = None) -> Tensor:  # fmt: skip
        if memory is not None or cache is None:
            return super().forward(x, memory, mask=mask, cache=cache, distances=distances)
        q, k, v = self.project(x, memory, cache)
        past = slice(None, -x.size(1)) if k.size(2) > x.size(1) else slice(None)
        kept = None if mask is None else mask[..., past]
        return self.out_proj(self.join_heads(pellucid.attention(q, k[:, :, past], v[:, :, past], kept, block=self)))


class StaleMemory(pellucid.MultiHeadAttention):
    """Attention that keeps the first memory's keys for all later texts."""

    kept: Any = None

    def forward(self, x: Tensor, memory: Tensor | None = None, *others: Tensor, mask: Tensor | None = None,
                cache: Any = None, distances: Any = None) -> Tensor:  # fmt: skip
        if memory is None or cache is None:
            return super().forward(x, memory, mask=mask, cache=cache, distances=distances)
        self.kept = self.keys_and_values(memory[:1]) if self.kept is None else self.kept
        q = self.split_heads(self.qkv_proj.some_rows(x, slice(self.q_width)))
        return self.out_proj(self.join_heads(pellucid.attention(q, *self.kept, block=self)))


class OwnCache(nn.Module):
    """A mean of the past, kept in the module itself: a beam that is reordered goes on with another's."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.value_proj = pellucid.Linear(config.d_model, config.d_model)
        self.total: Any = 0

    def forward(self, x: Tensor, memory: Tensor | None, *, mask: Any, cache: Any, distances: Any) -> Tensor:
        values = self.value_proj(x if memory is None else memory)
        if memory is None and cache is not None:
            place = int(cache.positions[-1])
            self.total = values if place == 0 else self.total[-values.size(0) :] + values
            return self.total / (place + 1)
        seen = values.new_ones(1, 1, values.size(1)) if mask is None else mask[:, 0].to(values.dtype)
        return ((seen / seen.sum(-1, keepdim=True).clamp(min=1)) @ values).expand_as(x)


class ForShow(pellucid.MultiHeadAttention):
    """Attention that calls pellucid.attention for the trace, and goes on with something else."""

    def forward(self, x: Tensor, memory: Tensor | None = None, *others: Tensor, mask: Tensor | None = None,
                cache: Any = None, distances: Any = None) -> Tensor:  # fmt: skip
        q, k, v = self.project(x, memory, cache)
        pellucid.attention(q, k, v, mask, block=self)
        weights = pellucid.attention_weights(q * 0.5, k, mask)
        return self.out_proj(self.join_heads(weights @ v))


class DroppingAlways(nn.Module):
    """A feed-forward network that drops in evaluation as well."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.proj = pellucid.Linear(config.d_model, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.proj(x), 0.1)


class Unsaved(nn.Module):
    """A feed-forward network with a scale that is no parameter, so that no file holds it."""

    made = 0

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.proj = pellucid.Linear(config.d_model, config.d_model)
        Unsaved.made += 1
        self.scale = 1.0 + Unsaved.made

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x) * self.scale


class OverTheBatch(nn.Module):
    """A norm that takes the mean of a place over all texts; `always`, or in training alone."""

    always = True

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(config.d_model))

    def forward(self, x: Tensor) -> Tensor:
        x = x - 0.5 * x.mean(dim=0, keepdim=True) if self.always or self.training else x
        return self.scale * F.layer_norm(x, x.shape[-1:])


class InTraining(OverTheBatch):
    """The same in training alone, as a batch norm is."""

    always = False


class StalePositions(pellucid.AbsolutePositions):
    """Positions that begin anew in each step."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(config.max_positions, config.d_model))

    def forward(self, start: int, end: int) -> Tensor:
        return self.table[: end - start]


class StaleDistances(nn.Module):
    """Distances that are worked out once, and given again for as many queries."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.kept: dict[int, Tensor] = {}

    def forward(self, queries: Tensor, keys: Tensor) -> pellucid.Distances:
        slopes = -0.5 * (queries[:, None] - keys[None, :]).abs()
        if len(queries) == 1:  # a step: the distances of the step before, with none for the newest key
            slopes = F.pad(self.kept.get(1, slopes)[..., : len(keys)], (0, max(0, len(keys) - self.kept.get(
                1, slopes).size(-1))))  # fmt: skip
            self.kept[1] = slopes
        return pellucid.Distances(bias=slopes)


class OnePosition(pellucid.AbsolutePositions):
    """The same vector everywhere."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.randn(config.d_model))

    def forward(self, start: int, end: int) -> Tensor:
        return self.vector.expand(end - start, -1)


class LastWordHidden(Attending):
    """Attention over a source whose mask ends a word too early."""

    def masked(self, mask: Tensor | None, memory: Tensor | None) -> Tensor | None:
        if mask is None or mask.size(-2) > 1 or self.stepping or (memory is None and mask.size(-1) == 1):
            return mask
        return mask & F.pad(mask[..., 1:], (0, 1), value=False)


def mean_loss(model: Any, batch: pellucid.Batch) -> pellucid.Losses:
    """A loss that is a mean over the batch's tokens: batches of few words weigh as much as those of many."""
    logits = model(batch.src, batch.tgt_in)
    loss = F.cross_entropy(logits.transpose(1, 2), batch.tgt_out, ignore_index=0)
    return pellucid.Losses(loss, loss.detach())


def loss_of_pads(model: Any, batch: pellucid.Batch) -> pellucid.Losses:
    """A loss that counts padding, too."""
    logits = model(batch.src, batch.tgt_in)
    loss = F.cross_entropy(logits.transpose(1, 2), batch.tgt_out, reduction="sum")
    return pellucid.Losses(loss, loss.detach())
