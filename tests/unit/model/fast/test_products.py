"""Products by oneDNN are PyTorch's, but for rounding: in all shapes, with their gradients, and where nobody notices."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.model.fast import products
from pellucid.model.fast.linear import Linear
from pellucid.model.fast.products import linear, matmul_nt, matmul_tn, use_torch_matmul, uses_onednn

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this PyTorch comes without oneDNN"
)
EPS = torch.finfo(torch.float32).eps
SHAPES = [(64, 128, 512), (300, 512, 128), (1787, 128, 128), (70, 512, 300), (17, 512, 600), (2048, 64, 64)]
"""(rows, K, N): whole and broken steps of rows, with more numbers on either side."""


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has oneDNN take products whether it is the faster one here or not."""
    monkeypatch.setattr(products, "gain_of_onednn", lambda: products.WORTHWHILE)


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def assert_product(found: Tensor, x: Tensor, y: Tensor, bias: Tensor | None = None) -> None:
    """Sums of K products of normal numbers: each of the K roundings is at most that of the sum of their sizes."""
    exact = x.double() @ y.double().t() + (0.0 if bias is None else bias.double())
    sizes = x.double().abs() @ y.double().abs().t() + (0.0 if bias is None else bias.double().abs())
    assert found.shape == exact.shape
    assert bool(((found.double() - exact).abs() <= x.size(1) * EPS * sizes).all())


@pytest.mark.parametrize(("rows", "inner", "outer"), SHAPES)
def test_products_are_right_in_all_shapes(rows: int, inner: int, outer: int) -> None:
    x, weight, bias, upstream = random(rows, inner), random(outer, inner), random(outer), random(rows, outer)
    assert uses_onednn(x, weight)
    with torch.no_grad():
        assert_product(linear(x, weight, bias), x, weight, bias)
        assert_product(matmul_nt(upstream, weight.t()), upstream, weight.t())
        assert_product(matmul_tn(upstream, x), upstream.t(), x.t())


@pytest.mark.parametrize("rows", [1, 3, 15, 16, 17, 31])
def test_a_sum_over_few_rows_is_right(rows: int) -> None:
    """As the last chunk of a loss has them, with a large vocabulary on the other side."""
    x, upstream = random(rows, 256), random(rows, 8000)
    assert_product(matmul_tn(upstream, x), upstream.t(), x.t())
    assert_product(matmul_nt(upstream, random(8000, 256).t()), upstream, random(8000, 256).t())


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 17, 90])
def test_narrow_matrices_are_right(rows: int) -> None:
    for inner, outer in ((1, 50_000), (2, 25_000), (25_000, 2), (50_000, 1)):
        x, weight, upstream = random(rows, inner), random(outer, inner), random(rows, outer)
        with torch.no_grad():
            assert_product(linear(x, weight), x, weight)
            assert_product(matmul_nt(upstream, weight.t()), upstream, weight.t())
            assert_product(matmul_tn(upstream, x), upstream.t(), x.t())


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_in_training_has_the_gradients_of_pytorchs(bias: bool) -> None:
    layer, x = Linear(128, 512, bias=bias), random(5, 31, 128).requires_grad_()
    upstream = random(5, 31, 512)
    ours = layer(x)
    found = torch.autograd.grad(ours, [x, *layer.parameters()], upstream)
    with use_torch_matmul():
        plain = layer(x)
        expected = torch.autograd.grad(plain, [x, *layer.parameters()], upstream)
    assert type(ours.grad_fn) is not type(plain.grad_fn)
    # Of the sums that a number is made of, the longest has 512 parts of about 1.
    for one, other in zip((ours, *found), (plain, *expected), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=512 * 8 * EPS)


def test_a_gradient_that_nobody_wants_is_not_computed() -> None:
    layer, x = Linear(128, 512), random(128, 128)
    layer.weight.requires_grad_(False)
    layer(x).sum().backward()
    assert layer.weight.grad is None
    assert layer.bias is not None
    assert layer.bias.grad is not None
    y = random(128, 128).requires_grad_()
    layer.bias.requires_grad_(False)
    layer(y).sum().backward()
    torch.testing.assert_close(y.grad, layer.weight.detach().sum(0).expand(128, -1))


def test_there_is_a_second_derivative() -> None:
    layer, x = Linear(64, 1024), random(128, 64).requires_grad_()

    def penalty() -> list[Tensor]:
        (gradient,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
        return [gradient, *torch.autograd.grad(gradient.square().sum(), [x, layer.weight])]

    found = penalty()
    with use_torch_matmul():
        expected = penalty()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * float(other.detach().abs().max()))


def test_weights_that_change_are_seen() -> None:
    layer, x = Linear(128, 512, bias=False).eval(), random(64, 128)
    with torch.no_grad():
        before = layer(x)
        layer.weight.data *= 2
        torch.testing.assert_close(layer(x), 2 * before)


def test_small_products_and_other_types_are_pytorchs() -> None:
    weight = random(512, 128)
    for x, matrix in ((random(2, 2048), random(2048, 2048)), (random(30, 128), weight)):
        assert not uses_onednn(x, matrix)
    assert not uses_onednn(random(64, 128).double(), weight.double())
    assert not uses_onednn(random(64, 128).to("meta"), weight.to("meta"))
    with use_torch_matmul():
        assert not uses_onednn(random(64, 128), weight)
    assert uses_onednn(random(64, 128), weight)


@pytest.mark.slow
def test_whoever_follows_operators_sees_those_that_it_knows() -> None:
    layer, x = Linear(128, 512).eval(), random(3, 64, 128)
    with torch.no_grad():
        together = torch.func.vmap(layer)(x)  # it would warn of an operator that has no rule
        torch.testing.assert_close(together, F.linear(x, layer.weight, layer.bias))
        with pytest.deprecated_call():
            traced = torch.jit.trace(layer, x)  # type: ignore[no-untyped-call]
        assert "mkldnn" not in str(traced.graph)
        sizes = {"x": {0: torch.export.Dim("batch", max=10_000)}}
        exported = torch.export.export(layer, (x,), dynamic_shapes=sizes)
        assert "mkldnn" not in str(exported.graph)


def test_where_it_is_no_gain_all_products_are_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "gain_of_onednn", lambda: 1.1)
    x, weight = random(64, 128), random(512, 128)
    with torch.no_grad():
        assert torch.equal(linear(x, weight), F.linear(x, weight))
        assert torch.equal(matmul_nt(x, weight), x @ weight.t())
        assert torch.equal(matmul_tn(x, x), x.t() @ x)


def test_few_numbers_of_rows_occur() -> None:
    """Each compiles a product of its own; of a batch's rows there are thousands."""
    padded = {-(-rows // products._step(rows)) * products._step(rows) for rows in range(16, 4097)}
    assert len(padded) < 60
    assert all(rows % products._step(rows) <= rows // 8 for rows in range(128, 4097))
