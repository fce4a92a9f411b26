"""Gradient times input, and integrated gradients (Sundararajan et al. 2017, "Axiomatic Attribution", equation 1)."""

import torch
from torch import Tensor

from pellucid.analysis.replay import MOST_NUMBERS, Replay, Writer, get_input_embedding
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.tracing.module_copy import copy_module_tree


def gradients(replay: Replay, steps: int = 0) -> Tensor:
    """Returns the contribution of each input token's vector to the log-probability of each row: (R, M).

    It is the gradient times the token's embedding; positions and segments are unchanged. With `steps` it is the mean of
    the gradients at `steps` points, the midpoints of equal intervals on the straight line from zero vectors to the
    token
    vectors: summed over all positions it approximates the gain in log-probability along the line. This fails for
    pre-norm models whose positions are not added (`norm = "pre"` with rotary or relative ones): the norm of a vector
    equals the norm of any scaled copy, so that the whole gain falls into the first, smallest step.
    """
    model = copy_module_tree(replay.model)
    embedding = get_input_embedding(model)
    ids = replay.tgt if isinstance(model, DecoderOnly) else replay.src
    assert ids is not None
    vectors = embedding.tokens(ids)[0].detach()  # (M, D)
    shares = [(step + 0.5) / steps for step in range(steps)] or [1.0]
    # One pass per row and point of the line, to get a separate gradient for each row.
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
            log_probs = _compute_written_log_prob(replay, model, rows)
        finally:
            handle.remove()
        (gradient,) = torch.autograd.grad(log_probs.sum(), scaled)  # (B, M, D)
        found.index_add_(0, rows, (gradient * vectors).sum(dim=-1).float() / len(shares))
    return found


def _compute_written_log_prob(replay: Replay, model: Writer, rows: Tensor) -> Tensor:
    """Returns the log-probability of the output, (B,), of one row per pass."""
    if isinstance(model, SequenceClassifier):
        logits = replay.logits(copies=len(rows), model=model)[:, 0]  # (B, C)
    else:
        states = replay.states(copies=len(rows), model=model)[torch.arange(len(rows)), rows]  # (B, D)
        logits = model.output_projection(states)  # (B, V)
    return logits.float().log_softmax(dim=-1).gather(-1, replay.out[rows][:, None])[:, 0]  # (B,)
