"""Section 5.1: batches of sentences of similar length, with about the same number of tokens.

A batch sampler chooses the examples of each batch, epoch by epoch: `BucketBatchSampler` for sentences,
`BlockBatchSampler` for a continuous text. `collate_batch` makes tensors of the examples of an encoded corpus,
`make_batch` of ids in a list.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.config import BATCH_TOKENS, DecodeConfig, ModelConfig
from pellucid.data.concatenation import Concatenation
from pellucid.data.framing import TextFrame
from pellucid.data.labels import classifier_input
from pellucid.data.sentences import Indices, SentenceLengths
from pellucid.data.shards import EncodedCorpus
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.data.window_order import STRIDE, WINDOW, Mixes, Windows, needs_windows, select_epoch_weights
from pellucid.errors import DataError

Ids = Sequence[npt.NDArray[Any]]
"""The ids of each example."""
NO_TARGET = -1
"""The padding of targets if every id may be a word."""
Lengths = tuple[Indices, Indices]
"""The source and target lengths of each example."""
CHUNK_SIZE = 1 << 12
"""The number of examples whose ids are in memory at a time while their lengths are sampled."""
MULTIPLE = 8
"""The divisor of lengths on a GPU: few different shapes occur, and masks have the alignment that its kernels need."""


@dataclass(frozen=True)
class Batch:
    """Examples as ids, padded on the right: sentence pairs, texts with their class, or monolingual texts."""

    src: Tensor  # (B, S) as the encoder reads it, end token included; of texts alone (B, 0)
    tgt_in: Tensor  # (B, T) starting with the start token; of classes (B, 0)
    tgt_out: Tensor  # (B, T) the same shifted by one, ending in the end token; of classes (B, 1)
    sentences: Indices  # (B,) indices into the corpus
    num_tokens: int  # target tokens without padding, end tokens included
    src_pad_id: int | None = 0  # the padding of `src`; None: id 0, which the model reads as a word
    tgt_pad_id: int | None = 0  # the padding of `tgt_out`
    target_positions: Tensor | None = (
        None  # (N,) the places in the flattened `tgt_out` that are no padding; None: not looked for
    )

    def to(self, device: torch.device) -> "Batch":
        """Returns the batch on another device."""
        src, tgt_in, tgt_out = (_to_device(ids, device) for ids in (self.src, self.tgt_in, self.tgt_out))
        words = None if self.target_positions is None else _to_device(self.target_positions, device)
        return replace(self, src=src, tgt_in=tgt_in, tgt_out=tgt_out, target_positions=words)

    def pad_for_gpu(self, most: int) -> "Batch":
        """Returns the batch padded for a GPU: few different shapes, with `target_positions` computed beforehand.

        Lengths become multiples of 8, at most `most`, the model's positions; a side without a padding id is unchanged.
        Attention and loss ignore the added padding.
        """
        src, tgt_in, tgt_out, words = self.src, self.tgt_in, self.tgt_out, None
        if self.src_pad_id is not None:
            src = _pad_to_multiple(src, self.src_pad_id, most)
        if self.tgt_pad_id is not None:
            tgt_in, tgt_out = (
                _pad_to_multiple(tgt_in, max(0, self.tgt_pad_id), most),
                _pad_to_multiple(tgt_out, self.tgt_pad_id, most),
            )
            words = (tgt_out.flatten() != self.tgt_pad_id).nonzero()[:, 0]
        return replace(self, src=src, tgt_in=tgt_in, tgt_out=tgt_out, target_positions=words)


class BatchSampler(ABC):
    """Chooses the examples of each batch: a pure function of (seed, epoch).

    Therefore epoch and position suffice to resume a run.
    """

    @abstractmethod
    def epoch(self, epoch: int) -> list[Indices]:
        """Returns the batches of an epoch."""

    def iterate_from(self, epoch: int, position: int) -> Iterator[tuple[int, int, Indices]]:
        """Yields all batches from a position on, without end: (epoch, position after the batch, examples)."""
        while True:
            batches = self.epoch(epoch)
            for place in range(position, len(batches)):
                yield epoch, place + 1, batches[place]
            epoch, position = epoch + 1, 0


@dataclass(frozen=True)
class BucketBatchSampler(BatchSampler):
    """Chooses the sentences of each batch, epoch by epoch.

        sampler = BucketBatchSampler(src_lengths, tgt_lengths, batch_tokens=4096, seed=1)
        for epoch, position, examples in sampler.iterate_from(0, 0): ...

    Lengths are tokens without the end token, one number per sentence.
    """

    src_lengths: Indices | SentenceLengths
    tgt_lengths: Indices | SentenceLengths
    batch_tokens: int = BATCH_TOKENS
    """Tokens of a batch on its longer side, padding and end tokens included."""
    seed: int = 1
    corpora: tuple[tuple[int, float], ...] = ()
    """(sentences, weight) of each corpus, in order; if empty, one corpus of weight 1."""
    concatenation: Concatenation | None = None
    """Joins some examples with other pairs into longer ones; None joins none."""
    mixes: Mixes = ()
    """(first epoch, weight of each corpus) for each change of the weights in `corpora`; if empty, they stay."""
    drawn_lengths: Callable[[int, Indices], Lengths] | None = None
    """Returns the lengths of an epoch's examples with sampled subwords, joined pairs included. If None, or if an epoch
    has more examples than a window (sampling all of them at once would take too long), the lengths above are used.
    """
    in_windows: bool = False
    """If True, an epoch is too large to be sorted at once, and is ordered one window after the other; if False, it is
    one window."""

    def epoch(self, epoch: int) -> list[Indices]:
        """Returns the batches of an epoch: example d is sentence d % (number of sentences).

        Without `corpora` an epoch has each sentence once. Examples are sorted by target and then source length, equal
        lengths in random order; a batch takes as many as fit into `batch_tokens`, padding and the end token included,
        and at least one; then the batches are shuffled.
        """
        return [batch for batches in self._windows(epoch) for batch in batches]

    def iterate_from(self, epoch: int, position: int) -> Iterator[tuple[int, int, Indices]]:
        """Yields all batches from a position on, without end. If an epoch has windows, a position includes the window,
        and one window is in memory at a time.
        """
        while True:
            first, place = divmod(position, STRIDE) if self.in_windows else (0, position)
            for window, batches in enumerate(self._windows(epoch, first), first):
                for number in range(place, len(batches)):
                    yield epoch, window * STRIDE + number + 1, batches[number]
                place = 0
            epoch, position = epoch + 1, 0

    def _windows(self, epoch: int, first: int = 0) -> Iterator[list[Indices]]:
        """Yields the batches of each window of an epoch, from the window `first` on."""
        if not self.in_windows:
            generator = np.random.default_rng([self.seed, epoch])
            yield self._sort(epoch, self._draws(generator, epoch), generator)
            return
        windows = Windows(len(self.tgt_lengths), self.seed, self.corpora, self.mixes)
        blocks = windows.blocks(epoch)
        for window in range(first, len(blocks.windows) - 1):
            generator = np.random.default_rng([self.seed, epoch, window])
            yield self._sort(epoch, windows.draws(blocks, window), generator)

    def _sort(self, epoch: int, draws: Indices, generator: np.random.Generator) -> list[Indices]:
        """Returns the examples of a window as batches of similar length, in random order."""
        shuffled = draws[generator.permutation(len(draws))]
        if self.drawn_lengths is not None and len(draws) <= WINDOW:
            source, target = self.drawn_lengths(epoch, shuffled)
        else:
            sentences = shuffled % len(self.tgt_lengths)
            source, target = self.src_lengths[sentences], self.tgt_lengths[sentences]
            if self.concatenation is not None:
                more_source, more_target = self.concatenation.count_added_tokens(epoch, shuffled)  # at most
                source, target = source + more_source, target + more_target
        order = np.lexsort((source, target))  # equal lengths stay shuffled
        widths = np.maximum(source, target)[order] + 1
        batches = _split_into_batches(shuffled[order], widths, self.batch_tokens)
        return [batches[i] for i in generator.permutation(len(batches))]

    def _draws(self, generator: np.random.Generator, epoch: int) -> Indices:
        """Returns the examples of an epoch: a corpus of weight 2.3 gives each sentence twice, and three tenths of the
        sentences a third time.

        The generator chooses these anew in each epoch. Repetition k of sentence i is i + k * (number of sentences).
        """
        total, start, draws = len(self.tgt_lengths), 0, []
        for size, weight in select_epoch_weights(self.corpora, self.mixes, epoch) or ((total, 1.0),):
            sentences = np.arange(start, start + size)
            times = int(weight)
            draws += [sentences + time * total for time in range(times)]
            if rest := round((weight - times) * size):
                draws.append(generator.choice(sentences, rest, replace=False) + times * total)
            start += size
        return np.concatenate(draws)


@dataclass(frozen=True)
class BlockBatchSampler(BatchSampler):
    """Chooses the blocks of a continuous text for each batch, epoch by epoch.

    Each token is predicted once per epoch, from the preceding tokens of its block.
    """

    tokens: int
    """Tokens of the whole text."""
    block: int
    """Tokens of a block."""
    batch_tokens: int
    seed: int

    def epoch(self, epoch: int) -> list[Indices]:
        """Returns the batches of an epoch, as the start positions of their blocks, in random order.

        Epoch 0 cuts blocks from the beginning of the text, each later epoch from a random offset, so that the distance
        of a token from the start of its block varies. If the offset is not 0, one more block starts at the beginning
        and overlaps the next block.
        """
        generator = np.random.default_rng([self.seed, epoch])
        offset = int(generator.integers(self.block)) if epoch else 0
        starts = np.arange(offset, self.tokens - 1, self.block)
        if offset:
            starts = np.concatenate([[0], starts])
        shuffled = generator.permutation(starts)
        size = max(1, self.batch_tokens // self.block)
        return [shuffled[i : i + size] for i in range(0, len(shuffled), size)]


def make_batch_sampler(
    shard: EncodedCorpus, batch_tokens: int, seed: int, sampling: SubwordSampling | None = None
) -> BatchSampler:
    """Returns the batch sampler of an encoded corpus: sentences of similar length, or blocks of a continuous text.

    With `sampling`, lengths are of the sampled subwords, unless an epoch has more examples than a window.
    """
    if shard.block:
        return BlockBatchSampler(len(shard.target.ids), shard.block, batch_tokens, seed)
    around = _around(shard)
    source, target = SentenceLengths(shard.source.offsets, around[0]), SentenceLengths(shard.target.offsets, around[1])
    in_windows = needs_windows(len(shard) + len(shard.left_out))
    sampled = partial(_sample_lengths, shard, sampling) if sampling is not None and not in_windows else None
    return BucketBatchSampler(
        source, target, batch_tokens, seed, shard.corpora, shard.concatenation, shard.mixes, sampled, in_windows
    )


def make_batch(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] | Sequence[int] | None,
    config: ModelConfig,
    *,
    decode: DecodeConfig | None = None,
) -> Batch:
    """Returns a batch of examples given as ids, for a custom training loop.

        ids = [tokenizer.encode(line) for line in lines]
        batch = make_batch([sources[i] for i in indices], [targets[i] for i in indices], model.config)
        logits = model(batch.src, batch.tgt_in)                                  # (B, T, V), to predict batch.tgt_out

    Args:
        sources: the ids of each text, without start and end token: the encoder's input, or a decoder-only model's text.
        targets: for an encoder-decoder the ids of each translation, for a classifier the class index of each text, for
            a decoder-only model None.
        config: the model's; its family determines which of these it takes, its special ids surround the texts.
        decode: gives further ids around a text, such as language codes.

    Raises DataError if there is no example, the numbers of sources and targets differ, or the family has no targets.
    """
    alone = config.family == "decoder"
    if not len(sources) or alone != (targets is None) or (targets is not None and len(targets) != len(sources)):
        count = "no" if targets is None else f"{len(targets):,}"
        raise DataError(
            f"{len(sources):,} sources and {count} targets are given",
            "for a decoder-only model, pass the texts as sources and `targets=None`"
            if alone
            else "pass at least one source and the same number of targets",
        )
    sentences = np.arange(len(sources))
    framing = TextFrame.from_config(decode or DecodeConfig(), config)
    texts = [np.asarray(ids, np.int64) for ids in sources]
    if targets is None:
        return _texts(texts, framing, config, sentences)
    if config.family == "encoder":
        return _make_classifier_batch(texts, np.asarray(targets, np.int64), config, sentences)
    return _pairs(texts, [np.asarray(ids, np.int64) for ids in targets], framing, config, sentences)


def collate_batch(
    shard: EncodedCorpus, draws: Indices, config: ModelConfig, sampling: SubwordSampling | None = None, epoch: int = 0
) -> Batch:
    """Returns examples that the batch sampler chose as padded tensors of ids, in the form of the model's family.

    With `sampling`, the subwords of sentence pairs are sampled.
    """
    sentences = draws % len(shard)
    if config.family == "encoder":
        classes = np.array([shard.target[i][0] for i in sentences], np.int64)
        return _make_classifier_batch([shard.source[i] for i in sentences], classes, config, sentences)
    if config.family == "decoder" and shard.block:
        return _blocks(shard, draws)
    framing = shard.framing or TextFrame.from_config(DecodeConfig(), config)
    if config.family == "decoder":
        return _texts([shard.target[i] for i in sentences], framing, config, sentences)
    return _pairs(*_sample_ids(shard, draws, sampling, epoch), framing, config, sentences)


def _sample_ids(shard: EncodedCorpus, draws: Indices, sampling: SubwordSampling | None, epoch: int) -> tuple[Ids, Ids]:
    """Returns source and target ids of examples, joined with other pairs where `shard.concatenation` does."""
    if sampling:
        sources, targets = sampling.draw(shard, epoch, draws)
    else:
        sentences = draws % len(shard)
        sources, targets = [shard.source[i] for i in sentences], [shard.target[i] for i in sentences]
    if shard.concatenation is not None:
        for row, line in shard.concatenation.lines(epoch, draws):
            ids = shard.concatenation.encode(line)
            ids = sampling.sample_line(line, ids, epoch, int(draws[row])) if sampling else ids
            if max(map(len, ids)) <= shard.concatenation.longest:  # else the pair is not joined
                sources[row], targets[row] = ids
    return sources, targets


def _sample_lengths(shard: EncodedCorpus, sampling: SubwordSampling, epoch: int, draws: Indices) -> Lengths:
    """Returns the lengths of examples with sampled subwords, in the form of `BucketBatchSampler`."""
    lengths = [np.empty(len(draws), np.int64) for _ in range(2)]
    for start in range(0, len(draws), CHUNK_SIZE):
        chunk = slice(start, start + CHUNK_SIZE)
        for side, ids in zip(lengths, _sample_ids(shard, draws[chunk], sampling, epoch), strict=True):
            side[chunk] = [len(each) for each in ids]
    around = _around(shard)
    return lengths[0] + around[0], lengths[1] + around[1]


def _around(shard: EncodedCorpus) -> tuple[int, int]:
    """Returns the numbers of ids around a source and a target, except one that the batch sampler adds itself."""
    return (0, 0) if shard.framing is None else (shard.framing.of_source - 1, shard.framing.of_target - 1)


def _pairs(sources: Ids, targets: Ids, framing: TextFrame, config: ModelConfig, sentences: Indices) -> Batch:
    pad_id, filler = config.pad_id or 0, NO_TARGET if config.pad_id is None else config.pad_id
    return Batch(
        src=_pad_with_special_ids(sources, pad_id, framing.source_prefix, framing.source_suffix),
        tgt_in=_pad_with_special_ids(targets, pad_id, framing.target_prefix),
        tgt_out=_pad_with_special_ids(targets, filler, framing.target_prefix[1:], (config.eos_id,)),
        sentences=sentences,
        num_tokens=sum(map(len, targets)) + framing.of_target * len(targets),
        src_pad_id=config.pad_id,
        tgt_pad_id=filler,
    )


def _make_classifier_batch(texts: Ids, classes: Indices, config: ModelConfig, sentences: Indices) -> Batch:
    """Returns a batch of texts as a classifier reads them, with the class index of each."""
    src = _pad_with_special_ids(
        [np.array(classifier_input(text.tolist(), config)) for text in texts], config.pad_id or 0
    )
    none = torch.zeros(len(texts), 0, dtype=torch.long)
    return Batch(src, none, torch.from_numpy(classes[:, None]), sentences, len(texts), config.pad_id, None)


def _texts(texts: Ids, framing: TextFrame, config: ModelConfig, sentences: Indices) -> Batch:
    """Returns a batch of separate texts, each from its prefix to the end token."""
    tgt_in = _pad_with_special_ids(texts, config.pad_id or 0, framing.target_prefix)
    tgt_out = _pad_with_special_ids(texts, NO_TARGET, framing.target_prefix[1:], (config.eos_id,))
    return _make_target_batch(tgt_in, tgt_out, sentences)


def _blocks(shard: EncodedCorpus, starts: Indices) -> Batch:
    """Returns a batch of blocks of a continuous text, `shard.block` tokens each, fewer at the end of the text."""
    ids, block = shard.target.ids, shard.block
    tgt_in, tgt_out = (np.full((len(starts), block), filler, np.int64) for filler in (0, NO_TARGET))
    for row, start in enumerate(starts.tolist()):
        piece = ids[start : start + block + 1]
        tgt_in[row, : len(piece) - 1], tgt_out[row, : len(piece) - 1] = piece[:-1], piece[1:]
    return _make_target_batch(torch.from_numpy(tgt_in), torch.from_numpy(tgt_out), starts)


def _make_target_batch(tgt_in: Tensor, tgt_out: Tensor, sentences: Indices) -> Batch:
    none = torch.zeros(len(tgt_in), 0, dtype=torch.long)
    return Batch(none, tgt_in, tgt_out, sentences, int((tgt_out != NO_TARGET).sum()), None, NO_TARGET)


def _to_device(ids: Tensor, device: torch.device) -> Tensor:
    """Returns ids on a device. The copy is asynchronous, which requires pinned memory."""
    pinned = ids.is_cpu and device.type == "cuda" and ids.numel() > 0
    return (ids.pin_memory() if pinned else ids).to(device, non_blocking=True)


def _pad_to_multiple(ids: Tensor, pad_id: int, most: int) -> Tensor:
    """Returns ids (B, L) padded on the right to a multiple of MULTIPLE, or to `most` if that is less."""
    length = ids.size(1)
    return F.pad(ids, (0, max(0, min(-(-length // MULTIPLE) * MULTIPLE, most) - length)), value=pad_id)


def _pad_with_special_ids(rows: Ids, pad_id: int, before: Sequence[int] = (), after: Sequence[int] = ()) -> Tensor:
    """Returns (B, L) int64: the rows, each with the same ids before and after it, padded on the right."""
    lengths = np.array([len(row) for row in rows])
    start, longest = len(before), lengths.max()
    table = np.full((len(rows), start + longest + len(after)), pad_id, dtype=np.int64)
    table[:, :start] = before
    table[:, start : start + longest][np.arange(longest) < lengths[:, None]] = np.concatenate(rows)
    for place, number in enumerate(after, start):
        table[np.arange(len(rows)), place + lengths] = number
    return torch.from_numpy(table)


def _split_into_batches(order: Indices, widths: Indices, budget: int) -> list[Indices]:
    """Returns consecutive chunks of `order`, as long as sentences times largest width is within the budget."""
    batches, start, widest = [], 0, 0
    for place, width in enumerate(widths.tolist()):
        widest = max(widest, width)
        if place > start and widest * (place - start + 1) > budget:
            batches.append(order[start:place])
            start, widest = place, width
    batches.append(order[start:])
    return batches
