"""Section 5.4: cross-entropy with label smoothing, from the states before the output projection; and R-Drop.

Logits for all tokens at once would be the largest tensor of a training step, written and read several times. Here they
live for a chunk of tokens at a time, in memory that is used again, and the gradients are taken while they are there.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.decoding.scoring import CHUNK_LOGITS
from pellucid.model.fast.linear import Linear, in_blocks


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """The sum over tokens of section 5.4's loss: the plain form, for one's own loop and for tests.

    Args:
        logits: (N, V). targets: (N,) ids, without padding.
        label_smoothing: probability spread evenly over all V words.
    """
    return F.cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction="sum")


def r_drop_loss(
    first: Tensor, second: Tensor, targets: Tensor, r_drop: float, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """What `projected_r_drop` is, of the logits (N, V) of two passes and targets (N,): the plain form."""
    passes = torch.cat([first, second]), targets.repeat(2)
    cross_entropy = smoothed_cross_entropy(*passes, label_smoothing) / 2
    first, second = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    divergence = ((first.exp() - second.exp()) * (first - second)).sum()
    return cross_entropy + r_drop / 4 * divergence, cross_entropy.detach()


def projected_cross_entropy(
    states: Tensor, targets: Tensor, projection: nn.Linear, label_smoothing: float = 0.0, pad_id: int | None = 0
) -> Tensor:
    """smoothed_cross_entropy of `projection(states)` over targets that are words, without holding all logits.

    Args:
        states: (B, T, D). targets: (B, T); those equal to `pad_id` do not count.

    Returns: the sum over tokens, to be divided by the tokens of the whole step.
    """
    return _projected([states], targets, projection, _Loss(label_smoothing), pad_id)[0]


def projected_r_drop(
    first: Tensor,
    second: Tensor,
    targets: Tensor,
    projection: nn.Linear,
    r_drop: float,
    label_smoothing: float = 0.0,
    pad_id: int | None = 0,
) -> tuple[Tensor, Tensor]:
    """The loss of R-Drop (Liang et al. 2021, equation 4), halved, so that it is the cross-entropy where they agree.

    With p and q what two passes with different dropout say: the mean of both cross-entropies, plus r_drop / 4 times
    KL(p | q) + KL(q | p). The paper has the sum of the cross-entropies, and twice that weight.

    Args:
        first, second: the states of both passes, each (B, T, D).
        targets: (B, T); those equal to `pad_id` do not count.
        r_drop: the paper's alpha.

    Returns: the sum over tokens, to be divided by the tokens of the whole step; and the mean of both cross-entropies
    alone, summed in the same way, which other runs can be compared by and which has no gradient.
    """
    return _projected([first, second], targets, projection, _Loss(label_smoothing, r_drop), pad_id)


@dataclass(frozen=True)
class _Loss:
    """The loss of P passes, one or two, from their logits, and its gradient in closed form."""

    smoothing: float
    r_drop: float = 0.0

    def __call__(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The sum over tokens, the cross-entropy in it, the sum's gradient: (N, P, V), (N,) -> (), (), (N, P, V).

        Cross-entropy is -(1 - e) log p_y - e mean log p, with the gradient p - (1 - e) 1_y - e / V.
        """
        passes, vocab_size = logits.shape[1:]
        targets = targets[:, None, None].expand(-1, passes, 1)
        gradient = probs = logits.softmax(dim=-1)
        # The softmax has taken each exponential already: at the largest logit, log p is that logit less log sum exp.
        log_sum = logits.amax(dim=-1, keepdim=True) - probs.amax(dim=-1, keepdim=True).log()
        cross_entropy = (log_sum - (1 - self.smoothing) * logits.gather(-1, targets)).sum()
        if self.smoothing:
            cross_entropy -= self.smoothing * logits.mean(dim=-1).sum()
        if self.r_drop:
            divergence, divergence_gradient = _divergence(logits.sub_(log_sum), probs)
        if self.smoothing:
            gradient -= self.smoothing / vocab_size
        gradient.scatter_add_(-1, targets, gradient.new_full(targets.shape, self.smoothing - 1))
        if not self.r_drop:
            return cross_entropy, cross_entropy, gradient
        gradient.mul_(0.5).add_(divergence_gradient, alpha=self.r_drop / 4)
        cross_entropy /= 2
        return cross_entropy + self.r_drop / 4 * divergence, cross_entropy, gradient


