"""The Transformer: the names of its parameters, what is tied, how it begins, and the masks it makes itself."""

import math
import re

import pytest
import torch
from torch import Tensor, nn

from pellucid.model.masks import causal_mask
from pellucid.model.transformer import Transformer
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, padded, tiny_config, tiny_model, words

D = 12
NAMES = re.compile(
    r"(src|tgt)_embedding\.(tokens|positions|norm)\.(weight|bias)"
    r"|(encoder|decoder)\.layers\.\d+\.(self_attn|cross_attn)\.(qkv_proj|out_proj)\.(weight|bias)"
    r"|(encoder|decoder)\.layers\.\d+\.(self_attn_norm|cross_attn_norm|feed_forward_norm)\.(weight|bias)"
    r"|(encoder|decoder)\.layers\.\d+\.feed_forward\.(gate|up|down)_proj\.(weight|bias)"
    r"|(encoder|decoder)\.norm\.(weight|bias)"
    r"|output_projection\.(weight|bias)"
)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"norm": "pre"},
        {"positions": "learned", "embedding_norm": True, "gated_feed_forward": True, "output_bias": True},
    ],
    ids=str,
)
def test_the_names_of_all_parameters(fields: dict[str, object]) -> None:
    model = tiny_model(tie_embeddings="none", **fields)
    assert [name for name in model.state_dict() if not NAMES.fullmatch(name)] == []
    assert not any("cross_attn" in name for name, _ in model.encoder.named_parameters())


def test_the_names_and_shapes_of_a_layer() -> None:
    shapes = {name: tuple(p.shape) for name, p in tiny_model().decoder.layers[1].named_parameters()}
    norms = {
        f"{name}.{part}": (D,)
        for name in ("self_attn_norm", "cross_attn_norm", "feed_forward_norm")
        for part in ("weight", "bias")
    }
    blocks = {
        f"{name}.{part}": shape
        for name in ("self_attn", "cross_attn")
        for part, shape in {
            "qkv_proj.weight": (3 * D, D),
            "qkv_proj.bias": (3 * D,),
            "out_proj.weight": (D, D),
            "out_proj.bias": (D,),
        }.items()
    }
    feed_forward = {
        "feed_forward.up_proj.weight": (20, D),
        "feed_forward.up_proj.bias": (20,),
        "feed_forward.down_proj.weight": (D, 20),
        "feed_forward.down_proj.bias": (D,),
    }
    assert shapes == norms | blocks | feed_forward


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_what_is_tied(tie: str) -> None:
    model = tiny_model(tie_embeddings=tie, src_vocab_size=19, tgt_vocab_size=19)
    src, tgt, output = (
        model.get_parameter(f"{name}.weight")
        for name in ("src_embedding.tokens", "tgt_embedding.tokens", "output_projection")
    )
    assert (output is tgt) == (tie != "none")
    assert (src is tgt) == (tie == "all")
    names = [name for name, _ in model.named_parameters()]
    tokens = [name for name in names if name.endswith("tokens.weight") or name == "output_projection.weight"]
    assert (
        tokens
        == {
            "none": ["src_embedding.tokens.weight", "tgt_embedding.tokens.weight", "output_projection.weight"],
            "decoder": ["src_embedding.tokens.weight", "tgt_embedding.tokens.weight"],
            "all": ["src_embedding.tokens.weight"],
        }[tie]
    )
    assert len({id(parameter) for parameter in model.parameters()}) == len(names)


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_the_state_dict_has_all_names_and_the_embeddings_come_before_the_output(tie: str) -> None:
    model = tiny_model(tie_embeddings=tie, src_vocab_size=19, tgt_vocab_size=19)
    names = list(model.state_dict())
    order = [
        names.index(f"{name}.weight") for name in ("src_embedding.tokens", "tgt_embedding.tokens", "output_projection")
    ]
    assert order == sorted(order)
    assert order[-1] == len(names) - 1


def test_a_step_of_learning_keeps_the_tie() -> None:
    model = tiny_model(tie_embeddings="all", src_vocab_size=19, tgt_vocab_size=19)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(words(19, 2, 4), words(19, 2, 3)).square().mean().backward()
    optimizer.step()
    assert torch.equal(model.output_projection.weight, model.src_embedding.tokens.weight)
    assert torch.equal(model.tgt_embedding.tokens.weight, model.src_embedding.tokens.weight)


def test_a_state_dict_goes_into_another_model() -> None:
    one, other = tiny_model(norm="pre", gated_feed_forward=True), tiny_model(norm="pre", gated_feed_forward=True)
    src, tgt = words(SRC_VOCAB_SIZE, 2, 4), words(TGT_VOCAB_SIZE, 2, 3)
    assert not torch.equal(one(src, tgt), other(src, tgt))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(src, tgt), other(src, tgt))


def xavier_bound(fan_out: int, fan_in: int) -> float:
    return math.sqrt(6 / (fan_in + fan_out))


