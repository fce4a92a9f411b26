"""What parts add to a logit: the sum is the logit, a head's part is what is missing without it, errors have words."""

import pytest
import torch
from torch import Tensor, nn

from pellucid.analysis.ablation import Head, disable_heads
from pellucid.analysis.contributions import (
    LARGEST_ERROR,
    attribute_against_runner_up,
    attribute_logits,
    frozen,
    source_contributions,
)
from pellucid.analysis.occlusion import attribute
from pellucid.analysis.replay import Replay
from pellucid.config import ModelConfig
from pellucid.errors import DataError
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer
from pellucid.tasks.tracing import trace
from pellucid.tasks.translator import Translator
from tests.tiny_model import tiny_config
from tests.unit.analysis.explained import MODELS, logits_of, traced
from tests.unit.tracing.models import SIZES, encoder, source, transformer


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_parts_sum_to_the_logit_of_every_row(name: str) -> None:
    model = MODELS[name]()
    pass_of = traced(model)
    logits = logits_of(model, pass_of)
    for row in range(len(logits)):
        found = attribute_logits(model, pass_of, row=row)
        assert found.word.id is not None
        expected = float(logits[row, found.word.id])
        assert found.total == pytest.approx(expected, abs=1e-5)
        assert sum(part.value for part in found.parts) == pytest.approx(expected, abs=LARGEST_ERROR)
        assert found.error < LARGEST_ERROR


@pytest.mark.parametrize("name", MODELS)
def test_against_another_word_they_sum_to_the_difference(name: str) -> None:
    model = MODELS[name]()
    pass_of = traced(model)
    found = attribute_logits(model, pass_of, row=0, foil=1)
    logits = logits_of(model, pass_of)[0]
    assert sum(part.value for part in found.parts) == pytest.approx(
        float(logits[found.word.id] - logits[1]), abs=LARGEST_ERROR
    )
    assert found.foil is not None
    assert found.foil.id == 1


def test_the_parts_stand_in_the_order_of_the_pass() -> None:
    model = transformer(num_heads=2)
    names = [part.name for part in attribute_logits(model, traced(model)).parts]
    layer = [f"{kind} layer {{0}} head {head}" for kind in ("decoder.self", "cross") for head in (0, 1)]
    layers = [name.format(number) for number in (0, 1) for name in [*layer, "feed forward {0}"]]
    assert names == ["embedding", *layers, "biases"]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_last_layers_heads_add_what_is_missing_without_them(norm: str) -> None:
    """Behind them nothing but the feed-forward network reads them: with that silent, the difference is theirs alone."""
    model = transformer(norm=norm, final_norm=False, num_heads=2)
    with torch.no_grad():
        model.decoder.layers[-1].feed_forward.down_proj.weight.zero_()
    if norm == "post":  # norms behind the sum would change their deviation
        for layer in model.decoder.layers:
            layer.cross_attn_norm, layer.feed_forward_norm = nn.Identity(), nn.Identity()
    pass_of = traced(model)
    explained = attribute_logits(model, pass_of, row=2)
    assert explained.error < LARGEST_ERROR
    found = {part.name: part.value for part in explained.parts}
    word = pass_of.sequences["out"][2].id
    whole = logits_of(model, pass_of)[2, word]
    for head in (0, 1):
        with disable_heads(model, Head("cross", 1, head)):
            without = logits_of(model, pass_of)[2, word]
        assert found[f"cross layer 1 head {head}"] == pytest.approx(float(whole - without), abs=1e-4)


