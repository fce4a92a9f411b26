"""Each tutorial's weights: ours computes what a plain implementation of its text computes."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError
from pellucid.model.families import SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.weights import import_tutorial
from tests.parity.tutorials import keras
from tests.parity.tutorials.annotated import Annotated
from tests.parity.tutorials.classifier import Classifier
from tests.parity.tutorials.einsum import Einsum
from tests.parity.tutorials.seq2seq import Seq2Seq

SIZES = [(1, 8, 12, 1), (2, 16, 24, 4), (3, 30, 20, 5), (1, 64, 128, 8)]
"""Layers, width, inner width, heads."""
PADS = [(0, 0), (1, 1), (3, 1)]
"""The pad ids of the source and of the target."""
SRC_WORDS, TGT_WORDS = 17, 13

sizes = pytest.mark.parametrize("size", SIZES, ids=str)
pads = pytest.mark.parametrize("pad", PADS, ids=str)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(5)
        yield


def randomly(model: nn.Module) -> nn.Module:
    """The model with all of its parameters moved from where they began, norms and biases too."""
    for parameter in model.parameters():
        parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


def texts(words: int, pad: int, lengths: tuple[int, ...]) -> Tensor:
    """Rows of random words, padded on the right; a word may be any id but `pad`."""
    ids = torch.randint(0, words - 1, (len(lengths), max(lengths)))
    ids += ids >= pad
    for row, length in zip(ids, lengths, strict=True):
        row[length:] = pad
    return ids


def batch(pad: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Sources and targets of different lengths."""
    return texts(SRC_WORDS, pad[0], (9, 4, 1, 6)), texts(TGT_WORDS, pad[1], (3, 7, 8, 1))


def assert_close_on_words(ours: Tensor, theirs: Tensor, tgt: Tensor, pad: int) -> None:
    words = tgt != pad
    torch.testing.assert_close(ours[words], theirs.float()[words], rtol=0, atol=1e-4)


def check(tutorial: nn.Module, layout: str, heads: int, pad: tuple[int, int]) -> None:
    model = import_tutorial(tutorial.state_dict(), layout, heads, pad_id=pad[0], tgt_pad_id=pad[1])
    assert isinstance(model, Transformer)
    assert not model.training
    src, tgt = batch(pad)
    assert_close_on_words(model(src, tgt), tutorial(src, tgt, *pad), tgt, pad[1])


@pads
@sizes
def test_annotated_transformer(size: tuple[int, int, int, int], pad: tuple[int, int]) -> None:
    tutorial = randomly(Annotated(SRC_WORDS, TGT_WORDS, *size, length=60))
    check(tutorial, "annotated-transformer", size[-1], pad)


@pads
@sizes
@pytest.mark.parametrize("one_projection", [False, True])
def test_pytorch_seq2seq(size: tuple[int, int, int, int], pad: tuple[int, int], one_projection: bool) -> None:
    tutorial = randomly(Seq2Seq(SRC_WORDS, TGT_WORDS, *size, one_projection))
    check(tutorial, "pytorch-seq2seq", size[-1], pad)


@pads
@sizes
def test_aladdin_persson(size: tuple[int, int, int, int], pad: tuple[int, int]) -> None:
    check(randomly(Einsum(SRC_WORDS, TGT_WORDS, *size)), "aladdin-persson", size[-1], pad)


@pytest.mark.parametrize("pad", [0, 2])
@pytest.mark.parametrize("scale", [1.0, 0.02])
@sizes
def test_nlp_with_transformers(size: tuple[int, int, int, int], pad: int, scale: float) -> None:
    """Small embeddings, as BERT begins with, are where the two eps of its norms tell."""
    tutorial = randomly(Classifier(SRC_WORDS, 3, *size, length=20))
    tutorial.encoder.embeddings.token_embeddings.weight *= scale
    tutorial.encoder.embeddings.position_embeddings.weight *= scale
    model = import_tutorial(tutorial.state_dict(), "nlp-with-transformers", size[-1], pad_id=pad)
    assert isinstance(model, SequenceClassifier)
    ids = texts(SRC_WORDS, pad, (9, 4, 1, 6))
    torch.testing.assert_close(model(ids), tutorial(ids, pad), rtol=0, atol=1e-4)


