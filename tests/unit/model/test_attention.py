"""Equation 1 by hand, the two paths against each other, masks, the observer, and multi-head attention's packing."""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.errors import ConfigError, DataError
from pellucid.model.attention import MultiHeadAttention, attention, attention_weights
from pellucid.model.cache import LayerCache
from pellucid.model.fast.dropout import dropout
from pellucid.model.masks import causal_mask
from pellucid.model.observers import observe_attention
from tests.rounding import DOUBLE_NETWORK, gamma

pytestmark = pytest.mark.usefixtures("double_precision")

B, H, L, M, K = 3, 2, 5, 7, 4
MASK_SHAPES = [(B, H, L, M), (B, 1, 1, M), (1, 1, L, M), (B, 1, L, M), (L, M), (B, H, L, 1)]


def heads(length: int, width: int = K) -> Tensor:
    return torch.randn(B, H, length, width)


def random_mask(*shape: int) -> Tensor:
    """Half of it may be attended to; the first row has nothing, the last has all."""
    mask = torch.rand(shape) < 0.5
    rows = mask.view(-1, shape[-1])
    rows[-1] = True
    rows[0] = False
    return mask


def test_equation_1_by_hand() -> None:
    q, k, v = heads(L), heads(M), heads(M)
    for b, h, i in [(0, 0, 0), (2, 1, 4), (1, 0, 3)]:
        scores = [sum(q[b, h, i, d].item() * k[b, h, j, d].item() for d in range(K)) / math.sqrt(K) for j in range(M)]
        total = sum(math.exp(score) for score in scores)
        row = [sum(math.exp(s) / total * v[b, h, j, d].item() for j, s in enumerate(scores)) for d in range(K)]
        torch.testing.assert_close(
            attention(q, k, v)[b, h, i], torch.tensor(row), rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK
        )


