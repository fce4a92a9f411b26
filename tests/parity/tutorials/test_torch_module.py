"""Weights of `torch.nn.Transformer`, bare and within a model: ours computes what PyTorch computes."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.errors import CheckpointError, ConfigError
from pellucid.model.transformer import Transformer
from pellucid.weights import from_torch, import_tutorial
from tests.parity.tutorials.test_logits import SIZES, SRC_WORDS, TGT_WORDS, assert_close_on_words, batch, randomly
from tests.parity.tutorials.torch_module import TorchSeq2Seq

OPTIONS: list[dict[str, Any]] = [
    {},
    {"norm_first": True},
    {"bias": False},
    {"activation": "gelu", "norm_first": True},
    {"batch_first": True, "layer_norm_eps": 1e-3},
]
LAYOUT = "pytorch-transformer"

# PyTorch says so of encoders that cannot use its nested tensors.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(11)
        yield


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"bias": False}, {"activation": F.gelu}], ids=str)
def test_pytorchs_own_tutorial(options: dict[str, Any], size: tuple[int, int, int, int]) -> None:
    tutorial = randomly(TorchSeq2Seq(SRC_WORDS, TGT_WORDS, *size, **options))
    src, tgt = batch((1, 1))
    theirs = tutorial(src, tgt, 1, 1)
    told = {name: value for name, value in options.items() if name == "norm_first"}
    if "activation" in options:
        told["activation"] = "gelu"
    model = import_tutorial(tutorial.state_dict(), LAYOUT, size[-1], pad_id=1, **told)
    assert isinstance(model, Transformer)
    assert not model.training
    assert_close_on_words(model(src, tgt), theirs, tgt, 1)
    assert_close_on_words(from_torch(tutorial, pad_id=1)(src, tgt), theirs, tgt, 1)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_bare_stacks(options: dict[str, Any]) -> None:
    theirs = randomly(nn.Transformer(16, 4, 2, 3, 24, **{"batch_first": True} | options))
    ours = from_torch(theirs)
    assert not ours.training
    x, y = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    future = torch.ones(5, 5).triu(1).bool()
    close(ours(x, y), theirs(x, y))
    close(ours(x, y, tgt_mask=~future), theirs(x, y, tgt_mask=future))
    close(from_torch(theirs.encoder)(x, None), theirs.encoder(x))
    close(from_torch(theirs.decoder)(y, x, ~future, None), theirs.decoder(y, x, tgt_mask=future))


def test_dropout_is_read_off_the_module() -> None:
    config = from_torch(TorchSeq2Seq(SRC_WORDS, TGT_WORDS, 1, 16, 24, 2, dropout=0.25)).config
    assert (config.dropout, config.attention_dropout, config.feed_forward_dropout) == (0.25, 0.25, 0.25)


class Renamed(nn.Module):
    """Parts under other names: one embedding for both sides, or the target's as output, learned positions."""

    def __init__(self, parts: dict[str, nn.Module]) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.model = nn.Transformer(16, 2, 1, 1, 24, batch_first=True)


def logits(module: Renamed, src: Tensor, tgt: Tensor, names: tuple[str, str, str], positions: str = "") -> Tensor:
    parts = dict(module.named_modules())
    tables = [parts[name].weight for name in names[:2]]
    x, y = (table[ids] for table, ids in zip(tables, (src, tgt), strict=True))
    if positions:
        x, y = (z + parts[positions].weight[: z.size(1)] for z in (x, y))
    future = torch.ones(tgt.size(1), tgt.size(1)).triu(1).bool()
    return module.model(x, y, tgt_mask=future) @ parts[names[2]].weight.t()


@pytest.mark.parametrize(
    ("names", "given"),
    [
        (("encoder_embedding", "decoder_embedding", "fc_out"), {}),
        (("src_embed", "trg_embed", "out"), {}),
        (("embedding", "embedding", "linear"), {}),
        (("embedding", "embedding", "embedding"), {}),
        (("inputs", "tgt_emb", "tgt_emb"), {}),
        (("a", "b", "c"), {"src_embedding": "a", "tgt_embedding": "b.weight", "output": "c"}),
        (("a", "b", "generator"), {"src_embedding": "a"}),
    ],
    ids=str,
)
def test_names_that_people_give(names: tuple[str, str, str], given: dict[str, str]) -> None:
    words = 13 if len(set(names[:2])) == 1 or names[1] == names[2] else 17
    parts: dict[str, nn.Module] = {names[0]: nn.Embedding(words if names[0] != "inputs" else 17, 16)}
    parts.setdefault(names[1], nn.Embedding(13, 16))
    parts.setdefault(names[2], nn.Linear(16, 13, bias=False))
    parts["position_embedding"] = nn.Embedding(30, 16)
    module = randomly(Renamed(parts))
    ours = from_torch(module, pad_id=None, scale_embeddings=False, **given)
    assert (ours.config.positions, ours.config.max_positions) == ("learned", 30)
    src, tgt = torch.randint(0, 13, (2, 7)), torch.randint(0, 13, (2, 5))
    close(ours(src, tgt), logits(module, src, tgt, names, "position_embedding"))


