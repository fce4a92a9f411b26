"""Traces of transformers models: their own weights, by the kernel that they run, and nothing changed."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.errors import DataError
from pellucid.tracing.from_weights import trace_from_weights
from pellucid.tracing.hugging_face import NAME, trace_hugging_face
from pellucid.tracing.trace import Trace
from pellucid.weights import from_hugging_face
from tests.parity.tracing.models import FAMILIES, Letters, foreign_model

pytestmark = pytest.mark.foreign

TEXT = "thequickfox"


def own_weights(family: str, found: Trace, inputs: dict[str, torch.Tensor]) -> dict[str, tuple[torch.Tensor, ...]]:
    """What the same model returns as its weights, each (1, H, L, M), when it computes them one by one."""
    model = foreign_model(family, "eager")
    with torch.inference_mode():
        if not model.config.is_encoder_decoder:
            return {next(iter(found)): model(**inputs, output_attentions=True).attentions}
        tgt = torch.tensor([[token.id for token in found.sequences["tgt"]]])
        outputs = model(**inputs, decoder_input_ids=tgt, output_attentions=True)
    return {
        "encoder.self": outputs.encoder_attentions,
        "decoder.self": outputs.decoder_attentions,
        "cross": outputs.cross_attentions,
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_the_weights_are_the_models_own(family: str) -> None:
    model = foreign_model(family)
    found = trace_hugging_face(model, Letters(), TEXT, target="jumps" if model.config.is_encoder_decoder else None)
    expected = own_weights(family, found, Letters()(TEXT))
    assert set(found) == set(expected)
    for name, layers in expected.items():
        assert found[name].num_layers == len(layers)
        for layer, weights in enumerate(layers):
            assert weights.std() > 0.01, "flat weights would prove nothing"
            for head in range(weights.size(1)):
                np.testing.assert_allclose(found[name].weights(layer, head), weights[0, head].numpy(), atol=1e-5)
    assert found.faithfulness <= 1e-5
    assert found.model.get("score_scale") == (1.0 if family == "t5" else None)  # T5 does not divide by sqrt(K)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_model_is_as_it_was(family: str, attention: str) -> None:
    model, inputs = foreign_model(family, attention).train(), Letters()(TEXT)
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = inputs["input_ids"]
    torch.manual_seed(1)
    before = model(**inputs)[0]
    trace_hugging_face(model, Letters(), TEXT)
    configs = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    assert {config._attn_implementation for config in configs.values()} == {attention}
    assert model.training
    torch.manual_seed(1)
    assert torch.equal(model(**inputs)[0], before)


@pytest.mark.parametrize("family", FAMILIES)
def test_another_thread_in_the_middle_runs_the_model_as_it_is(family: str) -> None:
    """Its own attention and mode, and nothing of its text in the trace."""
    model, inputs, during = foreign_model(family, "eager"), Letters()(TEXT), []
    target = "ab" if model.config.is_encoder_decoder else None
    if target:
        inputs["decoder_input_ids"] = inputs["input_ids"]
    expected, alone = trace_hugging_face(model, Letters(), "dogs", target=target), model(**inputs)[0]

    def between(*_: Any) -> None:
        if not during:
            during.append(torch.empty(0))
            during[0] = pool.submit(lambda: model(**inputs)[0]).result()

    last = [module for module in model.modules() if hasattr(module, "is_causal")][-1]
    with ThreadPoolExecutor(1) as pool:
        hook = last.register_forward_pre_hook(between)
        found = trace_hugging_face(model, Letters(), "dogs", target=target)
        hook.remove()
    assert torch.equal(during[0], alone)
    assert found.sequences == expected.sequences
    for name in expected:
        np.testing.assert_array_equal(found[name].weights(1, 3), expected[name].weights(1, 3))


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_computed_while_it_records_is_what_sdpa_computes(family: str) -> None:
    model, seen = foreign_model(family), []
    last = [module for module in model.modules() if hasattr(module, "is_causal")][-1]
    hook = last.register_forward_hook(lambda module, inputs, outputs: seen.append(outputs[0]))
    found = trace_hugging_face(model, Letters(), TEXT, target="ab" if model.config.is_encoder_decoder else None)
    inputs = Letters()(TEXT)
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([[token.id for token in found.sequences["tgt"]]])
    with torch.inference_mode():
        model(**inputs)
    hook.remove()
    assert torch.equal(*seen)


def test_grouped_heads_are_kept_grouped() -> None:
    found = trace_hugging_face(foreign_model("llama"), Letters(), TEXT)["decoder.self"]
    assert (found.num_heads, found.num_kv_heads) == (4, 2)


def test_layers_that_see_less_are_told_by_their_bias() -> None:
    found = trace_hugging_face(foreign_model("gemma3"), Letters(), TEXT)["decoder.self"]
    local, whole = found.weights(0, 0), found.weights(1, 0)
    assert local[10, :7].max() == 0
    assert whole[10, :7].max() > 0
    assert np.isfinite(found.bias).all()  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["marian", "bart", "t5"])
def test_a_given_target(family: str) -> None:
    found = trace_hugging_face(foreign_model(family), Letters(), "abc", target="de")
    assert [token.text for token in found.sequences["src"]] == ["a", "b", "c", "</s>"]
    assert [token.text for token in found.sequences["out"]] == ["d", "e", "</s>"]
    assert [token.text for token in found.sequences["tgt"]][1:] == ["d", "e"]
    assert found["cross"].size == (3, 4)
    assert found.model["family"] == "encoder-decoder"


def test_what_the_model_writes_by_itself() -> None:
    model = foreign_model("bart")
    found = trace_hugging_face(model, Letters(), "abc")
    written = model.generate(**Letters()("abc"))[0].tolist()
    assert [token.id for token in found.sequences["tgt"]] == written[:-1]
    assert [token.id for token in found.sequences["out"]] == written[1:]


def test_two_texts() -> None:
    found = trace_hugging_face(foreign_model("bert"), Letters(), "ab", "c")
    assert [(token.text, token.segment, token.special) for token in found.sequences["src"]] == [
        ("a", 0, False), ("b", 0, False), ("</s>", 0, True), ("c", 1, False), ("</s>", 1, True),
    ]  # fmt: skip


def test_a_target_without_a_decoder() -> None:
    with pytest.raises(DataError, match="`target` is given, but the model is not an encoder-decoder"):
        trace_hugging_face(foreign_model("bert"), Letters(), "ab", target="c")


def test_a_text_that_is_too_long() -> None:
    with pytest.raises(DataError, match="the text has 66 tokens, but the model has 64 positions"):
        trace_hugging_face(foreign_model("bart"), Letters(), "a" * 65)


def test_attention_that_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = foreign_model("bert")
    monkeypatch.setattr(type(model), "set_attn_implementation", lambda self, name: None)
    with pytest.raises(DataError, match="BertModel does not compute its attention through") as caught:
        trace_hugging_face(model, Letters(), "ab")
    assert "trace_from_weights" in str(caught.value.hint)


def test_the_model_is_itself_again_after_an_error() -> None:
    model = foreign_model("bert")
    model.embeddings.word_embeddings.weight = torch.nn.Parameter(torch.zeros(60, 5))
    with pytest.raises(RuntimeError):
        trace_hugging_face(model, Letters(), "ab")
    assert model.config._attn_implementation != NAME


def test_eager_weights_given_ready_made_are_the_same_trace() -> None:
    model = foreign_model("bert", "eager")
    found = trace_hugging_face(model, Letters(), TEXT)
    given = model(**Letters()(TEXT), output_attentions=True).attentions
    ready = trace_from_weights(given, Letters().convert_ids_to_tokens(Letters()(TEXT)["input_ids"][0].tolist()))
    np.testing.assert_allclose(ready["encoder.self"].weights(1, 3), found["encoder.self"].weights(1, 3), atol=1e-5)
    fused = foreign_model("bert")(**Letters()(TEXT)).attentions
    with pytest.raises(DataError, match=r"attention|None"):
        trace_from_weights(fused or (None,), ["x"])


def test_a_real_checkpoint_here_and_there(minilm: Path) -> None:
    """The same weights, tokens, words and segments, whether Pellucid opens the model or transformers runs it."""
    import transformers

    from pellucid.tasks.tracing import trace_text

    texts = "Time flies like an arrow, unbelievably.", "Fruit flies like a 바나나."
    theirs: Any = transformers.BertModel.from_pretrained(minilm).eval()
    foreign = trace_hugging_face(theirs, transformers.AutoTokenizer.from_pretrained(minilm), *texts)
    ours, tokenizers = from_hugging_face(minilm)
    own = trace_text(ours, getattr(tokenizers, "source", tokenizers), *texts)  # type: ignore[arg-type]
    assert own.faithfulness <= 1e-5
    assert foreign.faithfulness <= 1e-5
    assert own.sequences["src"] == foreign.sequences["src"]
    for layer in range(6):
        for head in range(12):
            one, other = (found["encoder.self"].weights(layer, head) for found in (own, foreign))
            np.testing.assert_allclose(one, other, atol=1e-5)
