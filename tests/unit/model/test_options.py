"""Each field of ModelConfig changes what it should: some the parameters, some the numbers, none silently nothing."""

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.config import ModelConfig
from pellucid.model.transformer import Transformer
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, padded, tiny_config, words

STACKS = ("encoder", "decoder")
LAYERS = [f"{stack}.layers.{n}" for stack in STACKS for n in range(2)]
BLOCKS = [f"{layer}.self_attn" for layer in LAYERS] + [f"decoder.layers.{n}.cross_attn" for n in range(2)]
PARTS = ("weight", "bias")
ASKING = [(f"decoder.layers.{n}.cross_attn", "q_norm") for n in range(2)]
"""The norms of queries to the encoder's output."""
EMBEDDINGS = ("src_embedding", "tgt_embedding")

BIASES = [name for name, _ in Transformer(tiny_config()).named_parameters() if name.endswith("bias")]

# What each option adds to the parameters of `tiny_config()`, and what it takes away.
NEW_PARAMETERS: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"norm": "pre"}, [f"{stack}.norm.{part}" for stack in STACKS for part in ("weight", "bias")], []),
    ({"final_norm": True}, [f"{stack}.norm.{part}" for stack in STACKS for part in ("weight", "bias")], []),
    ({"norm": "pre", "final_norm": False}, [], []),
    ({"embedding_norm": True}, [f"{side}.norm.{part}" for side in EMBEDDINGS for part in ("weight", "bias")], []),
    ({"positions": "learned"}, [f"{side}.positions.weight" for side in EMBEDDINGS], []),
    (
        {"gated_feed_forward": True},
        [f"{layer}.feed_forward.gate_proj.{part}" for layer in LAYERS for part in ("weight", "bias")],
        [],
    ),
    ({"bias": False}, [], BIASES),
    ({"bias": False, "output_bias": True}, ["output_projection.bias"], BIASES),
    ({"output_bias": True}, ["output_projection.bias"], []),
    ({"qkv_bias": False}, [], [name for name in BIASES if "qkv_proj" in name]),
    ({"norm_type": "rms"}, [], [name for name in BIASES if "norm" in name]),
    ({"qk_norm": True}, [f"{b}.{n}.{part}" for b in BLOCKS for n in ("q_norm", "k_norm") for part in PARTS], []),
    (
        {"qk_norm": True, "cross_query_norm": False},
        [f"{b}.{n}.{part}" for b in BLOCKS for n in ("q_norm", "k_norm") for part in PARTS if (b, n) not in ASKING],
        [],
    ),
    ({"num_segments": 2}, [f"{side}.segments.weight" for side in EMBEDDINGS], []),
    ({"positions": "relative"}, [f"{stack}.relative.bias.weight" for stack in STACKS], []),
    ({"tie_embeddings": "none"}, ["output_projection.weight"], []),
    ({"tie_embeddings": "all", "src_vocab_size": TGT_VOCAB_SIZE}, [], ["tgt_embedding.tokens.weight"]),
]

# Options of the same parameters that change the numbers; those of training do so in training alone.
NEW_NUMBERS: list[dict[str, Any]] = [
    {"norm": "pre", "final_norm": False},
    {"num_heads": 6},
    {"activation": "gelu"},
    {"activation": "silu"},
    {"activation": "gelu_tanh"},
    {"positions": "rotary"},
    {"norm_eps": 0.1},
    {"scale_embeddings": False},
    {"pad_id": None},
]
NEW_NUMBERS_IN_TRAINING: list[dict[str, Any]] = [
    {"dropout": 0.5},
    {"attention_dropout": 0.5},
    {"feed_forward_dropout": 0.5},
]

# Options that count where positions are of their kind.
NEW_NUMBERS_OF_POSITIONS: list[tuple[str, dict[str, Any]]] = [
    ("rotary", {"rotary_base": 100.0}),
    ("rotary", {"rotary_factor": 2.0}),
    ("rotary", {"rotary_factor": 2.0, "rotary_wavelengths": (5.0, 9.0)}),
    ("relative", {"relative_max_distance": 40}),
]

# Options that change the shapes of parameters: their names, with the shape they have then.
NEW_SHAPES: list[tuple[dict[str, Any], dict[str, tuple[int, ...]]]] = [
    ({"src_vocab_size": 31}, {"src_embedding.tokens.weight": (31, 12)}),
    ({"tgt_vocab_size": 31}, {"tgt_embedding.tokens.weight": (31, 12)}),
    (
        {"num_kv_heads": 1},
        {f"{block}.qkv_proj.{part}": (20, 12)[: 2 - (part == "bias")] for block in BLOCKS for part in PARTS},
    ),
    (
        {"head_dim": 2},
        {f"{block}.qkv_proj.{part}": (18, 12)[: 2 - (part == "bias")] for block in BLOCKS for part in PARTS}
        | {f"{block}.out_proj.weight": (12, 6) for block in BLOCKS},
    ),
    (
        {"d_ff": 8},
        {
            f"{layer}.feed_forward.{name}": shape
            for layer in LAYERS
            for name, shape in {"up_proj.weight": (8, 12), "up_proj.bias": (8,), "down_proj.weight": (12, 8)}.items()
        },
    ),
]


