"""Claim: the loss costs little more than its three matrix products.

    python benchmarks/loss.py > loss.json

Value and gradients of the cross-entropy with label smoothing from the states before the output projection. The sides
take turns:

    products      the projection and both products of its gradient alone: what no formulation can do without
    pellucid      `projected_cross_entropy`
    log_softmax   the same in chunks, by log_softmax and a second exponential for the gradient
    plain         PyTorch's cross-entropy over all logits, by autograd
"""

import argparse
import sys
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from report import circumstances, format_times, positive, print_json, summarize_times, take_turns
from torch import Tensor, nn

from pellucid.decoding.scoring import choose_chunk_rows
from pellucid.process import keep_freed_memory
from pellucid.training.loss import projected_cross_entropy

SMOOTHING = 0.1
WARM_UP = 3


class Problem:
    """States, targets and a projection of one width, and each side's way to value and gradients."""

    def __init__(self, d_model: int, tokens: int, vocabulary: int) -> None:
        torch.manual_seed(1)
        self.projection = nn.Linear(d_model, vocabulary, bias=False)
        nn.init.normal_(self.projection.weight, std=d_model**-0.5)
        self.states = torch.randn(1, tokens, d_model, requires_grad=True)
        self.targets = torch.randint(1, vocabulary, (1, tokens))
        self.sides: dict[str, Callable[[], tuple[Tensor, ...]]] = {
            "products": self.products, "pellucid": self.pellucid, "log_softmax": self.log_softmax, "plain": self.plain,
        }  # fmt: skip

    def pellucid(self) -> tuple[Tensor, ...]:
        """The loss of the package."""
        return self._with_gradients(projected_cross_entropy(self.states, self.targets, self.projection, SMOOTHING))

    def plain(self) -> tuple[Tensor, ...]:
        """All logits at once."""
        logits = self.projection(self.states).flatten(0, 1)
        found = F.cross_entropy(logits, self.targets.flatten(), label_smoothing=SMOOTHING, reduction="sum")
        return self._with_gradients(found)

    @torch.no_grad()
    def products(self) -> tuple[Tensor, ...]:
        """The three products by chunk."""
        return self._chunked(lambda logits, targets: (logits.new_zeros(()), logits))

    @torch.no_grad()
    def log_softmax(self) -> tuple[Tensor, ...]:
        """By log-probabilities, of which the gradient takes the exponential again."""

        def of_chunk(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
            log_probs = logits.log_softmax(dim=-1)
            total = -(1 - SMOOTHING) * log_probs.gather(1, targets).sum() - SMOOTHING * log_probs.mean(dim=-1).sum()
            gradient = log_probs.exp_().sub_(SMOOTHING / logits.size(1))
            return total, gradient.scatter_add_(1, targets, gradient.new_full(targets.shape, SMOOTHING - 1))

        return self._chunked(of_chunk)

    def _chunked(self, of_chunk: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, ...]:
        states, weight = self.states[0], self.projection.weight
        rows = choose_chunk_rows(len(weight), weight.device)
        total, states_grad, weight_grad = torch.zeros(()), torch.empty_like(states), torch.zeros_like(weight)
        for start in range(0, len(states), rows):
            chunk = states[start : start + rows]
            found, gradient = of_chunk(F.linear(chunk, weight), self.targets[0, start : start + rows, None])
            total += found
            torch.mm(gradient, weight, out=states_grad[start : start + rows])
            weight_grad.addmm_(gradient.t(), chunk)
        return total, states_grad[None], weight_grad

    def _with_gradients(self, total: Tensor) -> tuple[Tensor, ...]:
        return total.detach(), *torch.autograd.grad(total, [self.states, self.projection.weight])


def measure(d_model: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Milliseconds of each side, which must agree first."""
    problem = Problem(d_model, options.tokens, options.vocabulary)
    expected = problem.plain()
    for name in ("pellucid", "log_softmax"):
        torch.testing.assert_close(problem.sides[name](), expected, rtol=1e-4, atol=1e-4)
    times = take_turns(problem.sides, options.rounds, WARM_UP)
    found = {name: summarize_times([1000 * value for value in values]) for name, values in times.items()}
    for name, values in found.items():
        print(f"d_model {d_model}, {name}: {format_times(values)} ms", file=sys.stderr)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measures all widths and prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=positive, default=20)
    parser.add_argument("--widths", type=positive, nargs="+", default=(128, 256, 512))
    parser.add_argument("--tokens", type=positive, default=1500)
    parser.add_argument("--vocabulary", type=positive, default=8000)
    options = parser.parse_args(argv)
    keep_freed_memory()
    times = {d_model: measure(d_model, options) for d_model in options.widths}
    sizes = {"tokens": options.tokens, "vocabulary": options.vocabulary}
    print_json(circumstances(__file__, argv) | sizes | {"milliseconds": times})
    return 0


if __name__ == "__main__":
    sys.exit(main())
