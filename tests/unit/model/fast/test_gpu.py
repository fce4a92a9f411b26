"""A device with a queue: what is fetched of it, and the masks that attention need not look at."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pellucid.decoding.scoring import choose_chunk_rows
from pellucid.model.attention import attention
from pellucid.model.fast.gpu import choose_chunk_bytes, is_gpu, to_cpu
from pellucid.model.masks import causal_mask, is_marked_causal, make_marked_causal_mask
from tests.rounding import of_attention
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, tiny_model, words

CPU = torch.device("cpu")
Queued = Callable[..., None]
Seen = list[tuple[bool, bool]]


def test_a_gpu_has_a_queue_and_a_cpu_has_none() -> None:
    assert is_gpu(torch.device("cuda", 1))
    assert not is_gpu(CPU)
    assert not is_gpu(torch.device("mps"))


def test_what_is_fetched_comes_in_one_copy(queued: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    queued("cpu")
    tensors = [
        torch.randn(2, 3),
        torch.arange(4),
        torch.tensor(True),
        torch.randn(0, 5),
        torch.arange(6).view(2, 3).t(),
        torch.tensor([False, True, False]),
        torch.randn(3, dtype=torch.float64),
        torch.tensor(7, dtype=torch.int32),
        torch.arange(14).view(2, 7)[:1, 0],
    ]
    copies: list[torch.dtype] = []
    copy = Tensor.cpu

    def counted(tensor: Tensor) -> Tensor:
        copies.append(tensor.dtype)
        return copy(tensor)

    monkeypatch.setattr(Tensor, "cpu", counted)
    for found, expected in zip(to_cpu(tensors), tensors, strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        assert torch.equal(found, expected)
    assert len(copies) == 1
    queued()
    assert [id(tensor) for tensor in to_cpu(tensors)] == [id(tensor) for tensor in tensors]
    assert len(copies) == 1


def test_chunks_are_as_large_as_a_gpus_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=64 << 30))
    assert choose_chunk_bytes(torch.device("cuda")) == 1 << 30
    assert choose_chunk_rows(32_000, torch.device("cuda")) == (1 << 30) // (4 * 32_000)
    assert choose_chunk_rows(32_000, CPU) == 512
    assert choose_chunk_rows(1_000, CPU) == 4_000


def calls_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Of each call: whether it was told that it is causal, and whether it was given a mask."""
    seen: Seen = []
    kernel = functional.scaled_dot_product_attention

    def told(*given: Tensor, attn_mask: Tensor | None, is_causal: bool, **options: Any) -> Tensor:
        seen.append((is_causal, attn_mask is not None))
        return kernel(*given, attn_mask=attn_mask, is_causal=is_causal, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", told)
    return seen


def test_the_kernel_that_needs_no_mask_gives_the_same(queued: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    queued("cpu")
    seen = calls_of_the_kernel(monkeypatch)
    q, k, v = torch.randn(3, 2, 3, 7, 4).unbind()
    bias, own, given = torch.randn(3, 7, 7), make_marked_causal_mask(7, CPU), causal_mask(7)
    assert torch.equal(own, given)
    found, expected = attention(q, k, v, own, fused=True), attention(q, k, v, given, fused=False)
    bound = max(of_attention(*each) for each in zip(q, k, v, strict=True))
    torch.testing.assert_close(found, expected, rtol=0, atol=bound)
    attention(q, k, v, given, fused=True)
    attention(q, k, v, own[..., :], fused=True)
    attention(q, k, v, own, fused=True, bias=bias)
    assert seen == [(True, False), (False, True), (False, True), (False, True)]
    assert not is_marked_causal(own, 7, 8)
    assert not is_marked_causal(None, 7, 7)
    queued()
    assert not is_marked_causal(make_marked_causal_mask(7, CPU), 7, 7), "a CPU's digits stay what they are"


def test_a_model_tells_its_own_mask_and_nobody_elses(queued: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 64 positions on a CPU takes the kernel as well."""
    model, src, tgt = tiny_model(max_positions=80), words(SRC_VOCAB_SIZE, 2, 70), words(TGT_VOCAB_SIZE, 2, 66)
    with torch.no_grad():
        expected = model(src, tgt)
        queued("cpu")
        seen = calls_of_the_kernel(monkeypatch)
        torch.testing.assert_close(model(src, tgt), expected, rtol=0, atol=1e-4)
        assert seen == 2 * [(False, True)] + 2 * [(True, False), (False, True)]
        seen.clear()
        banded = causal_mask(66).triu(-3)
        assert not torch.allclose(model(src, tgt, tgt_mask=banded), expected, atol=1e-2)
        assert not any(is_causal for is_causal, _ in seen)