@pytest.mark.parametrize(
    "fields",
    [
        {"d_ff": 64},
        {"d_ff": 96},  # three times the width, as the packed projections are
        {"d_ff": 64, "tgt_vocab_size": 96},
        {"d_ff": 64, "gated_feed_forward": True},
        {"d_ff": 64, "norm": "pre"},
        {"d_ff": 64, "norm": "post", "scale_embeddings": False},
        {"d_ff": 64, "norm": "pre", "scale_embeddings": False, "gated_feed_forward": True},
    ],
    ids=str,
)
def test_matrices_begin_as_xavier_uniform_the_packed_ones_block_by_block(fields: dict[str, object]) -> None:
    config = tiny_config(d_model=32, num_heads=4, tie_embeddings="none", output_bias=True, **fields)
    for name, module in Transformer(config).named_modules():
        if not isinstance(module, nn.Linear):
            continue
        rows, columns = module.weight.shape
        bound = xavier_bound(columns if name.endswith("qkv_proj") else rows, columns)
        shrunk = config.norm == "pre" and not config.scale_embeddings
        if shrunk and name.endswith(("out_proj", "down_proj")):
            bound /= math.sqrt({"encoder": 2, "decoder": 3}[name.split(".")[0]] * 2)  # sums in two layers
        assert bound * 0.97 < module.weight.abs().max().item() <= bound, name
        assert abs(module.weight.std().item() / (bound / math.sqrt(3)) - 1) < 0.1, name
        assert not module.bias.any(), name


def test_embeddings_begin_with_the_deviation_that_gives_unit_variance_after_the_scale() -> None:
    model = Transformer(tiny_config(d_model=48, src_vocab_size=500, tgt_vocab_size=500, positions="learned"))
    for embedding in (model.src_embedding.tokens, model.tgt_embedding.tokens, model.src_embedding.positions):
        assert abs(embedding.weight.std().item() * math.sqrt(48) - 1) < 0.05
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all()
            assert not module.bias.any()


def test_the_seed_decides_the_weights() -> None:
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(torch.cat([p.detach().flatten() for p in Transformer(tiny_config()).parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    """Sources, padded, and targets."""
    return padded(words(SRC_VOCAB_SIZE, 3, 6), [6, 2, 4]), words(TGT_VOCAB_SIZE, 3, 5)


def test_logits_are_the_projection_of_the_states(batch: tuple[Tensor, Tensor]) -> None:
    model = tiny_model(output_bias=True)
    logits = model(*batch)
    assert logits.shape == (3, 5, TGT_VOCAB_SIZE)
    assert torch.equal(logits, model.output_projection(model.states(*batch)))


def test_encode_then_decode_is_forward(batch: tuple[Tensor, Tensor]) -> None:
    src, tgt = batch
    model = tiny_model()
    memory = model.encode(src)
    assert memory.shape == (3, 6, D)
    assert torch.equal(model.decode(tgt, memory, src), model(src, tgt))


def test_the_masks_it_makes_can_be_given(batch: tuple[Tensor, Tensor]) -> None:
    src, tgt = batch
    model = tiny_model()
    masks = {"src_mask": (src != 0)[:, None, None], "tgt_mask": causal_mask(5)}
    assert torch.equal(model(src, tgt, **masks), model(src, tgt))
    assert torch.equal(model.decode(tgt, model.encode(src, masks["src_mask"]), src, **masks), model(src, tgt))


def test_other_masks_are_taken_as_they_are(batch: tuple[Tensor, Tensor]) -> None:
    src, tgt = batch
    model = tiny_model()
    only_first = torch.zeros(1, 1, 1, 6, dtype=torch.bool)
    only_first[..., 0] = True
    by_mask = model(src, tgt, src_mask=only_first)
    torch.testing.assert_close(by_mask, model(src[:, :1], tgt), rtol=1e-5, atol=1e-5)
    seeing_all = model(src, tgt, tgt_mask=torch.ones(1, 1, 5, 5, dtype=torch.bool))
    assert not torch.allclose(seeing_all[:, 0], model(src, tgt)[:, 0])


def test_the_pad_id_decides_what_is_masked(batch: tuple[Tensor, Tensor]) -> None:
    src, tgt = batch
    model = tiny_model()
    as_words = tiny_model(pad_id=None)
    as_words.load_state_dict(model.state_dict())
    assert torch.equal(as_words(src[:1], tgt[:1]), model(src[:1], tgt[:1]))  # nothing is padded there
    assert not torch.allclose(as_words(src[1:2], tgt[1:2]), model(src[1:2], tgt[1:2]))
    other = tiny_model(pad_id=7)
    other.load_state_dict(model.state_dict())
    renamed = torch.where(src == 0, 7, torch.where(src == 7, 8, src))
    original = torch.where(src == 7, 8, src)
    torch.testing.assert_close(other(renamed, tgt), model(original, tgt), rtol=1e-5, atol=1e-5)


def test_a_source_of_pads_alone_gives_finite_logits_and_gradients() -> None:
    model = tiny_model()
    logits = model(torch.zeros(2, 4, dtype=torch.int64), words(TGT_VOCAB_SIZE, 2, 3))
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_every_parameter_learns() -> None:
    model = tiny_model(
        tie_embeddings="none", gated_feed_forward=True, output_bias=True, norm="pre", positions="learned"
    )
    model(words(SRC_VOCAB_SIZE, 2, 6), words(TGT_VOCAB_SIZE, 2, 5)).square().mean().backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []
