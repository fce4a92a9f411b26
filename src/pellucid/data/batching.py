"""Section 5.1: batches of sentences of similar length, of about so many tokens.

An order says which examples make which batch, epoch by epoch: `BatchOrder` of sentences, `BlockOrder` of a running
text. `draw_batch` makes tensors of what an order draws from a shard, `make_batch` of ids that somebody has in a list.
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
from pellucid.data.classified import classifier_input
from pellucid.data.concatenation import Concatenation
from pellucid.data.framing import Framing
from pellucid.data.sentences import Indices, Sentences
from pellucid.data.shards import Shard
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.data.windows import STRIDE, WINDOW, Blocks, Mixes, Windows, mixed
from pellucid.errors import DataError

Ids = Sequence[npt.NDArray[Any]]
"""The ids of each example."""
NO_TARGET = -1
"""Fills up targets where every id may be a word."""
Lengths = tuple[Indices, Indices]
"""The source and target lengths of each example."""
STRETCH = 1 << 12
"""The examples whose ids are held at a time while their lengths are drawn."""
MULTIPLE = 8
"""The divisor of lengths on a GPU: so few shapes occur, and masks have the alignment that its kernels want."""


@dataclass(frozen=True)
class Batch:
    """Examples as ids, padded on the right: sentence pairs, texts with their class, or texts alone."""

    src: Tensor  # (B, S) as the encoder reads it, end token included; of texts alone (B, 0)
    tgt_in: Tensor  # (B, T) starting with the start token; of classes (B, 0)
    tgt_out: Tensor  # (B, T) the same shifted by one, ending in the end token; of classes (B, 1)
    sentences: Indices  # (B,) indices into the corpus
    num_tokens: int  # target tokens without padding, end tokens included
    src_pad_id: int | None = 0  # what fills up `src`; None: word 0, which is read as one
    tgt_pad_id: int | None = 0  # what fills up `tgt_out`
    words: Tensor | None = None  # (N,) the places in the flattened `tgt_out` that are no padding; None: not looked for

    def to(self, device: torch.device) -> "Batch":
        """Returns the batch on another device."""
        src, tgt_in, tgt_out = (_moved(ids, device) for ids in (self.src, self.tgt_in, self.tgt_out))
        words = None if self.words is None else _moved(self.words, device)
        return replace(self, src=src, tgt_in=tgt_in, tgt_out=tgt_out, words=words)

    def for_a_queue(self, most: int) -> "Batch":
        """Returns the batch as a GPU wants it: few different shapes, and nothing left to look for there.

        Lengths become multiples of 8, but for sides where nothing tells padding from words, and at most `most`, the
        model's positions. What is added is padding, which no word attends to and no loss counts.
        """
        src, tgt_in, tgt_out, words = self.src, self.tgt_in, self.tgt_out, None
        if self.src_pad_id is not None:
            src = _filled_up(src, self.src_pad_id, most)
        if self.tgt_pad_id is not None:
            tgt_in, tgt_out = (
                _filled_up(tgt_in, max(0, self.tgt_pad_id), most),
                _filled_up(tgt_out, self.tgt_pad_id, most),
            )
            words = (tgt_out.flatten() != self.tgt_pad_id).nonzero()[:, 0]
        return replace(self, src=src, tgt_in=tgt_in, tgt_out=tgt_out, words=words)


class Order(ABC):
    """Says which examples make which batch: a pure function of (seed, epoch).

    So a run that stands at position p of epoch e needs no more than these numbers to go on.
    """

    @abstractmethod
    def epoch(self, epoch: int) -> list[Indices]:
        """Returns the batches of an epoch."""

    def follow(self, epoch: int, position: int) -> Iterator[tuple[int, int, Indices]]:
        """Yields all batches from a place on, without end: (epoch, position behind it, examples)."""
        while True:
            batches = self.epoch(epoch)
            for place in range(position, len(batches)):
                yield epoch, place + 1, batches[place]
            epoch, position = epoch + 1, 0


@dataclass(frozen=True)
class BatchOrder(Order):
    """Says which sentences make which batch, epoch by epoch.

        order = BatchOrder(src_lengths, tgt_lengths, batch_tokens=4096, seed=1)
        for epoch, position, draws in order.follow(0, 0): ...

    Lengths are tokens without the end token, one number a sentence.
    """

    src_lengths: Indices
    tgt_lengths: Indices
    batch_tokens: int = BATCH_TOKENS
    """Tokens of a batch on its longer side, padding and end tokens included."""
    seed: int = 1
    corpora: tuple[tuple[int, float], ...] = ()
    """(sentences, weight) of each corpus, in their order; empty: one corpus of weight 1."""
    concatenation: Concatenation | None = None
    """The draws that are joined with other pairs into longer ones; None: none."""
    mixes: Mixes = ()
    """(first epoch, weight of each corpus), where the weights of `corpora` change; empty: they stay."""
    drawn_lengths: Callable[[int, Indices], Lengths] | None = None
    """Returns the lengths of draws of an epoch, joined pairs reckoned in, where each is cut anew. They are those above
    where this is None, or an epoch has more draws than a window: finding all of them would take too long at a time.
    """

    def epoch(self, epoch: int) -> list[Indices]:
        """Returns the batches of an epoch, as draws: draw d is of sentence d % (number of sentences).

        Without `corpora` that is each sentence once. Draws are sorted by target and then source length, equal ones in
        random order; a batch takes as many as fit into `batch_tokens`, padding and the end token included, and at least
        one; then the batches are shuffled.
        """
        generator = np.random.default_rng([self.seed, epoch])
        draws = self._draws(generator, epoch)
        shuffled = draws[generator.permutation(len(draws))]
        if self.drawn_lengths is not None and len(draws) <= WINDOW:
            source, target = self.drawn_lengths(epoch, shuffled)
        else:
            sentences = shuffled % len(self.tgt_lengths)
            source, target = self.src_lengths[sentences], self.tgt_lengths[sentences]
            if self.concatenation is not None:
                source, target = _joined(source, target, self.concatenation, epoch, shuffled)
        return _batches(shuffled, source, target, self.batch_tokens, generator)

    def _draws(self, generator: np.random.Generator, epoch: int) -> Indices:
        """Returns what an epoch draws: of a corpus of weight 2.3 each sentence twice, and three tenths of them once
        more.

        Which ones, the generator chooses anew each epoch. The k-th draw of sentence i is i + k * (number of sentences).
        """
        total, start, draws = len(self.tgt_lengths), 0, []
        for size, weight in mixed(self.corpora, self.mixes, epoch) or ((total, 1.0),):
            sentences = np.arange(start, start + size)
            times = int(weight)
            draws += [sentences + time * total for time in range(times)]
            if rest := round((weight - times) * size):
                draws.append(generator.choice(sentences, rest, replace=False) + times * total)
            start += size
        return np.concatenate(draws)


@dataclass(frozen=True)
class WindowOrder(Order):
    """Says the same of a corpus that is too large to be sorted: a window of it after the other, as `windows` has it."""

    source: Sentences
    target: Sentences
    batch_tokens: int
    seed: int
    corpora: tuple[tuple[int, float], ...] = ()
    concatenation: Concatenation | None = None
    around: tuple[int, int] = (0, 0)
    """The ids, beside one, that stand around a source and a target."""
    mixes: Mixes = ()

    def epoch(self, epoch: int) -> list[Indices]:
        """Returns the batches of an epoch, which may be more than fit into the memory."""
        blocks = self._windows.blocks(epoch)
        return [batch for window in range(len(blocks.windows) - 1) for batch in self._window(epoch, window, blocks)]

    def follow(self, epoch: int, position: int) -> Iterator[tuple[int, int, Indices]]:
        """Yields all batches from a place on, without end; a place says the window, too."""
        while True:
            blocks = self._windows.blocks(epoch)
            first, place = divmod(position, STRIDE)
            for window in range(first, len(blocks.windows) - 1):
                batches = self._window(epoch, window, blocks)
                for number in range(place, len(batches)):
                    yield epoch, window * STRIDE + number + 1, batches[number]
                place = 0
            epoch, position = epoch + 1, 0

    @property
    def _windows(self) -> Windows:
        return Windows(len(self.target), self.seed, self.corpora, self.mixes)

    def _window(self, epoch: int, window: int, blocks: Blocks) -> list[Indices]:
        generator = np.random.default_rng([self.seed, epoch, window])
        draws = self._windows.draws(blocks, window)
        shuffled = draws[generator.permutation(len(draws))]
        sentences = shuffled % len(self.target)
        source, target = (
            side.offsets[sentences + 1] - side.offsets[sentences] + more
            for side, more in zip((self.source, self.target), self.around, strict=True)
        )
        if self.concatenation is not None:
            source, target = _joined(source, target, self.concatenation, epoch, shuffled)
        return _batches(shuffled, source, target, self.batch_tokens, generator)


@dataclass(frozen=True)
class BlockOrder(Order):
    """Says which blocks of a running text make which batch, epoch by epoch.

    Each token is predicted once an epoch, from those before it in its block.
    """

    tokens: int
    """Tokens of the whole text."""
    block: int
    """Tokens of a block."""
    batch_tokens: int
    seed: int

    def epoch(self, epoch: int) -> list[Indices]:
        """Returns the batches of an epoch, as the places where their blocks start, in random order.

        Epoch 0 cuts from the text's beginning, each later one from a place of its own, so that a token is not always as
        far from its block's start. Where that leaves a beginning, one block more holds it, and what follows it again.
        """
        generator = np.random.default_rng([self.seed, epoch])
        offset = int(generator.integers(self.block)) if epoch else 0
        starts = np.arange(offset, self.tokens - 1, self.block)
        if offset:
            starts = np.concatenate([[0], starts])
        shuffled = generator.permutation(starts)
        size = max(1, self.batch_tokens // self.block)
        return [shuffled[i : i + size] for i in range(0, len(shuffled), size)]


def batch_order(shard: Shard, batch_tokens: int, seed: int, sampling: SubwordSampling | None = None) -> Order:
    """Returns the order in which a shard is trained on: by sentences of like length, or by blocks of a running text.

    With `sampling`, lengths are those of the pieces that it draws, unless an epoch has more draws than a window.
    """
    if shard.block:
        return BlockOrder(len(shard.target.ids), shard.block, batch_tokens, seed)
    if shard.in_windows:
        around = (0, 0) if shard.framing is None else (shard.framing.of_source - 1, shard.framing.of_target - 1)
        return WindowOrder(
            shard.source, shard.target, batch_tokens, seed, shard.corpora, shard.concatenation, around, shard.mixes
        )
    source, target = _framed_lengths(shard, shard.source.lengths, shard.target.lengths)
    drawn = partial(_drawn_lengths, shard, sampling) if sampling is not None else None
    return BatchOrder(source, target, batch_tokens, seed, shard.corpora, shard.concatenation, shard.mixes, drawn)


def make_batch(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] | Sequence[int] | None,
    config: ModelConfig,
    *,
    decode: DecodeConfig | None = None,
) -> Batch:
    """Returns a batch of examples that are given as ids, for a training loop of one's own.

        ids = [tokenizer.encode(line) for line in lines]
        batch = make_batch([sources[i] for i in draws], [targets[i] for i in draws], model.config)
        logits = model(batch.src, batch.tgt_in)                                  # (B, T, V), to predict batch.tgt_out

    Args:
        sources: the ids of each text, without start and end token: what an encoder reads, or a decoder alone continues.
        targets: of an encoder-decoder the ids of each translation; of a classifier the number of each text's class; of
            a decoder alone None.
        config: the model's; its family says which of these there are, its ids what stands around them.
        decode: what the model reads around a text beside the start and the end token, as codes of languages.

    Raises DataError where there is no example, sources and targets are not equally many, or the family has no targets.
    """
    alone = config.family == "decoder"
    if not len(sources) or alone != (targets is None) or (targets is not None and len(targets) != len(sources)):
        count = "no" if targets is None else f"{len(targets):,}"
        raise DataError(
            f"{len(sources):,} sources and {count} targets are given",
            "a decoder alone takes sources, and `targets=None`" if alone else "give at least one, and as many targets",
        )
    sentences = np.arange(len(sources))
    framing = Framing.of(decode or DecodeConfig(), config)
    texts = [np.asarray(ids, np.int64) for ids in sources]
    if targets is None:
        return _texts(texts, framing, config, sentences)
    if config.family == "encoder":
        return _classified(texts, np.asarray(targets, np.int64), config, sentences)
    return _pairs(texts, [np.asarray(ids, np.int64) for ids in targets], framing, config, sentences)


def draw_batch(
    shard: Shard, draws: Indices, config: ModelConfig, sampling: SubwordSampling | None = None, epoch: int = 0
) -> Batch:
    """Returns what `batch_order` draws as padded tensors of ids, as the family of the model takes them.

    With `sampling`, sentence pairs are of pieces that it draws.
    """
    sentences = draws % len(shard)
    if config.family == "encoder":
        classes = np.array([shard.target[i][0] for i in sentences], np.int64)
        return _classified([shard.source[i] for i in sentences], classes, config, sentences)
    if config.family == "decoder" and shard.block:
        return _blocks(shard, draws)
    framing = shard.framing or Framing.of(DecodeConfig(), config)
    if config.family == "decoder":
        return _texts([shard.target[i] for i in sentences], framing, config, sentences)
    return _pairs(*_drawn(shard, draws, sampling, epoch), framing, config, sentences)


def _drawn(shard: Shard, draws: Indices, sampling: SubwordSampling | None, epoch: int) -> tuple[Ids, Ids]:
    """Returns source and target ids of draws, those that are joined with other pairs among them."""
    if sampling:
        sources, targets = sampling.draw(shard, epoch, draws)
    else:
        sentences = draws % len(shard)
        sources, targets = [shard.source[i] for i in sentences], [shard.target[i] for i in sentences]
    if shard.concatenation is not None:
        for row, line in shard.concatenation.lines(epoch, draws):
            ids = shard.concatenation.encode(line)
            ids = sampling.of_line(line, ids, epoch, int(draws[row])) if sampling else ids
            if max(map(len, ids)) <= shard.concatenation.longest:  # else the pair stays alone
                sources[row], targets[row] = ids
    return sources, targets


def _drawn_lengths(shard: Shard, sampling: SubwordSampling, epoch: int, draws: Indices) -> Lengths:
    """Returns the lengths of what `sampling` draws, as `BatchOrder` takes them."""
    lengths = [np.empty(len(draws), np.int64) for _ in range(2)]
    for start in range(0, len(draws), STRETCH):
        stretch = slice(start, start + STRETCH)
        for side, ids in zip(lengths, _drawn(shard, draws[stretch], sampling, epoch), strict=True):
            side[stretch] = [len(each) for each in ids]
    return _framed_lengths(shard, *lengths)


def _framed_lengths(shard: Shard, source: Indices, target: Indices) -> Lengths:
    """Returns the lengths with the ids that stand around a text, but for one, with which an order itself reckons."""
    if shard.framing is None:
        return source, target
    return source + shard.framing.of_source - 1, target + shard.framing.of_target - 1


def _joined(source: Indices, target: Indices, concatenation: Concatenation, epoch: int, draws: Indices) -> Lengths:
    """Returns the lengths with those of the pairs that draws are joined with, at most."""
    more_source, more_target = concatenation.added(epoch, draws)
    return source + more_source, target + more_target


def _pairs(sources: Ids, targets: Ids, framing: Framing, config: ModelConfig, sentences: Indices) -> Batch:
    pad_id, filler = config.pad_id or 0, NO_TARGET if config.pad_id is None else config.pad_id
    return Batch(
        src=_framed(sources, pad_id, framing.before_source, framing.behind_source),
        tgt_in=_framed(targets, pad_id, framing.before_target),
        tgt_out=_framed(targets, filler, framing.before_target[1:], (config.eos_id,)),
        sentences=sentences,
        num_tokens=sum(map(len, targets)) + framing.of_target * len(targets),
        src_pad_id=config.pad_id,
        tgt_pad_id=filler,
    )


def _classified(texts: Ids, classes: Indices, config: ModelConfig, sentences: Indices) -> Batch:
    """Returns texts as a classifier reads them, and the number of the class of each."""
    src = _framed([np.array(classifier_input(text.tolist(), config)) for text in texts], config.pad_id or 0)
    none = torch.zeros(len(texts), 0, dtype=torch.long)
    return Batch(src, none, torch.from_numpy(classes[:, None]), sentences, len(texts), config.pad_id, None)


def _texts(texts: Ids, framing: Framing, config: ModelConfig, sentences: Indices) -> Batch:
    """Returns texts of their own, each from what stands before it to the end token."""
    tgt_in = _framed(texts, config.pad_id or 0, framing.before_target)
    tgt_out = _framed(texts, NO_TARGET, framing.before_target[1:], (config.eos_id,))
    return _alone(tgt_in, tgt_out, sentences)


def _blocks(shard: Shard, starts: Indices) -> Batch:
    """Returns pieces of a running text, each `shard.block` tokens from its start; fewer at the end of the text."""
    ids, block = shard.target.ids, shard.block
    tgt_in, tgt_out = (np.full((len(starts), block), filler, np.int64) for filler in (0, NO_TARGET))
    for row, start in enumerate(starts.tolist()):
        piece = ids[start : start + block + 1]
        tgt_in[row, : len(piece) - 1], tgt_out[row, : len(piece) - 1] = piece[:-1], piece[1:]
    return _alone(torch.from_numpy(tgt_in), torch.from_numpy(tgt_out), starts)


def _alone(tgt_in: Tensor, tgt_out: Tensor, sentences: Indices) -> Batch:
    none = torch.zeros(len(tgt_in), 0, dtype=torch.long)
    return Batch(none, tgt_in, tgt_out, sentences, int((tgt_out != NO_TARGET).sum()), None, NO_TARGET)


def _moved(ids: Tensor, device: torch.device) -> Tensor:
    """Returns ids on a device. Python does not wait for the copy, which needs memory that is pinned."""
    pinned = ids.is_cpu and device.type == "cuda" and ids.numel() > 0
    return (ids.pin_memory() if pinned else ids).to(device, non_blocking=True)


def _filled_up(ids: Tensor, pad_id: int, most: int) -> Tensor:
    """Returns ids (B, L) with pads on the right up to a multiple of MULTIPLE, or to `most` where that is less."""
    length = ids.size(1)
    return F.pad(ids, (0, max(0, min(-(-length // MULTIPLE) * MULTIPLE, most) - length)), value=pad_id)


def _framed(rows: Ids, pad_id: int, before: Sequence[int] = (), behind: Sequence[int] = ()) -> Tensor:
    """Returns (B, L) int64: the rows with the same ids before and behind each, filled up on the right."""
    lengths = np.array([len(row) for row in rows])
    start, longest = len(before), lengths.max()
    table = np.full((len(rows), start + longest + len(behind)), pad_id, dtype=np.int64)
    table[:, :start] = before
    table[:, start : start + longest][np.arange(longest) < lengths[:, None]] = np.concatenate(rows)
    for place, number in enumerate(behind, start):
        table[np.arange(len(rows)), place + lengths] = number
    return torch.from_numpy(table)


def _batches(
    shuffled: Indices,
    source: Indices,
    target: Indices,
    batch_tokens: int,
    generator: np.random.Generator,
) -> list[Indices]:
    """Returns draws as batches of like length, in random order; equal lengths stay as they were shuffled."""
    order = np.lexsort((source, target))
    widths = np.maximum(source, target)[order] + 1
    batches = _cut(shuffled[order], widths, batch_tokens)
    return [batches[i] for i in generator.permutation(len(batches))]


def _cut(order: Indices, widths: Indices, budget: int) -> list[Indices]:
    """Returns consecutive pieces of `order`, each as long as its sentences times its largest width fits the budget."""
    batches, start, widest = [], 0, 0
    for place, width in enumerate(widths.tolist()):
        widest = max(widest, width)
        if place > start and widest * (place - start + 1) > budget:
            batches.append(order[start:place])
            start, widest = place, width
    batches.append(order[start:])
    return batches
