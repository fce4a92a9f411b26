"""Section 5.4: the losses that training minimises, from the states before the output projection.

A loss is a callable `(model, batch) -> Losses`. Two are built in: cross-entropy with label smoothing, and R-Drop. A
custom loss is passed to the run as an object:

    def focal(model: pellucid.Transformer, batch: pellucid.Batch) -> pellucid.Losses:
        logits = model(batch.src, batch.tgt_in)[batch.tgt_out != batch.tgt_pad_id]          # (N, V)
        nats = F.cross_entropy(logits, batch.tgt_out[batch.tgt_out != batch.tgt_pad_id], reduction="none")
        return pellucid.Losses(((1 - (-nats).exp()) ** 2 * nats).sum(), nats.sum())

Logits for all tokens at once would be the largest tensor of a training step, written and read several times. The losses
here compute them for a chunk of tokens at a time, in reused memory, together with their gradients.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.config import TrainConfig
from pellucid.data.batching import Batch
from pellucid.decoding.scoring import choose_chunk_rows
from pellucid.errors import ConfigError
from pellucid.model.families import DecoderOnly, Model, SequenceClassifier
from pellucid.model.fast.linear import Linear, cast_and_pad_rows
from pellucid.model.fast.products import linear, matmul_nt, matmul_tn
from pellucid.model.transformer import Transformer


class Losses(NamedTuple):
    """The loss of a batch to minimise, and the loss to report.

    Both are sums over the batch's target tokens (`batch.num_tokens`; for a classifier over its texts), as tensors of no
    dimension. The step divides them by the tokens of all its batches.
    """

    minimised: Tensor
    """Has a gradient."""
    reported: Tensor
    """Is logged: if `minimised` has terms that other runs lack, the part that is comparable between runs."""


Loss = Callable[[Any, Batch], Losses]
"""Computes a batch's losses with the model in training mode. If it is an nn.Module, its parameters are trained with the
model's, and saved in the checkpoints with its buffers. Otherwise it must be a pure function of its arguments, since no
state of it is saved."""


@dataclass(frozen=True)
class CrossEntropy:
    """Computes section 5.4's loss: cross-entropy with label smoothing, both minimised and reported.

    Args:
        label_smoothing: probability spread evenly over the vocabulary, or over all classes.
    """

    label_smoothing: float = 0.0

    def __call__(self, model: Model, batch: Batch) -> Losses:
        """Returns the sum over the batch's target tokens, for a classifier over its texts."""
        if isinstance(model, SequenceClassifier):
            logits = model(batch.src).float()  # (B, C)
            loss = smoothed_cross_entropy(logits, batch.tgt_out[:, 0], self.label_smoothing)
        else:
            projection = _projection(model)
            states = _states(model, batch.src, batch.tgt_in)  # (B, T, D)
            loss = projected_cross_entropy(
                states, batch.tgt_out, projection, self.label_smoothing, batch.tgt_pad_id, words=batch.target_positions
            )
        return Losses(loss, loss)


@dataclass(frozen=True)
class RDrop:
    """Computes the loss of R-Drop (Liang et al. 2021): two passes with different dropout should agree.

    The mean of both cross-entropies is reported; that mean plus the divergence between the passes is minimised.

    Args:
        alpha: weight of the divergence between the passes, as in the paper; above 0.
        label_smoothing: probability spread evenly over the vocabulary, or over all classes.
    """

    alpha: float
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise ConfigError(f"`alpha` ({self.alpha}) must be above 0", "use CrossEntropy for a single pass")

    def __call__(self, model: Model, batch: Batch) -> Losses:
        """Returns the sums over the batch's target tokens, for a classifier over its texts."""
        # Both passes as one batch: each row has its own dropout mask.
        if isinstance(model, SequenceClassifier):
            logits = model(batch.src.repeat_interleave(2, dim=0)).float()  # (2 B, C)
            return r_drop_loss(logits[0::2], logits[1::2], batch.tgt_out[:, 0], self.alpha, self.label_smoothing)
        projection = _projection(model)
        first, second = _states(model, batch.src.repeat(2, 1), batch.tgt_in.repeat(2, 1)).chunk(2)  # (B, T, D)
        return projected_r_drop(
            first, second, batch.tgt_out, projection, self.alpha, self.label_smoothing, batch.tgt_pad_id,
            words=batch.target_positions,
        )  # fmt: skip


