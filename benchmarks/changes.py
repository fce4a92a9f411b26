"""Changes of a training that no setting makes: what speedrun.py tries before it is built, or is not.

A change has parts of a model, another order of batches, or something that is done to a run before it trains.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pellucid
from pellucid.data.batching import Batch, Order, batch_order
from pellucid.data.sentences import Indices
from pellucid.data.shards import Shard
from pellucid.data.subword_sampling import SubwordSampling

DROPPED_WORDS = 0.1
DROPPED_LAYERS = 0.1
RANK = 64
"""The width of factored embeddings, half of d_model 128."""
SPECIAL = range(4)
"""The ids that stand for no word."""


def _leave(run: pellucid.Run) -> None:
    """Changes nothing."""


@dataclass(frozen=True)
class Change:
    """What is handed to a run, and what is done to it then."""

    prepare: Callable[[pellucid.Run], None] = _leave
    parts: pellucid.Parts | None = None
    order: Callable[[Shard, int, int, SubwordSampling | None], Order] = batch_order
    """Makes the order of a shard's batches of so many tokens, by a seed, of pieces that are drawn or stored."""


def drop_source_words(run: pellucid.Run) -> None:
    """Has a tenth of the source tokens read as unknown while a model trains, others each time."""
    loss, unknown = run.loss, run.tokenizers.source.unk_id
    draws = torch.Generator().manual_seed(run.recipe.train.seed)

    def with_words_dropped(model: nn.Module, batch: Batch) -> pellucid.Losses:
        if not model.training:
            return loss(model, batch)
        dropped = torch.rand(batch.src.shape, generator=draws) < DROPPED_WORDS
        dropped &= batch.src > max(SPECIAL)
        return loss(model, replace(batch, src=batch.src.masked_fill(dropped, unknown)))

    run.loss = with_words_dropped


class ChangedOrder(Order):
    """Draws the first epoch in another way than the later ones."""

    def __init__(self, first: Order, later: Order, short_first: Indices | None = None) -> None:
        self.first, self.later, self.lengths = first, later, short_first

    def epoch(self, epoch: int) -> list[Indices]:
        """Returns the batches of an epoch; of the first, with lengths, those of short sentences first."""
        if epoch:
            return self.later.epoch(epoch)
        batches, lengths = self.first.epoch(0), self.lengths
        if lengths is None:
            return batches
        return sorted(batches, key=lambda batch: float(np.mean(lengths[batch % len(lengths)])))


def small_batches_first(shard: Shard, batch_tokens: int, seed: int, sampling: SubwordSampling | None) -> Order:
    """Returns batches half as large in the first epoch, so twice as many steps."""
    first, later = (batch_order(shard, tokens, seed, sampling) for tokens in (batch_tokens // 2, batch_tokens))
    return ChangedOrder(first, later)


def short_sentences_first(shard: Shard, batch_tokens: int, seed: int, sampling: SubwordSampling | None) -> Order:
    """Returns the batches of the first epoch in the order of their lengths."""
    usual = batch_order(shard, batch_tokens, seed, sampling)
    return ChangedOrder(usual, usual, shard.target.lengths)


@torch.no_grad()
def _lower_the_rank(weight: Tensor) -> None:
    """Replaces a matrix (V, D) by the nearest one that is a product of (V, RANK) and (RANK, D)."""
    _, directions = torch.linalg.eigh(weight.T @ weight)  # (D, D), the largest last
    kept = directions[:, -RANK:]
    weight.copy_(weight @ kept @ kept.T)


@torch.no_grad()
def _fix_lengths(weight: Tensor) -> None:
    """Gives each row of a matrix (V, D) the length 1."""
    weight.copy_(F.normalize(weight, dim=-1))


def keep_embeddings(run: pellucid.Run, within: Callable[[Tensor], None]) -> None:
    """Has the embeddings brought back to what they may be after each step."""
    within(_embeddings(run))
    run.on_step(lambda event: within(_embeddings(run)))


def _embeddings(run: pellucid.Run) -> Tensor:
    """Returns the one matrix (V, D) of all embeddings, which are tied."""
    assert isinstance(run.model, pellucid.Transformer)
    return run.model.tgt_embedding.tokens.weight


class ScaleNorm(nn.Module):
    """The norm of Nguyen and Salazar (2019): one length for all states, which is learnt."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.length = nn.Parameter(torch.tensor(config.d_model**0.5))

    def forward(self, x: Tensor) -> Tensor:
        """Returns x (B, L, D) at that length."""
        return self.length * F.normalize(x, dim=-1)


class DroppedEncoderLayer(pellucid.EncoderLayer):
    """A layer that is left out of a tenth of the steps (LayerDrop, Fan et al. 2020)."""

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        """Returns x (B, S, D) as the layer has it, or as it is."""
        return x if self.training and torch.rand(()) < DROPPED_LAYERS else super().forward(x, *others)


class DroppedDecoderLayer(pellucid.DecoderLayer):
    """The same of the decoder."""

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        """Returns x (B, T, D) as the layer has it, or as it is."""
        return x if self.training and torch.rand(()) < DROPPED_LAYERS else super().forward(x, *others)


def self_norms_alone(config: pellucid.ModelConfig) -> pellucid.DecoderLayer:
    """Returns a layer of a decoder whose cross-attention has none of the norms that `qk_norm` makes."""
    layer = pellucid.DecoderLayer.from_config(config)
    assert layer.cross_attn is not None
    layer.cross_attn.q_norm, layer.cross_attn.k_norm = nn.Identity(), nn.Identity()
    return layer


LAYER_DROP = pellucid.Parts(
    encoder_layer=DroppedEncoderLayer.from_config, decoder_layer=DroppedDecoderLayer.from_config
)
CHANGES = {
    "source-words": Change(drop_source_words),
    "growing-batches": Change(order=small_batches_first),
    "short-first": Change(order=short_sentences_first),
    "factored": Change(partial(keep_embeddings, within=_lower_the_rank)),
    "fix-norm": Change(partial(keep_embeddings, within=_fix_lengths)),
    "scale-norm": Change(parts=pellucid.Parts(norm=ScaleNorm)),
    "layer-drop": Change(parts=LAYER_DROP),
    "self-norms": Change(parts=pellucid.Parts(decoder_layer=self_norms_alone)),
}
"""The changes by name."""
