"""Section 5.1: batches of sentences of similar length, of about so many tokens.

The order is a pure function of (seed, epoch): a run that stands at position p of epoch e needs no more than these
numbers to go on.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.data.shards import Shard
from pellucid.model.padding import pad

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as ids, padded on the right."""

    src: Tensor  # (B, S) ending in the end token
    tgt_in: Tensor  # (B, T) starting with the start token
    tgt_out: Tensor  # (B, T) the same shifted by one, ending in the end token
    sentences: Indices  # (B,) indices into the corpus
    num_tokens: int  # target tokens without padding, end tokens included

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device."""
        src, tgt_in, tgt_out = (t.to(device, non_blocking=True) for t in (self.src, self.tgt_in, self.tgt_out))
        return Batch(src, tgt_in, tgt_out, self.sentences, self.num_tokens)


@dataclass(frozen=True)
class BatchOrder:
    """Which sentences make which batch, epoch by epoch."""

    src_lengths: Indices
    tgt_lengths: Indices
    batch_tokens: int
    seed: int

    def epoch(self, epoch: int) -> list[Indices]:
        """The batches of an epoch, as indices of sentences: all of them, each once.

        Sentences are sorted by target and then source length, equal ones in random order; a batch takes as many as fit
        into `batch_tokens`, padding and the end token included, and at least one; then the batches are shuffled.
        """
        generator = np.random.default_rng([self.seed, epoch])
        shuffled = generator.permutation(len(self.tgt_lengths))
        sorted_ = shuffled[np.lexsort((self.src_lengths[shuffled], self.tgt_lengths[shuffled]))]
        widths = np.maximum(self.src_lengths, self.tgt_lengths)[sorted_] + 1
        batches = _cut(sorted_, widths, self.batch_tokens)
        return [batches[i] for i in generator.permutation(len(batches))]

    def follow(self, epoch: int, position: int) -> Iterator[tuple[int, int, Indices]]:
        """All batches from a place on, without end: (epoch, position after it, sentences)."""
        while True:
            batches = self.epoch(epoch)
            for place in range(position, len(batches)):
                yield epoch, place + 1, batches[place]
            epoch, position = epoch + 1, 0


def make_batch(shard: Shard, sentences: Indices, config: ModelConfig) -> Batch:
    """The sentences as padded tensors of ids."""
    sources = [shard.source[i] for i in sentences]
    targets = [shard.target[i] for i in sentences]
    return Batch(
        src=pad([[*s, config.eos_id] for s in sources], config.pad_id or 0),
        tgt_in=pad([[config.bos_id, *t] for t in targets], config.pad_id or 0),
        tgt_out=pad([[*t, config.eos_id] for t in targets], config.pad_id or 0),
        sentences=sentences,
        num_tokens=sum(len(t) + 1 for t in targets),
    )


def _cut(order: Indices, widths: Indices, budget: int) -> list[Indices]:
    """Consecutive pieces of `order`, each as long as its sentences times its largest width fits the budget."""
    batches, start, widest = [], 0, 0
    for place, width in enumerate(widths.tolist()):
        widest = max(widest, width)
        if place > start and widest * (place - start + 1) > budget:
            batches.append(order[start:place])
            start, widest = place, width
    batches.append(order[start:])
    return batches