@pytest.mark.parametrize("pad", [0, 3])
@pytest.mark.parametrize("shared", [True, False])
@sizes
def test_keras_transformer(size: tuple[int, int, int, int], shared: bool, pad: int) -> None:
    weights = keras.random_weights(7, SRC_WORDS, TGT_WORDS, *size[:3], shared)
    model = import_tutorial(weights, "keras-transformer", size[-1], pad_id=pad, max_positions=40)
    assert (model.config.max_positions, model.config.tie_embeddings == "decoder") == (40, shared)
    src, tgt = batch((pad, pad))
    theirs = keras.logits(weights, size[-1], src.numpy(), tgt.numpy(), pad)
    assert_close_on_words(model(src, tgt), torch.from_numpy(theirs), tgt, pad)


def test_positions_far_behind() -> None:
    """In the last of a long table, where angles differ most between single and double precision."""
    tutorial = randomly(Annotated(SRC_WORDS, TGT_WORDS, 1, 16, 24, 2, length=600))
    model = import_tutorial(tutorial.state_dict(), "annotated-transformer", 2)
    assert model.config.positions == "sinusoidal"
    src, tgt = texts(SRC_WORDS, 0, (600,)), texts(TGT_WORDS, 0, (590,))
    torch.testing.assert_close(model(src, tgt), tutorial(src, tgt, 0, 0), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "change", [lambda pe: pe * 0.9, lambda pe: pe.flip(2), lambda pe: pe + 1e-4], ids=["scaled", "turned", "shifted"]
)
def test_a_saved_table_that_is_another_counts(change: Callable[[Tensor], Tensor]) -> None:
    tutorial = randomly(Annotated(SRC_WORDS, TGT_WORDS, 1, 16, 24, 2, length=30))
    tutorial.src_embed[1].pe = change(tutorial.src_embed[1].pe)
    model = import_tutorial(tutorial.state_dict(), "annotated-transformer", 2)
    assert (model.config.positions, model.config.max_positions) == ("learned", 30)
    src, tgt = batch((0, 0))
    assert_close_on_words(model(src, tgt), tutorial(src, tgt, 0, 0), tgt, 0)


def test_tables_of_two_lengths() -> None:
    tutorial = randomly(Seq2Seq(SRC_WORDS, TGT_WORDS, 1, 16, 24, 2, lengths=(9, 30)))
    model = import_tutorial(tutorial.state_dict(), "pytorch-seq2seq", 2)
    src, tgt = texts(SRC_WORDS, 0, (9,)), texts(TGT_WORDS, 0, (30,))
    torch.testing.assert_close(model(src, tgt), tutorial(src, tgt, 0, 0), rtol=0, atol=1e-4)


def test_projections_as_wide_as_the_model() -> None:
    """Who widened the shared projections keeps the scale of the scores; biases count."""
    tutorial = Einsum(SRC_WORDS, TGT_WORDS, 1, 16, 24, 2)
    state = {name: torch.randn_like(value) * 0.3 for name, value in tutorial.state_dict().items()}
    shared = import_tutorial(state, "aladdin-persson", 2)
    for name in [name for name in state if name.endswith(("queries.weight", "keys.weight", "values.weight"))]:
        state[name] = torch.block_diag(state[name], state[name])
        state[name.replace("weight", "bias")] = torch.zeros(16)
    wide = import_tutorial(state, "aladdin-persson", 2)
    src, tgt = batch((0, 0))
    torch.testing.assert_close(wide(src, tgt), shared(src, tgt))
    assert wide.config.qkv_bias


def test_numbers_of_numpy_and_half_precision() -> None:
    state = randomly(Seq2Seq(SRC_WORDS, TGT_WORDS, 1, 16, 24, 2)).half().state_dict()
    src, tgt = batch((0, 0))
    ours = import_tutorial({name: np.asarray(value) for name, value in state.items()}, "pytorch-seq2seq", 2)(src, tgt)
    assert ours.dtype == torch.float32
    assert torch.equal(ours, import_tutorial(state, "pytorch-seq2seq", 2)(src, tgt))


READ_SO = "The model is imported as its code computes: it "


@sizes
def test_annotated_transformer_as_written(size: tuple[int, int, int, int], caplog: pytest.LogCaptureFixture) -> None:
    """The cross-attention of the post's decoder layer is its self-attention, whatever `src_attn` holds."""
    tutorial = randomly(Annotated(SRC_WORDS, TGT_WORDS, *size, length=60, as_written=True))
    meant, written = (
        import_tutorial(tutorial.state_dict(), "annotated-transformer", size[-1], as_written=as_written)
        for as_written in (False, True)
    )
    src, tgt = batch((0, 0))
    theirs = tutorial(src, tgt, 0, 0)
    assert_close_on_words(written(src, tgt), theirs, tgt, 0)
    assert (meant(src, tgt) - theirs).abs().max() > 1e-2
    assert type(written) is Transformer
    line = f"{READ_SO}attends to the encoder's output with `self_attn`, and never uses `src_attn`"
    assert caplog.messages == [line], "weights that were trained are accused of nothing"