@pytest.mark.parametrize("shape", [None, *MASK_SHAPES], ids=str)
@pytest.mark.parametrize("width", [1, 4, 16])
def test_fused_and_explicit_paths_agree(shape: tuple[int, ...] | None, width: int) -> None:
    mask = None if shape is None else random_mask(*shape)
    data = heads(L, width), heads(M, width), heads(M, width)
    direction = torch.randn(B, H, L, width)
    results = []
    for fused in (True, False):
        q, k, v = (part.clone().requires_grad_() for part in data)
        output = attention(q, k, v, mask, fused=fused)
        (output * direction).sum().backward()
        results.append([output, q.grad, k.grad, v.grad])
    for one, other in zip(*results, strict=True):
        assert torch.isfinite(one).all()
        torch.testing.assert_close(one, other, rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("fused", [True, False])
def test_a_query_that_may_attend_to_nothing_gets_zeros_and_moves_nothing(fused: bool, biased: bool) -> None:
    mask = torch.ones(B, H, L, M, dtype=torch.bool)
    mask[1, :, 2] = False
    q, k, v = (part.requires_grad_() for part in (heads(L), heads(M), heads(M)))
    output = attention(q, k, v, mask, fused=fused, bias=torch.randn(1, H, L, M) if biased else None)
    assert torch.equal(output[1, :, 2], torch.zeros(H, K))
    assert (output[0] != 0).all()
    for gradient in torch.autograd.grad(output[1, :, 2].sum(), (q, k, v)):
        assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_masked_rows_have_no_nan_in_any_precision(dtype: torch.dtype) -> None:
    q, k, v = (part.to(dtype).mul(30).requires_grad_() for part in (heads(L), heads(M), heads(M)))
    output = attention(q, k, v, torch.zeros(L, M, dtype=torch.bool), fused=False)
    output.sum().backward()
    assert output.dtype == dtype
    for tensor in (output, q.grad, k.grad, v.grad):
        assert torch.equal(tensor, torch.zeros_like(tensor))


@pytest.mark.parametrize("shape", MASK_SHAPES, ids=str)
def test_rows_of_weights_sum_to_one_or_to_zero(shape: tuple[int, ...]) -> None:
    mask = random_mask(*shape)
    weights = attention_weights(heads(L), heads(M), mask)
    full = mask.expand(B, H, L, M)
    assert (weights[~full] == 0).all()
    assert (weights[full] > 0).all()
    torch.testing.assert_close(weights.sum(-1), full.any(-1).double(), rtol=0, atol=gamma(2 * M, torch.float64))
    assert not full.any(-1).all()
    assert full.any(-1).any()


def test_without_a_mask_all_keys_count() -> None:
    q, k = heads(L), heads(M)
    assert torch.equal(attention_weights(q, k), attention_weights(q, k, torch.ones(L, M, dtype=torch.bool)))


def test_weights_do_not_change_when_all_scores_grow_alike() -> None:
    """A softmax ignores what its scores have in common, however large: no overflow."""
    q, k = heads(L), heads(M)
    far = k + 1e4 * q[:, :, :1] / q[:, :, :1].norm(dim=-1, keepdim=True)
    weights = attention_weights(q[:, :, :1], far)
    assert torch.isfinite(weights).all()
    torch.testing.assert_close(weights, attention_weights(q[:, :, :1], k), rtol=0.02, atol=0.02)


def test_a_mask_wins_over_any_score() -> None:
    """What may be attended to scores a million below what may not."""
    q = torch.full((1, 1, 1, 1), 1e3)
    k = torch.tensor([-1e3, 1e3, -1e3])[None, None, :, None]
    mask = torch.tensor([True, False, True])
    assert attention_weights(q, k, mask).flatten().tolist() == [0.5, 0.0, 0.5]


def test_dropout_falls_on_the_weights() -> None:
    q, k, v = heads(L), heads(M), heads(M)
    torch.manual_seed(3)
    output = attention(q, k, v, dropout_p=0.4, fused=False)
    torch.manual_seed(3)
    assert torch.equal(output, dropout(attention_weights(q, k), 0.4) @ v)
    assert not torch.equal(output, attention(q, k, v, fused=False))


@pytest.mark.parametrize(
    ("queries", "keys", "given", "kernel_calls"),
    [
        (64, 64, {}, 1), (63, 64, {}, 0), (64, 63, {}, 0), (64, 300, {}, 1), (5, 300, {}, 0),
        (64, 64, {"dropout_p": 0.1}, 0), (64, 64, {"bias": torch.zeros(1, H, 64, 64)}, 0),
        (64, 64, {"fused": False}, 0), (5, 5, {"fused": True}, 1),
    ],
)  # fmt: skip
def test_a_cpu_takes_the_kernel_for_long_texts_unless_told(
    queries: int, keys: int, given: dict[str, Any], kernel_calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    kernel = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **kw: (calls.append(a), kernel(*a, **kw))[1])
    q, k, v, mask = heads(queries), heads(keys), heads(keys), random_mask(B, 1, queries, keys)
    found = attention(q, k, v, mask, **given)
    assert len(calls) == kernel_calls
    if "dropout_p" not in given:
        torch.testing.assert_close(found, attention(q, k, v, mask, **{**given, "fused": not kernel_calls}))


@pytest.mark.parametrize("fused", [True, False])
def test_the_observer_sees_what_the_call_works_on(fused: bool) -> None:
    q, k, v, mask = heads(L), heads(M), heads(M), random_mask(B, 1, L, M)
    calls: list[tuple[Tensor | None, ...]] = []
    with observe_attention(lambda *seen: calls.append(seen)):
        output = attention(q, k, v, mask, fused=fused)
    assert len(calls) == 1
    for seen, expected in zip(calls[0], (q, k, v, mask, None, output), strict=True):
        assert seen is expected


def test_the_observer_is_gone_after_the_context_and_the_outer_one_is_back() -> None:
    q, k, v = heads(L), heads(M), heads(M)
    calls: list[str] = []
    with observe_attention(lambda *_: calls.append("outer")):
        with observe_attention(lambda *_: calls.append("inner")):
            attention(q, k, v)
        attention(q, k, v)
    attention(q, k, v)
    assert calls == ["inner", "outer"]


def test_the_observer_of_a_model_sees_that_model_alone() -> None:
    own, other = MultiHeadAttention(12, 3), MultiHeadAttention(12, 3)
    x, calls = torch.randn(2, L, 12), []
    with observe_attention(lambda *_: calls.append("all")), observe_attention(lambda *_: calls.append("own"), own):
        own(x)
        other(x)  # goes to who observes all
        with observe_attention(lambda *_: calls.append("other"), other):
            own(x)
            other(x)
            attention(heads(L), heads(M), heads(M))  # names no module
    assert calls == ["own", "all", "own", "other", "other"]


def test_a_thread_is_observed_by_itself() -> None:
    block, calls = MultiHeadAttention(12, 3), []
    x = torch.randn(2, L, 12)

    def observed(name: str) -> None:
        with observe_attention(lambda *_: calls.append(name), block):
            block(x)

    with ThreadPoolExecutor(1) as pool, observe_attention(lambda *_: calls.append("here"), block):
        pool.submit(block, x).result()
        pool.submit(observed, "there").result()
        block(x)
    assert calls == ["there", "here"]


def test_an_asyncio_task_is_observed_by_itself() -> None:
    block, calls = MultiHeadAttention(12, 3), []
    x = torch.randn(2, L, 12)

    async def observed(name: str) -> None:
        with observe_attention(lambda *_: calls.append(name), block):
            await asyncio.sleep(0)  # the other task's turn
            block(x)
            await asyncio.sleep(0)
            block(x)

    async def both() -> None:
        await asyncio.gather(observed("one"), observed("two"))

    asyncio.run(both())
    assert sorted(calls) == ["one", "one", "two", "two"]


@pytest.mark.slow
def test_observing_leaves_no_break_in_a_compiled_graph() -> None:
    block, x = MultiHeadAttention(12, 3).eval(), torch.randn(2, L, 12)
    compiled, calls = torch.compile(block, backend="eager", fullgraph=True), []
    with observe_attention(lambda *_: calls.append("seen")):
        assert torch.equal(compiled(x), block(x))
    assert calls == ["seen"], "what is compiled is not observed"


def test_the_observer_is_gone_after_an_exception() -> None:
    calls: list[str] = []
    with pytest.raises(DataError, match="do not fit"), observe_attention(lambda *_: calls.append("seen")):
        _ = attention(heads(L), heads(M), heads(M)), attention(heads(L), heads(M, K + 1), heads(M))
    attention(heads(L), heads(M), heads(M))
    assert calls == ["seen"]


def test_packed_rows_are_query_key_value() -> None:
    block = MultiHeadAttention(12, 3)
    x, memory = torch.randn(2, L, 12), torch.randn(2, M, 12)
    (q_rows, k_rows, v_rows), biases = block.qkv_proj.weight.chunk(3), block.qkv_proj.bias.chunk(3)
    seen: list[Tensor] = []
    with observe_attention(lambda q, k, v, mask, bias, output: seen.extend((q, k, v))):
        block(x, memory)
        block(x, x)
        block(x)
    for source, rows, bias, projected in zip((x, memory, memory), (q_rows, k_rows, v_rows), biases, seen, strict=False):
        expected = (source @ rows.T + bias).view(2, -1, 3, 4).transpose(1, 2)
        torch.testing.assert_close(projected, expected, rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK)
    for as_memory, by_itself in zip(seen[3:6], seen[6:9], strict=True):
        torch.testing.assert_close(as_memory, by_itself, rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK)


def test_heads_are_split_and_joined_without_loss() -> None:
    block = MultiHeadAttention(12, 3)
    x = torch.randn(2, L, 12)
    split = block.split_heads(x)
    assert split.shape == (2, 3, L, 4)
    assert torch.equal(split[:, 1], x[..., 4:8])
    assert torch.equal(block.join_heads(split), x)


def test_weights_are_dropped_in_training_only() -> None:
    block = MultiHeadAttention(12, 3, dropout=0.5)
    x = torch.randn(2, L, 12)
    assert not torch.equal(block.train()(x), block(x))
    assert torch.equal(block.eval()(x), block(x))


def test_a_cache_gives_what_the_whole_sequence_gives() -> None:
    block = MultiHeadAttention(12, 3).eval()
    x, memory = torch.randn(2, 20, 12), torch.randn(2, M, 12)
    cache = LayerCache()
    with torch.no_grad():
        steps = [(block(x[:, t : t + 1], cache=cache), block(x[:, t : t + 1], memory, cache=cache)) for t in range(20)]
        whole = block(x, mask=causal_mask(20)), block(x, memory)
    for stepwise, expected in zip(zip(*steps, strict=True), whole, strict=True):
        torch.testing.assert_close(torch.cat(stepwise, dim=1), expected, rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK)


def test_the_width_must_be_divisible_by_the_heads() -> None:
    with pytest.raises(ConfigError, match=r"`d_model` \(10\) must be divisible by `num_heads` \(4\)"):
        MultiHeadAttention(10, 4)


def test_without_biases() -> None:
    block = MultiHeadAttention(12, 3, bias=False)
    assert [name for name, _ in block.named_parameters()] == ["qkv_proj.weight", "out_proj.weight"]
    assert torch.equal(block(torch.zeros(1, L, 12)), torch.zeros(1, L, 12))
