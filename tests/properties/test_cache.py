"""Cache = no cache: a step's logits are those of decoding each hypothesis' prefix from scratch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.decoding.fast_step import FastStep, make_step
from pellucid.errors import DataError
from pellucid.model.cache import DecoderCache
from pellucid.model.transformer import Transformer
from tests.rounding import DOUBLE_NETWORK
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, padded, tiny_model, words

VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "positions": "learned", "embedding_norm": True, "gated_feed_forward": True},
    {"pad_id": None, "bias": False, "output_bias": True, "num_decoder_layers": 3},
]
each_variant = pytest.mark.parametrize("fields", VARIANTS, ids=str)
by_each_step = pytest.mark.parametrize("fast", [False, True], ids=["modules", "fast step"])
each_width = pytest.mark.parametrize("width", [1, 3])

STEPS = 20  # more than the cache has room for at first


def sources(batch: int) -> Tensor:
    return padded(words(SRC_VOCAB_SIZE, batch, 6), [6, 2, 4, 5][:batch])


def from_scratch(model: Transformer, src: Tensor, prefixes: Tensor) -> Tensor:
    """Logits (B, W, V) after the prefixes (B, W, T) of each sentence's hypotheses."""
    batch, width, length = prefixes.shape
    repeated = src.repeat_interleave(width, dim=0)
    logits = model(repeated, prefixes.view(batch * width, length))[:, -1]
    return logits.view(batch, width, -1)


def step_of(model: Transformer, cache: DecoderCache, fast: bool) -> Callable[[Tensor], Tensor]:
    """The step of the modules, or the fast step."""
    step = make_step(model, cache)
    assert isinstance(step, FastStep)
    return step if fast else lambda tokens: model.step(tokens, cache)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK)


def reordered(prefixes: Tensor, parents: Tensor) -> Tensor:
    return prefixes.gather(1, parents[:, :, None].expand_as(prefixes))


@torch.no_grad()
@by_each_step
@each_variant
def test_steps_are_decode(fields: dict[str, Any], fast: bool) -> None:
    model = tiny_model(**fields).double()
    src, tgt = sources(3), words(TGT_VOCAB_SIZE, 3, STEPS)
    cache = model.start(src)
    step = step_of(model, cache, fast)
    steps = [step(tgt[:, t : t + 1]) for t in range(STEPS)]
    close(torch.cat(steps, dim=1), model.decode(tgt, model.encode(src), src))
    assert cache.length == STEPS


@torch.no_grad()
@each_width
@each_variant
@by_each_step
def test_hypotheses_that_change_places(fields: dict[str, Any], width: int, fast: bool) -> None:
    """Random parents each step: some hypotheses die out, others go on several times."""
    model = tiny_model(**fields).double()
    src = sources(3)
    cache = model.start(src, beam_size=width)
    step = step_of(model, cache, fast)
    prefixes = torch.empty(3, width, 0, dtype=torch.int64)
    for _ in range(STEPS):
        tokens = words(TGT_VOCAB_SIZE, 3, width)
        prefixes = torch.cat([prefixes, tokens[:, :, None]], dim=2)
        close(step(tokens), from_scratch(model, src, prefixes))
        parents = torch.randint(0, width, (3, width))
        cache.reorder(parents)
        prefixes = reordered(prefixes, parents)


@torch.no_grad()
@each_width
@each_variant
@by_each_step
def test_sentences_that_leave(fields: dict[str, Any], width: int, fast: bool) -> None:
    """Some go before the first step, some in between, and those that stay change their order."""
    model = tiny_model(**fields).double()
    src = sources(4)
    cache = model.start(src, beam_size=width)
    step = step_of(model, cache, fast)
    prefixes = torch.empty(4, width, 0, dtype=torch.int64)
    for keep in ([3, 0, 1], [0, 1, 2], [2, 0], [1]):
        index = torch.tensor(keep)
        cache.select(index)
        src, prefixes = src[index], prefixes[index]
        for _ in range(6):
            tokens = words(TGT_VOCAB_SIZE, len(keep), width)
            prefixes = torch.cat([prefixes, tokens[:, :, None]], dim=2)
            close(step(tokens), from_scratch(model, src, prefixes))
            parents = torch.randint(0, width, (len(keep), width))
            cache.reorder(parents)
            prefixes = reordered(prefixes, parents)
    assert cache.memory.size(0) == cache.ancestors.size(0) == 1


@torch.no_grad()
@by_each_step
def test_a_model_has_no_memory_of_an_earlier_search(fast: bool) -> None:
    model = tiny_model()
    src, tokens = sources(2), words(TGT_VOCAB_SIZE, 2, 3)
    first = step_of(model, model.start(src, beam_size=3), fast)(tokens)
    step_of(model, model.start(sources(3), beam_size=3), fast)(words(TGT_VOCAB_SIZE, 3, 3))
    assert torch.equal(step_of(model, model.start(src, beam_size=3), fast)(tokens), first)


@torch.no_grad()
@by_each_step
def test_two_searches_at_a_time(fast: bool) -> None:
    model = tiny_model().double()
    src, tgt = sources(2), words(TGT_VOCAB_SIZE, 2, 6)
    one, other = (step_of(model, model.start(ids), fast) for ids in (src, src.flip(0)))
    for t in range(6):
        close(one(tgt[:, t : t + 1]), other(tgt[:, t : t + 1].flip(0)).flip(0))


def test_each_hypothesis_sees_its_ancestors_alone() -> None:
    cache = DecoderCache(1, 1, torch.device("cpu"), beam_size=2)
    assert cache.grow().tolist() == [[[[True, False], [False, True]]]]
    cache.reorder(torch.tensor([[1, 1]]))
    assert cache.grow().tolist() == [[[[False, True, True, False], [False, True, False, True]]]]
    cache.reorder(torch.tensor([[1, 0]]))
    assert cache.ancestors.tolist() == [[[[False, True, False, True], [False, True, True, False]]]]


def test_a_step_beyond_the_last_position_says_so() -> None:
    model = tiny_model(max_positions=2, src_vocab_size=5)
    cache = model.start(torch.tensor([[3, 4]]))
    token = torch.tensor([[3]])
    for _ in range(2):
        model.step(token, cache)
    with pytest.raises(
        DataError,
        match=r"^`tgt` has shape \(1, 1\) and begins at position 2: a sequence of 3 tokens is longer than ",
    ):
        model.step(token, cache)
