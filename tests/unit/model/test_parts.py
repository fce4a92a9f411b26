"""Parts of one's own: they stand where they should, learn, decode with a cache, or are refused."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import pellucid
from pellucid.config import ModelConfig
from pellucid.errors import ConfigError, DataError
from pellucid.model.families import DecoderOnly, EncoderOnly, SequenceClassifier, build_model
from pellucid.model.transformer import Transformer
from tests import own_parts
from tests.own_parts import Alibi, Averaging, Ramp, Reversed, ScaleNorm, Squared, Windowed, mixing_layer
from tests.rounding import DOUBLE_NETWORK
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, padded, tiny_config, words

pytestmark = pytest.mark.usefixtures("double_precision")

SIZES = {"d_model": 12, "d_ff": 20, "num_heads": 3, "max_positions": 64, "dropout": 0.0}
each_part = pytest.mark.parametrize("name", own_parts.ALL)


def transformer(parts: pellucid.Parts | None, **fields: object) -> Transformer:
    return Transformer(tiny_config(**fields), parts).eval()


def decoder(parts: pellucid.Parts | None, **fields: object) -> DecoderOnly:
    return DecoderOnly(ModelConfig.decoder(vocab_size=TGT_VOCAB_SIZE, num_layers=2, **SIZES | fields), parts).eval()


def sources(batch: int = 3) -> Tensor:
    return padded(words(SRC_VOCAB_SIZE, batch, 6), [6, 2, 4, 5][:batch])


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK)


def test_without_parts_the_weights_are_the_same() -> None:
    states = []
    for parts in (None, pellucid.Parts(), pellucid.Parts(attention=pellucid.MultiHeadAttention.from_config)):
        torch.manual_seed(3)
        states.append(transformer(parts).state_dict())
    for state in states[1:]:
        assert list(state) == list(states[0])
        assert all(torch.equal(state[name], states[0][name]) for name in state)


@pytest.mark.parametrize(
    ("parts", "kind", "places"),
    [
        (own_parts.ALL["windowed"], Windowed, {"self_attn": 4, "cross_attn": 2}),
        (own_parts.ALL["squared"], Squared, {"feed_forward": 4}),
        (own_parts.ALL["alibi"], Alibi, {"relative": 2}),
        (own_parts.ALL["ramp"], Ramp, {"positions": 2}),
        (
            own_parts.ALL["scale norm"],
            ScaleNorm,
            {"self_attn_norm": 4, "cross_attn_norm": 2, "feed_forward_norm": 4, "norm": 4},
        ),
        (own_parts.ALL["encoder layer"], Reversed, {"0": 1, "1": 1}),
        (own_parts.ALL["decoder layer"], Averaging, {"self_attn": 2}),
    ],
)
def test_where_a_part_stands(parts: pellucid.Parts, kind: type[nn.Module], places: dict[str, int]) -> None:
    model = transformer(parts, norm="pre", embedding_norm=True)
    found = [name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, kind)]
    assert {place: found.count(place) for place in found} == places
    assert model.parts is parts


def test_positions_of_ones_own_take_the_place_of_the_others() -> None:
    for fields in ({}, {"positions": "rotary", "d_model": 24}, {"positions": "relative"}):
        model = transformer(own_parts.ALL["alibi"], **fields)
        assert isinstance(model.encoder.relative, Alibi)
        assert model.src_embedding.positions is None
        model = transformer(own_parts.ALL["ramp"], **fields)
        assert model.encoder.relative is None
        assert isinstance(model.tgt_embedding.positions, Ramp)


@pytest.mark.parametrize("build", [EncoderOnly, SequenceClassifier, DecoderOnly, Transformer])
def test_every_family_takes_parts(build: type[nn.Module]) -> None:
    stacks = {"num_encoder_layers": 0} if build is DecoderOnly else {"num_decoder_layers": 0}
    config = tiny_config(
        **({} if build is Transformer else stacks), **({"num_classes": 3} if build is SequenceClassifier else {})
    )
    model = build_model(config, own_parts.ALL["averaging"]).eval()
    assert type(model) is build
    assert any(isinstance(module, Averaging) for module in model.modules())
    ids = words(TGT_VOCAB_SIZE, 2, 5)
    assert torch.isfinite(model(ids, ids) if build is Transformer else model(ids)).all()


@each_part
def test_a_part_learns(name: str) -> None:
    model = transformer(own_parts.ALL[name], norm="pre", tie_embeddings="none").train()
    model(words(SRC_VOCAB_SIZE, 3, 6), words(TGT_VOCAB_SIZE, 3, 5)).square().mean().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@each_part
def test_the_padding_of_a_source_changes_nothing(name: str) -> None:
    model, src, tgt = transformer(own_parts.ALL[name]), words(SRC_VOCAB_SIZE, 2, 6), words(TGT_VOCAB_SIZE, 2, 5)
    more = torch.cat([src, torch.zeros(2, 3, dtype=torch.int64)], dim=1)
    close(model(more, tgt), model(src, tgt))


@each_part
@torch.no_grad()
def test_a_beam_with_a_cache_gives_what_the_prefixes_give(name: str) -> None:
    """Hypotheses change places and sentences leave: keys, windows, distances and states of one's own go with them."""
    model, src, width = transformer(own_parts.ALL[name]), sources(4), 3
    cache = model.start(src, beam_size=width)
    prefixes = torch.empty(4, width, 0, dtype=torch.int64)
    for keep in ([3, 0, 1], [2, 0], [1]):
        index = torch.tensor(keep)
        cache.select(index)
        src, prefixes = src[index], prefixes[index]
        for _ in range(4):
            tokens = words(TGT_VOCAB_SIZE, len(keep), width)
            prefixes = torch.cat([prefixes, tokens[:, :, None]], dim=2)
            whole = model(src.repeat_interleave(width, dim=0), prefixes.flatten(0, 1))[:, -1]
            close(model.step(tokens, cache), whole.unflatten(0, (len(keep), width)))
            parents = torch.randint(0, width, (len(keep), width))
            cache.reorder(parents)
            prefixes = prefixes.gather(1, parents[:, :, None].expand_as(prefixes))