def _divergence(log_probs: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """KL(p | q) + KL(q | p), summed over tokens, and its gradient for the logits; both arguments are (N, 2, V).

    For the logits of p the gradient of the one is p (log p - log q - KL(p | q)), that of the other p - q.
    """
    difference = log_probs[:, 0] - log_probs[:, 1]
    differences = torch.stack([difference, -difference], dim=1)
    divergences = (probs * differences).sum(dim=-1, keepdim=True)
    return divergences.sum(), probs * (differences - divergences + 1) - probs.flip(1)


def _projected(
    passes: list[Tensor], targets: Tensor, projection: nn.Linear, loss: _Loss, pad_id: int | None
) -> tuple[Tensor, Tensor]:
    """Of P passes' states, each (B, T, D), at targets (B, T) that are words: the loss, and the cross-entropy in it."""
    states, targets = torch.stack([states.flatten(0, 1) for states in passes], dim=1), targets.flatten()
    if pad_id is not None:
        words = (targets != pad_id).nonzero().squeeze(1)
        if len(words) < len(targets):
            states, targets = states[words], targets[words]
    weight: Tensor = projection.weight
    bias: Tensor | None = projection.bias
    if not torch.is_grad_enabled():  # a leaf wants its gradient even then
        weight, bias = weight.detach(), None if bias is None else bias.detach()
    dtype = projection.product_dtype if isinstance(projection, Linear) else None
    total, cross_entropy = _ProjectedLoss.apply(states, targets, weight, bias, loss, dtype)  # type: ignore[no-untyped-call]
    return total, cross_entropy


class _ProjectedLoss(torch.autograd.Function):
    """A loss of the logits `states @ weight.T + bias`, a chunk of rows at a time; products are taken in `dtype`."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        targets: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        loss: _Loss,
        dtype: torch.dtype | None,
    ) -> tuple[Tensor, Tensor]:
        rows = max(1, CHUNK_LOGITS // (weight.size(0) * states.size(1)))
        total = states.new_zeros((), dtype=torch.promote_types(states.dtype, torch.float32))
        cross_entropy = torch.zeros_like(total)
        wanted = ctx.needs_input_grad
        grads = [
            torch.empty_like(states) if wanted[0] else None,
            torch.zeros_like(weight) if wanted[2] else None,
            torch.zeros_like(bias) if bias is not None and wanted[3] else None,
        ]
        factor = weight.to(dtype or weight.dtype)
        offset = None if bias is None else bias.to(factor.dtype)
        for start in range(0, len(states), rows):
            place = slice(start, start + rows)
            chunk = _factor(states[place], dtype)  # (rows * P, D)
            logits = F.linear(chunk, factor, offset).to(total.dtype)[: states[place].numel() // states.size(-1)]
            logits = logits.view(-1, states.size(1), logits.size(-1))  # (rows, P, V)
            chunk_total, chunk_cross_entropy, gradient = loss(logits, targets[place])
            total += chunk_total
            cross_entropy += chunk_cross_entropy
            if any(wanted):
                _accumulate(gradient, chunk, factor, dtype, place, grads)
        ctx.save_for_backward(*grads)
        ctx.mark_non_differentiable(cross_entropy)
        return total, cross_entropy

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, bias = (None if g is None else g * upstream[0] for g in ctx.saved_tensors)
        return states, None, weight, bias, None, None


def _factor(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    """(N, P, K) as the left factor of a product in `dtype`: (N * P, K), with zeros below on a CPU in half precision."""
    rows = tensor.flatten(0, 1)
    return rows if dtype is None else in_blocks(rows, dtype) if rows.is_cpu else rows.to(dtype)


def _accumulate(
    gradient: Tensor, chunk: Tensor, weight: Tensor, dtype: torch.dtype | None, place: slice, grads: list[Tensor | None]
) -> None:
    """Adds what the logits' gradient of a chunk, (N, P, V), gives for states, weight and bias."""
    states_grad, weight_grad, bias_grad = grads
    if bias_grad is not None:
        bias_grad += gradient.sum(dim=(0, 1))
    size, gradient = gradient.shape[:2], _factor(gradient, dtype)
    if states_grad is not None:
        states_grad[place] = (gradient @ weight)[: size.numel()].view(*size, -1)
    if weight_grad is not None:
        weight_grad += gradient.t() @ chunk
