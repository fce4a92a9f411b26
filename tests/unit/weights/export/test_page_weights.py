"""What a page carries of a model: every parameter once, as near to it as its type allows."""

from typing import Any

import pytest
import safetensors.torch
import torch

from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.model.transformer import Transformer
from pellucid.weights.export.page_weights import PageWeights, dequantise, page_weights
from pellucid.weights.tensors import parameters
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, tiny_model, words

TYPES: list[PageWeights] = ["float32", "float16", "int8"]
JOINT: dict[str, Any] = {"tie_embeddings": "all", "tgt_vocab_size": SRC_VOCAB_SIZE}


def test_single_precision_is_the_model_folder_s() -> None:
    model = tiny_model()
    expected = {name: tensor.detach() for name, tensor in parameters(model).items()}
    assert page_weights(model, "float32") == safetensors.torch.save(expected)


@pytest.mark.parametrize("weights", TYPES)
def test_what_is_shared_stands_there_once(weights: PageWeights) -> None:
    found = safetensors.torch.load(page_weights(tiny_model(**JOINT), weights))
    embeddings = {name for name in found if "tokens" in name or "projection" in name}
    scales = {"src_embedding.tokens.weight.scale"} if weights == "int8" else set()
    assert embeddings == {"src_embedding.tokens.weight"} | scales


@pytest.mark.parametrize(("weights", "matrices"), [("float16", torch.float16), ("int8", torch.int8)])
def test_matrices_are_small_and_vectors_stay(weights: PageWeights, matrices: torch.dtype) -> None:
    model = tiny_model()
    found = safetensors.torch.load(page_weights(model, weights))
    for name, parameter in parameters(model).items():
        assert found[name].dtype == (matrices if parameter.dim() == 2 else torch.float32)
        assert found[name].shape == parameter.shape
    scaled = {name for name in found if name.endswith(".scale")}
    assert scaled == ({f"{name}.scale" for name in found if found[name].dtype == torch.int8})


def test_a_byte_is_half_a_scale_away_at_most() -> None:
    model = tiny_model(**JOINT)
    found, near = safetensors.torch.load(page_weights(model)), dequantise(model)
    near_numbers = parameters(near)
    for name, parameter in parameters(model).items():
        if parameter.dim() == 1:
            assert torch.equal(near_numbers[name], parameter)
            continue
        scale = found[name + ".scale"]
        torch.testing.assert_close(scale, parameter.abs().amax(dim=1) / 127, rtol=1e-6, atol=0)
        assert torch.equal(near_numbers[name], found[name] * scale[:, None])
        # Half a step, and the rounding of numbers of single precision.
        assert bool(((near_numbers[name] - parameter).abs() <= 0.501 * scale[:, None]).all())
    assert near.output_projection.weight is near.src_embedding.tokens.weight


@pytest.mark.parametrize("weights", TYPES)
def test_a_copy_with_the_page_s_numbers_is_made_and_the_model_left_alone(weights: PageWeights) -> None:
    model = tiny_model()
    before = {name: parameter.clone() for name, parameter in parameters(model).items()}
    near = dequantise(model, weights)
    assert isinstance(near, Transformer)
    assert page_weights(dequantise(near, weights), "float32") == page_weights(near, "float32")  # nothing is lost twice
    assert all(torch.equal(parameter, before[name]) for name, parameter in parameters(model).items())
    src, tgt = words(SRC_VOCAB_SIZE, 1, 5), words(TGT_VOCAB_SIZE, 1, 4)
    whole, rounded = model(src, tgt), near(src, tgt)
    assert torch.equal(whole, rounded) == (weights == "float32")
    torch.testing.assert_close(whole, rounded, rtol=0, atol=0.2)


def test_rows_of_zeros_and_of_the_smallest_numbers_stay_finite() -> None:
    model = tiny_model()
    with torch.no_grad():
        model.src_embedding.tokens.weight[3] = 0
        model.src_embedding.tokens.weight[4] = 1e-45
    near = dequantise(model).src_embedding.tokens.weight.detach()
    assert bool((near[3] == 0).all())
    assert float(near[4].abs().max()) <= 1e-43


def test_relative_positions_stay_whole() -> None:
    model = tiny_model(positions="relative")
    found = safetensors.torch.load(page_weights(model))
    assert torch.equal(found["encoder.relative.bias.weight"], model.encoder.relative.bias.weight)  # type: ignore[union-attr,arg-type]


def test_a_model_in_half_precision_is_packed_like_its_numbers_in_single_precision() -> None:
    halved = tiny_model().half()
    assert page_weights(halved, "int8") == page_weights(halved.float(), "int8")


@pytest.mark.parametrize("call", [page_weights, dequantise])
def test_what_cannot_be_packed_is_told(call: Any) -> None:
    model = tiny_model()
    with pytest.raises(ConfigError, match="unknown `weights` `int4`; did you mean `int8`"):
        call(model, "int4")
    with torch.no_grad():
        model.output_projection.weight[0, 0] = 70000
    with pytest.raises(DataError, match=r"has a value of magnitude 70000; the maximum of half precision is 65,504"):
        call(model, "float16")
    with torch.no_grad():
        model.output_projection.weight[0, 0] = torch.nan
    with pytest.raises(CheckpointError, match=r"the model: 1 of the .* are not finite"):
        call(model, "int8")
