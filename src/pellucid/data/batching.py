"""Section 5.1: batches of sentences of similar length, of about so many tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.data.blocks import BlockOrder
from pellucid.data.classified import classifier_input
from pellucid.data.concatenation import Concatenation
from pellucid.data.framing import Framing
from pellucid.data.order import Indices, Order
from pellucid.data.shards import Shard
from pellucid.data.subword_sampling import SubwordSampling

NO_TARGET = -1
"""Fills up targets where every id may be a word."""


@dataclass(frozen=True)
class Batch:
    """Examples as ids, padded on the right: sentence pairs, texts with their class, or texts alone."""

    src: Tensor  # (B, S) as the encoder reads it, end token included; of texts alone (B, 0)
    tgt_in: Tensor  # (B, T) starting with the start token; of classes (B, 0)
    tgt_out: Tensor  # (B, T) the same shifted by one, ending in the end token; of classes (B, 1)
    sentences: Indices  # (B,) indices into the corpus
    num_tokens: int  # target tokens without padding, end tokens included
    src_pad_id: int | None = 0  # what fills up `src`; None: nothing does
    tgt_pad_id: int | None = 0  # what fills up `tgt_out`

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device."""
        src, tgt_in, tgt_out = (t.to(device, non_blocking=True) for t in (self.src, self.tgt_in, self.tgt_out))
        return replace(self, src=src, tgt_in=tgt_in, tgt_out=tgt_out)


@dataclass(frozen=True)
class BatchOrder(Order):
    """Which sentences make which batch, epoch by epoch."""

    src_lengths: Indices
    tgt_lengths: Indices
    batch_tokens: int
    seed: int
    corpora: tuple[tuple[int, float], ...] = ()
    """(sentences, weight) of each corpus, in their order; empty: one corpus of weight 1."""
    concatenation: Concatenation | None = None
    """Which draws are joined with other pairs into longer ones; None: none."""

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
        source, target = self.src_lengths[sentences], self.tgt_lengths[sentences]
        if self.concatenation is not None:
            more_source, more_target = self.concatenation.added(epoch, shuffled)
            source, target = source + more_source, target + more_target
        order = np.lexsort((source, target))
        widths = np.maximum(source, target)[order] + 1
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


def batch_order(shard: Shard, batch_tokens: int, seed: int) -> BatchOrder | BlockOrder:
    """The order in which a shard is trained on: by sentences of like length, or by blocks of a running text."""
    if shard.block:
        return BlockOrder(len(shard.target.ids), shard.block, batch_tokens, seed)
    source, target = shard.source.lengths, shard.target.lengths
    if shard.framing is not None:  # the order itself reckons with one id more than these
        source, target = source + shard.framing.of_source - 1, target + shard.framing.of_target - 1
    return BatchOrder(source, target, batch_tokens, seed, shard.corpora, shard.concatenation)


def make_batch(
    shard: Shard, draws: Indices, config: ModelConfig, sampling: SubwordSampling | None = None, epoch: int = 0
) -> Batch:
    """What `batch_order` draws as padded tensors of ids, as the family of the model takes them.

    With `sampling`, sentence pairs are of pieces that it draws.
    """
    if config.family == "encoder":
        return _classified(shard, draws % len(shard), config)
    if config.family == "decoder":
        return _blocks(shard, draws) if shard.block else _texts(shard, draws % len(shard), config)
    return _pairs(shard, draws, config, sampling, epoch)


def _pairs(shard: Shard, draws: Indices, config: ModelConfig, sampling: SubwordSampling | None, epoch: int) -> Batch:
    sentences = draws % len(shard)
    if sampling:
        sources, targets = sampling.draw(shard, epoch, draws)
    else:
        sources, targets = [shard.source[i] for i in sentences], [shard.target[i] for i in sentences]
    if shard.concatenation is not None:
        for row, line in shard.concatenation.lines(epoch, draws):
            ids = shard.concatenation.encode(line)
            ids = sampling.of_line(line, ids, epoch, int(draws[row])) if sampling else ids
            if max(map(len, ids)) <= shard.concatenation.longest:  # else the pair stays alone
                sources[row], targets[row] = ids
    pad_id, framing = config.pad_id or 0, _framing(shard, config)
    return Batch(
        src=_framed(sources, pad_id, framing.before_source, framing.behind_source),
        tgt_in=_framed(targets, pad_id, framing.before_target),
        tgt_out=_framed(targets, pad_id, framing.before_target[1:], (config.eos_id,)),
        sentences=sentences,
        num_tokens=sum(map(len, targets)) + framing.of_target * len(targets),
        src_pad_id=config.pad_id,
        tgt_pad_id=config.pad_id,
    )


def _classified(shard: Shard, sentences: Indices, config: ModelConfig) -> Batch:
    """Texts as a classifier reads them, and the number of the class of each."""
    texts = [np.array(classifier_input(shard.source[i].tolist(), config)) for i in sentences]
    classes = np.array([shard.target[i][0] for i in sentences], np.int64)[:, None]  # (B, 1)
    src = _framed(texts, config.pad_id or 0)
    none = torch.zeros(len(texts), 0, dtype=torch.long)
    return Batch(src, none, torch.from_numpy(classes), sentences, len(texts), config.pad_id, None)


def _texts(shard: Shard, sentences: Indices, config: ModelConfig) -> Batch:
    """Texts of their own, each from what stands before it to the end token."""
    texts, before = [shard.target[i] for i in sentences], _framing(shard, config).before_target
    tgt_in = _framed(texts, config.pad_id or 0, before)
    tgt_out = _framed(texts, NO_TARGET, before[1:], (config.eos_id,))
    return _alone(tgt_in, tgt_out, sentences)


def _blocks(shard: Shard, starts: Indices) -> Batch:
    """Pieces of a running text, each `shard.block` tokens from its start; fewer at the end of the text."""
    ids, block = shard.target.ids, shard.block
    tgt_in, tgt_out = (np.full((len(starts), block), filler, np.int64) for filler in (0, NO_TARGET))
    for row, start in enumerate(starts.tolist()):
        piece = ids[start : start + block + 1]
        tgt_in[row, : len(piece) - 1], tgt_out[row, : len(piece) - 1] = piece[:-1], piece[1:]
    return _alone(torch.from_numpy(tgt_in), torch.from_numpy(tgt_out), starts)


def _alone(tgt_in: Tensor, tgt_out: Tensor, sentences: Indices) -> Batch:
    none = torch.zeros(len(tgt_in), 0, dtype=torch.long)
    return Batch(none, tgt_in, tgt_out, sentences, int((tgt_out != NO_TARGET).sum()), None, NO_TARGET)


def _framing(shard: Shard, config: ModelConfig) -> Framing:
    return shard.framing or Framing.of(DecodeConfig(), config)


def _framed(
    rows: Sequence[npt.NDArray[Any]], pad_id: int, before: Sequence[int] = (), behind: Sequence[int] = ()
) -> Tensor:
    """(B, L) int64: the rows with the same ids before and behind each, filled up on the right."""
    lengths = np.array([len(row) for row in rows])
    start, longest = len(before), lengths.max()
    table = np.full((len(rows), start + longest + len(behind)), pad_id, dtype=np.int64)
    table[:, :start] = before
    table[:, start : start + longest][np.arange(longest) < lengths[:, None]] = np.concatenate(rows)
    for place, number in enumerate(behind, start):
        table[np.arange(len(rows)), place + lengths] = number
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
