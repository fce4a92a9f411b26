"""Beam search (section 6.1), batched over sentences, with the hypotheses of a sentence side by side.

A step takes the 2W best continuations of each sentence. Those among the first W that end are finished; the first W that
do not end live on. A sentence is done when no live one can still enter the n best: log-probability only falls, so what
it can reach at most is known. Once W have finished, it is enough that none would enter as it stands.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.hypothesis import Found, Hypothesis, Watcher, Weighed, length_limits, next_log_probs
from pellucid.model.cache import DecoderCache
from pellucid.model.transformer import Transformer


@dataclass
class BeamState:
    """The sentences still searched."""

    rows: list[int]  # which source each is
    limits: list[int]  # its most tokens
    margins: list[float]  # the smallest gap that decided anything so far
    finished: list[list[Hypothesis]]
    ids: Tensor  # (B, W, T) tokens so far, the start token and the prefix first
    prefix_length: int
    scores: Tensor  # (B, W) sums of log-probabilities; minus infinity: no hypothesis

    @property
    def length(self) -> int:
        """Tokens so far, without the start token and the prefix."""
        return self.ids.size(2) - 1 - self.prefix_length


@dataclass
class Continuations:
    """The best continuations of each sentence, best first, k of them: all (B, k)."""

    scores: Tensor
    parents: Tensor  # which hypothesis each continues
    tokens: Tensor
    ends: Tensor  # bool: the token is the end token

    def finishing(self, width: int) -> Tensor:
        """Those among the first W that end: (B, k), bool."""
        finishing = self.ends & self.scores.isfinite()
        finishing[:, width:] = False
        return finishing

    def going_on(self, width: int) -> Tensor:
        """The places of the first W that do not end, (B, W)."""
        return self.ends.int().argsort(dim=1, stable=True)[:, :width]


@torch.inference_mode()
def beam_search(model: Transformer, src: Tensor, config: DecodeConfig, watch: Watcher | None = None) -> list[Found]:
    """The `n_best` hypotheses of each of the sources (B, S), by the definitions of DecodeConfig.

    `watch` is told of each step of a single source: its 2W best continuations.
    """
    state = _start(src, config, model.config)
    cache = model.start(src, config.beam_size)
    for place in range(state.prefix_length):
        model.step(state.ids[:, :, place], cache)
    found: dict[int, Found] = {}
    while state.rows:
        at_limit = [state.length >= limit for limit in state.limits]
        logits = model.step(state.ids[:, :, -1], cache)  # (B, W, V)
        log_probs = next_log_probs(logits, at_limit, model.config, config.suppress)  # (B, W, V)
        best = _continuations(state, log_probs, config.beam_size, model.config.eos_id)
        if watch is not None:
            watch(_weighed(best, log_probs, config.beam_size))
        _finish(state, best, config.beam_size)
        _advance(state, best, config.beam_size, cache)
        found |= _release(state, config, cache)
    return [found[row] for row in range(src.size(0))]


def _start(src: Tensor, config: DecodeConfig, model_config: ModelConfig) -> BeamState:
    batch, width = src.size(0), config.beam_size
    scores = torch.full((batch, width), -torch.inf, device=src.device)
    scores[:, 0] = 0.0  # the others would be the same hypothesis again
    return BeamState(
        rows=list(range(batch)),
        limits=length_limits(src, config, model_config),
        margins=[math.inf] * batch,
        finished=[[] for _ in range(batch)],
        ids=src.new_tensor([model_config.bos_id, *config.target_prefix]).expand(batch, width, -1),
        prefix_length=len(config.target_prefix),
        scores=scores,
    )


def _continuations(state: BeamState, log_probs: Tensor, width: int, eos_id: int) -> Continuations:
    """The 2W + 1 best; the last one only tells how near the choice was."""
    vocab_size = log_probs.size(-1)
    totals = (state.scores[:, :, None] + log_probs).flatten(1)  # (B, W * V)
    scores, places = top_by_place(totals, min(2 * width + 1, totals.size(1)))
    tokens = places % vocab_size
    return Continuations(scores, places // vocab_size, tokens, tokens == eos_id)


def _weighed(found: Continuations, log_probs: Tensor, width: int) -> list[Weighed]:
    """What a step weighed for the one sentence of a batch; (1, W, V) are the log-probabilities of the tokens."""
    finishing, going_on = found.finishing(width)[0].tolist(), set(found.going_on(width)[0].tolist())
    columns = (found.parents[0].tolist(), found.tokens[0].tolist(), found.scores[0].tolist())
    return [
        Weighed(
            parent, token, log_probs[0, parent, token].item(), score,
            "finished" if finishing[rank] else "live" if rank in going_on else "pruned",
        )
        for rank, (parent, token, score) in enumerate(zip(*columns, strict=True))
        if rank < 2 * width and score > -math.inf
    ]  # fmt: skip


def top_by_place(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row, (B, N) -> (B, k) and their places; of equal ones the first, whatever the device."""
    top, places = values.topk(min(k + 1, values.size(1)))
    places = places[:, :k]
    tied = (top[:, k:] == top[:, k - 1 : k]).any(dim=1)  # topk chose among equal ones
    if tied.any():
        places[tied] = values[tied].sort(dim=1, descending=True, stable=True).indices[:, :k]
    places = places.sort(dim=1).values
    top, order = values.gather(1, places).sort(dim=1, descending=True, stable=True)
    return top, places.gather(1, order)