def make_loss(config: TrainConfig) -> CrossEntropy | RDrop:
    """Returns the loss of the settings."""
    if config.r_drop:
        return RDrop(config.r_drop, config.label_smoothing)
    return CrossEntropy(config.label_smoothing)


def check_losses(found: object, loss: object) -> Losses:
    """Returns `found`, the result of a loss. Raises ConfigError with the loss's name if training cannot use it."""
    if not isinstance(found, Losses):
        raise ConfigError(
            f"the loss `{get_callable_name(loss)}` returned {type(found).__name__}, not Losses",
            "return pellucid.Losses(minimised, reported): two sums over the batch's target tokens",
        )
    for name, value in found._asdict().items():
        if not isinstance(value, Tensor) or value.dim():
            what = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ConfigError(
                f"`{name}` of the loss `{get_callable_name(loss)}` is {what}, not a tensor of no dimension",
                "sum over the batch's target tokens; the step divides by their number",
            )
    if not found.minimised.requires_grad:
        raise ConfigError(
            f"`minimised` of the loss `{get_callable_name(loss)}` has no gradient", "compute it from the model's output"
        )
    return found


def get_callable_name(made: object) -> str:
    """Returns the name of a function, or of an object's class, for messages and for the checkpoint."""
    return str(getattr(made, "__qualname__", type(made).__qualname__))


def trained_tensors(loss: object) -> Iterator[tuple[str, Tensor]]:
    """Yields the trainable parameters and the saved buffers of a loss, if it is a module, by name."""
    if isinstance(loss, nn.Module):
        saved = loss.state_dict().keys()
        yield from ((name, p) for name, p in loss.named_parameters() if p.requires_grad)
        yield from ((name, buffer) for name, buffer in loss.named_buffers() if name in saved)


def _states(model: Model, src: Tensor, tgt_in: Tensor) -> Tensor:
    """Returns the input of the output projection, (B, T, D)."""
    assert isinstance(model, Transformer | DecoderOnly)
    return model.states(src, tgt_in) if isinstance(model, Transformer) else model.states(tgt_in)


def _projection(model: Model) -> nn.Linear:
    """Returns the output projection; a bare encoder has none."""
    assert isinstance(model, Transformer | DecoderOnly)
    return model.output_projection


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Returns the sum over tokens of section 5.4's loss: the reference form, for custom loops and for tests.

    Args:
        logits: (N, V).
        targets: (N,) ids, without padding.
        label_smoothing: probability spread evenly over all V words.
    """
    return F.cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction="sum")


def r_drop_loss(first: Tensor, second: Tensor, targets: Tensor, r_drop: float, label_smoothing: float = 0.0) -> Losses:
    """Returns `projected_r_drop` from the logits (N, V) of two passes and targets (N,): the reference form."""
    passes = torch.cat([first, second]), targets.repeat(2)
    cross_entropy = smoothed_cross_entropy(*passes, label_smoothing) / 2
    first, second = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    divergence = ((first.exp() - second.exp()) * (first - second)).sum()
    return Losses(cross_entropy + r_drop / 4 * divergence, cross_entropy.detach())


def projected_cross_entropy(
    states: Tensor,
    targets: Tensor,
    projection: nn.Linear,
    label_smoothing: float = 0.0,
    pad_id: int | None = 0,
    *,
    words: Tensor | None = None,
) -> Tensor:
    """Returns smoothed_cross_entropy of `projection(states)` over real targets, without holding all logits.

    Args:
        states: (B, T, D).
        targets: (B, T); targets equal to `pad_id` do not count.
        words: (N,) the indices of non-padding in the flattened targets; if None, they are computed, which synchronizes
            a GPU.

    Returns: the sum over tokens, to be divided by the tokens of the whole step.
    """
    return _project([states], targets, projection, _ClosedForm(label_smoothing), pad_id, words).minimised


def projected_r_drop(
    first: Tensor,
    second: Tensor,
    targets: Tensor,
    projection: nn.Linear,
    r_drop: float,
    label_smoothing: float = 0.0,
    pad_id: int | None = 0,
    *,
    words: Tensor | None = None,
) -> Losses:
    """Returns R-Drop's loss (Liang et al. 2021, equation 4), halved: equal to the cross-entropy if passes agree.

    With p and q the distributions of two passes with different dropout: the mean of both cross-entropies, plus r_drop /
    4 times KL(p | q) + KL(q | p). The paper has the sum of the cross-entropies, and twice that weight.

    Args:
        first, second: the states of both passes, each (B, T, D).
        targets: (B, T); targets equal to `pad_id` do not count.
        r_drop: the paper's alpha.
        words: as in `projected_cross_entropy`.

    Returns: the sum over tokens, to be divided by the tokens of the whole step; and the mean of both cross-entropies
    alone, summed in the same way, which is comparable with other runs and has no gradient.
    """
    return _project([first, second], targets, projection, _ClosedForm(label_smoothing, r_drop), pad_id, words)


@dataclass(frozen=True)
class _ClosedForm:
    """Computes the loss of P passes, one or two, from their logits, and its gradient, without autograd."""

    smoothing: float
    r_drop: float = 0.0

    def __call__(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the sum over tokens, the cross-entropy in it, the sum's gradient.

        Shapes: (N, P, V), (N,) -> (), (), (N, P, V). Cross-entropy is -(1 - e) log p_y - e mean log p, with the
        gradient p - (1 - e) 1_y - e / V.
        """
        passes, vocab_size = logits.shape[1:]
        targets = targets[:, None, None].expand(-1, passes, 1)
        gradient = probs = logits.softmax(dim=-1)
        # The softmax has computed each exponential already: at the largest logit, log p is that logit minus log sum
        # exp.
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
    """Returns KL(p | q) + KL(q | p), summed over tokens, and its gradient for the logits.

    Both arguments are (N, 2, V). For the logits of p the gradient of the first term is p (log p - log q - KL(p | q)),
    of the second p - q.
    """
    difference = log_probs[:, 0] - log_probs[:, 1]
    differences = torch.stack([difference, -difference], dim=1)
    divergences = (probs * differences).sum(dim=-1, keepdim=True)
    return divergences.sum(), probs * (differences - divergences + 1) - probs.flip(1)


