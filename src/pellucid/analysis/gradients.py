"""Gradient times input, and integrated gradients (Sundararajan et al. 2017, "Axiomatic Attribution", equation 1)."""

import torch
from torch import Tensor

from pellucid.analysis.replay import MOST_NUMBERS, Replay, Writer, reading_embedding
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.tracing.apart import apart


def gradients(replay: Replay, steps: int = 0) -> Tensor:
    """Returns how much the vector of each token that was read counts for the log-probability of each row: (R, M).

    It is the gradient times the token's embedding; positions and segments stay as they are. With `steps` it is the mean
    of the gradients at so many points, in the middles of equal parts of the straight way from vectors of zeros to the
    tokens': summed over all places it is nearly what the log-probability gains on that way. It is not where a norm
    comes first and positions are not added (`norm = "pre"` with rotary or relative ones): the norm of a vector is that
    of any part of it, so that all is gained in the first, smallest step.
    """
    model = apart(replay.model)
    embedding = reading_embedding(model)
    ids = replay.tgt if isinstance(model, DecoderOnly) else replay.src
    assert ids is not None
    vectors = embedding.tokens(ids)[0].detach()  # (M, D)
    shares = [(step + 0.5) / steps for step in range(steps)] or [1.0]
    # A pass for each row and each point of the way: a row's own gradient is wanted.
    jobs = [(row, share) for row in range(len(replay.out)) for share in shares]
    widest = (len(vectors) + len(replay.out)) * model.config.d_ff + replay.width
    some = max(1, MOST_NUMBERS // widest)
    found = torch.zeros(len(replay.out), len(vectors), device=vectors.device)
    for begin in range(0, len(jobs), some):
        rows = torch.tensor([row for row, _ in jobs[begin : begin + some]], device=vectors.device)  # (B,)
        scales = torch.tensor([share for _, share in jobs[begin : begin + some]], device=vectors.device)
        scaled = (scales[:, None, None].to(vectors.dtype) * vectors).requires_grad_()  # (B, M, D)
        handle = embedding.tokens.register_forward_hook(lambda *_, scaled=scaled: scaled)
        try:
            log_probs = _chosen(replay, model, rows)
        finally:
            handle.remove()
        (gradient,) = torch.autograd.grad(log_probs.sum(), scaled)  # (B, M, D)
        found.index_add_(0, rows, (gradient * vectors).sum(dim=-1).float() / len(shares))
    return found


def _chosen(replay: Replay, model: Writer, rows: Tensor) -> Tensor:
    """Returns the log-probability of what was written, (B,): of one row of each pass."""
    if isinstance(model, SequenceClassifier):
        logits = replay.logits(copies=len(rows), model=model)[:, 0]  # (B, C)
    else:
        states = replay.states(copies=len(rows), model=model)[torch.arange(len(rows)), rows]  # (B, D)
        logits = model.output_projection(states)  # (B, V)
    return logits.float().log_softmax(dim=-1).gather(-1, replay.out[rows][:, None])[:, 0]  # (B,)
