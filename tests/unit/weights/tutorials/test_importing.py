"""What a state dict may come in, and what is said of one that does not fit."""

import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from pellucid.errors import CheckpointError, ConfigError
from pellucid.weights import import_tutorial
from pellucid.weights.tutorials.layouts import LAYOUTS, find_layout
from pellucid.weights.tutorials.reading import infer_num_heads
from tests.parity.tutorials import keras
from tests.parity.tutorials.annotated import Annotated
from tests.parity.tutorials.classifier import Classifier
from tests.parity.tutorials.decoders import Book, Lecture
from tests.parity.tutorials.einsum import Einsum
from tests.parity.tutorials.seq2seq import Seq2Seq

State = dict[str, Tensor]
SIZES = (2, 16, 24, 4)

MAKERS: dict[str, Callable[[], State]] = {
    "annotated-transformer": lambda: Annotated(17, 13, *SIZES, length=20).state_dict(),
    "nlp-with-transformers": lambda: Classifier(17, 3, *SIZES, length=20).state_dict(),
    "keras-transformer": lambda: {
        name: torch.from_numpy(value) for name, value in keras.random_weights(1, 17, 13, *SIZES[:3], False).items()
    },
    "pytorch-seq2seq": lambda: Seq2Seq(17, 13, *SIZES, lengths=(20, 20)).state_dict(),
    "aladdin-persson": lambda: Einsum(17, 13, *SIZES, length=20).state_dict(),
    "nanogpt": lambda: Lecture(17, 2, 16, 4, length=20).state_dict(),
    "llms-from-scratch": lambda: Book(17, 2, 16, 4, length=20).state_dict(),
}


@cache
def _state(layout: str) -> State:
    return MAKERS[layout]()


def state_of(layout: str) -> State:
    """A state dict of its own for each caller; the tensors are shared."""
    return dict(_state(layout))


