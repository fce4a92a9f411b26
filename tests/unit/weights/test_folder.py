"""The model folder: what is in it, and what is said when something of it is wrong."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import CheckpointError
from pellucid.model.families import build_model
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary
from pellucid.weights.folder import read_config, save_description, save_weights
from pellucid.weights.opening import open_folder
from tests.unit.decoding.models import random_model

CPU = torch.device("cpu")
LETTERS = Vocabulary("characters", tuple("abcdefgh"))
TOKENIZERS = TokenizerPair(LETTERS, LETTERS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder."""
    return saved(tmp_path / "model")


def saved(folder: Path) -> Path:
    model = random_model(1, LETTERS.size)
    save_description(folder, model.config, TOKENIZERS, DecodeConfig(beam_size=2), "# A card\n")
    save_weights(folder, model)
    return folder


def changed(folder: Path, **sections: Any) -> Path:
    """The folder with other sections in its pellucid.json; None takes one out."""
    path = folder / "pellucid.json"
    table = json.loads(path.read_text(encoding="utf-8")) | sections
    path.write_text(json.dumps({k: v for k, v in table.items() if v is not None}), encoding="utf-8")
    return folder


def section(folder: Path, name: str, **keys: Any) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((folder / "pellucid.json").read_text(encoding="utf-8"))[name]
    return table | keys


def test_the_settings_of_earlier_versions_are_read_by_their_names(folder: Path) -> None:
    shape = section(folder, "model", gated=False, relative_buckets=8, relative_distance=20)
    search = section(folder, "decode", source_end=False, suppress=[5], no_repeat_ngram=3)
    named = ("gated_feed_forward", "relative_num_buckets", "relative_max_distance", "add_source_eos", "suppress_tokens")
    for table in (shape, search):
        for name in (*named, "no_repeat_ngram_size"):
            table.pop(name, None)
    loaded = open_folder(changed(folder, model=shape, decode=search), CPU)
    assert (loaded.model.config.relative_num_buckets, loaded.model.config.relative_max_distance) == (8, 20)
    assert loaded.decode == DecodeConfig(
        beam_size=2, add_source_eos=False, suppress_tokens=(5,), no_repeat_ngram_size=3
    )
    with pytest.raises(
        CheckpointError, match=r"`decode.suppress_tokens` is given twice: `suppress` is its name in earlier"
    ):
        open_folder(changed(folder, decode=search | {"suppress_tokens": [5]}), CPU)


def test_what_is_saved_comes_back(folder: Path) -> None:
    model, loaded = random_model(1, LETTERS.size), open_folder(folder, CPU)
    assert loaded.model.config == model.config
    assert loaded.decode == DecodeConfig(beam_size=2)
    assert loaded.tokenizers.source.encode("bad") == LETTERS.encode("bad")
    assert not loaded.model.training
    ours, theirs = model.state_dict(), loaded.model.state_dict()
    assert all(torch.equal(theirs[name], tensor) for name, tensor in ours.items())


def test_what_a_folder_holds(folder: Path) -> None:
    names = {"README.md", "config.json", "pellucid.json", "model.safetensors", "vocabulary.json"}
    names |= {"tokenizer.json", "tokenizer_config.json"}  # what others read
    assert {path.name for path in folder.iterdir()} == names
    assert (folder / "README.md").read_text(encoding="utf-8") == "# A card\n"
    table = read_config(folder)
    assert list(table) == ["format", "task", "model", "tokenizer", "decode"]
    assert (table["format"], table["task"]) == ("pellucid/2", "translate")
    for_others = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert (for_others["model_type"], for_others["vocab_size"]) == ("pellucid", LETTERS.size)


def test_a_folder_of_the_first_version_opens(folder: Path) -> None:
    changed(folder, format="pellucid/1")
    (folder / "pellucid.json").rename(folder / "config.json")
    model, loaded = random_model(1, LETTERS.size), open_folder(folder, CPU)
    assert loaded.model.config == model.config
    assert loaded.decode == DecodeConfig(beam_size=2)


def test_a_folder_says_what_its_training_lines_were(tmp_path: Path) -> None:
    text = TrainingTextStats(source_length=49, sentence_ends=0.98, several_sentences=0.0, source_script="Latin")
    model = random_model(1, LETTERS.size)
    for name, known in (("known", text), ("not", None)):
        save_description(tmp_path / name, model.config, TOKENIZERS, DecodeConfig(), "# A card\n", text=known)
        save_weights(tmp_path / name, model)
        assert open_folder(tmp_path / name, CPU).text == known
        assert ("text" in read_config(tmp_path / name)) == (known is not None)


def test_a_folder_that_has_lost_its_description(folder: Path) -> None:
    (folder / "pellucid.json").unlink()
    with pytest.raises(CheckpointError, match=r"model` lacks pellucid\.json, which describes its weights$"):
        open_folder(folder, CPU)


def test_equal_models_give_equal_folders(tmp_path: Path) -> None:
    first, second = saved(tmp_path / "a"), saved(tmp_path / "b")
    saved(second)  # once more, over itself
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name
    assert len(list(second.iterdir())) == 7


def test_a_narrow_model(folder: Path) -> None:
    loaded = open_folder(folder, CPU, torch.bfloat16)
    assert {p.dtype for p in loaded.model.parameters()} == {torch.bfloat16}


def test_a_failure_leaves_the_folder_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(self: Vocabulary, path: Path) -> Path:
        path.with_suffix(".json").write_text("half", encoding="utf-8")
        raise OSError("the disk is full")

    monkeypatch.setattr(Vocabulary, "save", fail)
    with pytest.raises(OSError, match="the disk is full"):
        saved(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_that_is_not_there(folder: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"`.*mode` is not a model folder: it does not exist; did you mean"
    ) as caught:
        open_folder(folder.parent / "mode", CPU)
    assert "did you mean `model`?" in str(caught.value)
    with pytest.raises(CheckpointError, match=r"`.*x/y/z` is not a model folder: it does not exist$"):
        open_folder(folder / "x/y/z", CPU)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"is not a model folder: no pellucid\.json in it$") as caught:
        open_folder(tmp_path / "empty", CPU)
    assert caught.value.hint == "a run folder becomes one at its first validation"


def test_a_folder_without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no weights at `.*model\.safetensors`"):
        open_folder(folder, CPU)


def test_weights_of_another_shape(folder: Path) -> None:
    changed(folder, model=section(folder, "model", d_ff=17))
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors`: `.*up_proj\.weight` has shape \(16, 16\), .* \(17, 16\)"
    ):
        open_folder(folder, CPU)


def test_weights_of_another_depth(folder: Path) -> None:
    changed(folder, model=section(folder, "model", num_encoder_layers=2))
    with pytest.raises(CheckpointError, match=r"misses \d+ parameters of this model \(first: `encoder\.layers\.1"):
        open_folder(folder, CPU)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5000])
def test_a_config_that_is_no_json(folder: Path, text: bytes) -> None:
    (folder / "pellucid.json").write_bytes(text)
    with pytest.raises(CheckpointError, match=r"pellucid\.json` is damaged: ") as caught:
        open_folder(folder, CPU)
    assert caught.value.hint == "copy the folder again"


