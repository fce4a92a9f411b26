"""Model folders with parts of somebody's own: their names are in it, and loading asks for them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pellucid
from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import CheckpointError, ConfigError
from pellucid.model.families import Model, build_model
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary
from pellucid.training.optimizer import MovingAverage
from pellucid.weights.folder import format_python_call, load_folder, read_config, save_model, save_weights
from pellucid.weights.tensors import average_states
from tests import own_parts
from tests.own_parts import Alibi, Averaging, ScaleNorm, Windowed
from tests.tiny_model import tiny_config, words
from tests.unit.text.test_own_tokenizer import Letters

CPU = torch.device("cpu")
IDS = {"pad_id": Letters.pad_id, "bos_id": Letters.bos_id, "eos_id": Letters.eos_id}
LETTERS = Vocabulary("characters", tuple("abcdefgh"))
TOKENIZERS = TokenizerPair(LETTERS, LETTERS)


def model_of(parts: pellucid.Parts | None, **fields: Any) -> Model:
    return build_model(tiny_config(src_vocab_size=LETTERS.size, tgt_vocab_size=LETTERS.size, **fields), parts).eval()


def saved(folder: Path, model: Model, tokenizers: TokenizerPair = TOKENIZERS) -> Path:
    return save_model(folder, model, tokenizers, DecodeConfig(), "# A card\n")


def logits(model: Model, *ids: Tensor) -> Tensor:
    with torch.no_grad():
        return model(*ids)


@pytest.mark.parametrize("name", own_parts.ALL)
def test_a_model_with_parts_comes_back_with_them(name: str, tmp_path: Path) -> None:
    parts, ids = own_parts.ALL[name], (words(LETTERS.size, 2, 6), words(LETTERS.size, 2, 5))
    model = model_of(parts, norm="pre")
    model.train()(*ids)  # buffers move
    folder = saved(tmp_path / "model", model.eval())
    assert read_config(folder)["parts"] == parts.names
    loaded = load_folder(folder, CPU, parts=parts).model
    assert torch.equal(logits(loaded, *ids), logits(model, *ids))
    assert loaded.parts is parts


def test_buffers_are_a_part_of_the_model(tmp_path: Path) -> None:
    model = model_of(own_parts.ALL["scale norm"])
    model.train()(words(LETTERS.size, 2, 6), words(LETTERS.size, 2, 5))
    folder = saved(tmp_path / "model", model)
    loaded = load_folder(folder, CPU, torch.bfloat16, parts=pellucid.Parts(norm=ScaleNorm)).model
    counts = [module.calls for module in loaded.modules() if isinstance(module, ScaleNorm)]
    assert [(count.dtype, count.item()) for count in counts] == [(torch.int64, 1)] * 10
    tensors = {name: tensor.clone() for name, tensor in pellucid.weights.tensors.parameters(model).items()}
    tensors["encoder.layers.0.self_attn_norm.calls"] = torch.tensor(1.5)
    pellucid.weights.tensors.save_tensors(folder / "model.safetensors", tensors)
    with pytest.raises(CheckpointError, match=r"norm\.calls` is stored as F32, the model's is int64"):
        load_folder(folder, CPU, parts=pellucid.Parts(norm=ScaleNorm))


def test_a_model_without_parts_says_nothing_of_them(tmp_path: Path) -> None:
    for number, parts in enumerate((None, pellucid.Parts())):
        folder = saved(tmp_path / f"{number}", model_of(parts))
        assert "parts" not in read_config(folder)
        for given in (None, pellucid.Parts()):
            load_folder(folder, CPU, parts=given)


@pytest.mark.parametrize(
    ("config", "loader"),
    [
        ({}, "pellucid.Translator.load"),
        ({"num_decoder_layers": 0, "num_classes": 2}, "pellucid.Classifier.load"),
        ({"num_encoder_layers": 0}, "pellucid.LanguageModel.load"),
    ],
)
def test_loading_without_the_parts_says_what_to_write(config: dict[str, Any], loader: str, tmp_path: Path) -> None:
    model = model_of(pellucid.Parts(attention=Windowed.from_config, positions=Alibi), **config)
    labels = ("a", "b") if model.config.num_classes else ()
    folder = save_model(tmp_path / "model", model, TOKENIZERS, DecodeConfig(), "", labels)
    with pytest.raises(CheckpointError) as caught:
        load_folder(folder, CPU)
    told = "attention=tests.own_parts.Windowed.from_config, positions=tests.own_parts.Alibi"
    assert str(caught.value) == (f"the model in `{folder}` has custom parts ({told}), but none are given")
    imports = "import pellucid, tests.own_parts"
    assert caught.value.hint == f'from Python: {imports}; {loader}("{folder}", parts=pellucid.Parts({told}))'


def test_the_line_to_write_names_all_that_is_needed(tmp_path: Path) -> None:
    parts = pellucid.Parts(norm=lambda config: ScaleNorm(config))
    folder = saved(tmp_path / "model", model_of(parts), TokenizerPair(Letters()))
    with pytest.raises(CheckpointError) as caught:
        load_folder(folder, CPU)
    given = "parts=pellucid.Parts(norm=lambda config: ...), tokenizer=tests.unit.text.test_own_tokenizer.Letters()"
    imports = "import pellucid, tests.unit.text.test_own_tokenizer, tests.unit.weights.test_own_parts"
    assert caught.value.hint == f'from Python: {imports}; pellucid.Translator.load("{folder}", {given})'
    load_folder(folder, CPU, parts=parts, tokenizer=(Letters(), Letters()))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (pellucid.Parts(attention=Averaging), "attention=tests.own_parts.Averaging is"),
        (
            pellucid.Parts(attention=Windowed.from_config, norm=ScaleNorm),
            "attention=tests.own_parts.Windowed.from_config, norm=tests.own_parts.ScaleNorm is",
        ),
        (pellucid.Parts(positions=Windowed.from_config), "positions=tests.own_parts.Windowed.from_config is"),
        (pellucid.Parts(), "none are"),
    ],
)
def test_other_parts_are_refused(given: pellucid.Parts, told: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", model_of(own_parts.ALL["windowed"]))
    with pytest.raises(CheckpointError, match=f"from_config\\), but {told} given$"):
        load_folder(folder, CPU, parts=given)


def test_parts_that_a_folder_has_not_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", model_of(None))
    with pytest.raises(CheckpointError, match=r"has no custom parts, but attention=.*Windowed.* is given") as caught:
        load_folder(folder, CPU, parts=own_parts.ALL["windowed"])
    assert caught.value.hint == f'from Python: import pellucid; pellucid.Translator.load("{folder}")'


@pytest.mark.parametrize(
    "recorded",
    [
        ["attention"], {"attention": 3}, {"attn": "x.Y"}, {"attention": ""}, {"attention": "x.Y); import os; ("},
    ],
)  # fmt: skip
def test_names_that_cannot_stand_in_python_are_damage(recorded: object, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", model_of(own_parts.ALL["windowed"]))
    description = json.loads((folder / "pellucid.json").read_text(encoding="utf-8")) | {"parts": recorded}
    (folder / "pellucid.json").write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(
        CheckpointError, match=r"its `parts` \(.*\) are not names of modules by attention, decoder_layer"
    ):
        load_folder(folder, CPU, parts=own_parts.ALL["windowed"])


def test_weights_of_other_parts_of_the_same_name(tmp_path: Path) -> None:
    class Windowed(pellucid.MultiHeadAttention):
        """Another one, without biases."""

        @classmethod
        def from_config(cls, config: ModelConfig) -> "Windowed":
            return cls(config.d_model, config.num_heads, bias=False)

    folder = saved(tmp_path / "model", model_of(own_parts.ALL["windowed"]))
    with pytest.raises(CheckpointError, match=r"misses 0 parameters of this model and has 12 unknown ones \(first: "):
        load_folder(folder, CPU, parts=pellucid.Parts(attention=Windowed.from_config))


@pytest.mark.parametrize("export", ["to_hugging_face", "to_ctranslate2", "to_onnx"])
def test_a_model_with_parts_is_not_exported(export: str, tmp_path: Path) -> None:
    model = model_of(own_parts.ALL["windowed"])
    order = (model, tmp_path / "x", None) if export == "to_onnx" else (model, None, tmp_path / "x")
    with pytest.raises(ConfigError, match=r"has custom parts \(attention=tests.own_parts.Windowed.from_config\)"):
        getattr(pellucid.weights, export)(*order)
    assert not (tmp_path / "x").exists()


def test_a_folder_is_saved_over_another_model(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", model_of(own_parts.ALL["windowed"]))
    model = model_of(None)
    assert saved(folder, model) == folder
    loaded = load_folder(folder, CPU).model
    assert loaded.parts is None
    ids = words(LETTERS.size, 2, 6), words(LETTERS.size, 2, 5)
    assert torch.equal(logits(loaded, *ids), logits(model, *ids))
    save_weights(folder, model)


def test_averages_take_counters_along(tmp_path: Path) -> None:
    model = model_of(own_parts.ALL["scale norm"])
    average = MovingAverage(model, 0.5)
    model.train()(words(LETTERS.size, 2, 6), words(LETTERS.size, 2, 5))
    average.update(1)
    name = "decoder.layers.1.cross_attn_norm.calls"
    assert average.tensors[name].item() == 1
    mean = average_states([{name: torch.tensor(4)}, {name: torch.tensor(6)}])[name]
    assert (mean.item(), mean.dtype) == (5, torch.int64)


@pytest.mark.parametrize(
    ("recorded", "imported", "called"),
    [
        ("__main__.Mine", "pellucid", "Mine"),
        ("mine.Windowed.from_config", "mine, pellucid", "mine.Windowed.from_config"),
        ("mine.parts.make_attention", "mine.parts, pellucid", "mine.parts.make_attention"),
        ("mine.<lambda>", "mine, pellucid", "lambda config: ..."),
    ],
)
def test_a_part_is_imported_from_where_it_was_defined(recorded: str, imported: str, called: str) -> None:
    found = format_python_call("pellucid.train", [Path("a")], {"norm": recorded})
    assert found == f'from Python: import {imported}; pellucid.train("a", parts=pellucid.Parts(norm={called}))'


def test_a_tokenizer_of_a_strangers_folder_is_no_code() -> None:
    names = ["mine.Letters", "x(__import__('os'))", "mine.main.<locals>.Words"]
    found = format_python_call("pellucid.train", [Path("a")], {}, names)
    assert found == 'from Python: import mine, pellucid; pellucid.train("a", tokenizer=(mine.Letters(), ..., ...))'


OPENERS: dict[str, Any] = {
    "align": lambda folder, **how: pellucid.align(folder, ["a b"], ["b a"], layer=0, device="cpu", **how),
    "ablate": lambda folder, **how: pellucid.ablate(folder, ["a b"] * 2, ["b a"] * 2, metric="loss", **how),
    "evaluate": lambda folder, **how: pellucid.evaluate(folder, ["a b"] * 2, ["b a"] * 2, **how),
    "Run": lambda folder, **how: pellucid.Run("dates", folder.parent / "run", init_from=folder, quiet=True, **how),
}
"""The public functions that open a model's folder, beside `load`."""


@pytest.mark.parametrize("opener", OPENERS)
def test_whatever_opens_a_folder_takes_what_is_of_ones_own(opener: str, tmp_path: Path) -> None:
    parts = own_parts.ALL["windowed"]
    folder = saved(tmp_path / "model", model_of(parts, **IDS), TokenizerPair(Letters()))
    for given in ({}, {"tokenizer": Letters()}, {"parts": parts}):
        with pytest.raises(
            CheckpointError, match=r"^the model in `.*` (has custom parts|uses the custom tokenizer)"
        ) as caught:
            OPENERS[opener](folder, **given)
        assert caught.value.hint.startswith("from Python: import pellucid, tests.own_parts")
    if opener != "Run":
        assert OPENERS[opener](folder, parts=parts, tokenizer=Letters())
    if opener in ("align", "ablate"):
        translator = pellucid.Translator.load(folder, "cpu", parts=parts, tokenizer=Letters())
        with pytest.raises(
            ConfigError, match=r"^`parts=` is an option for opening a folder, but a Translator is given"
        ):
            OPENERS[opener](translator, parts=parts)


def test_a_model_with_parts_goes_nowhere_else(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", model_of(own_parts.ALL["windowed"]))
    with pytest.raises(CheckpointError, match="has custom parts"):
        pellucid.convert(folder, tmp_path / "out", to="hf")
    with pytest.raises(ConfigError, match=r"^the model has custom parts \(attention=.*\), which .* does not have$"):
        pellucid.convert(folder, tmp_path / "out", to="hf", parts=own_parts.ALL["windowed"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