every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def same(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_every_layout_is_looked_at() -> None:
    assert MAKERS.keys() == LAYOUTS.keys()


@every_layout
def test_sizes_are_those_of_the_tensors(layout: str) -> None:
    config = import_tutorial(state_of(layout), layout, 4, pad_id=5, max_positions=20).config
    is_decoder = LAYOUTS[layout][0].is_decoder
    assert (config.d_model, config.d_ff, config.num_heads) == (16, 64 if is_decoder else 24, 4)
    assert (config.src_vocab_size, config.num_encoder_layers or config.num_decoder_layers) == (17, 2)
    assert (config.max_positions, config.pad_id) == (20, None if is_decoder else 5)
    if is_decoder:
        assert config.family == "decoder"
    elif layout == "nlp-with-transformers":
        assert (config.num_classes, config.family) == (3, "encoder")
    else:
        assert (config.tgt_vocab_size, config.num_decoder_layers) == (13, 2)


@every_layout
def test_a_state_dict_is_known_by_its_names(layout: str) -> None:
    assert find_layout(state_of(layout)) == layout


def test_heads_that_the_tensors_tell_of() -> None:
    told = {layout: infer_num_heads(state_of(layout), layout) for layout in MAKERS}
    assert {layout: heads for layout, heads in told.items() if heads} == {
        "nlp-with-transformers": 4,
        "aladdin-persson": 4,
        "nanogpt": 4,
    }


@every_layout
@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.module."])
def test_prefixes_and_whole_checkpoints(layout: str, prefix: str) -> None:
    state = state_of(layout)
    plain = import_tutorial(state, layout, 4, max_positions=20)
    wrapped = {"epoch": 3, "model_state_dict": {f"{prefix}{name}": value for name, value in state.items()}, "loss": 0.1}
    assert same(import_tutorial(wrapped, layout, 4, max_positions=20), plain)


def test_names_of_a_tensorflow_checkpoint() -> None:
    state = state_of("keras-transformer")
    named = {f"model/{name}/.ATTRIBUTES/VARIABLE_VALUE": np.asarray(value) for name, value in state.items()}
    named["save_counter/.ATTRIBUTES/VARIABLE_VALUE"] = np.array(3)
    named["model/fc/bias/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE"] = np.zeros(13)
    named["_CHECKPOINTABLE_OBJECT_GRAPH"] = np.array(b"text")
    ours = import_tutorial(named, "keras-transformer", 4, max_positions=20)
    assert same(ours, import_tutorial(state, "keras-transformer", 4, max_positions=20))


def test_an_output_of_its_own_without_a_bias() -> None:
    state = state_of("keras-transformer")
    del state["fc/bias"]
    config = import_tutorial(state, "keras-transformer", 4, max_positions=20).config
    assert (config.output_bias, config.tie_embeddings, config.scale_embeddings) == (False, "none", False)


def test_a_shared_output_keeps_its_bias() -> None:
    state = state_of("keras-transformer")
    del state["fc/kernel"]
    model = import_tutorial(state, "keras-transformer", 4, max_positions=20)
    assert torch.equal(model.output_projection.bias, state["fc/bias"].float())
    assert model.output_projection.weight is model.tgt_embedding.tokens.weight


def test_the_notebooks_names() -> None:
    """The code that the German-English tutorial goes back to calls the same modules by other names."""
    state = state_of("pytorch-seq2seq")
    other = {
        "self_attention_layer.": "self_attention.", "self_attention_norm": "self_attn_layer_norm",
        "encoder_norm": "enc_attn_layer_norm", "position_wise_ff_norm": "ff_layer_norm",
        "position_wise_ff_layer.fc1": "positionwise_feedforward.fc_1",
        "position_wise_ff_layer.fc2": "positionwise_feedforward.fc_2",
    }  # fmt: skip
    renamed = {}
    for name, value in state.items():
        for ours, theirs in other.items():
            name = name.replace(ours, theirs)
        renamed[name] = value
    assert renamed.keys() != state.keys()
    assert same(import_tutorial(renamed, "pytorch-seq2seq", 4), import_tutorial(state, "pytorch-seq2seq", 4))


def test_the_callers_random_numbers_go_on() -> None:
    state = state_of("pytorch-seq2seq")
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    import_tutorial(state, "pytorch-seq2seq", 4)
    assert torch.equal(torch.rand(2), expected)


def test_positions_beyond_a_shorter_table_are_refused() -> None:
    state = Seq2Seq(17, 13, *SIZES, lengths=(20, 9)).state_dict()
    model = import_tutorial(state, "pytorch-seq2seq", 4)
    with pytest.raises(
        Exception,
        match=r"^`tgt` has shape \(1, 10\): a sequence of 10 tokens is longer than the model's `max_positions` \(9\)",
    ):
        model(torch.ones(1, 20, dtype=torch.long), torch.ones(1, 10, dtype=torch.long))


@every_layout
def test_each_missing_tensor_is_named(layout: str) -> None:
    may_miss = {"src_embed.1.pe", "tgt_embed.1.pe", "fc/bias", "fc/kernel", "lm_head.bias"}
    masks = {name for name in state_of(layout) if name.endswith((".tril", ".mask"))}
    for name in state_of(layout).keys() - may_miss - masks:
        state = state_of(layout)
        del state[name]
        with pytest.raises(CheckpointError, match=re.escape(f"`{name}`")) as caught:
            import_tutorial(state, layout, 4)
        assert "misses 1 tensors" in str(caught.value)


@every_layout
def test_what_the_layout_does_not_know_is_named(layout: str) -> None:
    with pytest.raises(CheckpointError, match=r"has 1 tensors that are not in the layout .*: `extra.weight`"):
        import_tutorial(state_of(layout) | {"extra.weight": torch.zeros(3)}, layout, 4)


@every_layout
def test_each_wrong_shape_is_named(layout: str) -> None:
    """One more row than the others ask for. Tables that decide a size pass, where nothing contradicts them."""
    decides = (
        "pe", "pos_embedding.weight", "position_embedding.weight", "position_embeddings.weight", "pos_emb.weight",
        "position_embedding_table.weight", ".tril", ".mask",
    )  # fmt: skip
    for name, value in state_of(layout).items():
        if name.endswith(decides) or name == LAYOUTS[layout][0].token_table or name == "enc_emb/embeddings":
            continue
        wrong = torch.cat([value, value[:1]])
        with pytest.raises((CheckpointError, ConfigError)) as caught:
            import_tutorial(state_of(layout) | {name: wrong}, layout, 4)
        assert re.search(r"`.+` has shape \(.+\), but the other tensors require \(.+\)", str(caught.value)), name


def test_layers_without_a_gap() -> None:
    state = {
        name: value for name, value in state_of("pytorch-seq2seq").items() if not name.startswith("encoder.layers.0")
    }
    with pytest.raises(
        CheckpointError, match=r"misses 1 tensors .*`encoder.layers.0.position_wise_ff_layer.fc1.weight`"
    ):
        import_tutorial(state, "pytorch-seq2seq", 4)


def test_another_layouts_names() -> None:
    with pytest.raises(CheckpointError, match=r"`src_embed.0.lut.weight`; it has `encoder") as caught:
        import_tutorial(state_of("pytorch-seq2seq"), "annotated-transformer", 4)
    assert caught.value.hint == "its names match the layout `pytorch-seq2seq`"


def test_an_unknown_layout() -> None:
    with pytest.raises(ConfigError, match="unknown layout `annotated`; did you mean `annotated-transformer`") as caught:
        import_tutorial({}, "annotated", 4)
    assert all(layout in caught.value.hint for layout in LAYOUTS)


@every_layout
@pytest.mark.parametrize("heads", [3, 0, -1])
def test_heads_that_do_not_divide_the_width(layout: str, heads: int) -> None:
    with pytest.raises(ConfigError, match=rf"`num_heads` \({heads}\) must divide the model's width \(16\)") as caught:
        import_tutorial(state_of(layout), layout, heads)
    assert "1, 2, 4, 8, 16" in caught.value.hint


@pytest.mark.parametrize("layout", ["nlp-with-transformers", "aladdin-persson"])
def test_heads_that_the_tensors_contradict(layout: str) -> None:
    with pytest.raises(ConfigError, match="`num_heads` is 8, but the tensors have 4 heads"):
        import_tutorial(state_of(layout), layout, 8)


def test_pads_outside_the_vocabulary() -> None:
    state = state_of("pytorch-seq2seq")
    with pytest.raises(ConfigError, match=r"`pad_id` \(17\) is outside the vocabulary of 17 words"):
        import_tutorial(state, "pytorch-seq2seq", 4, pad_id=17)
    with pytest.raises(ConfigError, match=r"`tgt_pad_id` \(13\) is outside the vocabulary of 13 words"):
        import_tutorial(state, "pytorch-seq2seq", 4, tgt_pad_id=13)
    assert import_tutorial(state, "pytorch-seq2seq", 4, pad_id=None).config.pad_id is None


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "not an empty one"),
        ([1, 2], "not a `list`"),
        ({"net": {"a": torch.zeros(1)}}, "`net` is a `dict`, not a tensor"),
        ({"a": np.array(["text"])}, "`a` is a `ndarray`, not a tensor"),
    ],
)
def test_what_is_no_state_dict(state: object, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        import_tutorial(state, "pytorch-seq2seq", 4)  # type: ignore[arg-type]
