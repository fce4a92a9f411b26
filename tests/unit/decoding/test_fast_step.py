"""The fast step gives the logits of the modules, replaces Pellucid's own modules alone, and is taken by searches."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.config import DecodeConfig
from pellucid.decoding.batched_search import search
from pellucid.decoding.ensemble import Ensemble
from pellucid.decoding.fast_step import FastStep, make_step
from pellucid.model.cache import DecoderCache
from pellucid.model.families import DecoderOnly
from pellucid.model.layers import Decoder
from pellucid.model.observers import observe_attention
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer
from tests.rounding import DOUBLE_NETWORK
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, padded, tiny_config, tiny_model, words
from tests.unit.tracing.models import decoder

OPTIONS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "positions": "learned", "embedding_norm": True, "gated_feed_forward": True, "activation": "silu"},
    {"norm": "pre", "norm_type": "rms", "bias": False, "final_norm": False, "pad_id": None},
    {"activation": "gelu", "qkv_bias": False, "head_dim": 5, "output_bias": True, "num_decoder_layers": 3},
    {"norm": "pre", "qk_norm": True},
    {"norm": "pre", "qk_norm": True, "cross_query_norm": False, "norm_type": "rms"},
]
NOT_PLAIN: list[dict[str, Any]] = [
    {"positions": "rotary"}, {"positions": "relative"}, {"num_kv_heads": 1},
]  # fmt: skip
StepModel = Transformer | DecoderOnly


def is_fast(model: StepModel, ids: Tensor) -> bool:
    return isinstance(make_step(model, model.start(ids)), FastStep)


def models(fields: dict[str, Any]) -> list[StepModel]:
    own = {name: value for name, value in fields.items() if name not in ("pad_id", "num_decoder_layers")}
    return [tiny_model(**fields), decoder(num_heads=3, **own)]


def given(model: StepModel) -> Tensor:
    """Sources with padding, or prompts of one length."""
    if isinstance(model, DecoderOnly) or model.config.pad_id is None:
        return words(SRC_VOCAB_SIZE, 4, 5)
    return padded(words(SRC_VOCAB_SIZE, 4, 6), [6, 2, 4, 5])


@torch.no_grad()
def stepped(model: StepModel, ids: Tensor, width: int, fast: bool) -> Tensor:
    """The logits of some steps, in which hypotheses are chosen and sentences go."""
    draw = torch.Generator().manual_seed(1)
    cache = model.start(ids, width)
    step = make_step(model, cache)
    assert isinstance(step, FastStep)
    found, left = [], len(ids)
    for number in range(20):  # more than the cache has room for at first
        tokens = torch.randint(3, TGT_VOCAB_SIZE, (left, width), generator=draw)
        found.append((step(tokens) if fast else model.step(tokens, cache)).flatten())
        cache.reorder(torch.randint(0, width, (left, width), generator=draw))
        if number in (6, 12):
            left -= 1
            cache.select(torch.arange(1, left + 1))
    return torch.cat(found)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("fields", OPTIONS, ids=str)
def test_it_gives_what_the_modules_give(fields: dict[str, Any], width: int) -> None:
    for model in models(fields):
        model.double()
        ids = given(model)
        torch.testing.assert_close(
            stepped(model, ids, width, fast=True), stepped(model, ids, width, fast=False),
            rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK,
        )  # fmt: skip


@pytest.mark.parametrize("fields", NOT_PLAIN, ids=str)
def test_other_attention_goes_through_its_modules(fields: dict[str, Any]) -> None:
    for model in (tiny_model(**fields), decoder(num_heads=3, **fields)):
        assert not is_fast(model, given(model))


class Louder(nn.LayerNorm):
    """A norm of one's own, by inheritance."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def watched_by_a_hook(model: Transformer) -> None:
    model.decoder.layers[0].cross_attn.out_proj.register_forward_pre_hook(lambda module, given: None)  # type: ignore[operator,union-attr]


def with_another_forward(model: Transformer) -> None:
    layer = model.decoder.layers[1]
    layer.forward = layer.forward


