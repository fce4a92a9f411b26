"""Beam search (section 6.1), batched over sentences, with the hypotheses of a sentence side by side.

`beam_search` is the only search loop: greedy search and sampling are beams of one hypothesis, with their own function
that chooses the next tokens.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from pellucid.config import DecodeConfig
from pellucid.decoding.hypothesis import Continuation, Hypothesis, SearchResult, StepCallback
from pellucid.decoding.steps import SearchState
from pellucid.model.fast.gpu import is_gpu, to_cpu, to_device_async

SearchFunction = Callable[[SearchState, DecodeConfig], list[SearchResult]]
"""Searches for outputs: returns a SearchResult for each output of the SearchState, in order."""


BLOCK, MANY = 64, 50_000
"""The size of a block, and the number of values from which on comparing blocks first is faster."""
LOOK_EVERY = 8
"""The steps between synchronizations with a GPU: there a finished output costs at most this many further steps."""


@dataclass(frozen=True)
class StepChoice:
    """The continuations chosen at a step, for B outputs with W hypotheses each."""

    tokens: Tensor
    """(B, W) the next token of each hypothesis that stays live."""
    parents: Tensor | None
    """(B, W) the hypothesis that it continues; None: itself."""
    scores: Tensor
    """(B, W) its sum of log-probabilities; minus infinity: no hypothesis."""
    ends: Tensor
    """(B, k) True for each of the k best continuations that is finished."""
    end_parents: Tensor
    """(B, k) the hypotheses that they continue."""
    end_scores: Tensor
    """(B, k) their sums of log-probabilities."""
    margins: Tensor
    """(B,) the smallest change of a score difference that would change which continuations end or stay live."""


Choose = Callable[[Tensor, Tensor, SearchState, StepCallback | None], StepChoice]
"""Chooses by the log-probabilities (B, W, V) of the next tokens and the scores (B, W) so far."""
Prefer = Callable[[Tensor, list[int]], Tensor]
"""Maps log-probabilities (B, V) and the output of each row to values (B, V), of which the largest is chosen."""


def beam_search(
    steps: SearchState,
    config: DecodeConfig,
    watch: StepCallback | None = None,
    choose_step: Choose | None = None,
    sync_every: int = LOOK_EVERY,
) -> list[SearchResult]:
    """Returns the `n_best` hypotheses of each output, by the definitions of DecodeConfig.

    An output is done when no live hypothesis can still enter the n best: log-probability only falls, so the best
    reachable rank is known. Once W have finished, it is enough that none would enter with its current score.

    Args:
        config: its `beam_size`, `n_best` and `length_penalty` apply.
        watch: called at each step of a single output with its 2W best continuations; None: `steps.on_step`.
        choose_step: chooses the continuations of a step; None: the W best that do not end.
        sync_every: the steps between synchronizations with a GPU.
    """
    choose_step = choose_step or choose_continuations
    steps.start(config.beam_size)
    watch = watch or steps.on_step
    count = len(steps.rows)
    # Sums of long outputs need more digits than single precision has; Apple's GPU has no other.
    precision = torch.float32 if steps.device.type == "mps" else torch.float64
    scores = torch.full((count, config.beam_size), -torch.inf, dtype=precision, device=steps.device)
    scores[:, 0] = 0.0  # the others would be duplicates
    finished: list[list[Hypothesis]] = [[] for _ in range(count)]
    margins, found = [math.inf] * count, dict[int, SearchResult]()
    every = sync_every if is_gpu(steps.device) and watch is None else 1
    taken: list[tuple[Tensor, ...]] = []
    while steps.rows:
        choice = choose_step(steps.log_probs(), scores, steps, watch)
        scores = choice.scores
        ends = choice.ends, choice.end_parents, choice.end_scores
        taken.append((steps.ids, *ends, scores.amax(dim=1), choice.margins))
        steps.advance(choice.tokens, choice.parents)
        if len(taken) < every and steps.length <= max(steps.limits[output] for output in steps.rows):
            continue
        steps.check_numbers()
        for ids, is_end, parents, totals, best, gaps in _copy_to_cpu(taken):
            if is_end.any():
                rows, ranks = is_end.nonzero(as_tuple=True)
                ended = steps.hypotheses_at(ids, rows, parents[rows, ranks], totals[rows, ranks])
                for row, hypothesis in zip(rows.tolist(), ended, strict=True):
                    finished[steps.rows[row]].append(hypothesis)
            for output, rival, gap in zip(steps.rows, best.tolist(), gaps.tolist(), strict=True):
                if output in found:  # since an earlier step of this chunk
                    continue
                ahead, nearest = 0, math.inf
                if finished[output]:
                    limit, length = steps.limits[output], ids.size(2) + 1
                    ahead, nearest = _count_better_finished(finished[output], rival, steps, limit, length, config)
                margins[output] = min(margins[output], gap, nearest)
                if rival == -math.inf or ahead >= config.n_best:
                    found[output] = _n_best(finished[output], margins[output], config)
        taken = []
        going_on = [row for row, output in enumerate(steps.rows) if output not in found]
        if len(going_on) < len(steps.rows):
            kept = torch.tensor(going_on, dtype=torch.long)
            steps.select(kept)
            scores = scores[to_device_async(kept, steps.device)]
    return [found[output] for output in range(count)]


def _copy_to_cpu(taken: list[tuple[Tensor, ...]]) -> list[tuple[Tensor, ...]]:
    """Returns the tensors of some steps on the CPU, step by step."""
    size = len(taken[0])
    all_of_them = to_cpu([tensor for step in taken for tensor in step])
    return [tuple(all_of_them[start : start + size]) for start in range(0, len(all_of_them), size)]


def greedy_search(
    steps: SearchState, config: DecodeConfig, watch: StepCallback | None = None, token_values: Prefer | None = None
) -> list[SearchResult]:
    """Returns one hypothesis for each output: the most probable token at each step, on ties the lower id.

    Args:
        watch: called at each step of a single output with the two best tokens; None: `steps.on_step`.
        token_values: returns values to choose by in place of log-probabilities; scores remain log-probabilities.
    """
    one = config if config.beam_size == 1 else replace(config, beam_size=1, n_best=1)
    return beam_search(steps, one, watch, partial(choose_best, token_values=token_values))


def choose_best(
    log_probs: Tensor,
    scores: Tensor,
    steps: SearchState,
    watch: StepCallback | None = None,
    *,
    token_values: Prefer | None = None,
) -> StepChoice:
    """Chooses the best token of each output's only hypothesis."""
    values = log_probs[:, 0]  # (B, V)
    tokens, gaps = best_token(values if token_values is None else token_values(values, steps.rows))  # (B, 1), (B,)
    totals = scores + values.gather(1, tokens)  # (B, 1)
    ended = tokens == steps.eos_id  # (B, 1)
    if watch is not None:
        two, chosen = values[0].topk(2), int(tokens[0, 0])
        rivals = [(t, v) for v, t in zip(two.values.tolist(), two.indices.tolist(), strict=True) if t != chosen]
        value, score = values[0, chosen].item(), scores[0, 0].item()
        weighed = [Continuation(0, chosen, value, score + value, "finished" if ended[0, 0] else "live")]
        weighed += [Continuation(0, token, v, score + v, "pruned") for token, v in rivals[:1] if v > -math.inf]
        watch(weighed)
    return StepChoice(
        tokens, None, totals.masked_fill(ended, -torch.inf), ended, torch.zeros_like(tokens), totals, gaps
    )