@pytest.mark.parametrize("name", [*own_parts.ALL, "pellucid's own", "rotary", "relative"])
@torch.no_grad()
def test_a_beam_behind_a_prompt_gives_what_the_whole_texts_give(name: str) -> None:
    fields = {"positions": name, "d_model": 24} if name in ("rotary", "relative") else {}
    model, width, length = decoder(own_parts.ALL.get(name), **fields), 3, 5
    prompts = words(TGT_VOCAB_SIZE, 2, length)
    cache = model.start(prompts, beam_size=width)
    assert cache.length == length - 1
    texts, tokens = prompts[:, None].expand(-1, width, -1), prompts[:, -1:].expand(-1, width)
    for _ in range(6):
        whole = model(texts.flatten(0, 1))[:, -1]
        close(model.step(tokens, cache), whole.unflatten(0, (2, width)))
        parents, tokens = torch.randint(0, width, (2, width)), words(TGT_VOCAB_SIZE, 2, width)
        cache.reorder(parents)
        texts = torch.cat([texts.gather(1, parents[:, :, None].expand_as(texts)), tokens[:, :, None]], dim=2)


@torch.no_grad()
def test_a_window_hides_what_is_far() -> None:
    model, ids = decoder(own_parts.ALL["windowed"]), words(TGT_VOCAB_SIZE, 1, 12)
    changed = ids.clone()
    changed[:, 0] = 3 + (ids[:, 0] - 2) % 16
    reach = 2 * (Windowed.width - 1)  # of two layers
    close(model(changed)[:, reach + 1 :], model(ids)[:, reach + 1 :])
    assert not torch.allclose(model(changed)[:, : reach + 1], model(ids)[:, : reach + 1])


@torch.no_grad()
def test_alibi_is_a_bias_of_the_scores() -> None:
    model, calls = decoder(own_parts.ALL["alibi"]), []
    with pellucid.model.observers.observe_attention(lambda q, k, v, mask, bias, output: calls.append(bias), model):
        model(words(TGT_VOCAB_SIZE, 1, 4))
    for head, slope in enumerate(2.0 ** (-8 * n / 3) for n in (1, 2, 3)):
        assert calls[0][head, 3].tolist() == pytest.approx([-3 * slope, -2 * slope, -slope, 0.0])


def test_what_begins_as_everywhere_and_what_is_left_alone() -> None:
    class Marked(Averaging):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            nn.init.constant_(self.gate.weight, 7.0)
            nn.init.constant_(self.value_proj.weight, 7.0)
            self.table = nn.Embedding(3, config.d_model)
            nn.init.constant_(self.table.weight, 7.0)

    model = transformer(pellucid.Parts(attention=Marked, positions=Ramp))
    bound = math.sqrt(6 / 24)
    for module in model.modules():
        if isinstance(module, Marked):
            assert (module.gate.weight == 7).all()
            assert (module.table.weight == 7).all()
            assert 0.8 * bound < module.value_proj.weight.abs().max() <= bound
            assert not module.value_proj.bias.any()
    assert torch.equal(model.src_embedding.positions.direction, torch.linspace(-1, 1, 12))


