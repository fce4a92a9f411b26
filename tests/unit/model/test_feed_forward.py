"""Equation 2 of the paper, and its gated variant."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pellucid.model.feed_forward import FeedForward

D, F = 6, 10

FORMULAS: dict[str, Callable[[float], float]] = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
}


def applied(activation: str, x: Tensor) -> Tensor:
    return torch.tensor([FORMULAS[activation](value) for value in x.flatten().tolist()]).view(x.shape)


@pytest.mark.parametrize("activation", list(FORMULAS))
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_the_formula(activation: str, gated: bool, bias: bool) -> None:
    module = FeedForward(D, F, activation, gated=gated, bias=bias)
    x = torch.randn(2, 3, D)
    weights = dict(module.named_parameters())

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ weights[f"{name}.weight"].T + (weights[f"{name}.bias"] if bias else 0)

    up = linear(x, "up_proj")
    inner = applied(activation, linear(x, "gate_proj")) * up if gated else applied(activation, up)
    torch.testing.assert_close(module(x), linear(inner, "down_proj"), rtol=1e-5, atol=1e-5)


def test_positions_do_not_see_each_other() -> None:
    module = FeedForward(D, F)
    x = torch.randn(1, 4, D)
    changed = x.clone()
    changed[0, 2] += 1
    same = (module(x) == module(changed)).all(-1)
    assert same.tolist() == [[True, True, False, True]]


def test_dropout_falls_after_the_activation() -> None:
    module = FeedForward(D, F, dropout=0.5)
    with torch.no_grad():
        module.up_proj.weight.zero_()
        module.up_proj.bias.fill_(1.0)
        module.down_proj.weight.fill_(1.0)
        module.down_proj.bias.zero_()
    sums = module(torch.zeros(1, 500, D))
    assert {round(value, 4) % 2 for value in sums.flatten().tolist()} == {0.0}  # each of F inner values is 0 or 2
    assert len(sums.unique()) > D
    assert torch.equal(module.eval()(torch.zeros(1, 1, D)), torch.full((1, 1, D), float(F)))
