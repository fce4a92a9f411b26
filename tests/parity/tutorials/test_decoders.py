"""Language models of code that many follow: ours computes what a plain implementation of it computes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.errors import CheckpointError, ConfigError
from pellucid.model.families import DecoderOnly
from pellucid.weights import from_torch, import_tutorial
from pellucid.weights.tutorials.layouts import find_layout
from tests.parity.tutorials.decoders import Book, Lecture, NanoGPT, TorchExample, TorchLanguageModel

WORDS, SIZES = 19, (2, 16, 4)

MAKERS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "nanogpt": ("nanogpt", lambda: NanoGPT(WORDS, *SIZES)),
    "nanogpt without biases": ("nanogpt", lambda: NanoGPT(WORDS, *SIZES, bias=False)),
    "nanogpt with masks": ("nanogpt", lambda: NanoGPT(WORDS, *SIZES, saved_mask=True)),
    "nanogpt untied": ("nanogpt", lambda: NanoGPT(WORDS, *SIZES, tied=False)),
    "transformers": ("nanogpt", lambda: NanoGPT(WORDS, *SIZES, turned=True, saved_mask=True)),
    "lecture": ("nanogpt", lambda: Lecture(WORDS, *SIZES)),
    "book": ("llms-from-scratch", lambda: Book(WORDS, *SIZES)),
    "book with biases": ("llms-from-scratch", lambda: Book(WORDS, *SIZES, qkv_bias=True)),
    "pytorch": ("pytorch-transformer", lambda: TorchLanguageModel(WORDS, *SIZES)),
    "pytorch, older": ("pytorch-transformer", lambda: TorchLanguageModel(WORDS, *SIZES, ("encoder", "decoder"))),
    "pytorch's example": ("pytorch-transformer", lambda: TorchExample(WORDS, *SIZES)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(6)
        yield


def randomly(model: nn.Module) -> nn.Module:
    """The model with all of its parameters moved from where they began, norms and biases too."""
    for parameter in model.parameters():
        parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # torch's, about a module of its own
@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
@pytest.mark.parametrize("kind", MAKERS)
def test_logits(kind: str, prefix: str) -> None:
    layout, make = MAKERS[kind]
    theirs = randomly(make())
    state = {f"{prefix}{name}": tensor for name, tensor in theirs.state_dict().items()}
    assert find_layout(theirs.state_dict()) == layout
    model = import_tutorial({"model": state, "iter_num": 3} if prefix else state, layout, 4)
    assert isinstance(model, DecoderOnly)
    ids = torch.randint(0, WORDS, (3, 11))
    torch.testing.assert_close(model(ids), theirs(ids), rtol=0, atol=1e-4)
    assert (model.config.num_decoder_layers, model.config.pad_id, model.training) == (2, None, False)


def test_options_of_torchs_layers() -> None:
    """They are given, or read off the module."""
    theirs = randomly(TorchLanguageModel(WORDS, *SIZES, norm_first=True))
    ids = torch.randint(0, WORDS, (3, 11))
    for model in (import_tutorial(theirs.state_dict(), "pytorch-transformer", 4, norm_first=True), from_torch(theirs)):
        assert isinstance(model, DecoderOnly)
        torch.testing.assert_close(model(ids), theirs(ids), rtol=0, atol=1e-4)


def test_another_activation_than_that_of_the_code() -> None:
    """minGPT has nanoGPT's names, and the GELU by tanh."""
    theirs = randomly(NanoGPT(WORDS, *SIZES))
    for block in theirs.transformer["h"]:
        block.mlp.approximate = "tanh"
    ids = torch.randint(0, WORDS, (3, 11))
    model = import_tutorial(theirs.state_dict(), "nanogpt", 4, activation="gelu_tanh")
    torch.testing.assert_close(model(ids), theirs(ids), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("nanogpt with masks", {"transformer.h.0.attn.bias": torch.ones(1, 1, 40, 40)}, "is not a causal mask"),
        ("nanogpt", {"transformer.h.1.ln_1.bias": None}, r"misses 1 tensors of the layout `nanogpt`"),
        (
            "book",
            {"trf_blocks.0.extra.weight": torch.ones(2)},
            "has 1 tensors that are not in the layout `llms-from-scratch`",
        ),
        ("pytorch", {"linear.weight": torch.ones(2, 16)}, r"ends in 2 numbers \(`linear.weight`\) for 19 words"),
    ],
)
def test_what_does_not_fit(kind: str, change: dict[str, Any], message: str) -> None:
    layout, make = MAKERS[kind]
    state = make().state_dict() | change
    with pytest.raises(CheckpointError, match=message):
        import_tutorial({name: value for name, value in state.items() if value is not None}, layout, 4)


def test_heads_that_the_tensors_tell() -> None:
    with pytest.raises(ConfigError, match="`num_heads` is 2, but the tensors have 4 heads"):
        import_tutorial(Lecture(WORDS, *SIZES).state_dict(), "nanogpt", 2)
