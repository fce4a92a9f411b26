"""What is recorded of a pass is what the model computed with, for each family and kind of attention."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pellucid.errors import DataError
from pellucid.model.attention import attention, attention_weights
from pellucid.model.families import DecoderOnly, EncoderOnly, Model, SequenceClassifier
from pellucid.model.observers import observe_attention
from pellucid.model.transformer import Transformer
from pellucid.tasks.tracing import trace, trace_pass
from pellucid.text.tokenizers import TokenizerPair
from pellucid.tracing.recorder import (
    AttentionCall,
    build_attention_trace,
    list_attention,
    measure_reconstruction_error,
    record_attention,
    value_norms,
)
from tests.rounding import NETWORK, of_attention, of_weights
from tests.unit.tracing.models import KINDS, classifier, decoder, encoder, source, transformer

MODELS: dict[str, Callable[[], Model]] = {
    **{f"transformer-{name}": lambda fields=fields: transformer(**fields) for name, fields in KINDS.items()},
    **{f"encoder-{name}": lambda fields=fields: encoder(**fields) for name, fields in KINDS.items()},
    **{f"decoder-{name}": lambda fields=fields: decoder(**fields) for name, fields in KINDS.items()},
    "classifier": classifier,
}


@dataclass
class Passed:
    """The weights (H, L, M) of an attention in a plain pass, and how far another computation may be from them."""

    weights: Tensor
    of_weights: float
    of_output: float


def passed(model: Model, src: Tensor, tgt: Tensor) -> list[Passed]:
    """Each attention of a plain pass, in its order."""
    seen: list[Passed] = []

    def observe(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, _: Tensor) -> None:
        bounds = of_weights(q, k, bias), of_attention(q, k, v, bias)
        seen.append(Passed(attention_weights(q, k, mask, bias)[0], *bounds))

    with torch.inference_mode(), observe_attention(observe):
        model(src, tgt) if isinstance(model, Transformer) else model(src)
    return seen


@pytest.mark.parametrize("name", MODELS)
def test_the_weights_are_those_of_the_pass(name: str) -> None:
    model, src, tgt = MODELS[name](), source(7), source(5)
    found = trace(model, src, tgt if isinstance(model, Transformer) else None)
    places, expected = dict.fromkeys(found, 0), passed(model, src, tgt)
    for (kind, _), one in zip(list_attention(model), expected, strict=True):
        layer, places[kind] = places[kind], places[kind] + 1
        for head, weights in enumerate(one.weights.numpy()):
            np.testing.assert_allclose(found[kind].weights(layer, head), weights, rtol=0, atol=one.of_weights)
    assert all(found[kind].num_layers == count for kind, count in places.items())
    assert found.faithfulness <= max(one.of_output for one in expected) < 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_shapes_fit_the_sequences(name: str) -> None:
    model = MODELS[name]()
    found = trace(model, source(7), source(5) if isinstance(model, Transformer) else None)
    for attention_trace in found.attentions.values():
        queries, keys = (found.sequences[side] for side in (attention_trace.queries, attention_trace.keys))
        assert attention_trace.size == (len(queries), len(keys))
        assert attention_trace.num_heads == model.config.num_heads
        assert attention_trace.num_kv_heads == (model.config.num_kv_heads or model.config.num_heads)
        assert attention_trace.value_norms is not None
        assert attention_trace.value_norms.shape == (2, model.config.num_heads, len(keys))


@pytest.mark.parametrize("name", MODELS)
def test_the_weights_mix_the_values_to_what_the_model_computed(name: str) -> None:
    model, src, tgt = MODELS[name](), source(7), source(5)
    found = trace(model, src, tgt if isinstance(model, Transformer) else None)
    outputs: list[Tensor] = []
    with torch.inference_mode(), observe_attention(lambda q, k, v, mask, bias, output: outputs.append(output[0])):
        model(src, tgt) if isinstance(model, Transformer) else model(src)
    places = dict.fromkeys(found, 0)
    for (kind, _), output in zip(list_attention(model), outputs, strict=True):
        layer, places[kind] = places[kind], places[kind] + 1
        one = found[kind]
        assert one.v is not None
        assert one.v.shape[1] == one.num_kv_heads
        v = one.v[layer].repeat(one.num_heads // one.num_kv_heads, axis=0)  # (H, M, K)
        np.testing.assert_allclose(one.layer_weights(layer) @ v, output.numpy(), atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_what_was_probable_is_what_the_model_says(name: str) -> None:
    model, src, tgt = MODELS[name](), source(7), source(5)
    found = trace(model, src, tgt if isinstance(model, Transformer) else None)
    if isinstance(model, EncoderOnly):
        assert found.predictions is None
        expected = model(src)[0].softmax(-1) if isinstance(model, SequenceClassifier) else None
        assert (found.classes is None) == (expected is None)
        if expected is not None and found.classes is not None:
            np.testing.assert_allclose([*found.classes.values()], expected.detach().numpy(), atol=1e-6)
        return
    assert found.classes is None
    assert found.predictions is not None
    with torch.inference_mode():
        log_probs = (model(src, tgt) if isinstance(model, Transformer) else model(src))[0].log_softmax(-1)
    best = log_probs.topk(5)
    for row, one in enumerate(found.predictions):
        assert [token.id for token, _ in one.top] == best.indices[row].tolist()
        np.testing.assert_allclose([value for _, value in one.top], best.values[row].numpy(), atol=1e-5)
        written = found.sequences["out"][row].id
        assert written is not None
        assert one.log_prob == pytest.approx(float(log_probs[row, written]), abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_residual_stream_is_kept_where_it_is_asked_for(name: str) -> None:
    model, src, tgt = MODELS[name](), source(7), source(5)
    given = (src, tgt) if isinstance(model, Transformer) else (src,)
    assert not trace(model, *given).residual
    stream = trace(model, *given, residual=True).residual
    stacks = [stack for stack in ("encoder", "decoder") if hasattr(model, stack)]
    sublayers = [["self_attn", "cross_attn", "feed_forward"], ["self_attn", "feed_forward"]]
    expected = {"encoder": sublayers[1], "decoder": sublayers[not isinstance(model, Transformer)]}
    named = {f"{stack}.layers.{n}.{place}" for stack in stacks for n in (0, 1) for place in expected[stack]}
    embeddings = {f"{'src' if stack == 'encoder' else 'tgt'}_embedding" for stack in stacks}
    assert set(stream) == named | embeddings
    # With no norm behind the last layer, what goes on there is the stack's output.
    with torch.inference_mode():
        if isinstance(model, Transformer | DecoderOnly):
            last = stream["decoder.layers.1.feed_forward"]
            np.testing.assert_allclose(last, model.states(*given)[0].numpy(), atol=1e-5)
        else:
            last = stream["encoder.layers.1.feed_forward"]
            states = EncoderOnly.forward(model, src)[0]
            np.testing.assert_allclose(last, states.numpy(), atol=1e-5)


def test_a_vocabulary_beyond_the_tokenizers_is_named_by_number() -> None:
    class Letters:
        size, pad_id, bos_id, eos_id, unk_id = 6, 0, 1, 2, 3

        def encode(self, text: str) -> list[int]:
            return [4 + (letter == "b") for letter in text]

        def decode(self, ids: Any) -> str:
            return "".join("ab"[i - 4] for i in ids if i > 3)

    found = trace_pass(decoder(), tgt=[4, 5, 4], out=[5, 4, 2], tokenizers=TokenizerPair.from_given(Letters()))
    assert found.predictions is not None
    texts = {token.id: token.text for one in found.predictions for token, _ in one.top}
    beyond = {i: text for i, text in texts.items() if i is not None and i > 5}
    assert beyond
    assert all(text == str(i) for i, text in beyond.items())


def test_rotary_positions_are_told_of_self_attention_alone() -> None:
    found = trace(transformer(positions="rotary", rotary_base=500.0), source(), source())
    assert [found[name].rotary_base for name in found] == [500.0, 500.0, None]
    assert trace(encoder(), source())["encoder.self"].rotary_base is None


@pytest.mark.parametrize("waves", [(), (4.0, 16.0)])
def test_a_trace_tells_that_rotary_positions_have_a_factor(waves: tuple[float, ...]) -> None:
    slowed = trace(transformer(positions="rotary", rotary_factor=4.0, rotary_wavelengths=waves), source(), source())
    assert slowed.model["rotary_factor"] == 4
    for fields in ({"positions": "rotary"}, {"rotary_factor": 4.0}):
        assert "rotary_factor" not in trace(transformer(**fields), source(), source()).model


def test_a_bias_that_all_layers_share_is_kept_once() -> None:
    found = trace(transformer(**KINDS["relative"]), source(7), source(5))
    bias = found["encoder.self"].bias
    assert bias is not None
    assert bias.shape == (1, 6, 7, 7)
    assert found["cross"].bias is None


def test_masks() -> None:
    found = trace(transformer(), source(7), source(5))
    assert found["encoder.self"].mask is None
    assert found["cross"].mask is None
    np.testing.assert_array_equal(found["decoder.self"].mask, np.tril(np.ones((5, 5), dtype=bool)))


def call(H: int = 4, Hkv: int = 2, L: int = 5, M: int = 7, K: int = 3) -> dict[str, Any]:
    """Arguments of difference() and what attention() makes of them."""
    q, k, v = torch.randn(H, L, K), torch.randn(Hkv, M, K), torch.randn(H, M, K)
    mask, bias = torch.rand(L, M) < 0.6, torch.randn(H, L, M)
    mask[2] = False  # a row with nothing to attend to
    keys = k.repeat_interleave(H // Hkv, dim=0)
    output = attention(q[None], keys[None], v[None], mask, bias=bias[None])[0]
    return {"q": q, "k": k, "v": v, "mask": mask, "bias": bias, "output": output}


def test_a_call_is_rebuilt() -> None:
    given = call()
    assert measure_reconstruction_error(**given) <= bound_of(given)


def bound_of(given: dict[str, Any]) -> float:
    """How far the output may be from what is rebuilt."""
    keys = given["k"].repeat_interleave(given["q"].size(0) // given["k"].size(0), dim=0)
    return of_attention(given["q"], keys, given["v"], given["bias"])


@pytest.mark.parametrize(
    "fault",
    [
        {"mask": None},
        {"bias": None},
        {"k": torch.randn(2, 7, 3)},
        {"k": torch.randn(4, 7, 3)},
        {"q": torch.randn(4, 5, 3)},
        {"v": torch.randn(4, 7, 3)},
    ],
    ids=["mask", "bias", "k", "k-of-other-heads", "q", "v"],
)
def test_a_fault_in_what_is_recorded_shows(fault: dict[str, Any]) -> None:
    assert measure_reconstruction_error(**call() | fault) > 1e-3


@pytest.mark.parametrize("head", [0, 3])
def test_a_fault_in_one_head_shows(head: int) -> None:
    given = call()
    given["output"][head, 1, 2] += 0.5
    assert measure_reconstruction_error(**given).item() == pytest.approx(0.5, abs=bound_of(given))


def test_value_norms_are_the_lengths_of_what_is_added() -> None:
    model, seen = encoder(), []
    src = source(6)
    with torch.inference_mode(), observe_attention(lambda q, k, v, mask, bias, output: seen.append(v[0])):
        model(src)
    found = trace(model, src)["encoder.self"].value_norms
    assert found is not None
    for layer, (_, block) in enumerate(list_attention(model)):
        for head in range(6):
            columns = block.out_proj.weight.detach()[:, head * block.head_width : (head + 1) * block.head_width]
            exact = (seen[layer][head].double() @ columns.double().T).norm(dim=-1)
            # A length is the root of a sum that may cancel: it keeps half of the digits of the longest.
            np.testing.assert_allclose(found[layer, head], exact, rtol=0, atol=NETWORK * float(exact.max()))
    assert value_norms(torch.zeros(2, 3, 4), torch.randn(5, 8)).tolist() == [[0.0] * 3] * 2


def test_narrow_weights_are_recorded_in_single_precision() -> None:
    model = encoder().to(torch.bfloat16)
    found = trace(model, source())
    q = found["encoder.self"].q
    assert q is not None
    assert q.dtype == np.float32
    single = trace(encoder(), source()).faithfulness
    assert 10 * single < found.faithfulness < 0.1  # the kernel rounds, and the trace tells by how much
    assert found.provenance["dtype"] == "bfloat16"


def test_masks_that_differ_are_an_error() -> None:
    _, block = list_attention(encoder())[0]
    q = torch.randn(1, 6, 3, 2)
    masks = [torch.ones(1, 1, 3, 3, dtype=torch.bool).tril(), None]
    calls = [
        record_attention(AttentionCall("encoder.self", 0, block, q, q, q, mask, None, attention(q, q, q, mask)))
        for mask in masks
    ]
    with pytest.raises(DataError, match=r"the layers of `encoder.self` have different masks"):
        build_attention_trace("encoder.self", "src", "src", calls)