def _finish(state: BeamState, found: Continuations, width: int) -> None:
    """Collects the continuations among the first W that end."""
    places, ranks = found.finishing(width).nonzero(as_tuple=True)
    ids = state.ids[places, found.parents[places, ranks], 1 + state.prefix_length :].tolist()
    for place, words, score in zip(places.tolist(), ids, found.scores[places, ranks].tolist(), strict=True):
        state.finished[place].append(Hypothesis(words, score, state.prefix_length))


def _advance(state: BeamState, found: Continuations, width: int, cache: DecoderCache) -> None:
    """Goes on with the first W continuations that do not end."""
    order = found.going_on(width)  # (B, W)
    parents, tokens = found.parents.gather(1, order), found.tokens.gather(1, order)
    state.scores = found.scores.masked_fill(found.ends, -torch.inf).gather(1, order)
    state.margins = list(map(min, state.margins, _margins(found, width)))
    ids = state.ids.gather(1, parents[:, :, None].expand(-1, -1, state.ids.size(2)))
    state.ids = torch.cat([ids, tokens[:, :, None]], dim=2)
    cache.reorder(parents)


def _margins(found: Continuations, width: int) -> list[float]:
    """How near each sentence's choices were: the least gap whose loss would change what finishes or lives on."""
    scores, ends = found.scores, found.ends
    living = scores.masked_fill(ends, -torch.inf).sort(dim=1, descending=True).values
    last_finished = scores[:, :width].masked_fill(~ends[:, :width], torch.inf).amin(dim=1)
    first_refused = scores[:, width:].masked_fill(~ends[:, width:], -torch.inf).amax(dim=1)
    gaps = torch.stack(
        [
            living[:, width - 1] - living[:, width],
            last_finished - scores[:, width],
            scores[:, width - 1] - first_refused,
        ]
    )
    margins: list[float] = gaps.masked_fill(gaps.isnan(), torch.inf).amin(dim=0).tolist()  # NaN: no hypotheses both
    return margins


def _release(state: BeamState, config: DecodeConfig, cache: DecoderCache) -> dict[int, Found]:
    """Takes the sentences that are done out of the batch; returns what was found, by source."""
    best, found, keep = state.scores.amax(dim=1).tolist(), {}, []
    for place, (row, finished) in enumerate(zip(state.rows, state.finished, strict=True)):
        rival = _rival(best[place], state.length, state.limits[place], len(finished), config)
        nearest = min((abs(_lead(h, rival, config.length_penalty)) for h in finished), default=math.inf)
        state.margins[place] = min(state.margins[place], nearest)
        if _is_done(finished, rival, config):
            found[row] = _n_best(finished, state.margins[place], config)
        else:
            keep.append(place)
    if found:
        index = torch.tensor(keep, dtype=torch.long, device=state.ids.device)
        state.rows = [state.rows[place] for place in keep]
        state.limits = [state.limits[place] for place in keep]
        state.margins = [state.margins[place] for place in keep]
        state.finished = [state.finished[place] for place in keep]
        state.ids, state.scores = state.ids[index], state.scores[index]
        cache.select(index)
    return found


def _rival(score: float, length: int, limit: int, finished: int, config: DecodeConfig) -> Hypothesis:
    """What the best live hypothesis, of `length` tokens, is taken for when it is compared with those that finished.

    Until W have: what it becomes if it loses nothing more and ends where that ranks highest. From then on: what it is,
    its last token counted as its end.
    """
    if finished >= config.beam_size:
        words = length - 1
    else:
        words = limit if config.length_penalty > 0 else length
    return Hypothesis([0] * words, score, len(config.target_prefix))


def _is_done(finished: list[Hypothesis], rival: Hypothesis, config: DecodeConfig) -> bool:
    """Whether the n best are found."""
    bound = rival.rank(config.length_penalty)
    return rival.score == -math.inf or sum(h.rank(config.length_penalty) >= bound for h in finished) >= config.n_best


def _n_best(finished: list[Hypothesis], margin: float, config: DecodeConfig) -> Found:
    """The n best by rank, equal ones by their ids; the margin includes how far those behind are from them."""
    ranked = sorted(finished, key=lambda h: (-h.rank(config.length_penalty), h.ids))
    for place, hypothesis in enumerate(ranked[: config.n_best]):
        for other in ranked[place + 1 :]:
            margin = min(margin, _lead(hypothesis, other, config.length_penalty))
    return Found(ranked[: config.n_best], margin)


def _lead(first: Hypothesis, second: Hypothesis, length_penalty: float) -> float:
    """Twice the change that, taken from the first score and added to the second, makes them rank alike."""
    gap = first.rank(length_penalty) - second.rank(length_penalty)
    return 2 * gap / (1 / first.divisor(length_penalty) + 1 / second.divisor(length_penalty))
