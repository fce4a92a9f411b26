"""Muon (Jordan et al. 2024): orthogonalised updates for the layers' matrices, and Adam for all other parameters.

The gradient of a matrix, averaged over steps, has nearly low rank: a few directions are large, and the many small ones
hardly change under Adam. Muon replaces it by the nearest orthogonal matrix, U V^T of U S V^T. Embeddings, the output
projection, biases and norms are no maps between hidden states and are updated by Adam.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.config import TrainConfig
from pellucid.model.attention import MultiHeadAttention
from pellucid.training.adam import PaperAdam, hyperparameters
from pellucid.training.schedule import compute_peak_rate
from pellucid.weights.sharded import gather_full_tensor, get_local_rows

ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Jordan's polynomial of degree five: steep at zero, so that small singular values grow fast, and flat around one."""
SMALLEST = 1e-7
"""The least norm that a matrix is divided by."""


class Packed(NamedTuple):
    """A parameter that contains one matrix, or several stacked by rows."""

    weight: Tensor
    rows: list[int]


class Muon(PaperAdam):
    """Muon for the matrices of a model's layers, and the settings' Adam for all other parameters.

    Its rate for the matrices is proportional to the schedule's, with `muon_learning_rate` as the peak.
    """

    def __init__(self, model: nn.Module, trained: list[nn.Parameter], config: TrainConfig) -> None:
        wanted = {id(p) for p in trained}
        self._matrices = [packed for packed in hidden_matrices(model) if id(packed.weight) in wanted]
        self._dtype = torch.bfloat16 if config.precision == "bfloat16" else None
        held = {id(packed.weight) for packed in self._matrices}
        super().__init__([p for p in trained if id(p) not in held], config)
        width: int = model.config.d_model  # type: ignore[union-attr,assignment]
        highest = compute_peak_rate(config, width)
        for group in self.param_groups:
            group["initial_lr"] = highest
        if self._matrices:
            self.add_param_group(
                {
                    "params": [packed.weight for packed in self._matrices], "weight_decay": config.weight_decay,
                    "initial_lr": config.muon_learning_rate, "momentum": config.muon_momentum,
                }
            )  # fmt: skip
        self.as_made: list[dict[str, Any]] = hyperparameters(self)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Takes a step of Muon and of Adam."""
        gradients = [packed.weight.grad for packed in self._matrices]
        for packed in self._matrices:
            packed.weight.grad = None  # Adam skips parameters without a gradient
        result = super().step(closure)
        for packed, gradient in zip(self._matrices, gradients, strict=True):
            packed.weight.grad = gradient
        if self._matrices:
            self._step_of_matrices(self.param_groups[-1])
        return result

    def _step_of_matrices(self, group: dict[str, Any]) -> None:
        moved = [packed for packed in self._matrices if packed.weight.grad is not None]
        if not moved:  # no layer was used, as with layer dropout
            return
        for packed in moved:
            state = self.state[packed.weight]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(packed.weight)
        gradients = [packed.weight.grad for packed in moved if packed.weight.grad is not None]
        buffers = [self.state[packed.weight]["momentum_buffer"] for packed in moved]
        # On a GPU 1 if this step must change nothing, as in PyTorch's fused optimizers: each update is then 0.
        stopped: Tensor | None = getattr(self, "found_inf", None)
        if stopped is not None:
            is_stopped = stopped > 0
            gradients = [torch.where(is_stopped, *pair) for pair in zip(buffers, gradients, strict=True)]
        torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
        updates = torch._foreach_lerp(gradients, buffers, group["momentum"])  # Nesterov momentum
        # For a sharded weight each rank computes the directions of all rows, and updates its own.
        split = [
            torch.split(gather_full_tensor(update), packed.rows) for packed, update in zip(moved, updates, strict=True)
        ]
        orthogonal = orthogonalise([matrix for matrices in split for matrix in matrices], self._dtype)
        decay = group["lr"] * group["weight_decay"]
        if stopped is not None:
            goes_on = 1 - stopped
            decay, orthogonal = decay * goes_on, list(torch._foreach_mul(orthogonal, goes_on))
        own_of = [get_local_rows(packed.weight) for packed in moved]
        torch._foreach_mul_([held for held, _ in own_of], 1 - decay)
        directions = iter(orthogonal)
        for packed, (held, first) in zip(moved, own_of, strict=True):
            start = -first  # the start of a matrix, relative to the rank's first row
            for rows, direction in zip(packed.rows, directions, strict=False):
                place = slice(max(0, start), max(0, start + rows))
                own = held[place]
                rate = group["lr"] * max(1.0, rows / direction.size(1)) ** 0.5
                own.sub_(direction[place.start - start :][: len(own)], alpha=rate)
                start += rows


def hidden_matrices(model: nn.Module) -> list[Packed]:
    """Returns the matrices of a model's layers: of each linear layer in an encoder's or decoder's layer."""
    packed: dict[nn.Module, list[int]] = {
        m.qkv_proj: m.qkv_widths for m in model.modules() if isinstance(m, MultiHeadAttention)
    }
    return [
        Packed(module.weight, packed.get(module, [module.out_features]))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and ".layers." in f".{name}"
    ]


def orthogonalise(matrices: Sequence[Tensor], dtype: torch.dtype | None = None) -> list[Tensor]:
    """Returns, for each matrix U S V^T, about U V^T: (m, n) -> (m, n), by Newton-Schulz iterations in `dtype`.

    Its singular values are between about 0.7 and 1.2 instead of 1, which makes no difference to training (Jordan et al.
    2024). Matrices of equal shape are computed together.
    """
    of_shape: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, matrix in enumerate(matrices):
        rows, columns = matrix.shape
        of_shape[min(rows, columns), max(rows, columns)].append(place)
    found: list[Tensor] = list(matrices)
    for places in of_shape.values():
        wide = [matrices[i] if matrices[i].size(0) <= matrices[i].size(1) else matrices[i].T for i in places]
        for i, result in zip(places, _newton_schulz(torch.stack(wide), dtype), strict=True):
            found[i] = result if matrices[i].size(0) <= matrices[i].size(1) else result.T
    return found


def _newton_schulz(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    """(N, m, n), m <= n -> the same shape."""
    a, b, c = COEFFICIENTS
    given = x.dtype
    x = (x / x.flatten(1).norm(dim=1).clamp(min=SMALLEST)[:, None, None]).to(dtype or given)
    for _ in range(ITERATIONS):
        gram = x @ x.mT  # (N, m, m)
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x.to(given)