def test_the_matrices_that_a_part_ends_with_are_shrunk_as_others_are() -> None:
    for parts in (None, own_parts.ALL["squared"]):
        torch.manual_seed(1)
        model = transformer(parts, norm="pre", scale_embeddings=False, d_model=48)
        bound = math.sqrt(6 / 68) / math.sqrt(4)  # two sums in each of two layers
        assert 0.9 * bound < model.encoder.layers[0].feed_forward.down_proj.weight.abs().max() <= bound


@pytest.mark.parametrize(
    ("parts", "message", "hint"),
    [
        (
            lambda: pellucid.Parts(norm=nn.LayerNorm(12)),
            "`norm` of Parts is a LayerNorm instance; it must be a factory that makes a new module for each place",
            "write Parts(norm=LayerNorm), or Parts(norm=lambda config: LayerNorm(...))",
        ),
        (
            lambda: pellucid.Parts(attention="windowed"),
            "`attention` of Parts is 'windowed'; it must be None or a callable (config) -> nn.Module",
            "give a class whose constructor takes the config, or a function of it",
        ),
        (
            lambda: transformer(pellucid.Parts(feed_forward=lambda config: config.d_ff)),
            "`feed_forward` of Parts (tests.unit.model.test_parts.<lambda>) made a int; it must make a torch.nn.Module",
            "",
        ),
        (
            lambda: transformer({"feed_forward": Squared}),  # type: ignore[arg-type]
            "`parts` is a dict, not a pellucid.Parts",
            "write parts=pellucid.Parts(attention=...)",
        ),
        (
            lambda: transformer(pellucid.Parts(attention=Windowed)),
            "`attention` of Parts (tests.own_parts.Windowed) cannot be called with only the config: missing a "
            "required argument: 'num_heads'",
            "write Parts(attention=Windowed.from_config)",
        ),
        (
            lambda: transformer(pellucid.Parts(norm=lambda: nn.LayerNorm(12))),
            "`norm` of Parts (tests.unit.model.test_parts.<lambda>) cannot be called with only the config: too many "
            "positional arguments",
            "let it take the model's config",
        ),
        (
            lambda: transformer(pellucid.Parts(attention=Squared)),
            "`attention` of Parts (tests.own_parts.Squared) cannot be called as attention(x, memory, mask=, cache=, "
            "distances=): too many positional arguments",
            "let its forward() take x, memory, mask, cache, distances",
        ),
        (
            lambda: transformer(pellucid.Parts(decoder_layer=Squared)),
            "`decoder_layer` of Parts (tests.own_parts.Squared) cannot be called as decoder_layer(x, memory, mask, "
            "memory_mask, cache, distances): too many positional arguments",
            "let its forward() take x, memory, mask, memory_mask, cache, distances",
        ),
    ],
)
def test_what_is_not_a_part(parts: object, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parts()
    assert str(caught.value).replace(__name__, "tests.unit.model.test_parts") == message
    assert caught.value.hint == hint


class Returning(nn.Module):
    """Takes whatever a part is called with, and returns what a test says of it."""

    def __init__(self, returned: Callable[..., object], config: ModelConfig) -> None:
        super().__init__()
        self.returned = returned

    def forward(self, *given: Tensor, **named: object) -> object:
        return self.returned(*given)


@pytest.mark.parametrize("name", ["attention", "feed_forward", "norm", "encoder_layer", "decoder_layer"])
@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (lambda x, *_: x[..., :-1], r"a tensor \(2, 6, 11\)"),
        (lambda x, *_: x.mean(dim=1, keepdim=True), r"a tensor \(2, 1, 12\)"),
        (lambda x, *_: (x, None), "tuple"),
        (lambda *_: None, "NoneType"),
    ],
)
def test_a_part_returns_a_vector_a_token(name: str, returned: Callable[..., object], found: str) -> None:
    model = transformer(pellucid.Parts(**{name: partial(Returning, returned)}))
    message = rf"^`{name}` of Parts \(Returning\) returned {found}; it must return a tensor \(2, 6, 12\), as `x` is$"
    with pytest.raises(ConfigError, match=message):
        model(words(SRC_VOCAB_SIZE, 2, 6), words(TGT_VOCAB_SIZE, 2, 6))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda queries, keys: queries[:, None] - keys, "returned Tensor, not Distances"),
        (
            lambda *_: pellucid.Distances(bias=torch.zeros(3, 6, 5)),
            r"returned a bias \(3, 6, 5\) for 6 queries and 6 keys",
        ),
        (lambda *_: pellucid.Distances(bias=torch.zeros(4, 6)), r"returned a bias \(4, 6\) for 6 queries and 6 keys"),
    ],
)
def test_positions_return_distances(returned: Callable[..., object], message: str) -> None:
    model = transformer(pellucid.Parts(positions=partial(Returning, returned)))
    with pytest.raises(ConfigError, match=rf"^`positions` of Parts \(Returning\) {message}$") as caught:
        model(words(SRC_VOCAB_SIZE, 2, 6), words(TGT_VOCAB_SIZE, 2, 6))
    assert caught.value.hint


