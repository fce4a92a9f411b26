"""Plain greedy and beam search of whole texts, compiled, over a packed model. PyTorch is not imported."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.batches import batches_by_length
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.ids import add_special_ids, check_decoding_ids, list_suppressed_ids
from pellucid.engines.compiled.compiling import Functions
from pellucid.engines.compiled.layout import Model

if TYPE_CHECKING:
    from pellucid.decoding.beam import SearchFunction
    from pellucid.decoding.constraints import Constraints

B = TypeVar("B")
R = TypeVar("R")

ROWS = 48
"""The hypotheses that are searched together: more do not compute faster, and their logits leave a core's cache."""


def is_plain_search(config: DecodeConfig, by: "SearchFunction | None", constraints: "Constraints | None") -> bool:
    """Returns True for a greedy or beam search without constraints, further end tokens or a search of the caller."""
    return by is None and constraints is None and not config.end_ids and not config.has_constraints


def read_sources(sources: Sequence[Sequence[int]], config: DecodeConfig, model: ModelConfig) -> list[list[int]] | None:
    """Returns sources with their special tokens; None if a search of steps must read them.

    Raises DecodingError as `batched_search.search` does.
    """
    check_decoding_ids(config, model)
    whole = [add_special_ids(ids, model, config) for ids in sources]
    is_odd = any(len(ids) > model.max_positions or model.pad_id in ids for ids in whole)
    return None if is_odd or not is_within(whole, model.src_vocab_size) else whole


def find_longest(whole: Sequence[Sequence[int]], config: DecodeConfig, model: ModelConfig) -> int:
    """Returns the number of positions that a search of sources needs."""
    limits = [1 + len(config.target_prefix) + _limit(ids, config, model) for ids in whole]
    return max([0, *limits, *map(len, whole)])


class PlainSearch:
    """The compiled search over one packed model.

    All rows are computed each by itself, so neither scores nor ids depend on the batch or the number of threads.
    """

    def __init__(self, config: ModelConfig, packed: Model, functions: Functions, threads: int) -> None:
        """Takes a packed model, which has rotations for all positions of a search if it has rotary positions."""
        self._config = config
        self._packed = packed
        self._functions = functions
        self._threads = threads

    def search(self, whole: list[list[int]], config: DecodeConfig) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yields the index and the n best hypotheses of each source, greedily for a beam of one.

        Raises NonFiniteLogitsError if the model returns NaN.
        """
        batches = list(_batches([len(ids) for ids in whole], max(1, ROWS // config.beam_size), config.batch_tokens))

        def search(batch: list[int]) -> list[list[Hypothesis]]:
            return self._search_batch([whole[place] for place in batch], config)

        for batch, found in zip(batches, compute_in_threads(search, batches, self._threads), strict=True):
            yield from zip(batch, found, strict=True)

    def _search_batch(self, whole: list[list[int]], config: DecodeConfig) -> list[list[Hypothesis]]:
        B, N, prefix_length = len(whole), config.n_best, len(config.target_prefix)
        limits = np.array([_limit(ids, config, self._config) for ids in whole])
        out = np.empty((B, N, max(1, int(limits.max()))), np.int64)
        counts, finished = np.empty((B, N), np.int64), np.empty(B, np.int64)
        scores, ranks = np.empty((B, N)), np.empty((B, N))
        are_numbers = self._functions.search(
            self._packed, *join_rows(whole), np.array([self._config.bos_id, *config.target_prefix]), limits,
            np.array(list_suppressed_ids(self._config, config.suppress_tokens), np.int64), self._config.eos_id,
            config.beam_size, float(config.length_penalty), out, counts, scores, ranks, finished,
        )  # fmt: skip
        if not are_numbers:
            from pellucid.decoding.steps import NOT_NUMBERS, NonFiniteLogitsError  # it imports PyTorch

            raise NonFiniteLogitsError(*NOT_NUMBERS)
        return [
            [
                Hypothesis(out[b, n, : counts[b, n]].tolist(), float(scores[b, n]), prefix_length)
                for n in range(N)
                if counts[b, n] >= 0
            ]
            for b in range(B)
        ]


def compute_in_threads(function: Callable[[B], R], batches: Sequence[B], threads: int) -> Iterator[R]:
    """Yields the result of a function for each batch, in order."""
    threads = min(threads, len(batches))
    if threads < 2:
        yield from map(function, batches)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(function, batches)


def join_rows(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Returns rows one after the other, and where each begins, with the end as the last number."""
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=starts[1:])
    return np.array([i for row in rows for i in row], np.int64), starts


def is_within(rows: Iterable[Iterable[int]], size: int) -> bool:
    """Returns True if all ids are in a vocabulary of `size`."""
    return all(0 <= i < size for row in rows for i in row)


def _limit(whole: Sequence[int], config: DecodeConfig, model: ModelConfig) -> int:
    room = model.max_positions - 1 - len(config.target_prefix)
    return min(config.limit(len(whole) - config.added), room)


def _batches(lengths: Sequence[int], most: int, budget: int) -> Iterator[list[int]]:
    """Yields the indices of each batch: at most `most` texts of similar length, with at most `budget` tokens."""
    for batch in batches_by_length([(length - 1,) for length in lengths], budget, padded=True):
        for first in range(0, len(batch), most):
            yield batch[first : first + most]
