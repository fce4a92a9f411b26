"""What a model reads: ids (B, L) of its vocabulary. All else is refused where it comes in, with what is allowed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.model.attention import MultiHeadAttention, attention
from tests.tiny_model import tiny_model
from tests.unit.tracing.models import classifier, decoder, encoder

IDS = torch.tensor([[5, 6, 7], [8, 9, 3]])

MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module, Any], Tensor], str]] = {
    "source": (tiny_model, lambda model, ids: model(ids, IDS), "src"),
    "target": (tiny_model, lambda model, ids: model(IDS, ids), "tgt"),
    "encode": (tiny_model, lambda model, ids: model.encode(ids), "src"),
    "encoder": (encoder, lambda model, ids: model(ids), "ids"),
    "classifier": (classifier, lambda model, ids: model(ids), "ids"),
    "decoder": (decoder, lambda model, ids: model(ids), "ids"),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("ids", "message", "hint"),
    [
        ([[5, 6, 7]], "is a list; it must be a tensor (B, L)", "write torch.tensor([ids])"),
        (IDS.float(), "has dtype float32; ids are int64 or int32", "write {}.long()"),
        (IDS > 5, "has dtype bool; ids are int64 or int32", "write {}.long()"),
        (IDS[0], "has shape (3,); it must be (B, L), one row per sentence", "write {}[None] for a single sentence"),
        (IDS[None], "has shape (1, 2, 3); it must be (B, L), one row per sentence", ""),
    ],
    ids=["list", "floats", "bools", "one-sentence", "three-dimensions"],
)
def test_what_are_no_ids(name: str, ids: Any, message: str, hint: str) -> None:
    make, read, called = MODELS[name]
    with pytest.raises(DataError) as caught:
        read(make(), ids)
    assert str(caught.value) == f"`{called}` {message}"
    assert caught.value.hint == hint.format(called)


@pytest.mark.parametrize("name", MODELS)
def test_ids_outside_of_the_vocabulary(name: str) -> None:
    make, read, called = MODELS[name]
    last = 18 if called == "tgt" else 22
    with pytest.raises(DataError) as caught:
        read(make(), torch.tensor([[5, 99, -4], [last + 1, 4, 3]]))
    assert (
        str(caught.value) == f"`{called}` has shape (2, 3) and holds -4, {last + 1}, 99; the model's ids are 0..{last}"
    )
    assert caught.value.hint == "encode the text with the tokenizer that the model was trained with"


@pytest.mark.parametrize("name", MODELS)
def test_more_ids_than_positions(name: str) -> None:
    make, read, called = MODELS[name]
    with pytest.raises(DataError) as caught:
        read(make(), torch.full((2, 65), 5))
    longer = "a sequence of 65 tokens is longer than the model's `max_positions` (64)"
    assert str(caught.value) == f"`{called}` has shape (2, 65): {longer}"


def test_unequal_batches() -> None:
    model = tiny_model()
    with pytest.raises(DataError, match="2 sources and 1 targets: each source needs one target"):
        model(IDS, IDS[:1])
    with pytest.raises(DataError, match="2 sources and 3 targets"):
        model.decode(IDS[[0, 0, 1]], model.encode(IDS), IDS)


def test_segments_that_do_not_fit() -> None:
    model = classifier()
    with pytest.raises(DataError, match=r"`segments` has shape \(2, 2\), `ids` \(2, 3\): one segment per token"):
        model(IDS, IDS[:, :2] * 0)
    with pytest.raises(
        DataError, match=r"^`segments` has shape \(2, 3\) and holds 5, 6, 7, 8, 9; the model's ids are 0\.\.1"
    ):
        model(IDS, IDS + (IDS == 3) * 2)


def test_ids_of_32_bits_are_read() -> None:
    model = encoder()
    assert torch.equal(model(IDS.int()), model(IDS))


@pytest.mark.slow
def test_the_checks_are_no_break_in_a_compiled_graph() -> None:
    for make in (encoder, decoder):
        model = make()
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        assert torch.equal(compiled(IDS), model(IDS))
    model = tiny_model()
    assert torch.equal(torch.compile(model, backend="eager", fullgraph=True)(IDS, IDS), model(IDS, IDS))


@pytest.mark.parametrize("name", MODELS)
def test_nothing_to_read(name: str) -> None:
    make, read, called = MODELS[name]
    with pytest.raises(DataError) as caught:
        read(make(), IDS[:, :0])
    assert str(caught.value) == f"`{called}` has shape (2, 0): it is empty"
    assert caught.value.hint == "use at least one id per row"


@pytest.mark.parametrize("shape", [(2, 2, 12), (2, 3, 11), (3, 3, 12), (3, 12)], ids=str)
def test_a_memory_of_other_sources(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError) as caught:
        tiny_model().decode(IDS, torch.randn(shape), IDS)
    assert str(caught.value) == (f"`memory` has shape {shape}; for these sources it must be (B, S, D), here (2, 3, 12)")
    assert caught.value.hint == "write memory = model.encode(src), with the same `src`"


@pytest.mark.parametrize(
    ("shapes", "message", "hint"),
    [
        ([(2, 5, 11)], "`x` has shape (2, 5, 11); this attention takes (B, L, D), a vector of 12 per token", ""),
        (
            [(5, 12)],
            "`x` has shape (5, 12); this attention takes (B, L, D), a vector of 12 per token",
            "write x[None] for a single sentence",
        ),
        *(
            (
                [(2, 5, 12), memory],
                f"`memory` has shape {memory}, `x` (2, 5, 12); they are (B, M, D) and (B, L, D), with vectors of 12",
                "each sentence of `x` requires its row of `memory`",
            )
            for memory in [(1, 4, 12), (2, 4, 11), (4, 12)]
        ),
    ],
)
def test_what_multi_head_attention_cannot_take(shapes: list[tuple[int, ...]], message: str, hint: str) -> None:
    with pytest.raises(DataError) as caught:
        MultiHeadAttention(12, 3)(*map(torch.randn, shapes))
    assert (str(caught.value), caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((2, 4, 5, 8), (2, 3, 6, 8), (2, 3, 6, 8)),
        ((2, 4, 5, 8), (2, 4, 6, 7), (2, 4, 6, 7)),
        ((2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 7, 8)),
    ],
)
def test_queries_keys_and_values_that_do_not_fit(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> None:
    with pytest.raises(DataError) as caught:
        attention(torch.randn(q), torch.randn(k), torch.randn(v))
    assert str(caught.value) == (
        f"queries of shape {q}, keys {k} and values {v} do not fit: they are (B, H, L, K), (B, H, M, K) and "
        "(B, H, M, K)"
    )
    assert "the number of key heads must divide the number of query heads" in caught.value.hint
