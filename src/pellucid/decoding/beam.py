"""Beam search (section 6.1), batched over sentences, with the hypotheses of a sentence side by side.

`beam_search` is the one loop of all searches here: greedy search and sampling are beams of one hypothesis, which choose
how a step goes on in another way.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from pellucid.config import DecodeConfig
from pellucid.decoding.hypothesis import Found, Hypothesis, Watcher, Weighed
from pellucid.decoding.steps import Steps
from pellucid.model.fast.queue import fetch, has_queue, send

Search = Callable[[Steps, DecodeConfig], list[Found]]
"""Finds outputs: a Found for each of those that Steps holds, in their order."""


BLOCK, MANY = 64, 50_000
"""The numbers of a block, and how many there must be in all before it pays to look at blocks first."""
LOOK_EVERY = 8
"""The steps after which a GPU is asked what has ended: outputs that are done cost up to so many steps more there."""


@dataclass(frozen=True)
class Choice:
    """The way that a step goes on, for B outputs with W hypotheses each."""

    tokens: Tensor
    """(B, W) the next token of each hypothesis that lives on."""
    parents: Tensor | None
    """(B, W) the hypothesis that it continues; None: itself."""
    scores: Tensor
    """(B, W) its sum of log-probabilities; minus infinity: there is no such hypothesis."""
    ends: Tensor
    """(B, k) of the k best continuations those that are finished: bool."""
    end_parents: Tensor
    """(B, k) the hypotheses that they continue."""
    end_scores: Tensor
    """(B, k) their sums of log-probabilities."""
    margins: Tensor
    """(B,) the smallest change of a difference of scores that would change what ends or lives on."""


Choose = Callable[[Tensor, Tensor, Steps, Watcher | None], Choice]
"""Chooses by the log-probabilities (B, W, V) of the next tokens and the scores (B, W) so far."""
Prefer = Callable[[Tensor, list[int]], Tensor]
"""Takes log-probabilities (B, V), and which output each row is, to the values (B, V) of which the largest wins."""


def beam_search(
    steps: Steps,
    config: DecodeConfig,
    watch: Watcher | None = None,
    choose: Choose | None = None,
    look_every: int = LOOK_EVERY,
) -> list[Found]:
    """Returns the `n_best` hypotheses of each output, by the definitions of DecodeConfig.

    An output is done when no live hypothesis can still enter the n best: log-probability only falls, so what one can
    reach at most is known. Once W have finished, it is enough that none would enter as it stands.

    Args:
        config: `beam_size`, `n_best` and `length_penalty` count.
        watch: is told of each step of a single output: its 2W best continuations. None: `steps.watch` is, if any.
        choose: how a step goes on; None: with the W best continuations that do not end.
        look_every: the steps after which a GPU is asked what has ended.
    """
    choose = choose or choose_continuations
    steps.start(config.beam_size)
    watch = watch or steps.watch
    count = len(steps.rows)
    # Sums of long outputs need more digits than single precision has; Apple's GPU has no other.
    precision = torch.float32 if steps.device.type == "mps" else torch.float64
    scores = torch.full((count, config.beam_size), -torch.inf, dtype=precision, device=steps.device)
    scores[:, 0] = 0.0  # the others would be the same hypothesis again
    finished: list[list[Hypothesis]] = [[] for _ in range(count)]
    margins, found = [math.inf] * count, dict[int, Found]()
    every = look_every if has_queue(steps.device) and watch is None else 1
    taken: list[tuple[Tensor, ...]] = []
    while steps.rows:
        choice = choose(steps.log_probs(), scores, steps, watch)
        scores = choice.scores
        ends = choice.ends, choice.end_parents, choice.end_scores
        taken.append((steps.ids, *ends, scores.amax(dim=1), choice.margins))
        steps.advance(choice.tokens, choice.parents)
        if len(taken) < every and steps.length <= max(steps.limits[output] for output in steps.rows):
            continue
        steps.check_numbers()
        for ids, is_end, parents, totals, best, gaps in _fetched(taken):
            if is_end.any():
                rows, ranks = is_end.nonzero(as_tuple=True)
                ended = steps.hypotheses_at(ids, rows, parents[rows, ranks], totals[rows, ranks])
                for row, hypothesis in zip(rows.tolist(), ended, strict=True):
                    finished[steps.rows[row]].append(hypothesis)
            for output, rival, gap in zip(steps.rows, best.tolist(), gaps.tolist(), strict=True):
                if output in found:  # since a step that was looked at with this one
                    continue
                ahead, nearest = 0, math.inf
                if finished[output]:
                    limit, length = steps.limits[output], ids.size(2) + 1
                    ahead, nearest = _compared(finished[output], rival, steps, limit, length, config)
                margins[output] = min(margins[output], gap, nearest)
                if rival == -math.inf or ahead >= config.n_best:
                    found[output] = _n_best(finished[output], margins[output], config)
        taken = []
        going_on = [row for row, output in enumerate(steps.rows) if output not in found]
        if len(going_on) < len(steps.rows):
            kept = torch.tensor(going_on, dtype=torch.long)
            steps.select(kept)
            scores = scores[send(kept, steps.device)]
    return [found[output] for output in range(count)]


def _fetched(taken: list[tuple[Tensor, ...]]) -> list[tuple[Tensor, ...]]:
    """Returns what some steps leave to look at on the CPU, step by step."""
    size = len(taken[0])
    all_of_them = fetch([tensor for step in taken for tensor in step])
    return [tuple(all_of_them[start : start + size]) for start in range(0, len(all_of_them), size)]


def greedy_search(
    steps: Steps, config: DecodeConfig, watch: Watcher | None = None, prefer: Prefer | None = None
) -> list[Found]:
    """Returns one hypothesis for each output: the most probable token at each step, of equal ones the lower id.

    Args:
        watch: is told of each step of a single output: the two best tokens. None: `steps.watch` is, if any.
        prefer: gives other values than log-probabilities to choose by; scores are log-probabilities all the same.
    """
    one = config if config.beam_size == 1 else replace(config, beam_size=1, n_best=1)
    return beam_search(steps, one, watch, partial(choose_best, prefer=prefer))


def choose_best(
    log_probs: Tensor, scores: Tensor, steps: Steps, watch: Watcher | None = None, *, prefer: Prefer | None = None
) -> Choice:
    """Chooses the best token of each output's only hypothesis."""
    values = log_probs[:, 0]  # (B, V)
    tokens, gaps = best_token(values if prefer is None else prefer(values, steps.rows))  # (B, 1), (B,)
    totals = scores + values.gather(1, tokens)  # (B, 1)
    ended = tokens == steps.eos_id  # (B, 1)
    if watch is not None:
        two, chosen = values[0].topk(2), int(tokens[0, 0])
        rivals = [(t, v) for v, t in zip(two.values.tolist(), two.indices.tolist(), strict=True) if t != chosen]
        value, score = values[0, chosen].item(), scores[0, 0].item()
        weighed = [Weighed(0, chosen, value, score + value, "finished" if ended[0, 0] else "live")]
        weighed += [Weighed(0, token, v, score + v, "pruned") for token, v in rivals[:1] if v > -math.inf]
        watch(weighed)
    return Choice(tokens, None, totals.masked_fill(ended, -torch.inf), ended, torch.zeros_like(tokens), totals, gaps)


