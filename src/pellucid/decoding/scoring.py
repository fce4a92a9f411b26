"""Forced scoring: the log-probability of a text that is given, in one pass over it."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pellucid.config import DecodeConfig
from pellucid.config.decode import BATCH_TOKENS
from pellucid.decoding.batches import batches_by_length, pad
from pellucid.decoding.engine import check_prompt
from pellucid.decoding.ids import check_ids, whole_source
from pellucid.decoding.steps import log_probs_of
from pellucid.model.families import DecoderOnly
from pellucid.model.fast.queue import large_tensor
from pellucid.model.transformer import Transformer

CHUNK_LOGITS, LEAST_ROWS = 4_000_000, 512
"""The logits that are held at a time, 16 MB in single precision; but of no fewer rows than make a product fast."""


def rows_at_once(logits: int, device: torch.device) -> int:
    """Returns how many rows of so many logits each are held at a time: on a GPU as its memory allows."""
    return max(LEAST_ROWS, CHUNK_LOGITS // logits, large_tensor(device) // (4 * logits))


def score_outputs(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    decode: DecodeConfig | None = None,
) -> list[float]:
    """Returns the log-probability of each target given its source (ids, without start and end tokens).

    `decode` says what stands before and behind sources and targets, which adds nothing to a score, and how many tokens
    are read at a time. Raises DecodingError for ids that the model does not have.
    """
    return [math.fsum(values) for values in output_log_probs(model, sources, targets, decode)]


def output_log_probs(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    decode: DecodeConfig | None = None,
) -> list[list[float]]:
    """Returns the log-probability of each token of each target and of its end token, whose sum is its score.

    Arguments are those of `score_outputs`, and so is what it raises.
    """
    decode, config = decode or DecodeConfig(), model.config
    check_ids(decode, config)
    start, device = [config.bos_id, *decode.target_prefix], next(model.parameters()).device
    whole = [whole_source(source, config, decode) for source in sources]
    shapes = [(len(s) - 1, len(t) + len(start) - 1) for s, t in zip(whole, targets, strict=True)]
    found: dict[int, list[float]] = {}
    for places in batches_by_length(shapes, decode.batch_tokens, padded=config.pad_id is not None):
        rows = (
            [whole[i] for i in places],
            [[*start, *targets[i]] for i in places],
            [[*start[1:], *targets[i], config.eos_id] for i in places],
        )
        src, tgt_in, tgt_out = (pad(side, config.pad_id or 0).to(device) for side in rows)
        ends = [len(start) + len(targets[i]) for i in places]
        values = forced_log_probs(model, src, tgt_in, tgt_out, ends, begin=len(decode.target_prefix))
        found.update(zip(places, values, strict=True))
    return [found[i] for i in range(len(sources))]


@torch.inference_mode()
def forced_log_probs(
    model: Transformer, src: Tensor, tgt_in: Tensor, tgt_out: Tensor, lengths: Sequence[int], begin: int = 0
) -> list[list[float]]:
    """Returns the log-probabilities of the tokens of the targets (B, T), given the sources (B, S).

    A target counts from place `begin` as far as its length, end token included; what stands behind is padding.
    """
    chosen: list[list[float]] = _chosen_log_probs(model, model.states(src, tgt_in), tgt_out).tolist()  # (B, T)
    return [row[begin:length] for row, length in zip(chosen, lengths, strict=True)]


@torch.inference_mode()
def token_log_probs(
    model: DecoderOnly, texts: Sequence[Sequence[int]], batch_tokens: int = BATCH_TOKENS
) -> list[list[float]]:
    """Returns the log-probability of each token of each text but the first, given those before it.

    Of a text that is longer than the model's positions, each token is given at least half as many before it. Raises
    DecodingError for an id that the model does not have.
    """
    room, device = model.config.max_positions, next(model.parameters()).device
    pieces = [(place, *piece) for place, text in enumerate(texts) for piece in _pieces(len(text), room)]
    pieces.sort(key=lambda piece: (piece[1] - piece[3], piece))  # the longest first
    values: dict[tuple[int, int], list[float]] = {}
    while pieces:
        longest = pieces[0][3] - pieces[0][1]
        count = max(1, batch_tokens // longest)
        batch, pieces = pieces[:count], pieces[count:]
        rows = [texts[place][start:end] for place, start, _, end in batch]
        for row in rows:
            check_prompt(row, model.config.tgt_vocab_size)
        ids = pad(rows, model.config.pad_id or 0).to(device)  # (B, T)
        # What stands behind a row's end means nothing.
        chosen = _chosen_log_probs(model, model.states(ids[:, :-1]), ids[:, 1:]).tolist()
        for (place, start, first, end), found in zip(batch, chosen, strict=True):
            values[place, first] = found[first - start - 1 : end - start - 1]
    return [
        [value for _, first, _ in _pieces(len(text), room) for value in values[place, first]]
        for place, text in enumerate(texts)
    ]


def _chosen_log_probs(model: Transformer | DecoderOnly, states: Tensor, targets: Tensor) -> Tensor:
    """Returns the log-probability of each target (B, T) by the states (B, T, D) before the output projection.

    All logits at once would be the largest tensor by far. Raises NotANumberError where the model gives no numbers.
    """
    size = rows_at_once(model.config.tgt_vocab_size, states.device)
    chunks = zip(torch.split(states.flatten(0, 1), size), torch.split(targets.flatten(), size), strict=True)
    chosen = [log_probs_of(model.output_projection(some)).gather(1, at[:, None]) for some, at in chunks]
    return torch.cat(chosen).view(targets.shape)  # (B, T)


def _pieces(length: int, room: int) -> Iterator[tuple[int, int, int]]:
    """Yields (start, first, end) of each pass over a text: it reads from `start`, and says of `first` to `end`."""
    end, step = min(length, room + 1), max(1, room // 2)
    if length > 1:
        yield 0, 1, end
    while end < length:
        first, end = end, min(length, end + step)
        yield end - room - 1, first, end