def best_token(values: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the index of each row's maximum, on ties the first, and its lead: (B, V) -> (B, 1), (B,)."""
    if is_gpu(values.device):
        top, places = first_largest(values, 2)
        return places[:, :1], top[:, 0] - top[:, 1]
    top, places = largest(values, 2)
    lead = top[:, 0] - top[:, 1]
    if not (lead > 0).all():  # topk broke a tie
        return (values == top[:, :1]).int().argmax(dim=1, keepdim=True), lead
    return places[:, :1], lead


def choose_continuations(
    log_probs: Tensor, scores: Tensor, steps: SearchState, watch: StepCallback | None = None
) -> StepChoice:
    """Chooses among the 2W best continuations of each output.

    Continuations among the first W that end are finished; the first W that do not end stay live. 2W are enough: at most
    W end, one of each hypothesis. Without `watch`, `log_probs` is overwritten.
    """
    width, vocab_size = log_probs.shape[1:]
    # A score relative to the best one keeps its digits in single precision, however long the outputs are.
    highest = scores.amax(dim=1, keepdim=True)  # (B, 1)
    # In place, since a tensor of this size is expensive; `watch` needs the log-probabilities below.
    totals = log_probs if watch is None else log_probs.clone()
    totals = totals.add_((scores - highest).float()[:, :, None]).flatten(1)  # (B, W * V)
    # One more than 2W gives the margin of the choice.
    best, places = stable_topk(totals, min(2 * width + 1, totals.size(1)))
    parents, tokens = places // vocab_size, places % vocab_size
    is_end = tokens == steps.eos_id
    order = is_end.int().argsort(dim=1, stable=True)[:, : width + 1]  # (B, W + 1), those that do not end first
    margins = _margins(best, is_end, order, width)
    order = order[:, :width]
    best = best + highest  # (B, k)
    finishing = is_end & best.isfinite()
    if watch is not None:
        live, ended = set(order[0].tolist()), finishing[0, :width].tolist()
        columns = zip(parents[0].tolist(), tokens[0].tolist(), best[0].tolist(), strict=True)
        watch(
            [
                Continuation(
                    parent, token, log_probs[0, parent, token].item(), score,
                    "finished" if rank < width and ended[rank] else "live" if rank in live else "pruned",
                )
                for rank, (parent, token, score) in enumerate(columns)
                if rank < 2 * width and score > -math.inf
            ]
        )  # fmt: skip
    return StepChoice(
        tokens.gather(1, order),
        parents.gather(1, order),
        best.masked_fill(is_end, -torch.inf).gather(1, order),
        finishing[:, :width],
        parents[:, :width],
        best[:, :width],
        margins,
    )


def stable_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns each row's k largest values and their indices, (B, N) -> (B, k); on ties the first, on any device."""
    if is_gpu(values.device):
        return first_largest(values, k)
    top, places = largest(values, min(k + 1, values.size(1)))
    tied = top[:, 1:] == top[:, :-1]  # (B, k): topk has them in any order
    if not tied.any():
        return top[:, :k], places[:, :k]
    places, chosen = places[:, :k], tied[:, k - 1 :].any(dim=1)  # topk broke a tie
    if chosen.any():
        places[chosen] = values[chosen].sort(dim=1, descending=True, stable=True).indices[:, :k]
    places = places.sort(dim=1).values
    top, order = values.gather(1, places).sort(dim=1, descending=True, stable=True)
    return top, places.gather(1, order)


def largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns each row's k largest values and their indices, (B, N) -> (B, k); on ties any, as topk does.

    The k largest are in the k blocks with the largest maxima, so few numbers need to be ranked.
    """
    rows, size = values.shape
    blocks = size // BLOCK
    if rows * size < MANY or blocks < 4 * k:
        top, places = values.topk(k)
        return top, places
    numbers, places = _gather_blocks(values, _view_blocks(values).amax(dim=2).topk(k).indices)
    top, at = numbers.topk(k)
    return top, places.gather(1, at)


def first_largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the result of `stable_topk` by stable sorts alone, which need no synchronization with a GPU.

    The first k of the largest numbers are in the first k blocks with the largest maxima: a number in another block has
    k before it, one in each of these.
    """
    blocks = values.size(1) // BLOCK
    if blocks <= k:
        numbers, places = values, None
    else:
        best = _view_blocks(values).amax(dim=2).sort(dim=1, descending=True, stable=True).indices[:, :k]
        numbers, places = _gather_blocks(values, best.sort(dim=1).values)
    top, at = numbers.sort(dim=1, descending=True, stable=True)
    return top[:, :k], at[:, :k] if places is None else places.gather(1, at[:, :k])


def _view_blocks(values: Tensor) -> Tensor:
    """Returns the numbers of each row by blocks, without the remainder: (B, N) -> (B, N // BLOCK, BLOCK)."""
    blocks = values.size(1) // BLOCK
    return values[:, : blocks * BLOCK].view(len(values), blocks, BLOCK)


def _gather_blocks(values: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the numbers of chosen blocks (B, k) and the remainder, and their indices: (B, N')."""
    whole, chosen = _view_blocks(values), chosen[:, :, None]  # (B, blocks, BLOCK), (B, k, 1)
    numbers = whole.gather(1, chosen.expand(-1, -1, BLOCK)).flatten(1)  # (B, k * BLOCK)
    places = (chosen * BLOCK + torch.arange(BLOCK, device=values.device)).flatten(1)
    start, size = whole.size(1) * BLOCK, values.size(1)
    if size > start:
        rest = torch.arange(start, size, device=values.device).expand(len(values), -1)
        numbers, places = torch.cat([numbers, values[:, start:]], dim=1), torch.cat([places, rest], dim=1)
    return numbers, places


def _margins(best: Tensor, is_end: Tensor, order: Tensor, width: int) -> Tensor:
    """Returns each output's smallest gap between continuations that finish or stay live and others: (B, k) -> (B,)."""
    living = best.masked_fill(is_end, -torch.inf).gather(1, order)  # (B, W + 1)
    last_finished = best[:, :width].masked_fill(~is_end[:, :width], torch.inf).amin(dim=1)
    first_refused = best[:, width:].masked_fill(~is_end[:, width:], -torch.inf).amax(dim=1)
    gaps = torch.stack(
        [
            living[:, width - 1] - living[:, width],
            last_finished - best[:, width],
            best[:, width - 1] - first_refused,
        ]
    )
    return gaps.masked_fill(gaps.isnan(), torch.inf).amin(dim=0)  # NaN: neither hypothesis exists


def _count_better_finished(
    finished: list[Hypothesis], rival: float, steps: SearchState, limit: int, length: int, config: DecodeConfig
) -> tuple[int, float]:
    """Returns the number of finished hypotheses that rank at least as high as the best live one (score `rival`), and
    the smallest lead.

    Until W have finished, the live hypothesis has the highest rank that it can reach if its score falls no further.
    From then on it has its current rank, with its last token counted as its end.
    """
    longest = limit + (not steps.truncates)
    if len(finished) < config.beam_size:
        length = longest if config.length_penalty > 0 else min(length + 1, longest)
    length += steps.prefix_length
    bound = rival / length**config.length_penalty
    ahead = sum(h.rank(config.length_penalty) >= bound for h in finished)
    return ahead, min(abs(_lead(h, rival, length, config.length_penalty)) for h in finished)


def _n_best(finished: list[Hypothesis], margin: float, config: DecodeConfig) -> SearchResult:
    """Returns the n best by rank, ties ordered by ids; the margin includes their lead over the lower ranks."""
    penalty = config.length_penalty
    ranked = sorted(finished, key=lambda h: (-h.rank(penalty), h.ids))
    for place, hypothesis in enumerate(ranked[: config.n_best]):
        for other in ranked[place + 1 :]:
            margin = min(margin, _lead(hypothesis, other.score, other.length, penalty))
    return SearchResult(ranked[: config.n_best], margin)


def _lead(first: Hypothesis, score: float, length: int, penalty: float) -> float:
    """Returns twice the change that, subtracted from the first score and added to the second, makes the ranks equal."""
    gap = first.rank(penalty) - score / length**penalty
    lead: float = 2 * gap / (1 / first.length**penalty + 1 / length**penalty)
    return lead
