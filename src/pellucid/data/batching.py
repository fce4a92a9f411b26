"""Section 5.1: batches of sentences of similar length, of about so many tokens.

The order is a pure function of (seed, epoch): a run that stands at position p of epoch e needs no more than these
numbers to go on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.data.shards import Shard
from pellucid.data.subword_sampling import SubwordSampling

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
    corpora: tuple[tuple[int, float], ...] = ()
    """(sentences, weight) of each corpus, in their order; empty: one corpus of weight 1."""

    def epoch(self, epoch: int) -> list[Indices]:
        """The batches of an epoch, as draws: draw d is of sentence d % (number of sentences).

        Without `corpora` that is each sentence once. Draws are sorted by target and then source length, equal ones in
        random order; a batch takes as many as fit into `batch_tokens`, padding and the end token included, and at least
        one; then the batches are shuffled.
        """
        generator = np.random.default_rng([self.seed, epoch])
        draws = self._draws(generator)
        shuffled = draws[generator.permutation(len(draws))]
        sentences = shuffled % len(self.tgt_lengths)
        order = np.lexsort((self.src_lengths[sentences], self.tgt_lengths[sentences]))
        widths = np.maximum(self.src_lengths, self.tgt_lengths)[sentences[order]] + 1
        batches = _cut(shuffled[order], widths, self.batch_tokens)
        return [batches[i] for i in generator.permutation(len(batches))]

    def _draws(self, generator: np.random.Generator) -> Indices:
        """What an epoch draws: of a corpus of weight 2.3 each sentence twice, and three tenths of them once more.

        Which ones, the generator chooses anew each epoch. The k-th draw of sentence i is i + k * (number of sentences).
        """
        total, start, draws = len(self.tgt_lengths), 0, []
        for size, weight in self.corpora or ((total, 1.0),):
            sentences = np.arange(start, start + size)
            times = int(weight)
            draws += [sentences + time * total for time in range(times)]
            if rest := round((weight - times) * size):
                draws.append(generator.choice(sentences, rest, replace=False) + times * total)
            start += size
        return np.concatenate(draws)

    def follow(self, epoch: int, position: int) -> Iterator[tuple[int, int, Indices]]:
        """All batches from a place on, without end: (epoch, position after it, sentences)."""
        while True:
            batches = self.epoch(epoch)
            for place in range(position, len(batches)):
                yield epoch, place + 1, batches[place]
            epoch, position = epoch + 1, 0


def make_batch(
    shard: Shard, draws: Indices, config: ModelConfig, sampling: SubwordSampling | None = None, epoch: int = 0
) -> Batch:
    """The sentences of BatchOrder's `draws` as padded tensors of ids; with `sampling`, of pieces that it draws."""
    sentences = draws % len(shard)
    if sampling:
        sources, targets = sampling.draw(shard, epoch, draws)
    else:
        sources, targets = [shard.source[i] for i in sentences], [shard.target[i] for i in sentences]
    pad_id = config.pad_id or 0
    return Batch(
        src=_framed(sources, pad_id, last=config.eos_id),
        tgt_in=_framed(targets, pad_id, first=config.bos_id),
        tgt_out=_framed(targets, pad_id, last=config.eos_id),
        sentences=sentences,
        num_tokens=sum(map(len, targets)) + len(targets),
    )


def _framed(
    rows: Sequence[npt.NDArray[Any]], pad_id: int, *, first: int | None = None, last: int | None = None
) -> Tensor:
    """(B, L) int64: the rows with one id before or behind each, filled up on the right."""
    lengths = np.array([len(row) for row in rows])
    table = np.full((len(rows), lengths.max() + 1), pad_id, dtype=np.int64)
    inner = table[:, :-1] if first is None else table[:, 1:]
    inner[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(rows)
    if first is None:
        table[np.arange(len(rows)), lengths] = last
    else:
        table[:, 0] = first
    return torch.from_numpy(table)


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