def in_training(model: Transformer) -> None:
    model.train()


def in_half(model: Transformer) -> None:
    model.bfloat16()


@pytest.mark.parametrize("change", [watched_by_a_hook, with_another_forward, in_training, in_half])
def test_what_is_watched_or_changed_goes_through_its_modules(change: Callable[[Transformer], None]) -> None:
    model = tiny_model()
    assert is_fast(model, given(model))
    change(model)
    assert not is_fast(model, given(model))


@pytest.mark.parametrize("parts", [Parts(norm=lambda config: Louder(config.d_model))])
def test_parts_of_ones_own_are_called(parts: Parts) -> None:
    model = Transformer(tiny_config(), parts).eval()
    assert not is_fast(model, given(model))


class ByItself(Transformer):
    """A model with a step of its own."""

    def step_states(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        return 2 * super().step_states(tokens, cache)


def test_a_step_of_ones_own_is_called() -> None:
    model = ByItself(tiny_config()).eval()
    assert not is_fast(model, given(model))
    model = tiny_model()
    model.step = model.step  # type: ignore[method-assign]
    assert is_fast(model, given(model))
    model.step = lambda tokens, cache: torch.zeros(1)  # type: ignore[method-assign]
    assert not is_fast(model, given(model))


def test_a_source_of_padding_alone_goes_through_the_modules() -> None:
    model = tiny_model()
    assert not is_fast(model, torch.tensor([[5, 6], [0, 0]]))


class Count:
    """Counts the decoder's passes, those of a FastStep and those of its modules."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fast, self.modules = 0, 0
        decode, forward = FastStep.decode, Decoder.forward

        def counted_decode(step: FastStep, *given: Any) -> Tensor:
            self.fast += 1
            return decode(step, *given)

        def counted_forward(decoder: Decoder, *given: Any) -> Tensor:
            self.modules += 1
            return forward(decoder, *given)

        monkeypatch.setattr(FastStep, "decode", counted_decode)
        monkeypatch.setattr(Decoder, "forward", counted_forward)


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Count:
    return Count(monkeypatch)


def test_who_observes_or_wants_gradients_sees_the_modules(count: Count) -> None:
    model = tiny_model()
    step = make_step(model, model.start(torch.tensor([[5, 6]])))
    token = torch.tensor([[5]])
    seen: list[Tensor] = []
    with torch.no_grad(), observe_attention(lambda q, *_: seen.append(q), model):
        step(token)
    assert (len(seen), count.fast) == (4, 0)
    assert step(token).requires_grad
    assert not count.fast
    with torch.no_grad():
        step(token)
    assert count.fast == 1


@pytest.mark.parametrize("width", [1, 4])
def test_each_step_of_a_search_is_fast(width: int, count: Count) -> None:
    model = tiny_model(max_positions=30)
    decode = DecodeConfig(beam_size=width, min_length=9, max_length=9, target_prefix=(5, 6))
    search(model, [[4, 5], [6, 7, 8]], decode)
    assert (count.fast, count.modules) == (2 + 1 + 9, 0), "the prefix, then 9 tokens and the end"


def test_each_step_of_each_model_of_an_ensemble_is_fast(count: Count) -> None:
    decode = DecodeConfig(beam_size=3, min_length=9, max_length=9)
    search(Ensemble([tiny_model(), tiny_model()], [decode, decode]), [[4, 5], [6, 7, 8]], decode)
    assert (count.fast, count.modules) == (2 * (1 + 9), 0)


def test_each_token_of_a_prompt_beyond_the_positions_is_fast(count: Count) -> None:
    model = decoder(num_heads=3, max_positions=12)
    search(model, [[4, 5, 6]], DecodeConfig(beam_size=1, max_length=20, suppress_tokens=(model.config.eos_id,)))
    # Positions run out after 10 tokens, and with the last 9 tokens after further 4: each time the modules read the text
    # but its last token.
    assert (count.fast, count.modules) == (20, 1 + 3)
