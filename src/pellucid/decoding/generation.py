"""Texts continued by a decoder alone, and scored by it: prompts of one length go together, each step with a cache.

What comes out does not depend on the neighbours: as in the engine for translations, a text whose next token was nearly
another one is continued again, alone.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pellucid.config import BATCH_TOKENS, SamplingConfig
from pellucid.decoding.engine import NEAR_TIE, batches_by_length
from pellucid.decoding.greedy import Preferences, best_token
from pellucid.decoding.hypothesis import Found, Hypothesis, log_probs_of
from pellucid.decoding.padding import pad
from pellucid.decoding.sampling import drawing
from pellucid.errors import DecodingError
from pellucid.model.families import DecoderOnly

CHUNK_LOGITS = 4_000_000  # numbers held at a time: 16 MB in single precision
KEPT = 3, 4
"""The part of the positions that a text goes on with when all of them are taken: the rest has room for new tokens."""


def generate(
    model: DecoderOnly,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    sampling: SamplingConfig | None = None,
    *,
    suppress: Sequence[int] = (),
    batch_tokens: int = BATCH_TOKENS,
    first_place: int = 0,
) -> list[Hypothesis]:
    """The continuation of each prompt (at least one id), up to its end token or `max_new_tokens`; without the prompt.

    A score is the sum of the new tokens' log-probabilities, that of the end token included where it was reached.

    Args:
        sampling: how to draw; None: the most probable token each time.
        suppress: ids that are never written; the pad id is none of a text in any case.
        batch_tokens: tokens of all texts that are continued together.
        first_place: the number of the first prompt in the whole input, from which its random numbers follow.
    """
    never = sorted({*suppress, *([] if model.config.pad_id is None else [model.config.pad_id])})

    def found(places: list[int]) -> list[Found]:
        ids = _tensor(model, [prompts[i] for i in places])
        draw = None if sampling is None else drawing(sampling, [first_place + i for i in places])
        return continue_prompts(model, ids, max_new_tokens, draw, never)

    results: dict[int, Hypothesis] = {}
    # Those of one length together: no padding stands amid positions and masks. A shape does not count the last token.
    shapes = [(len(prompt) + max_new_tokens - 1,) for prompt in prompts]
    for places in batches_by_length(shapes, batch_tokens, padded=False):
        for place, f in zip(places, found(places), strict=True):
            alone = found([place])[0] if f.margin < NEAR_TIE and len(places) > 1 else f
            results[place] = alone.hypotheses[0]
    return [results[place] for place in range(len(prompts))]


@torch.inference_mode()
def continue_prompts(
    model: DecoderOnly,
    prompts: Tensor,
    max_new_tokens: int,
    preferences: Preferences | None = None,
    suppress: Sequence[int] = (),
) -> list[Found]:
    """One continuation of each of the prompts (B, T). Equal probabilities: the lower id.

    A text that has taken all positions of the model goes on with its last three quarters. `preferences` are what
    sampling takes in place of log-probabilities; scores are log-probabilities all the same.
    """
    room, eos_id = model.config.max_positions, model.config.eos_id
    rows = list(range(len(prompts)))  # which prompt each row of the batch continues
    new: list[list[int]] = [[] for _ in rows]
    scores, margins = [0.0] * len(rows), [float("inf")] * len(rows)
    ids = prompts[:, -room:]  # (B, T)
    cache = model.start(ids)
    for _ in range(max_new_tokens):
        if cache.length == room:
            ids = ids[:, -max(1, room * KEPT[0] // KEPT[1]) :]  # (B, T)
            cache = model.start(ids)
        log_probs = log_probs_of(model.step(ids[:, -1:], cache))[:, 0]  # (B, V)
        log_probs[:, list(suppress)] = -torch.inf
        tokens, gaps = best_token(log_probs if preferences is None else preferences(log_probs, rows))
        chosen = log_probs.gather(1, tokens)[:, 0].tolist()
        for row, token, score, gap in zip(rows, tokens[:, 0].tolist(), chosen, gaps.tolist(), strict=True):
            scores[row] += score
            margins[row] = min(margins[row], gap)
            if token != eos_id:
                new[row].append(token)
        live = (tokens[:, 0] != eos_id).nonzero()[:, 0]
        if len(live) == 0:
            break
        ids = torch.cat([ids, tokens], dim=1)[live]  # (B, T)
        if len(live) < len(rows):
            rows = [rows[i] for i in live.tolist()]
            cache.select(live)
    return [Found([Hypothesis(i, s)], m) for i, s, m in zip(new, scores, margins, strict=True)]


def token_log_probs(
    model: DecoderOnly, texts: Sequence[Sequence[int]], batch_tokens: int = BATCH_TOKENS
) -> list[list[float]]:
    """The log-probability of each token of each text but the first, given those before it.

    Of a text that is longer than the model's positions, each token is given at least half as many before it.
    """
    room = model.config.max_positions
    pieces = [(place, *piece) for place, text in enumerate(texts) for piece in _pieces(len(text), room)]
    pieces.sort(key=lambda piece: (piece[1] - piece[3], piece))  # the longest first
    values: dict[tuple[int, int], list[float]] = {}
    while pieces:
        longest = pieces[0][3] - pieces[0][1]
        count = max(1, batch_tokens // longest)
        batch, pieces = pieces[:count], pieces[count:]
        rows = _piece_log_probs(model, [texts[place][start:end] for place, start, _, end in batch])
        for (place, start, first, end), row in zip(batch, rows.tolist(), strict=True):
            values[place, first] = row[first - start - 1 : end - start - 1]
    return [
        [value for _, first, _ in _pieces(len(text), room) for value in values[place, first]]
        for place, text in enumerate(texts)
    ]


@torch.inference_mode()
def _piece_log_probs(model: DecoderOnly, rows: Sequence[Sequence[int]]) -> Tensor:
    """(B, T) log-probabilities of each row's tokens but the first; what stands behind a row's end means nothing."""
    ids = _tensor(model, rows)
    states, targets = model.states(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()
    # All logits at once would be the largest tensor by far.
    size = max(1, CHUNK_LOGITS // model.config.tgt_vocab_size)
    chosen = [
        log_probs_of(model.output_projection(some)).gather(1, at[:, None])
        for some, at in zip(torch.split(states, size), torch.split(targets, size), strict=True)
    ]
    return torch.cat(chosen).view(len(rows), -1)  # (B, T)


def _pieces(length: int, room: int) -> Iterator[tuple[int, int, int]]:
    """(start, first, end) of each pass over a text: it reads from `start`, and says of `first` to `end`."""
    end, step = min(length, room + 1), max(1, room // 2)
    if length > 1:
        yield 0, 1, end
    while end < length:
        first, end = end, min(length, end + step)
        yield end - room - 1, first, end


def _tensor(model: DecoderOnly, rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of one length, or padded. Raises DecodingError for an id that the model does not have."""
    ids, size = pad(rows, model.config.pad_id or 0), model.config.tgt_vocab_size
    if (largest := int(ids.max())) >= size:
        raise DecodingError(f"a text holds the id {largest}, the model's vocabulary has {size:,} ids")
    return ids.to(next(model.parameters()).device, torch.long)
