"""The linear layer is PyTorch's; in training its products may be taken in another type, and nothing else."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model.fast.linear import Linear


def layer(bias: bool = True) -> tuple[Linear, Tensor]:
    torch.manual_seed(1)
    linear = Linear(13, 7, bias=bias)
    return linear, torch.randn(2, 5, 13, requires_grad=True)


def with_gradients(output: Tensor, x: Tensor, linear: nn.Linear) -> list[Tensor]:
    upstream = torch.linspace(-1, 1, output.numel()).view_as(output)
    return [output.detach(), *torch.autograd.grad(output, [x, *linear.parameters()], upstream)]


@pytest.mark.parametrize("bias", [True, False])
def test_it_is_pytorchs(bias: bool) -> None:
    linear, x = layer(bias)
    theirs = nn.Linear(13, 7, bias=bias)
    theirs.load_state_dict(linear.state_dict())
    found = with_gradients(linear(x), x, linear)
    for ours, reference in zip(found, with_gradients(theirs(x), x, theirs), strict=True):
        assert torch.equal(ours, reference)


@pytest.mark.parametrize("bias", [True, False])
def test_a_product_in_bfloat16_is_that_of_rounded_factors(bias: bool) -> None:
    linear, x = layer(bias)
    linear.compute_dtype = torch.bfloat16
    found = with_gradients(linear(x), x, linear)
    assert {tensor.dtype for tensor in found} == {torch.float32}
    # The same in double precision, from the same rounded numbers: what is left is the rounding of the result.
    rounded = nn.Linear(13, 7, bias=bias).double()
    rounded.weight.data = linear.weight.detach().bfloat16().double()
    if bias:
        rounded.bias.data = linear.bias.detach().double()
    y = x.detach().bfloat16().double().requires_grad_()
    for ours, reference in zip(found, with_gradients(rounded(y), y, rounded), strict=True):
        assert float((ours - reference).norm() / reference.norm()) < 4e-3
    if bias:
        torch.testing.assert_close(found[-1].double(), torch.linspace(-1, 1, 70).view(10, 7).sum(0).double())


def test_rows_of_a_packed_matrix() -> None:
    linear, x = layer()
    rows = slice(2, 5)
    expected = F.linear(x, linear.weight[rows], linear.bias[rows])
    assert torch.equal(linear.some_rows(x, rows), expected)
    linear.compute_dtype = torch.bfloat16
    rounded = linear.some_rows(x, rows)
    assert not torch.equal(rounded, expected)
    torch.testing.assert_close(rounded, expected, rtol=2e-2, atol=2e-2)


def test_evaluation_is_exact() -> None:
    linear, x = layer()
    exact = linear(x)
    linear.compute_dtype = torch.bfloat16
    assert not torch.equal(linear(x), exact)
    assert torch.equal(linear.eval()(x), exact)
    assert linear.product_dtype is None


def test_the_type_is_no_part_of_the_weights() -> None:
    linear, _ = layer()
    linear.compute_dtype = torch.bfloat16
    assert list(linear.state_dict()) == ["weight", "bias"]
    assert linear.weight.dtype == torch.float32


def test_a_frozen_weight_gets_no_gradient() -> None:
    linear, x = layer()
    linear.compute_dtype = torch.bfloat16
    linear.weight.requires_grad_(False)
    linear(x).sum().backward()
    assert linear.weight.grad is None
    assert x.grad is not None