@pytest.mark.parametrize("text", ["[]", "null"])
def test_a_config_that_is_no_table(folder: Path, text: str) -> None:
    (folder / "pellucid.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"pellucid\.json` is damaged: it is not a table of settings"):
        open_folder(folder, CPU)


@pytest.mark.parametrize("text", ["{}", '{"architectures": ["BertModel"]}'])
def test_a_config_of_something_else(folder: Path, text: str) -> None:
    (folder / "pellucid.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"does not describe a model: it has neither Pellucid.s `format` nor"):
        open_folder(folder, CPU)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"format": "pellucid/3"}, "has format 'pellucid/3' .*; this version supports 'pellucid/1' and 'pellucid/2'"),
        ({"format": 1}, "has format 1 and task 'translate'"),
        ({"task": "sing"}, "has format 'pellucid/2' and task 'sing'; this version supports .* 'translate', 'classify'"),
        ({"task": None}, "has format 'pellucid/2' and task None"),
    ],
)
def test_a_format_of_another_version(folder: Path, sections: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        open_folder(changed(folder, **sections), CPU)
    assert caught.value.hint == "upgrade pellucid"


@pytest.mark.parametrize("name", ["model", "tokenizer", "decode"])
@pytest.mark.parametrize("value", [None, [], "bpe"])
def test_a_section_that_is_missing(folder: Path, name: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=rf"pellucid\.json` is damaged: it has no table `{name}`"):
        open_folder(changed(folder, **{name: value}), CPU)


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("model", {"dmodel": 4}, r"unknown key `dmodel` in \[model\]; did you mean `d_model`"),
        ("decode", {"beams": 4}, r"unknown key `beams` in \[decode\]"),
        ("model", {"num_heads": 3}, r"`d_model` \(16\) must be divisible by `num_heads` \(3\)"),
        ("model", {"d_model": "16"}, "`d_model` must be a whole number, not '16'"),
        ("decode", {"n_best": 3}, r"`n_best` \(3\) cannot exceed `beam_size` \(2\)"),
    ],
)
def test_a_setting_that_cannot_work(folder: Path, name: str, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=rf"pellucid\.json` is damaged: {message}"):
        open_folder(changed(folder, **{name: section(folder, name, **keys)}), CPU)


def test_a_tokenizer_that_is_not_the_saved_one(folder: Path) -> None:
    (folder / "vocabulary.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"vocabulary\.json` \(2 bytes\) is not the file that was saved"):
        open_folder(folder, CPU)


@pytest.mark.parametrize("family", ["classifier", "encoder", "decoder"])
def test_a_model_of_another_task(family: str, tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"d_model": 8, "d_ff": 12, "num_heads": 2, "num_layers": 1, "vocab_size": LETTERS.size}
    config = ModelConfig.decoder(**sizes) if family == "decoder" else ModelConfig.encoder(**sizes)
    labels: tuple[str, ...] = ()
    if family == "classifier":
        config, labels = replace(config, num_classes=2), ("good", "나쁨")
    model = build_model(config)
    languages = {"de": 4, "fr": 5}
    save_description(tmp_path, config, TOKENIZERS, DecodeConfig(), "# A card\n", labels, languages)
    save_weights(tmp_path, model)
    loaded = open_folder(tmp_path, CPU)
    assert type(loaded.model) is type(model)
    assert loaded.task == {"classifier": "classify", "encoder": "encode", "decoder": "generate"}[family]
    assert (loaded.labels, loaded.languages) == (labels, languages)
    assert all(torch.equal(loaded.model.state_dict()[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"task": "generate"}, "its task is 'generate', its model is for 'translate'"),
        ({"labels": ["good", "bad"]}, r"its `labels` \(\['good', 'bad'\]\) must name 0 classes"),
        ({"labels": "good"}, r"its `labels` \(good\) must name 0 classes"),
        ({"languages": ["de"]}, "its `languages` are not a table of ids"),
        ({"text": ["de"]}, r"`text` must be a table of keys, not \['de'\]"),
        ({"text": {"source_lenth": 4}}, "unknown key `source_lenth` in `text`; did you mean `source_length`"),
        ({"text": {"sentence_ends": 7}}, r"`sentence_ends` \(7.0\) must be a share of the lines, from 0 to 1"),
        ({"languages": {"de": "4"}}, "its `languages` are not a table of ids"),
    ],
)
def test_sections_that_contradict_the_model(folder: Path, sections: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=rf"pellucid\.json` is damaged: {message}"):
        open_folder(changed(folder, **sections), CPU)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"d_model": 2**16, "head_dim": 2, "max_positions": 9}, r"has shape \(12, 16\), the model's is \(12, 65536\)"),
        pytest.param(
            {"num_encoder_layers": 2**10},
            r"misses \d+ parameters of this model \(first: `encoder\.layers\.1",
            marks=pytest.mark.slow,
        ),
        ({"num_encoder_layers": 2**30}, r"`num_encoder_layers` \(1073741824\) must be at most 1,024"),
        ({"d_model": 2**20}, r"`d_model` \(1048576\) must be at most 65,536"),
        ({"max_positions": 2**33}, r"`max_positions` \(8589934592\) must be at most 16,777,216"),
        (
            {"max_positions": 2**24},
            r"`max_positions` \(16,777,216\) and `d_model` \(16\) make a table of 268,435,456 numbers; at most 134,217",
        ),
        ({"pad_id": 10**30}, r"`pad_id` \(1000000000000000000000000000000\) must be at most 4,194,303"),
        ({"norm_eps": 10**400}, r"`norm_eps` \(inf\) must be finite"),
        ({"d_model": 10**4000}, r"`d_model` \(a whole number of about 4,001 digits\) must be at most"),
    ],
)
def test_memory_is_taken_for_what_the_weights_hold(folder: Path, keys: dict[str, Any], message: str) -> None:
    """A description of 1.5 kB asked for all memory, or for layers without end."""
    changed(folder, model=section(folder, "model", **keys))
    with pytest.raises(CheckpointError, match=message), most_memory(2**28):
        open_folder(folder, CPU)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"beam_size": 10**9}, r"`beam_size` \(1000000000\) must be at most 1,024"),
        ({"length_penalty": -1e308}, r"`length_penalty` \(-1e\+308\) must be at least -16"),
        ({"length_penalty": 1e308}, r"`length_penalty` \(1e\+308\) must be at most 16"),
        ({"max_length": 2**40}, r"`max_length` \(1099511627776\) must be at most 1,048,576"),
        ({"suppress_tokens": [1, 2**40]}, r"`suppress_tokens` \(1099511627776\) must be at most 4,194,303"),
    ],
)
def test_searches_have_ceilings(folder: Path, keys: dict[str, Any], message: str) -> None:
    changed(folder, decode=section(folder, "decode", **keys))
    with pytest.raises(CheckpointError, match=rf"pellucid\.json` is damaged: {message}"):
        open_folder(folder, CPU)


