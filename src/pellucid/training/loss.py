"""Section 5.4: cross-entropy with label smoothing, from the states before the output projection.

Logits for all tokens at once would be the largest tensor of a training step, written and read several times. Here they
live for a chunk of tokens at a time, in memory that is used again, and the gradients are taken while they are there.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHUNK_LOGITS = 4_000_000  # numbers held at a time: 16 MB in single precision


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """The sum over tokens of section 5.4's loss: the plain form, for one's own loop and for tests.

    Args:
        logits: (N, V). targets: (N,) ids, without padding.
        label_smoothing: probability spread evenly over all V words.
    """
    return F.cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction="sum")


def projected_cross_entropy(
    states: Tensor, targets: Tensor, projection: nn.Linear, label_smoothing: float = 0.0, pad_id: int | None = 0
) -> Tensor:
    """smoothed_cross_entropy of `projection(states)` over targets that are words, without holding all logits.

    Args:
        states: (B, T, D). targets: (B, T); those equal to `pad_id` do not count.

    Returns: the sum over tokens, to be divided by the tokens of the whole step.
    """
    states, targets = states.flatten(0, 1), targets.flatten()
    if pad_id is not None:
        words = (targets != pad_id).nonzero().squeeze(1)
        if len(words) < len(targets):
            states, targets = states[words], targets[words]
    weight: Tensor = projection.weight
    bias: Tensor | None = projection.bias
    if not torch.is_grad_enabled():  # a leaf wants its gradient even then
        weight, bias = weight.detach(), None if bias is None else bias.detach()
    loss: Tensor = _ProjectedCrossEntropy.apply(states, targets, weight, bias, label_smoothing)  # type: ignore[no-untyped-call]
    return loss


class _ProjectedCrossEntropy(torch.autograd.Function):
    """The loss -(1 - e) log p_y - e mean log p, and its gradient for the logits: p - (1 - e) 1_y - e / V."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, targets: Tensor, weight: Tensor, bias: Tensor | None, smoothing: float
    ) -> Tensor:
        vocab_size = weight.size(0)
        rows = max(1, CHUNK_LOGITS // vocab_size)
        total = states.new_zeros((), dtype=torch.float32)
        wanted = ctx.needs_input_grad
        grads = [
            torch.empty_like(states) if wanted[0] else None,
            torch.zeros_like(weight) if wanted[2] else None,
            torch.zeros_like(bias) if bias is not None and wanted[3] else None,
        ]
        for start in range(0, len(states), rows):
            chunk, target = states[start : start + rows], targets[start : start + rows, None]
            log_probs = F.linear(chunk, weight, bias).float().log_softmax(dim=-1)  # (rows, V)
            total -= (1 - smoothing) * log_probs.gather(1, target).sum()
            if smoothing:
                total -= smoothing * log_probs.mean(dim=-1).sum()
            if any(wanted):
                gradient = log_probs.exp_()
                if smoothing:
                    gradient -= smoothing / vocab_size
                gradient.scatter_add_(1, target, gradient.new_full(target.shape, smoothing - 1))
                _accumulate(gradient.to(chunk.dtype), chunk, weight, slice(start, start + rows), grads)
        ctx.save_for_backward(*grads)
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, bias = (None if g is None else g * upstream[0] for g in ctx.saved_tensors)
        return states, None, weight, bias, None


def _accumulate(gradient: Tensor, chunk: Tensor, weight: Tensor, rows: slice, grads: list[Tensor | None]) -> None:
    """Adds what the logits' gradient of a chunk, (N, V), gives for states, weight and bias."""
    states_grad, weight_grad, bias_grad = grads
    if states_grad is not None:
        torch.mm(gradient, weight, out=states_grad[rows])
    if weight_grad is not None:
        weight_grad.addmm_(gradient.t(), chunk)
    if bias_grad is not None:
        bias_grad += gradient.sum(dim=0)