@pytest.mark.parametrize("shape", [(), (1,), (6, 6), (3, 6, 6), (2, 1, 1, 6)])
def test_a_bias_may_be_anything_that_broadcasts(shape: tuple[int, ...]) -> None:
    parts = pellucid.Parts(positions=partial(Returning, lambda *_: pellucid.Distances(bias=torch.ones(shape))))
    assert transformer(parts)(words(SRC_VOCAB_SIZE, 2, 6), words(TGT_VOCAB_SIZE, 2, 6)).isfinite().all()


def test_what_a_part_is_called() -> None:
    parts = pellucid.Parts(
        Windowed.from_config, partial(Squared), partial(partial(ScaleNorm)), Alibi, Reversed.from_config, mixing_layer
    )
    assert parts.names == {
        "attention": "tests.own_parts.Windowed.from_config",
        "feed_forward": "tests.own_parts.Squared",
        "norm": "tests.own_parts.ScaleNorm",
        "positions": "tests.own_parts.Alibi",
        "encoder_layer": "tests.own_parts.Reversed.from_config",
        "decoder_layer": "tests.own_parts.mixing_layer",
    }
    assert pellucid.Parts().names == {}


def test_a_part_fits_its_name_wherever_it_is_defined() -> None:
    class Alibi(own_parts.Alibi):
        pass

    parts = pellucid.Parts(positions=Alibi, attention=Windowed.from_config)
    assert parts.fits("positions", "tests.own_parts.Alibi")
    assert parts.fits("positions", "__main__.Alibi")
    assert not parts.fits("positions", "tests.own_parts.MyAlibi")
    assert not parts.fits("positions", "tests.own_parts.Alibi.from_config")
    assert not parts.fits("attention", "tests.own_parts.Windowed")
    assert not parts.fits("norm", "tests.own_parts.Alibi")


def test_a_state_that_is_not_one_of_hypotheses() -> None:
    class Flat(Averaging):
        def forward(
            self, x: Tensor, memory: Tensor | None, *, cache: pellucid.LayerCache | None, **_: object
        ) -> Tensor:
            if cache is not None:
                cache.get_state(self)["sum"] = x.flatten(0, 1)
            return x

    model = transformer(pellucid.Parts(attention=Flat))
    cache = model.start(sources(2), beam_size=3)
    model.step(words(TGT_VOCAB_SIZE, 2, 3), cache)
    message = (
        r"stores `sum` of shape \(6, 12\) in the cache; it must begin with \(B, W\), here \(2, 3\), or with \(B, 1\)"
    )
    with pytest.raises(DataError, match=message):
        cache.reorder(torch.zeros(2, 3, dtype=torch.int64))


def test_parts_of_one_layer_keep_states_of_their_own() -> None:
    one, other, cache = nn.Identity(), nn.Identity(), pellucid.LayerCache()
    cache.get_state(one)["sum"] = torch.arange(6.0).view(2, 3)
    cache.get_state(other)["sum"] = torch.ones(2, 1)
    cache.reorder(torch.tensor([[2, 2, 0], [0, 1, 1]]))
    assert cache.get_state(one)["sum"].tolist() == [[2, 2, 0], [3, 4, 4]]
    cache.select(torch.tensor([1]))
    assert cache.get_state(one)["sum"].tolist() == [[3, 4, 4]]
    assert cache.get_state(other)["sum"].tolist() == [[1]]


def test_the_cache_of_a_layer_by_itself_knows_no_positions() -> None:
    with pytest.raises(DataError, match="the cache of a single layer has no positions") as caught:
        _ = pellucid.LayerCache().positions
    assert caught.value.hint == "keep the cache of the model: cache = model.start(ids), then cache.layers[0]"
