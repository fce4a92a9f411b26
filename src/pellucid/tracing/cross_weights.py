"""Records the cross-attention weights of one head, or the mean of all, in a small part of the time of a trace."""

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from pellucid.model.transformer import Transformer
from pellucid.tracing.attention import Array
from pellucid.tracing.recorder import AttentionCall, observe_model
from pellucid.tracing.recording import ids_tensor

Pair = tuple[Sequence[int], Sequence[int]]
MOST_PAIRS, MOST_WEIGHTS = 32, 2**18
"""The most pairs of a batch, and the most weights per head of a batch of several pairs."""


@torch.inference_mode()
def record_cross_weights(
    model: Transformer, pairs: Sequence[Pair], head: tuple[int, int] | None = None
) -> list[Array] | None:
    """Returns the weights (T, S) of each pair of the ids that the encoder and the decoder read.

    They equal those of a trace up to rounding. Returns None if the model has a custom module without recorded weights.

    Args:
        head: the layer and the head; None: the mean of all heads of all layers.

    Raises DataError for no ids, ids outside of the vocabulary, and sequences beyond `max_positions`.
    """
    seen: list[Tensor] = []

    def see(call: AttentionCall) -> None:
        if call.name != "cross" or (head is not None and call.layer != head[0]):
            return
        q, bias, mask = call.q, call.bias, call.mask
        k = call.k.repeat_interleave(q.size(1) // call.k.size(1), dim=1)  # (B, H, S, K)
        scores = q.float() @ k.float().transpose(-2, -1) * q.size(-1) ** -0.5  # (B, H, T, S)
        if bias is not None:
            scores = scores + bias
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)  # (B, H, T, S)
        seen.append(weights.mean(dim=1) if head is None else weights[:, head[1]])

    found: dict[int, Array] = {}
    with observe_model(model, see) as copied:
        for places in _batches(pairs):
            seen.clear()
            src = _stack(copied, [pairs[place][0] for place in places], "src")  # (B, S)
            tgt = _stack(copied, [pairs[place][1] for place in places], "tgt")  # (B, T)
            copied.states(src, tgt)
            if not seen:
                return None
            weights = torch.stack(seen).mean(dim=0).cpu().numpy()
            for place, each in zip(places, weights, strict=True):
                found[place] = each[: len(pairs[place][1]), : len(pairs[place][0])]
    return [found[place] for place in range(len(pairs))]


def _batches(pairs: Sequence[Pair]) -> Iterator[list[int]]:
    """Yields the indices of pairs in batches of similar lengths."""
    batch, longest = list[int](), (0, 0)
    for place in sorted(range(len(pairs)), key=lambda place: (len(pairs[place][0]), len(pairs[place][1]))):
        source, target = pairs[place]
        widest = (max(longest[0], len(source)), max(longest[1], len(target)))
        if batch and (len(batch) == MOST_PAIRS or (len(batch) + 1) * widest[0] * widest[1] > MOST_WEIGHTS):
            yield batch
            batch, widest = [], (len(source), len(target))
        batch.append(place)
        longest = widest
    if batch:
        yield batch


def _stack(model: Transformer, sequences: Sequence[Sequence[int]], side: Literal["src", "tgt"]) -> Tensor:
    """Returns sequences of ids as one batch, padded at their ends."""
    longest = max(map(len, sequences))
    rows = [ids_tensor(model, ids, side) for ids in sequences]
    return torch.cat([nn.functional.pad(row, (0, longest - row.size(1)), value=model.config.pad_id) for row in rows])
