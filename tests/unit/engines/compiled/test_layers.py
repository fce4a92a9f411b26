"""The compiled parts against PyTorch in double precision, within the errors of their sums."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.engines.compiled import layout, weights
from pellucid.model.attention import attention
from pellucid.model.attention_positions import apply_rotary, compute_rotary
from pellucid.model.feed_forward import ACTIVATIONS
from tests.rounding import EXPONENTIAL, gamma, of_attention, unit

pytestmark = pytest.mark.foreign


@pytest.fixture(scope="module")
def layers() -> Any:
    from pellucid.engines.compiled import layers

    return layers


@pytest.fixture(scope="module")
def packing() -> Any:
    from pellucid.engines.compiled.vectors import LANES, TILE

    return lambda: weights._WeightPacking(LANES, TILE)


def rows_of(x: Tensor) -> Any:
    """Rows (R, N) as a buffer of padded rows, filled up with numbers that nothing may read."""
    wide = -(-x.size(1) // layout.COLUMNS) * layout.COLUMNS
    buffer = np.full((len(x), wide), np.nan, np.float32)
    buffer[:, : x.size(1)] = x.numpy()
    return buffer


@pytest.mark.parametrize("mode", [layout.SET, layout.ADD, layout.RELU])
@pytest.mark.parametrize(("rows", "size", "columns"), [(1, 1, 1), (2, 7, 65), (5, 64, 64), (13, 130, 100), (6, 33, 3)])
def test_products(layers: Any, packing: Any, rows: int, size: int, columns: int, mode: np.int64) -> None:
    x, weight, bias, before = (
        torch.randn(*shape) for shape in ((rows, size), (columns, size), (columns,), (rows, columns))
    )
    pack = packing()
    at, of_bias = pack.add_linear(weight, bias)
    given, out = rows_of(x), rows_of(before)
    zero, packed = layout.ZERO, pack.concatenate()
    layers.product(
        given.reshape(-1), zero, given.shape[1], rows, packed, at, of_bias, size, columns, out.reshape(-1), zero,
        out.shape[1], mode,
    )  # fmt: skip
    expected = F.linear(x.double(), weight.double(), bias.double())
    if mode == layout.ADD:
        expected += before
    bound = gamma(size + 2) * (x.abs() @ weight.abs().T + bias.abs() + before.abs())
    expected = expected.relu() if mode == layout.RELU else expected
    assert bool(((torch.from_numpy(out[:, :columns]) - expected).abs() <= bound).all())


@pytest.mark.parametrize("size", [1, 5, 64, 130])
@pytest.mark.parametrize("norm_type", [nn.LayerNorm, nn.RMSNorm])
def test_norms(layers: Any, packing: Any, size: int, norm_type: Any) -> None:
    norm = norm_type(size, 1e-5)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.randn_like(parameter))
        x = torch.randn(3, size)
        pack = packing()
        at = pack.add_norm(norm)
        given = rows_of(x)
        layers.norm_rows(given.reshape(-1), 3, size, pack.concatenate(), at, given.reshape(-1))
        expected = norm.double()(x.double())
    # The mean errs by gamma(n) of the largest number; the deviation divides it, and is at least sqrt(eps).
    deviation = float((x.double().var(dim=1, correction=0) + 1e-5).sqrt().min())
    bound = 4 * gamma(size + 4) * float(x.abs().max()) / deviation * (1 + float(expected.abs().max()))
    np.testing.assert_allclose(given[:, :size], expected.numpy(), rtol=0, atol=bound)


@pytest.mark.parametrize("name", layout.ACTIVATIONS)
def test_activations(layers: Any, name: str) -> None:
    x = torch.cat([torch.linspace(-12, 12, 999), torch.tensor([-100.0, 100.0, 0.0, 1e-8])])
    row = x.numpy().copy()
    layers.activate(row, layout.ACTIVATIONS[name])
    expected = ACTIVATIONS[name](x.double()).numpy()
    # The error function and its complement sum to 1, so their error is that of 1, times x.
    bound = 4 * EXPONENTIAL * unit() * np.maximum(np.abs(x.numpy()), 1e-6)
    assert (np.abs(row - expected) <= bound).all()


def test_exponentials(layers: Any) -> None:
    x = np.linspace(-87, 88, 4001).astype(np.float32)
    found = np.array([layers.exp32(value) for value in x])
    np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=2 * EXPONENTIAL * unit())


@pytest.mark.parametrize("width", [4, 8, 24, 64, 88])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2)])
def test_attention(layers: Any, width: int, heads: int, kv_heads: int) -> None:
    from pellucid.engines.compiled.vectors import LANES

    step, keys = -(-width // LANES) * LANES, 19
    q, k, v = torch.randn(heads, 1, width), torch.randn(kv_heads, keys, width), torch.randn(kv_heads, keys, width)
    kv = np.zeros((keys, 2, kv_heads, step), np.float32)
    kv[:, 0, :, :width], kv[:, 1, :, :width] = k.transpose(0, 1).numpy(), v.transpose(0, 1).numpy()
    query = np.zeros((heads, step), np.float32)
    query[:, :width] = q[:, 0].numpy() * np.float32(width**-0.5)
    order = torch.randperm(keys)
    bias = torch.randn(heads, keys)
    out, p = np.empty(heads * step, np.float32), np.empty(keys + 16, np.float32)
    layers.attend(
        query.reshape(-1), layout.ZERO, heads, kv_heads, step, kv.reshape(-1), order.numpy() * 2 * kv_heads * step,
        keys, layout.ZERO, kv_heads * step, bias.numpy(), layout.ZERO, out, layout.ZERO, p,
    )  # fmt: skip
    expected = attention(*(t.double()[None] for t in (q, k[:, order], v[:, order])), bias=bias.double()[None, :, None])
    shared = [t.repeat_interleave(heads // kv_heads, dim=0) for t in (k, v)]
    bound = of_attention(q, *shared, bias)
    found = out.reshape(heads, step)
    np.testing.assert_allclose(found[:, :width], expected[0, :, 0].numpy(), rtol=0, atol=bound)
    assert not found[:, width:].any()


def test_rotations(layers: Any) -> None:
    positions, width = torch.arange(40), 8
    cos, sin = compute_rotary(positions, width)
    turn = torch.cat([cos[:, : width // 2], sin[:, : width // 2]], dim=1).numpy()
    x = torch.randn(1, 1, 40, width)
    expected = apply_rotary(x.double(), (cos.double(), sin.double()))[0, 0].numpy()
    found = x[0, 0].numpy().copy()
    for row, of_row in zip(found, turn, strict=True):
        layers.rotate(row, of_row)
    np.testing.assert_allclose(found, expected, rtol=0, atol=gamma(4) * 2 * float(x.abs().max()))


@pytest.mark.parametrize("place", [0, 77, 127])
def test_one_nan_among_logits_is_found(layers: Any, place: int) -> None:
    z = np.random.default_rng(0).normal(size=128).astype(np.float32)
    classes = np.empty(layout.COLUMNS, np.float32)
    assert layers.find_largest(z.reshape(2, -1), classes) == z.max()
    z[place] = np.nan
    assert np.isnan(layers.find_largest(z.reshape(2, -1), classes))
