"""Many sentences through a search: batches of similar length, results in the order of the input.

A sentence's result must not depend on its neighbours, yet the last digits of a matrix product depend on how many rows
it has. So a sentence whose search came so near to another outcome that these digits could decide it is searched again,
alone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.beam import beam_search
from pellucid.decoding.greedy import greedy_search
from pellucid.decoding.hypothesis import Found, Hypothesis, Watcher, check_ids
from pellucid.decoding.padding import pad
from pellucid.decoding.sampling import sample
from pellucid.decoding.scoring import forced_scores
from pellucid.errors import DecodingError
from pellucid.model.transformer import Transformer

NEAR_TIE = 1e-4  # nats; sums of log-probabilities differ by about 1e-5 between batches in single precision

Result = TypeVar("Result")
Shape = tuple[int, ...]
"""The lengths of what a sentence brings, less one token each: its source, and its target where it is given."""


def search(
    model: Transformer, sources: Sequence[Sequence[int]], config: DecodeConfig, watch: Watcher | None = None
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each source (ids, without the end token), best first; greedy for a beam of one.

    `watch` is told of each step in the search of a single source.
    """

    def run(src: Tensor, places: list[int]) -> list[Found]:
        if config.beam_size == 1:
            return greedy_search(model, src, config, watch=watch)
        return beam_search(model, src, config, watch)

    return _search(model, sources, config, config.batch_tokens // config.beam_size, run)


def sample_outputs(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    config: SamplingConfig,
    decode: DecodeConfig | None = None,
    places: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """One drawn output for each source (ids, without the end token), by the number that `places` gives it.

    Of `decode` count what limits, begins and suppresses an output, and `batch_tokens`.
    """
    decode, numbers = decode or DecodeConfig(), places or range(len(sources))

    def run(src: Tensor, places: list[int]) -> list[Found]:
        return sample(model, src, config, [numbers[place] for place in places], decode)

    return [hypotheses[0] for hypotheses in _search(model, sources, decode, decode.batch_tokens, run)]


def score_outputs(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    decode: DecodeConfig | None = None,
) -> list[float]:
    """The log-probability of each target given its source (ids, without start and end tokens).

    Of `decode` count what stands before and behind sources and targets, which adds nothing to a score, and
    `batch_tokens`.
    """
    decode, config = decode or DecodeConfig(), model.config
    check_ids(decode, config)
    start = [config.bos_id, *decode.target_prefix]

    def run(places: list[int]) -> list[float]:
        src = _padded(model, [whole_source(model, sources[i], decode) for i in places])
        tgt_in = _padded(model, [[*start, *targets[i]] for i in places])
        tgt_out = _padded(model, [[*start[1:], *targets[i], config.eos_id] for i in places])
        ends = [len(start) + len(targets[i]) for i in places]
        return forced_scores(model, src, tgt_in, tgt_out, ends, begin=len(decode.target_prefix))

    shapes = [(len(s) + decode.added - 1, len(t) + len(start) - 1) for s, t in zip(sources, targets, strict=True)]
    return _by_length(model, shapes, decode.batch_tokens, run)


def _search(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    decode: DecodeConfig,
    budget: int,
    run: Callable[[Tensor, list[int]], list[Found]],
) -> list[list[Hypothesis]]:
    """What `run` finds for each source, again and alone where it was near to finding something else."""
    check_ids(decode, model.config)

    def found(places: list[int]) -> list[Found]:
        return run(_padded(model, [whole_source(model, sources[i], decode) for i in places]), places)

    def settled(places: list[int]) -> list[Found]:
        if len(places) == 1:
            return found(places)
        return [found([i])[0] if f.margin < NEAR_TIE else f for i, f in zip(places, found(places), strict=True)]

    shapes = [(len(source) + decode.added - 1,) for source in sources]
    return [f.hypotheses for f in _by_length(model, shapes, budget, settled)]


def whole_source(model: Transformer, ids: Sequence[int], decode: DecodeConfig) -> list[int]:
    """The ids of a source with its end token and what stands before and behind every source: what the model reads.

    Raises DecodingError where that is nothing at all.
    """
    whole = decode.whole_source(ids, model.config.eos_id)
    if not whole:
        raise DecodingError("a source is empty, and this model has sources without an end token", "leave it out")
    return whole


def _by_length(
    model: Transformer, shapes: Sequence[Shape], budget: int, run: Callable[[list[int]], list[Result]]
) -> list[Result]:
    """The results of `run` over batches of similar length, each of at most `budget` tokens with padding."""
    results: dict[int, Result] = {}
    for places in batches_by_length(shapes, budget, padded=model.config.pad_id is not None):
        results.update(zip(places, run(places), strict=True))
    return [results[i] for i in range(len(shapes))]


def batches_by_length(shapes: Sequence[Shape], budget: int, padded: bool) -> Iterator[list[int]]:
    """Places by falling length: memory is used to the full at once, so what fits first fits to the end.

    A model that takes every id for a word cannot be given padding: its batches hold one shape each.
    """
    batch: list[int] = []
    for place in sorted(range(len(shapes)), key=lambda i: (-max(shapes[i]), shapes[i], i)):
        if batch:
            full = (max(shapes[batch[0]]) + 1) * (len(batch) + 1) > budget
            if full or not (padded or shapes[place] == shapes[batch[0]]):
                yield batch
                batch = []
        batch.append(place)
    if batch:
        yield batch


def _padded(model: Transformer, rows: Sequence[Sequence[int]]) -> Tensor:
    device = next(model.parameters()).device
    return pad(rows, model.config.pad_id or 0).to(device, torch.long)
