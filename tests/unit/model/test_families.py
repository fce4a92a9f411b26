"""Encoders and decoders alone: they are the two halves, and the options that other families need."""

from functools import partial

import pytest
import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.decoding.fast_step import make_step
from pellucid.errors import ConfigError, DataError
from pellucid.model.attention import MultiHeadAttention, attention, attention_weights
from pellucid.model.attention_positions import apply_rotary, compute_rotary
from pellucid.model.families import DecoderOnly, EncoderOnly, SequenceClassifier, build_model
from pellucid.model.transformer import Transformer
from tests.rounding import DOUBLE_NETWORK, NETWORK

pytestmark = pytest.mark.usefixtures("double_precision")

SHAPE = {"d_model": 16, "d_ff": 24, "num_heads": 4, "num_layers": 2, "vocab_size": 30, "max_positions": 40}


def encoder(**fields: object) -> EncoderOnly:
    return EncoderOnly(ModelConfig.encoder(**(SHAPE | fields))).eval()


def decoder(**fields: object) -> DecoderOnly:
    return DecoderOnly(ModelConfig.decoder(**(SHAPE | fields))).eval()


def words(*shape: int) -> Tensor:
    return torch.randint(3, 30, shape)


def close(a: Tensor, b: Tensor, atol: float = DOUBLE_NETWORK) -> None:
    torch.testing.assert_close(a, b, atol=atol, rtol=0)


DECODERS = {
    "sinusoidal": {},
    "gpt": {"positions": "learned", "norm": "pre", "activation": "gelu_tanh", "pad_id": None},
    "llama": {
        "positions": "rotary", "norm": "pre", "norm_type": "rms", "activation": "silu", "gated_feed_forward": True,
        "bias": False,
        "num_kv_heads": 2, "head_dim": 6, "pad_id": None, "tie_embeddings": "none",
    },
    "qwen": {"positions": "rotary", "norm_type": "rms", "bias": False, "qkv_bias": True, "num_kv_heads": 1},
    "relative": {
        "positions": "relative", "norm": "pre", "norm_type": "rms", "relative_num_buckets": 8,
        "relative_max_distance": 20,
    },
}  # fmt: skip


def test_the_layer_counts_tell_the_family() -> None:
    assert type(build_model(ModelConfig.encoder(**SHAPE))) is EncoderOnly
    assert type(build_model(ModelConfig.encoder(**SHAPE, num_classes=3))) is SequenceClassifier
    assert type(build_model(ModelConfig.decoder(**SHAPE))) is DecoderOnly
    assert type(build_model(ModelConfig.preset("tiny", src_vocab_size=30, tgt_vocab_size=30))) is Transformer


def test_an_encoder_alone_is_the_encoder_of_a_transformer() -> None:
    whole = Transformer(ModelConfig.preset("tiny", src_vocab_size=30, tgt_vocab_size=30)).eval()
    alone = EncoderOnly(whole.config).eval()
    own = whole.state_dict()
    alone.load_state_dict({name: own[name] for name in alone.state_dict()})
    ids = words(3, 9)
    ids[0, 5:] = 0
    assert torch.equal(alone(ids), whole.encode(ids))


def test_what_stands_behind_the_padding_changes_nothing() -> None:
    model, ids = encoder(num_segments=2, embedding_norm=True), words(2, 8)
    padded = torch.cat([ids, torch.zeros(2, 5, dtype=torch.long)], dim=1)
    close(model(padded)[:, :8], model(ids))


def test_segments_are_told_apart_and_the_first_is_the_default() -> None:
    model, ids = encoder(num_segments=2), words(2, 8)
    zeros = torch.zeros_like(ids)
    assert torch.equal(model(ids), model(ids, segments=zeros))
    assert not torch.allclose(model(ids), model(ids, segments=zeros + 1), atol=1e-3)


def test_segments_need_segment_embeddings() -> None:
    with pytest.raises(DataError, match=r"`num_segments` is 0"):
        encoder()(words(1, 4), segments=torch.zeros(1, 4, dtype=torch.long))


def test_a_mask_of_ones_own_takes_the_place_of_the_padding_mask() -> None:
    model, ids = encoder(), words(2, 8)
    mask = torch.ones(2, 1, 1, 8, dtype=torch.bool)
    mask[:, :, :, 6:] = False
    close(model(ids, mask=mask)[:, :6], model(ids[:, :6]))


@pytest.mark.parametrize("activation", ["none", "tanh", "relu"])
def test_a_classifier_reads_the_first_token(activation: str) -> None:
    config = ModelConfig.encoder(**SHAPE, num_classes=3, classifier_activation=activation)
    model = SequenceClassifier(config).eval()
    states = EncoderOnly.forward(model, ids := words(2, 8))
    assert model(ids).shape == (2, 3)
    assert torch.equal(model(ids), model.head(states[:, :1]))


def test_a_classifier_may_read_the_mean_of_a_text_without_its_padding() -> None:
    model = SequenceClassifier(ModelConfig.encoder(**SHAPE, num_classes=3, pooling="mean")).eval()
    ids = words(2, 8)
    states = EncoderOnly.forward(model, ids)
    close(model(ids), model.head.class_projection(states.mean(dim=1)))
    close(model(torch.cat([ids, torch.zeros(2, 3, dtype=torch.long)], dim=1)), model(ids))
    unpadded = SequenceClassifier(ModelConfig.encoder(**SHAPE, num_classes=3, pooling="mean", pad_id=None)).eval()
    unpadded.load_state_dict(model.state_dict())
    close(unpadded(ids), model(ids))


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_alone_sees_the_past_alone(name: str) -> None:
    model, ids = decoder(**DECODERS[name]), words(2, 9)
    changed = ids.clone()
    changed[:, 6:] = 3
    close(model(changed)[:, :6], model(ids)[:, :6])
    assert not torch.allclose(model(changed)[:, 6:], model(ids)[:, 6:], atol=1e-3)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("prompt", [1, 4])
@torch.no_grad()
def test_steps_with_a_cache_give_what_the_whole_text_gives(name: str, prompt: int) -> None:
    model, ids = decoder(**DECODERS[name]), words(3, 9)
    cache = model.start(ids[:, :prompt])
    for step in (partial(model.step, cache=cache), make_step(model, model.start(ids[:, :prompt]))):
        steps = [step(ids[:, i : i + 1]) for i in range(prompt - 1, 9)]
        close(torch.cat(steps, dim=1), model(ids)[:, prompt - 1 :])


@pytest.mark.parametrize("positions", ["rotary", "relative"])
def test_a_beam_over_distances_gives_what_the_whole_text_gives(positions: str) -> None:
    """The keys of a beam stand side by side: each must keep its own position."""
    config = ModelConfig.preset("tiny", src_vocab_size=30, tgt_vocab_size=30, positions=positions, max_positions=60)
    model = Transformer(config).eval()
    src, tgt = words(2, 7), words(2, 3, 5)  # (B, W, T)
    cache = model.start(src, beam_size=3)
    steps = torch.stack([model.step(tgt[:, :, t], cache) for t in range(5)], dim=2)  # (B, W, T, V)
    for w in range(3):
        close(steps[:, w], model(src, tgt[:, w]))


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    q, k = torch.randn(1, 2, 1, 8), torch.randn(1, 2, 1, 8)

    def score(query: int, key: int) -> Tensor:
        at = [compute_rotary(torch.tensor([place]), 8) for place in (query, key)]
        return apply_rotary(q, at[0]) @ apply_rotary(k, at[1]).mT

    close(score(3, 1), score(13, 11), NETWORK)  # angles are taken in single precision
    assert not torch.allclose(score(3, 1), score(3, 2), atol=1e-3)


def test_relative_positions_take_the_place_of_absolute_ones() -> None:
    """A text without positions reads the same in any order; with them, it does not."""
    model, ids = encoder(positions="relative"), words(1, 6)
    turned = model(ids.flip(1)).flip(1)
    assert not torch.allclose(turned, model(ids), atol=1e-3)
    assert model.encoder.relative.bias is not None
    torch.nn.init.zeros_(model.encoder.relative.bias.weight)
    close(model(ids.flip(1)).flip(1), model(ids))


def test_shared_key_heads_are_those_of_a_full_attention_with_copies() -> None:
    grouped = MultiHeadAttention(16, 4, num_kv_heads=2)
    full = MultiHeadAttention(16, 4)
    q, k, v = grouped.qkv_proj.weight.split(grouped.qkv_widths)
    copies = [part.view(2, 4, 16).repeat_interleave(2, dim=0).reshape(16, 16) for part in (k, v)]
    full.load_state_dict(
        {
            "qkv_proj.weight": torch.cat([q, *copies]),
            "qkv_proj.bias": torch.zeros(48),
            **{f"out_proj.{name}": value for name, value in grouped.out_proj.state_dict().items()},
        }
    )
    torch.nn.init.zeros_(grouped.qkv_proj.bias)
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    close(grouped(x), full(x))
    close(grouped(x, memory), full(x, memory))


@pytest.mark.parametrize("with_mask", [False, True])
def test_a_bias_raises_scores_on_both_paths(with_mask: bool) -> None:
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    bias = torch.randn(1, 3, 5, 5)
    mask = torch.ones(5, 5, dtype=torch.bool).tril() if with_mask else None
    expected = (q @ k.mT / 2 + bias).masked_fill(torch.zeros(5, 5, dtype=torch.bool) if mask is None else ~mask, -1e9)
    close(attention_weights(q, k, mask, bias), expected.softmax(-1))
    for fused in (False, True):
        close(attention(q, k, v, mask, fused=fused, bias=bias), expected.softmax(-1) @ v)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_layers": 0}, "are both 0"),
        ({"num_classes": 1}, r"`num_classes` \(1\) must be 0 or at least 2"),
        ({"num_kv_heads": 3}, r"`num_heads` \(4\) must be divisible by `num_kv_heads` \(3\)"),
        ({"positions": "rotary", "head_dim": 5}, r"odd width \(5\)"),
        ({"positions": "relative", "relative_max_distance": 9}, r"`relative_max_distance` \(9\) must be above half"),
        ({"colour": 1}, "colour"),
    ],
)
def test_shapes_that_cannot_be(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ModelConfig.encoder(**(SHAPE | fields))


def test_classes_are_for_an_encoder_alone() -> None:
    with pytest.raises(ConfigError, match=r"`num_classes` \(3\) is for an encoder alone"):
        ModelConfig.decoder(**SHAPE, num_classes=3)
    with pytest.raises(ConfigError, match=r"`num_classes` \(0\) must be at least 2"):
        SequenceClassifier(ModelConfig.encoder(**SHAPE))


def test_a_transformer_has_two_stacks() -> None:
    with pytest.raises(ConfigError, match=r"`num_encoder_layers` is 2 and `num_decoder_layers` 0"):
        Transformer(ModelConfig.encoder(**SHAPE))