def test_a_head_that_is_switched_off_adds_nothing_and_the_sum_holds() -> None:
    model = transformer()
    pass_of = traced(model)
    with disable_heads(model, Head("cross", 0, 1)):
        found = attribute_logits(model, pass_of, row=1)
    assert next(part.value for part in found.parts if part.name == "cross layer 0 head 1") == 0.0
    assert found.error < LARGEST_ERROR


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_what_comes_from_the_places_is_what_the_heads_carry(name: str) -> None:
    """Summed over places, and against the mean of all words, it is the sum of the heads' parts."""
    model = MODELS[name]()
    pass_of = traced(model)
    by_place = source_contributions(Replay(model, pass_of))
    kind = {"transformer": "cross", "decoder": "decoder.self", "classifier": "encoder.self"}[name.partition("-")[0]]
    size = model.config.num_classes or model.config.tgt_vocab_size
    for row in range(len(by_place))[:2]:
        parts = [attribute_logits(model, pass_of, row=row, foil=word).parts for word in range(size)]
        carried = sum(p.value for some in parts for p in some if p.attention == kind) / size
        assert float(by_place[row].sum()) == pytest.approx(carried, abs=1e-4)


def test_a_norm_that_sublayers_share_is_refused() -> None:
    model = transformer()
    layer = model.decoder.layers[1]
    layer.cross_attn_norm = layer.feed_forward_norm
    pass_of = traced(model)
    with pytest.raises(
        DataError, match=r"`cross_attn_norm` and `feed_forward_norm` of `decoder\.layers\.1` are the same module"
    ) as caught:
        attribute_logits(model, pass_of)
    assert caught.value.hint == "use a separate norm in each sublayer"


@pytest.mark.parametrize(
    "norm",
    [
        nn.LayerNorm(8), nn.LayerNorm(8, bias=False), nn.LayerNorm(8, elementwise_affine=False), nn.RMSNorm(8, 1e-6),
        nn.RMSNorm(8), nn.RMSNorm(8, elementwise_affine=False),
    ],
)  # fmt: skip
def test_a_frozen_norm_gives_back_what_the_norm_gives(norm: nn.Module) -> None:
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    norm = norm.double()
    x, direction = torch.randn(3, 8, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)
    with torch.no_grad():
        before, constant = frozen(norm, x, direction)
        assert float((before * x).sum() + constant) == pytest.approx(float((direction * norm(x)).sum()), abs=1e-9)


def test_a_row_is_the_first_word_unless_it_is_given(translator: Translator) -> None:
    pass_of = translator.trace("a b c", "c b a")
    assert attribute_logits(translator, pass_of).row == 0
    assert attribute_logits(translator, pass_of, row=1).word == pass_of.sequences["out"][1]
    with pytest.raises(DataError, match=r"`row=9` must be in 0..3") as caught:
        attribute_logits(translator, pass_of, row=9)
    assert caught.value.hint == "4 tokens were generated"


def test_a_word_may_be_given_as_text(translator: Translator) -> None:
    pass_of = translator.trace("a b c", "c b a")
    found = attribute_logits(translator, pass_of, row=0, foil="b")
    assert found.foil is not None
    assert (found.foil.id, found.foil.text) == (pass_of.sequences["out"][1].id, "b")
    with pytest.raises(DataError, match=r'`foil="a b"` is not one token of the model: it is encoded as 2 \(a b\)'):
        attribute_logits(translator, pass_of, foil="a b")
    with pytest.raises(DataError, match=r'`foil="cat"` is not one token .* 1 \(<unk>\)'):
        attribute_logits(translator, pass_of, foil="cat")
    with pytest.raises(DataError, match=r"`foil=-1` is not an id of the model: the ids are 0\.\.11"):
        attribute_logits(translator, pass_of, foil=-1)


def test_without_a_tokenizer_a_word_is_an_id() -> None:
    model = transformer()
    with pytest.raises(DataError, match='`foil="cat"` is a text, but the model has no tokenizer'):
        attribute_logits(model, traced(model), foil="cat")


def test_a_trace_of_another_model_is_refused() -> None:
    model, other = transformer(), transformer()
    with pytest.raises(DataError, match="recorded with another model"):
        attribute_logits(other, traced(model))


def test_an_encoder_alone_writes_nothing() -> None:
    model = encoder()
    with pytest.raises(DataError, match="a model of the class EncoderOnly has no output that could be explained"):
        attribute_logits(model, trace(model, source()))


class Halved(nn.Module):
    """A norm of one's own."""

    def forward(self, x: Tensor) -> Tensor:
        return x / 2


def test_a_norm_of_ones_own_is_refused_and_named() -> None:
    model = Transformer(tiny_config(), Parts(norm=lambda config: Halved()))
    with pytest.raises(DataError, match="a norm of the class Halved cannot be linearized at its mean and deviation"):
        attribute_logits(model, traced(model))


class Summed(nn.Module):
    """Attention of one's own, and a feed-forward: neither has heads nor biases that are known."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 12)

    def forward(self, x: Tensor, memory: Tensor | None = None, **_: object) -> Tensor:
        return self.linear(x if memory is None else memory.mean(dim=1, keepdim=True).expand_as(x))


def test_parts_of_ones_own_count_whole() -> None:
    model = Transformer(tiny_config(), Parts(attention=lambda config: Summed(), feed_forward=lambda config: Summed()))
    found = attribute_logits(model, traced(model))
    assert "cross layer 1" in [part.name for part in found.parts]
    assert found.error < LARGEST_ERROR


def test_what_attention_of_ones_own_carries_is_not_known() -> None:
    """Of one layer or of all: what is left of the others would pass for the whole."""
    hint = 'use `method="occlusion"`, which does not depend on it'
    model = transformer()
    model.decoder.layers[1].cross_attn = Summed()
    with pytest.raises(DataError, match="the `cross` attention of layer 1 is custom") as caught:
        attribute(model, traced(model), method="direct")
    assert caught.value.hint == hint
    alone = DecoderOnly(ModelConfig.decoder(vocab_size=20, num_layers=2, **SIZES), Parts(attention=lambda _: Summed()))
    with pytest.raises(DataError, match=r"the `decoder\.self` attention of layer 1 is custom"):
        attribute(alone, traced(alone), method="direct")


def test_the_likeliest_other_word_of_a_row(translator: Translator) -> None:
    pass_of = translator.trace("a b c", "c b a")
    every = attribute_against_runner_up(translator, pass_of)
    assert [one.row for one in every] == [0, 1, 2, 3]
    assert attribute_against_runner_up(translator, pass_of, row=2) == [every[2]]
    assert every[2].foil is not None
    assert every[2].foil.id != every[2].word.id
    with pytest.raises(DataError, match=r"`row=4` must be in 0\.\.3"):
        attribute_against_runner_up(translator, pass_of, row=4)


def test_what_a_page_takes(translator: Translator) -> None:
    found = attribute_logits(translator, translator.trace("a b c", "c b a"), row=1, foil=5).to_json()
    assert list(found) == ["row", "word", "foil", "total", "parts", "error"]
    assert found["word"].keys() == {"text", "piece", "id"}
    assert found["parts"][1].keys() == {"name", "value", "attention", "layer", "head"}
    assert found["parts"][0].keys() == {"name", "value"}
    assert found["parts"][-1]["name"] == "biases"


def test_a_classifier_says_its_label() -> None:
    model = MODELS["classifier-first"]()
    assert isinstance(model, SequenceClassifier)
    pass_of = traced(model)
    found = attribute_logits(model, pass_of)
    assert (found.row, found.word.id) == (0, int(logits_of(model, pass_of).argmax()))


def test_classes_without_labels_are_called_by_their_numbers() -> None:
    model = MODELS["classifier-first"]()
    pass_of = traced(model)
    found = attribute_logits(model, pass_of, foil="1")
    assert found.foil is not None
    assert (found.foil.id, found.foil.text) == (1, "1")
    with pytest.raises(DataError, match="the model has no label `good`") as caught:
        attribute_logits(model, pass_of, foil="good")
    assert caught.value.hint == "it has 0, 1, 2, 3"