def _project(
    passes: list[Tensor],
    targets: Tensor,
    projection: nn.Linear,
    loss: _ClosedForm,
    pad_id: int | None,
    words: Tensor | None,
) -> Losses:
    """Returns the loss of P passes' states, each (B, T, D), at targets (B, T) other than padding."""
    states, targets = torch.stack([states.flatten(0, 1) for states in passes], dim=1), targets.flatten()
    if words is None and pad_id is not None:
        words = (targets != pad_id).nonzero().squeeze(1)
    if words is not None and len(words) < len(targets):
        states, targets = states[words], targets[words]
    weight: Tensor = projection.weight
    bias: Tensor | None = projection.bias
    if not torch.is_grad_enabled():  # a leaf tensor requires its gradient even then
        weight, bias = weight.detach(), None if bias is None else bias.detach()
    dtype = projection.product_dtype if isinstance(projection, Linear) else None
    return Losses(*_ProjectedLoss.apply(states, targets, weight, bias, loss, dtype))  # type: ignore[no-untyped-call]


class _ProjectedLoss(torch.autograd.Function):
    """Computes the loss of the logits `states @ weight.T + bias` by chunks of rows, with products in `dtype`."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        targets: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        loss: _ClosedForm,
        dtype: torch.dtype | None,
    ) -> tuple[Tensor, Tensor]:
        rows = choose_chunk_rows(weight.size(0) * states.size(1), states.device)
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
            logits = linear(chunk, factor, offset).to(total.dtype)[: states[place].numel() // states.size(-1)]
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
    """Reshapes (N, P, K) to (N * P, K) for a product in `dtype`; pads with zero rows on a CPU in bfloat16."""
    rows = tensor.flatten(0, 1)
    return rows if dtype is None else cast_and_pad_rows(rows, dtype) if rows.is_cpu else rows.to(dtype)


def _accumulate(
    gradient: Tensor, chunk: Tensor, weight: Tensor, dtype: torch.dtype | None, place: slice, grads: list[Tensor | None]
) -> None:
    """Adds the gradients of states, weight and bias from a chunk's gradient of the logits, (N, P, V)."""
    states_grad, weight_grad, bias_grad = grads
    if bias_grad is not None:
        bias_grad += gradient.sum(dim=(0, 1))
    size, gradient = gradient.shape[:2], _factor(gradient, dtype)
    if states_grad is not None:
        states_grad[place] = matmul_nt(gradient, weight.t())[: size.numel()].view(*size, -1)
    if weight_grad is not None:
        weight_grad += matmul_tn(gradient, chunk)
