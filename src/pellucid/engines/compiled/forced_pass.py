"""Forced decoding, compiled, over a packed model: scores and attention of given outputs. PyTorch is not imported."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.ids import add_special_ids, check_decoding_ids
from pellucid.engines.compiled.compiling import Functions
from pellucid.engines.compiled.layout import COLUMNS, NO_LAYER, ZERO, Model
from pellucid.engines.compiled.plain_search import compute_in_threads, is_within, join_rows
from pellucid.engines.engine import Pair, Weights

R = TypeVar("R")

ROWS = 192
"""The target tokens that are computed together: more do not compute faster."""


def read_pairs(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], config: DecodeConfig, model: ModelConfig
) -> list[Pair]:
    """Returns the ids that the encoder and the decoder read, the start token and the prefix of targets included.

    Raises DecodingError for special ids that the model does not have.
    """
    check_decoding_ids(config, model)
    start = [model.bos_id, *config.target_prefix]
    return [(add_special_ids(src, model, config), [*start, *tgt]) for src, tgt in zip(sources, targets, strict=True)]


def is_known(pairs: Sequence[Pair], positions: int, config: ModelConfig) -> bool:
    """Returns False for pairs that the model's modules must read: beyond `positions`, with padding or unknown ids."""
    sizes = config.src_vocab_size, config.tgt_vocab_size
    return all(
        0 < len(side) <= positions and config.pad_id not in side and is_within([side], size)
        for pair in pairs
        for side, size in zip(pair, sizes, strict=True)
    )


class ForcedPass:
    """Passes over one packed model; each row is computed by itself, so the digits do not depend on the batch."""

    def __init__(self, config: ModelConfig, packed: Model, functions: Functions, threads: int) -> None:
        """Takes a packed model, which has rotations for all positions of the pairs if it has rotary positions."""
        self._config = config
        self._packed = packed
        self._functions = functions
        self._threads = threads

    def log_probs(self, pairs: Sequence[Pair], begin: int) -> list[list[float]]:
        """Returns the log-probabilities of the tokens that each decoder writes after its first `begin`, and of the end.

        Raises NonFiniteLogitsError if the model returns NaN.
        """
        end = self._config.eos_id

        def compute(batch: Sequence[Pair]) -> list[list[float]]:
            h, _, starts = self._read(batch)
            values = np.empty(starts[-1], np.float32)
            targets = np.array([i for _, target in batch for i in (*target[1:], end)], np.int64)
            if not self._functions.score(self._packed, h, len(targets), targets, values):
                from pellucid.decoding.steps import NOT_NUMBERS, NonFiniteLogitsError  # it imports PyTorch

                raise NonFiniteLogitsError(*NOT_NUMBERS)
            return [values[first + begin : last].tolist() for first, last in pairwise(starts)]

        return self._compute(compute, pairs)

    def cross_weights(self, pairs: Sequence[Pair], layer: int, head: int) -> list[Weights]:
        """Returns the cross-attention weights (T, S) of a head, of each pair."""

        def compute(batch: Sequence[Pair]) -> list[Weights]:
            _, weights, starts = self._read(batch, layer, head)
            return [weights[starts[i] : starts[i + 1], : len(source)].copy() for i, (source, _) in enumerate(batch)]

        return self._compute(compute, pairs)

    def _compute(self, compute: Callable[[Sequence[Pair]], list[R]], pairs: Sequence[Pair]) -> list[R]:
        order = sorted(range(len(pairs)), key=lambda place: len(pairs[place][0]))
        batches = list(_batches([pairs[place] for place in order]))
        found = compute_in_threads(compute, batches, self._threads)
        by_place = dict(zip(order, (one for of_batch in found for one in of_batch), strict=True))
        return [by_place[place] for place in range(len(pairs))]

    def _read(self, batch: Sequence[Pair], layer: int = NO_LAYER, head: int = ZERO) -> tuple[Any, Any, Any]:
        """Returns the states of all rows, a head's weights (rows, longest source), and where each target begins."""
        sizes, count = self._packed.sizes, len(batch)
        sources, source_starts = join_rows([source for source, _ in batch])
        tokens, starts = join_rows([target for _, target in batch])
        rows, lengths = len(tokens), np.diff(starts)
        sentence = np.repeat(np.arange(count), lengths)
        place = np.arange(rows) - starts[sentence]
        longest = int(lengths.max())
        keys = np.empty((sizes.decoder_layers, count, longest, 1, 2 * sizes.kv_heads * sizes.step), np.float32)
        h = np.empty(rows * (-(-sizes.d_model // COLUMNS) * COLUMNS), np.float32)
        weights = np.empty((rows, int(np.diff(source_starts).max())) if layer >= 0 else (0, 0), np.float32)
        memory = self._functions.encode(self._packed, sources, source_starts)
        self._functions.decode(
            self._packed, tokens, place, sentence, np.zeros(rows, np.int64), rows,
            np.zeros((count, 1, longest), np.int64), keys, memory, source_starts, h, layer, head, weights,
        )  # fmt: skip
        return h, weights, starts


def _batches(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Yields pairs in batches of about ROWS target tokens."""
    batch, rows = list[Pair](), 0
    for pair in pairs:
        batch.append(pair)
        rows += len(pair[1])
        if rows >= ROWS:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch
