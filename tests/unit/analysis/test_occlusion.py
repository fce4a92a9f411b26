"""How much each word that is read counts: occlusion by hand, gradients by differences, and what they sum to."""

import numpy as np
import pytest
import torch

from pellucid.analysis.gradients import gradients
from pellucid.analysis.occlusion import attribute
from pellucid.analysis.replay import Replay, get_input_embedding
from pellucid.errors import DataError
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.tasks.tracing import trace
from pellucid.tasks.translator import Translator
from tests.unit.analysis.explained import MODELS, logits_of, traced
from tests.unit.tracing.models import encoder, source, transformer

SOME = ["transformer-post", "transformer-pre", "transformer-relative", "classifier-pooler", "classifier-mean"]
DECODERS = ["decoder-post", "decoder-grouped-rotary"]


def log_probs(
    model: Transformer | SequenceClassifier, src: torch.Tensor, tgt: torch.Tensor | None, hidden: int
) -> torch.Tensor:
    """Log-probabilities (R, V) with one place of the source hidden; -1: none."""
    mask = (torch.arange(src.size(1)) != hidden)[None, None, None]
    with torch.inference_mode():
        logits = model(src, tgt, mask)[0] if isinstance(model, Transformer) else model(src, None, mask)
    return logits.log_softmax(-1)


@pytest.mark.parametrize("name", SOME)
def test_a_hidden_word_is_hidden_from_all(name: str) -> None:
    model = MODELS[name]()
    pass_of = traced(model)
    found = attribute(model, pass_of)
    ids = {side: torch.tensor([[token.id for token in tokens]]) for side, tokens in pass_of.sequences.items()}
    out = [token.id for token in found.rows]
    whole = log_probs(model, ids["src"], ids.get("tgt"), -1)
    for number, places in enumerate(found.places):
        without = log_probs(model, ids["src"], ids.get("tgt"), places[0])
        for row, word in enumerate(out):
            expected = float(whole[row, word] - without[row, word])
            assert found.values[row, number] == pytest.approx(expected, abs=1e-5)
    assert found.words == tuple(token for token in pass_of.sequences["src"] if not token.special)


@pytest.mark.parametrize("name", DECODERS)
def test_in_a_decoder_alone_a_word_is_hidden_from_later_places(name: str) -> None:
    """A copy that reads another word there says, of what that word's own place hands on, nothing to anybody."""
    model = MODELS[name]()
    assert isinstance(model, DecoderOnly)
    pass_of = traced(model)
    values = attribute(model, pass_of).values
    rows, words = values.shape
    for word in range(words):
        np.testing.assert_allclose(values[: word + 1, word], 0, atol=1e-5)  # it sees itself, and nobody before sees it
        assert np.abs(values[word + 1 :, word]).max(initial=1.0 if word + 1 == rows else 0.0) > 1e-4
    # What is hidden cannot matter: with another word in its place, later rows say the same.
    replay, hidden = Replay(model, pass_of), torch.tensor([[True, True, False, True, True, True, True]])
    before = replay.log_probs(hidden)
    assert replay.tgt is not None
    replay.tgt[0, 2] = (replay.tgt[0, 2] + 1) % 20
    torch.testing.assert_close(replay.log_probs(hidden)[:, 3:], before[:, 3:])
    assert not torch.allclose(replay.log_probs(hidden)[:, 2], before[:, 2])


@pytest.mark.parametrize("name", [*SOME, "decoder-post", "decoder-pre"])
def test_integrated_gradients_sum_to_what_the_way_gains(name: str) -> None:
    model = MODELS[name]()
    replay = Replay(model, traced(model))
    found = gradients(replay, 300)
    embedding = get_input_embedding(replay.model)
    handle = embedding.tokens.register_forward_hook(lambda module, given, output: torch.zeros_like(output))
    without = replay.log_probs(torch.ones(1, len(replay.read), dtype=torch.bool))[0]
    handle.remove()
    whole = replay.log_probs(torch.ones(1, len(replay.read), dtype=torch.bool))[0]
    torch.testing.assert_close(found.sum(dim=1), whole - without, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("name", [*SOME, *DECODERS])
def test_a_gradient_is_what_a_small_step_changes(name: str) -> None:
    model = MODELS[name]().double()
    replay = Replay(model, traced(model))
    found, step, place = gradients(replay), 1e-5, 2
    visible = torch.ones(1, len(replay.read), dtype=torch.bool)

    def with_share(share: float) -> torch.Tensor:
        scale = torch.ones(len(replay.read), 1, dtype=torch.float64)
        scale[place] = share
        handle = get_input_embedding(replay.model).tokens.register_forward_hook(
            lambda module, given, output: output * scale
        )
        try:
            logits = replay.logits(visible).log_softmax(-1)
        finally:
            handle.remove()
        return logits.gather(-1, replay.out[None, :, None])[0, :, 0].detach()

    slope = (with_share(1 + step) - with_share(1 - step)) / (2 * step)
    torch.testing.assert_close(found[:, place].double(), slope, atol=1e-4, rtol=1e-4)


def test_the_model_is_left_as_it_was() -> None:
    model = transformer()
    pass_of = traced(model)
    before = logits_of(model, pass_of)
    for method in ("occlusion", "gradient", "integrated", "direct"):
        attribute(model, pass_of, method=method, steps=2)
    assert torch.equal(logits_of(model, pass_of), before)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_pieces_of_a_word_count_together(translator: Translator) -> None:
    found = attribute(translator, translator.trace("a b c", "c b a"))
    assert [word.text.strip() for word in found.words] == ["a", "b", "c"]
    assert found.values.shape == (4, 3), "the end token is written, and is not hidden where it is read"
    assert found.to_json(1) == {
        "row": 1,
        "words": [
            {"places": [place], "text": word.text, "change": pytest.approx(float(found.values[1, place]))}
            for place, word in enumerate(found.words)
        ],
    }
    summed = [word["change"] for word in found.to_json()["words"]]
    np.testing.assert_allclose(summed, found.values.sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("method", ["gradient", "integrated", "direct"])
def test_all_methods_have_the_same_shape(method: str, translator: Translator) -> None:
    found = attribute(translator, translator.trace("a b c", "c b a"), method=method)  # type: ignore[arg-type]
    assert found.values.shape == (4, 3)
    assert repr(found) == f"Attribution({method}: 4 output tokens, 3 input words)"


def test_a_classifiers_row_is_its_label() -> None:
    model = MODELS["classifier-first"]()
    found = attribute(model, traced(model))
    assert len(found.rows) == 1
    assert found.get_values().tolist() == found.get_values(0).tolist()


def test_what_cannot_be_is_refused() -> None:
    model = transformer()
    pass_of = traced(model)
    with pytest.raises(DataError, match='unknown `method="shap"`') as caught:
        attribute(model, pass_of, method="shap")  # type: ignore[arg-type]
    assert caught.value.hint == "choose one of occlusion, gradient, integrated, direct"
    with pytest.raises(DataError, match=r"`steps=0` must be at least 1"):
        attribute(model, pass_of, method="integrated", steps=0)
    with pytest.raises(DataError, match=r"`row=4` must be in 0\.\.3"):
        attribute(model, pass_of).get_values(4)
    plain = encoder()
    with pytest.raises(DataError, match="EncoderOnly has no output"):
        attribute(plain, trace(plain, source()))
