"""Forced decoding: the log-probability of a given text, in one pass over it."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pellucid.config import DecodeConfig
from pellucid.config.decode import BATCH_TOKENS
from pellucid.decoding.batched_search import check_prompt
from pellucid.decoding.batches import batches_by_length, pad
from pellucid.decoding.ids import add_special_ids, check_decoding_ids
from pellucid.decoding.steps import compute_log_probs
from pellucid.model.families import DecoderOnly
from pellucid.model.fast.gpu import choose_chunk_bytes
from pellucid.model.transformer import Transformer

CHUNK_LOGITS, LEAST_ROWS = 4_000_000, 512
"""The logits held at a time, 16 MB in single precision; and the fewest rows for a fast matrix product."""


def choose_chunk_rows(logits: int, device: torch.device) -> int:
    """Returns the number of rows of `logits` logits each that are held at a time; on a GPU its memory limits it."""
    return max(LEAST_ROWS, CHUNK_LOGITS // logits, choose_chunk_bytes(device) // (4 * logits))


def score_outputs(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    decode: DecodeConfig | None = None,
) -> list[float]:
    """Returns the log-probability of each target given its source (ids, without start and end tokens).

    `decode` has the special tokens of sources and targets, which add nothing to a score, and the tokens per batch.
    Raises DecodingError for unknown ids.
    """
    return [math.fsum(values) for values in output_log_probs(model, sources, targets, decode)]


def output_log_probs(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    decode: DecodeConfig | None = None,
) -> list[list[float]]:
    """Returns the log-probability of each token of each target and of its end token, whose sum is its score.

    Takes the arguments of `score_outputs`, and raises the same errors.
    """
    decode, config = decode or DecodeConfig(), model.config
    check_decoding_ids(decode, config)
    start, device = [config.bos_id, *decode.target_prefix], next(model.parameters()).device
    whole = [add_special_ids(source, config, decode) for source in sources]
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
        values = compute_forced_log_probs(model, src, tgt_in, tgt_out, ends, begin=len(decode.target_prefix))
        found.update(zip(places, values, strict=True))
    return [found[i] for i in range(len(sources))]


@torch.inference_mode()
def compute_forced_log_probs(
    model: Transformer, src: Tensor, tgt_in: Tensor, tgt_out: Tensor, lengths: Sequence[int], begin: int = 0
) -> list[list[float]]:
    """Returns the log-probabilities of the tokens of the targets (B, T), given the sources (B, S).

    A target counts from position `begin` up to its length, end token included; the rest is padding.
    """
    chosen: list[list[float]] = _gather_log_probs(model, model.states(src, tgt_in), tgt_out).tolist()  # (B, T)
    return [row[begin:length] for row, length in zip(chosen, lengths, strict=True)]


@torch.inference_mode()
def token_log_probs(
    model: DecoderOnly, texts: Sequence[Sequence[int]], batch_tokens: int = BATCH_TOKENS
) -> list[list[float]]:
    """Returns the log-probability of each token of each text but the first, given the tokens before it.

    In a text longer than the model's positions, the context of each token is at least half of them. Raises
    DecodingError for an unknown id.
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
        # Values after a row's end are ignored.
        chosen = _gather_log_probs(model, model.states(ids[:, :-1]), ids[:, 1:]).tolist()
        for (place, start, first, end), found in zip(batch, chosen, strict=True):
            values[place, first] = found[first - start - 1 : end - start - 1]
    return [
        [value for _, first, _ in _pieces(len(text), room) for value in values[place, first]]
        for place, text in enumerate(texts)
    ]


def _gather_log_probs(model: Transformer | DecoderOnly, states: Tensor, targets: Tensor) -> Tensor:
    """Returns the log-probability of each target (B, T) by the states (B, T, D) before the output projection.

    Computes the logits in chunks, since all at once would be the largest tensor by far. Raises NonFiniteLogitsError if
    the model returns NaN.
    """
    size = choose_chunk_rows(model.config.tgt_vocab_size, states.device)
    chunks = zip(torch.split(states.flatten(0, 1), size), torch.split(targets.flatten(), size), strict=True)
    chosen = [compute_log_probs(model.output_projection(some)).gather(1, at[:, None]) for some, at in chunks]
    return torch.cat(chosen).view(targets.shape)  # (B, T)


def _pieces(length: int, room: int) -> Iterator[tuple[int, int, int]]:
    """Yields (start, first, end) of each pass over a text: it reads from `start` and scores `first` to `end`."""
    end, step = min(length, room + 1), max(1, room // 2)
    if length > 1:
        yield 0, 1, end
    while end < length:
        first, end = end, min(length, end + step)
        yield end - room - 1, first, end