@sizes
def test_pytorch_seq2seq_as_written(size: tuple[int, int, int, int]) -> None:
    """One projection for all four, and no mask: targets see the words behind them."""
    tutorial = randomly(Seq2Seq(SRC_WORDS, TGT_WORDS, *size, one_projection=True))
    for module in tutorial.modules():
        module.without_masks = module.without_output = True
    model = import_tutorial(tutorial.state_dict(), "pytorch-seq2seq", size[-1], as_written=True)
    src, tgt = batch((0, 0))
    torch.testing.assert_close(model(src, tgt), tutorial(src, tgt, 0, 0), rtol=0, atol=1e-4)
    with pytest.raises(ConfigError, match="computes logits, but does not translate"):
        model.start(src)


@pytest.mark.parametrize(("name", "without_output"), [("output", True), ("masks", False), ([], False)], ids=str)
def test_slips_are_taken_one_by_one(name: str | list[str], without_output: bool) -> None:
    """The masks of somebody who applied them stay, whatever the output goes through."""
    tutorial = randomly(Seq2Seq(SRC_WORDS, TGT_WORDS, 2, 16, 24, 4, one_projection=True))
    for module in tutorial.modules():
        module.without_output, module.without_masks = without_output, name == "masks"
    model = import_tutorial(tutorial.state_dict(), "pytorch-seq2seq", 4, as_written=name)
    src, tgt = batch((0, 0))
    assert_close_on_words(model(src, tgt), tutorial(src, tgt, 0, 0), tgt, 0)


@pytest.mark.parametrize(
    ("layout", "asked", "message"),
    [
        ("pytorch-seq2seq", "output", "the code of `pytorch-seq2seq` has no slip `output` in this spelling"),
        ("pytorch-seq2seq", ["masks"], "has no slip `masks` in this spelling"),
        ("pytorch-seq2seq", "outputs", "unknown slip `outputs`; did you mean `output`"),
        ("pytorch-seq2seq", ",", "`as_written=` names no slip"),
    ],
)
def test_slips_that_there_are_not(layout: str, asked: str | list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        import_tutorial(Seq2Seq(SRC_WORDS, TGT_WORDS, 1, 16, 24, 2).state_dict(), layout, 2, as_written=asked)


def test_a_spelling_without_the_slip_is_the_same_either_way(caplog: pytest.LogCaptureFixture) -> None:
    tutorial = randomly(Seq2Seq(SRC_WORDS, TGT_WORDS, 1, 16, 24, 2))
    src, tgt = batch((0, 0))
    meant, written = (
        import_tutorial(tutorial.state_dict(), "pytorch-seq2seq", 2, as_written=as_written)(src, tgt)
        for as_written in (False, True)
    )
    assert torch.equal(meant, written)
    assert not caplog.records


@pytest.mark.parametrize("shared", [True, False])
@sizes
def test_keras_transformer_as_written(size: tuple[int, int, int, int], shared: bool) -> None:
    """A target word sees of the source what does not stand behind its own place."""
    weights = keras.random_weights(7, SRC_WORDS, TGT_WORDS, *size[:3], shared)
    model = import_tutorial(weights, "keras-transformer", size[-1], max_positions=40, as_written=True)
    src, tgt = batch((0, 0))
    theirs = keras.logits(weights, size[-1], src.numpy(), tgt.numpy(), 0, as_written=True)
    assert_close_on_words(model(src, tgt), torch.from_numpy(theirs), tgt, 0)


def test_nlp_with_transformers_as_written(caplog: pytest.LogCaptureFixture) -> None:
    """Padding is attended to."""
    tutorial = randomly(Classifier(SRC_WORDS, 3, 2, 16, 24, 4, length=20))
    model = import_tutorial(tutorial.state_dict(), "nlp-with-transformers", 4, as_written=True)
    ids = texts(SRC_WORDS, 0, (9, 4, 1, 6))
    unmasked = tutorial(ids, -1)  # no id is padding
    torch.testing.assert_close(model(ids), unmasked, rtol=0, atol=1e-4)
    assert caplog.messages == [f"{READ_SO}gives the attention no mask, so that padding is attended to"]
