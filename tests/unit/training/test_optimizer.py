"""Adam as the paper sets it; weight decay for matrices alone."""

import torch
from torch import nn

from pellucid.config import TrainConfig
from pellucid.training.optimizer import make_optimizer


def test_the_papers_adam() -> None:
    optimizer = make_optimizer(nn.Linear(3, 2), TrainConfig())
    for group in optimizer.param_groups:
        assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.9, 0.98), 1e-9, 0.0)


def test_weight_decay_is_for_matrices() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    groups = make_optimizer(model, TrainConfig(weight_decay=0.1)).param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert {name: decay[id(p)] for name, p in model.named_parameters()} == {
        "0.weight": 0.1,
        "0.bias": 0.0,
        "1.weight": 0.0,
        "1.bias": 0.0,
    }


def test_frozen_parameters_stay() -> None:
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    optimizer = make_optimizer(model, TrainConfig())
    assert [p is model.weight for group in optimizer.param_groups for p in group["params"]] == [True]


def test_a_step_is_adams() -> None:
    """The first step moves each parameter by the rate against its gradient's sign, whatever the gradient's size."""
    model = nn.Linear(3, 2, bias=False)
    before = model.weight.detach().clone()
    optimizer = make_optimizer(model, TrainConfig())
    optimizer.param_groups[0]["lr"] = 0.5
    model.weight.grad = torch.tensor([[1e-3, -7.0, 1.0], [2.0, -1e-4, 5.0]])
    optimizer.step()
    torch.testing.assert_close(model.weight.detach(), before - 0.5 * model.weight.grad.sign(), rtol=1e-4, atol=1e-4)