def best_token(values: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the place of the largest of each row, of equal ones the first, and its lead: (B, V) -> (B, 1), (B,)."""
    if has_queue(values.device):
        top, places = first_largest(values, 2)
        return places[:, :1], top[:, 0] - top[:, 1]
    top, places = largest(values, 2)
    lead = top[:, 0] - top[:, 1]
    if not (lead > 0).all():  # topk chose among equal ones
        return (values == top[:, :1]).int().argmax(dim=1, keepdim=True), lead
    return places[:, :1], lead


def choose_continuations(log_probs: Tensor, scores: Tensor, steps: Steps, watch: Watcher | None = None) -> Choice:
    """Chooses among the 2W best continuations of each output.

    Those among the first W that end are finished; the first W that do not end live on. 2W are enough: at most W end,
    one of each hypothesis. Unless somebody watches, `log_probs` is overwritten.
    """
    width, vocab_size = log_probs.shape[1:]
    # What a hypothesis has, beside the best one, keeps its digits in single precision however long the outputs are.
    highest = scores.amax(dim=1, keepdim=True)  # (B, 1)
    # In place, as a tensor of this size is dear to make; somebody who watches is told of the log-probabilities below.
    totals = log_probs if watch is None else log_probs.clone()
    totals = totals.add_((scores - highest).float()[:, :, None]).flatten(1)  # (B, W * V)
    # One more than the 2W tells how near the choice was.
    best, places = top_by_place(totals, min(2 * width + 1, totals.size(1)))
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
                Weighed(
                    parent, token, log_probs[0, parent, token].item(), score,
                    "finished" if rank < width and ended[rank] else "live" if rank in live else "pruned",
                )
                for rank, (parent, token, score) in enumerate(columns)
                if rank < 2 * width and score > -math.inf
            ]
        )  # fmt: skip
    return Choice(
        tokens.gather(1, order),
        parents.gather(1, order),
        best.masked_fill(is_end, -torch.inf).gather(1, order),
        finishing[:, :width],
        parents[:, :width],
        best[:, :width],
        margins,
    )


def top_by_place(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k largest of each row and their places, (B, N) -> (B, k); of equal ones the first, on any device."""
    if has_queue(values.device):
        return first_largest(values, k)
    top, places = largest(values, min(k + 1, values.size(1)))
    tied = top[:, 1:] == top[:, :-1]  # (B, k): topk has them in any order
    if not tied.any():
        return top[:, :k], places[:, :k]
    places, chosen = places[:, :k], tied[:, k - 1 :].any(dim=1)  # it chose among equal ones
    if chosen.any():
        places[chosen] = values[chosen].sort(dim=1, descending=True, stable=True).indices[:, :k]
    places = places.sort(dim=1).values
    top, order = values.gather(1, places).sort(dim=1, descending=True, stable=True)
    return top, places.gather(1, order)


def largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k largest of each row and their places, (B, N) -> (B, k): of equal ones any, as topk does.

    The k largest lie in the k blocks whose own largest are the largest, so that few numbers need to be ranked.
    """
    rows, size = values.shape
    blocks = size // BLOCK
    if rows * size < MANY or blocks < 4 * k:
        top, places = values.topk(k)
        return top, places
    numbers, places = _of_blocks(values, _whole_blocks(values).amax(dim=2).topk(k).indices)
    top, at = numbers.topk(k)
    return top, places.gather(1, at)


def first_largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns what `top_by_place` does, by stable sorts alone: on a GPU nothing has to be looked at in between.

    The k first of the largest numbers lie in the k first of the blocks whose own largest are the largest: a number in
    another block has k before it, one in each of these.
    """
    blocks = values.size(1) // BLOCK
    if blocks <= k:
        numbers, places = values, None
    else:
        best = _whole_blocks(values).amax(dim=2).sort(dim=1, descending=True, stable=True).indices[:, :k]
        numbers, places = _of_blocks(values, best.sort(dim=1).values)
    top, at = numbers.sort(dim=1, descending=True, stable=True)
    return top[:, :k], at[:, :k] if places is None else places.gather(1, at[:, :k])


def _whole_blocks(values: Tensor) -> Tensor:
    """Returns the numbers of each row by blocks, without those left over: (B, N) -> (B, N // BLOCK, BLOCK)."""
    blocks = values.size(1) // BLOCK
    return values[:, : blocks * BLOCK].view(len(values), blocks, BLOCK)


def _of_blocks(values: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the numbers of chosen blocks (B, k) and those left over, and the places of all of them: (B, N')."""
    whole, chosen = _whole_blocks(values), chosen[:, :, None]  # (B, blocks, BLOCK), (B, k, 1)
    numbers = whole.gather(1, chosen.expand(-1, -1, BLOCK)).flatten(1)  # (B, k * BLOCK)
    places = (chosen * BLOCK + torch.arange(BLOCK, device=values.device)).flatten(1)
    start, size = whole.size(1) * BLOCK, values.size(1)
    if size > start:
        rest = torch.arange(start, size, device=values.device).expand(len(values), -1)
        numbers, places = torch.cat([numbers, values[:, start:]], dim=1), torch.cat([places, rest], dim=1)
    return numbers, places


def _margins(best: Tensor, is_end: Tensor, order: Tensor, width: int) -> Tensor:
    """Returns the least gap of each output whose loss would change what finishes or lives on: (B, k) -> (B,)."""
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
    return gaps.masked_fill(gaps.isnan(), torch.inf).amin(dim=0)  # NaN: no hypotheses both


def _compared(
    finished: list[Hypothesis], rival: float, steps: Steps, limit: int, length: int, config: DecodeConfig
) -> tuple[int, float]:
    """Returns how many finished hypotheses rank no lower than the best live one, of score `rival`, and by what least.

    Until W have finished, the live one is taken for what it becomes if it loses nothing more and ends where that ranks
    highest. From then on: for what it is, its last token counted as its end.
    """
    longest = limit + (not steps.cuts)
    if len(finished) < config.beam_size:
        length = longest if config.length_penalty > 0 else min(length + 1, longest)
    length += steps.prefix_length
    bound = rival / length**config.length_penalty
    ahead = sum(h.rank(config.length_penalty) >= bound for h in finished)
    return ahead, min(abs(_lead(h, rival, length, config.length_penalty)) for h in finished)


def _n_best(finished: list[Hypothesis], margin: float, config: DecodeConfig) -> Found:
    """Returns the n best by rank, equal ones by their ids; the margin includes how far those behind are from them."""
    penalty = config.length_penalty
    ranked = sorted(finished, key=lambda h: (-h.rank(penalty), h.ids))
    for place, hypothesis in enumerate(ranked[: config.n_best]):
        for other in ranked[place + 1 :]:
            margin = min(margin, _lead(hypothesis, other.score, other.length, penalty))
    return Found(ranked[: config.n_best], margin)


def _lead(first: Hypothesis, score: float, length: int, penalty: float) -> float:
    """Returns twice the change that, taken from the first score and added to the second, makes them rank alike."""
    gap = first.rank(penalty) - score / length**penalty
    lead: float = 2 * gap / (1 / first.length**penalty + 1 / length**penalty)
    return lead