def model_of(**options: Any) -> Transformer:
    return Transformer(tiny_config(**options)).eval()


def shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(("options", "added", "removed"), NEW_PARAMETERS, ids=str)
def test_options_that_change_the_parameters(options: dict[str, Any], added: list[str], removed: list[str]) -> None:
    before, after = shapes(model_of()), shapes(model_of(**options))
    assert sorted(set(after) - set(before)) == sorted(added)
    assert sorted(set(before) - set(after)) == sorted(removed)


@pytest.mark.parametrize(("options", "changed"), NEW_SHAPES, ids=str)
def test_options_that_change_shapes(options: dict[str, Any], changed: dict[str, tuple[int, ...]]) -> None:
    before, after = shapes(model_of()), shapes(model_of(**options))
    assert {name: shape for name, shape in after.items() if before[name] != shape} == changed


def outputs(options: dict[str, Any], train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of the plain model and of the one with `options`, from the same weights and the same random numbers."""
    plain, other = model_of().train(train), model_of(**options).train(train)
    other.load_state_dict(plain.state_dict())
    src, tgt = padded(words(SRC_VOCAB_SIZE, 2, 6), [6, 3]), words(TGT_VOCAB_SIZE, 2, 5)
    return plain(src, tgt), other(src, tgt)


@pytest.mark.parametrize("options", NEW_NUMBERS, ids=str)
def test_options_that_change_the_numbers(options: dict[str, Any]) -> None:
    plain, other = outputs(options, train=False)
    assert not torch.allclose(plain, other, atol=1e-4)


@pytest.mark.parametrize(("positions", "options"), NEW_NUMBERS_OF_POSITIONS, ids=str)
def test_options_of_positions_change_the_numbers(positions: str, options: dict[str, Any]) -> None:
    plain, other = model_of(positions=positions), model_of(positions=positions, **options)
    other.load_state_dict(plain.state_dict())
    src, tgt = words(SRC_VOCAB_SIZE, 2, 40), words(TGT_VOCAB_SIZE, 2, 5)
    assert not torch.allclose(plain(src, tgt), other(src, tgt), atol=1e-4)


def test_the_buckets_of_relative_positions_are_rows_of_their_own() -> None:
    model = model_of(positions="relative", relative_num_buckets=8)
    assert {tuple(stack.relative.bias.weight.shape) for stack in (model.encoder, model.decoder)} == {(8, 3)}


@pytest.mark.parametrize("options", NEW_NUMBERS_IN_TRAINING, ids=str)
def test_options_that_change_the_numbers_in_training_alone(options: dict[str, Any]) -> None:
    assert not torch.allclose(*outputs(options, train=True), atol=1e-4)
    assert torch.equal(*outputs(options, train=False))


@pytest.mark.parametrize("options", [{"bos_id": 5}, {"eos_id": 5}], ids=str)
def test_ids_that_mean_nothing_to_the_model_itself(options: dict[str, Any]) -> None:
    assert torch.equal(*outputs(options, train=True))


@pytest.mark.parametrize(("encoder", "decoder"), [(1, 3), (3, 1), (2, 2)])
def test_each_stack_has_its_own_depth(encoder: int, decoder: int) -> None:
    model = model_of(num_encoder_layers=encoder, num_decoder_layers=decoder)
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (encoder, decoder)
    assert model(words(SRC_VOCAB_SIZE, 2, 6), words(TGT_VOCAB_SIZE, 2, 5)).shape == (2, 5, TGT_VOCAB_SIZE)


def test_d_model_is_the_width_of_all() -> None:
    model = model_of(d_model=18)
    assert model.encode(words(SRC_VOCAB_SIZE, 2, 6)).shape == (2, 6, 18)
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert {norm.normalized_shape for norm in norms} == {(18,)}


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_final_norm_falls_on_each_stack(norm: str) -> None:
    model = model_of(norm=norm, final_norm=True)
    src, tgt = words(SRC_VOCAB_SIZE, 2, 6), words(TGT_VOCAB_SIZE, 2, 5)
    for states in (model.encode(src), model.states(src, tgt)):
        torch.testing.assert_close(states.mean(-1), torch.zeros(states.shape[:2]), rtol=0, atol=1e-5)
        torch.testing.assert_close(states.var(-1, unbiased=False), torch.ones(states.shape[:2]), rtol=0, atol=1e-2)


def test_every_field_is_tested() -> None:
    tested = {name for options, *_ in (*NEW_PARAMETERS, *NEW_SHAPES) for name in options}
    tested |= {name for options in (*NEW_NUMBERS, *NEW_NUMBERS_IN_TRAINING) for name in options}
    by_themselves = {"num_encoder_layers", "num_decoder_layers", "d_model", "bos_id", "eos_id"}
    tested |= {name for _, options in NEW_NUMBERS_OF_POSITIONS for name in options} | {"relative_num_buckets"}
    elsewhere = {
        "max_positions",
        "num_classes",
        "classifier_activation",
        "pooling",
    }  # test_embeddings.py, test_families.py
    assert tested | by_themselves | elsewhere == {f.name for f in fields(ModelConfig)}
