"""The decoder's step on plain tensors: it gives what the modules give, and stands in for nothing else than these."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.model.cache import DecoderCache
from pellucid.model.families import DecoderOnly
from pellucid.model.fast.decoder import PlainDecoder
from pellucid.model.observing import observing
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer
from tests.rounding import DOUBLE_NETWORK
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, padded, tiny_config, tiny_model, words
from tests.unit.tracing.models import decoder

OPTIONS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "positions": "learned", "embedding_norm": True, "gated": True, "activation": "silu"},
    {"norm": "pre", "norm_type": "rms", "bias": False, "final_norm": False, "pad_id": None},
    {"activation": "gelu", "qkv_bias": False, "head_dim": 5, "output_bias": True, "num_decoder_layers": 3},
    {"norm": "pre", "qk_norm": True},
    {"norm": "pre", "qk_norm": True, "cross_query_norm": False, "norm_type": "rms"},
]
NOT_PLAIN: list[dict[str, Any]] = [
    {"positions": "rotary"}, {"positions": "relative"}, {"num_kv_heads": 1},
]  # fmt: skip
StepModel = Transformer | DecoderOnly


def models(fields: dict[str, Any]) -> list[StepModel]:
    own = {name: value for name, value in fields.items() if name not in ("pad_id", "num_decoder_layers")}
    return [tiny_model(**fields), decoder(num_heads=3, **own)]


def given(model: StepModel) -> Tensor:
    """Sources with padding, or prompts of one length."""
    if isinstance(model, DecoderOnly) or model.config.pad_id is None:
        return words(SRC_VOCAB_SIZE, 4, 5)
    return padded(words(SRC_VOCAB_SIZE, 4, 6), [6, 2, 4, 5])


@torch.no_grad()
def stepped(model: StepModel, ids: Tensor, width: int, plain: bool) -> Tensor:
    """The logits of some steps, in which hypotheses are chosen and sentences go."""
    draw = torch.Generator().manual_seed(1)
    cache = model.start(ids, width)
    assert cache.plain is not None
    if not plain:
        cache.plain = None
    found, left = [], len(ids)
    for number in range(20):  # more than the cache has room for at first
        tokens = torch.randint(3, TGT_VOCAB_SIZE, (left, width), generator=draw)
        found.append(model.step(tokens, cache).flatten())
        cache.reorder(torch.randint(0, width, (left, width), generator=draw))
        if number in (6, 12):
            left -= 1
            cache.select(torch.arange(1, left + 1))
    return torch.cat(found)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("fields", OPTIONS, ids=str)
def test_it_gives_what_the_modules_give(fields: dict[str, Any], width: int) -> None:
    for model in models(fields):
        ids = given(model)
        torch.testing.assert_close(
            stepped(model, ids, width, plain=True), stepped(model, ids, width, plain=False),
            rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK,
        )  # fmt: skip


@pytest.mark.parametrize("fields", NOT_PLAIN, ids=str)
def test_other_attention_goes_through_its_modules(fields: dict[str, Any]) -> None:
    for model in (tiny_model(**fields), decoder(num_heads=3, **fields)):
        assert model.start(given(model)).plain is None


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
    assert model.start(given(model)).plain is not None
    change(model)
    assert model.start(given(model)).plain is None


@pytest.mark.parametrize("parts", [Parts(norm=lambda config: Louder(config.d_model))])
def test_parts_of_ones_own_are_called(parts: Parts) -> None:
    model = Transformer(tiny_config(), parts).eval()
    assert model.start(given(model)).plain is None


def test_a_source_of_padding_alone_goes_through_the_modules() -> None:
    model = tiny_model()
    assert model.start(torch.tensor([[5, 6], [0, 0]])).plain is None


def test_who_observes_or_wants_gradients_sees_the_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    model, steps = tiny_model(), []
    own = PlainDecoder.step
    monkeypatch.setattr(PlainDecoder, "step", lambda self, *given: (steps.append(1), own(self, *given))[1])

    def step(cache: DecoderCache) -> Tensor:
        return model.step(torch.tensor([[5]]), cache)

    cache = model.start(torch.tensor([[5, 6]]))
    seen: list[Tensor] = []
    with torch.no_grad(), observing(lambda q, *_: seen.append(q), model):
        step(cache)
    assert (len(seen), len(steps)) == (4, 0)
    assert step(cache).requires_grad
    assert not steps
    with torch.no_grad():
        step(cache)
    assert len(steps) == 1