def state(**parts: nn.Module) -> dict[str, Tensor]:
    return Renamed(parts).state_dict()


@pytest.mark.parametrize(
    ("tensors", "message", "hint"),
    [
        (
            lambda: state(one=nn.Embedding(9, 16), two=nn.Embedding(9, 16), out=nn.Linear(16, 9)),
            "it is not clear which matrix is the `src_embedding`; it could be: `one.weight`, `two.weight`",
            "give its name as `src_embedding`; candidates: `one.weight` (9, 16), `two.weight` (9, 16), `out.weight`",
        ),
        (
            lambda: state(embedding=nn.Embedding(9, 16), out=nn.Linear(16, 9), head=nn.Linear(16, 9)),
            "it is not clear which matrix is the `output`; it could be: `out.weight`, `head.weight`",
            "give its name as `output`",
        ),
        (
            lambda: state(out=nn.Linear(16, 9)),
            "it is not clear which matrix is the `src_embedding`; it could be: none",
            "candidates: `out.weight` (9, 16)",
        ),
        (
            lambda: {name: t for name, t in state(e=nn.Embedding(9, 16)).items() if "encoder" not in name},
            "the state dict has 0 encoders and 1 decoders of `torch.nn`, but a Transformer has one each",
            "holds one torch.nn.Transformer",
        ),
        (
            lambda: state(e=nn.Embedding(9, 16)) | {"model.encoder.layers.0.gate": torch.ones(3)},
            "the state dict has 1 tensors that are not in the layout `pytorch-transformer`",
            "remove them if they do not",
        ),
        (
            lambda: {name: t for name, t in state(e=nn.Embedding(9, 16)).items() if "decoder.norm" not in name},
            "only one of the two stacks ends with a norm",
            "Pellucid has a final norm in both stacks or in neither",
        ),
    ],
)
def test_what_is_not_clear_is_asked_for(tensors: Any, message: str, hint: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        import_tutorial(tensors(), LAYOUT, 2)
    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_options_that_cannot_be() -> None:
    tensors = state(e=nn.Embedding(9, 16))
    for options, message in (
        ({"num_heads": 5}, "`num_heads` (5) must divide the model's width (16)"),
        ({"num_heads": 2, "activation": "tanh"}, "unknown `activation` `tanh`"),
        ({"num_heads": 2, "pad_id": 9}, "`pad_id` (9) is outside the vocabulary of 9 words"),
    ):
        with pytest.raises(ConfigError) as caught:
            import_tutorial(tensors, LAYOUT, **options)
        assert message in str(caught.value)
    with pytest.raises(CheckpointError, match="`output` is `e2`, but no matrix of 16 columns has this name"):
        import_tutorial(tensors, LAYOUT, 2, output="e2")
    with pytest.raises(ConfigError, match="are for `pytorch-transformer`, not for `annotated-transformer`"):
        import_tutorial(tensors, "annotated-transformer", 2, norm_first=True)


def test_modules_that_are_no_such_thing() -> None:
    for module, message in (
        (nn.Linear(2, 2), "a `Linear` with 0 `torch.nn.Transformer` in it was given, exactly one is required"),
        ("weights.pt", "a `str` with 0 `torch.nn.Transformer` in it"),
    ):
        with pytest.raises(ConfigError) as caught:
            from_torch(module)  # type: ignore[arg-type]
        assert message in str(caught.value)
    with pytest.raises(CheckpointError, match="the activation `tanh` is not supported"):
        from_torch(nn.Transformer(16, 2, 1, 1, 24, activation=torch.tanh))
    mixed = nn.Transformer(16, 2, 2, 1, 24)
    mixed.encoder.layers[1].norm_first = True
    with pytest.raises(CheckpointError, match="the layers differ in `norm_first`: False, True"):
        from_torch(mixed)