@pytest.mark.parametrize("name", ["pellucid.json", "config.json", "vocabulary.json", "model.safetensors"])
def test_a_pipe_in_a_folder_is_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink()
    if name == "config.json":
        (folder / "pellucid.json").unlink()
    os.mkfifo(folder / name)
    with pytest.raises(CheckpointError, match=rf"{name}`: it is a pipe|no weights at|is not a model folder"):
        open_folder(folder, CPU)


def test_what_a_message_echoes_is_short_and_visible(folder: Path) -> None:
    changed(folder, labels=["\x1b[31m" * 100_000])
    with pytest.raises(CheckpointError) as caught:
        open_folder(folder, CPU)
    assert len(str(caught.value)) < len(str(folder)) + 200
    assert "\x1b" not in str(caught.value)


@contextmanager
def most_memory(size: int) -> Iterator[None]:
    """Within it, so much more address space can be taken than is taken already."""
    told = Path("/proc/self/statm")
    if not told.exists():  # where a limit is not held to anyway
        yield
        return
    import resource

    taken = int(told.read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize(
    ("file", "engine"),
    [
        ("model.bin", "CTranslate2"),
        ("onnx/decoder_model_merged.onnx", "ONNX Runtime"),
        ("encoder.onnx", "ONNX Runtime"),
    ],
)
def test_a_folder_for_another_engine_says_so(file: str, engine: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(b"")
    (tmp_path / "config.json").write_text('{"model_type": "marian", "format": "pellucid-onnx/1"}')
    with pytest.raises(CheckpointError, match=f"holds a model for {engine}, which cannot be converted back") as refused:
        open_folder(tmp_path, torch.device("cpu"))
    assert "name the folder that it was converted from" in refused.value.hint
