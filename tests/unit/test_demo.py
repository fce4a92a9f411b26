"""The demo, in small: the whole way, with too few steps to learn anything."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pellucid import demo
from pellucid.config import Recipe
from pellucid.errors import ConfigError
from pellucid.views.page import read_data_blocks
from pellucid.weights.tensors import read_header


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Recipe.load
    settings = [
        "train.steps=2",
        "train.validate_every=2",
        "train.save_every=2",
        "train.decode_and_evaluate=2",
        "decode.max_length=10",
    ]
    monkeypatch.setattr(demo, "PAIRS", 300)
    monkeypatch.setattr(demo, "HELD_OUT", 10)
    monkeypatch.setattr(demo.Recipe, "load", lambda name, overrides: load(name, [*overrides, *settings]))


@pytest.mark.usefixtures("small")
def test_the_demo_leaves_corpus_run_picture_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = demo.run_demo(tmp_path / "demo", "cpu")
    assert result.total == 10
    assert 0 <= result.exact <= 10
    corpus = tmp_path / "demo" / "corpus"
    assert len((corpus / "train.written").read_text(encoding="utf-8").splitlines()) == 290
    assert len((corpus / "test.iso").read_text(encoding="utf-8").splitlines()) == 10
    assert (tmp_path / "demo" / "run" / "model.safetensors").is_file()
    assert ElementTree.parse(tmp_path / "demo" / "attention.svg").getroot().tag.endswith("svg")
    assert capsys.readouterr().out.count("  ->  ") == demo.SHOWN
    page = (tmp_path / "demo" / "look.html").read_text(encoding="utf-8")
    examples = json.loads(read_data_blocks(page)["model.about"].unpack())["examples"]
    assert len(set(examples)) == demo.EXAMPLES
    assert set(examples) <= set((corpus / "test.written").read_text(encoding="utf-8").splitlines())


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_second_demo_uses_the_finished_run(tmp_path: Path) -> None:
    demo.run_demo(tmp_path / "demo", "cpu")
    before = (tmp_path / "demo" / "run" / "model.safetensors").stat().st_mtime_ns
    demo.run_demo(tmp_path / "demo", "cpu")
    assert (tmp_path / "demo" / "run" / "model.safetensors").stat().st_mtime_ns == before


def test_the_trained_model_is_copied_in_place_of_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "PAIRS", 300)
    monkeypatch.setattr(demo, "HELD_OUT", 10)
    for _ in range(2):  # the second replaces the first
        result = demo.run_demo(tmp_path / "demo", "cpu", trained=True)
        assert result.exact >= 9
    run = tmp_path / "demo" / "run"
    assert not (run / "recipe.toml").exists()
    assert read_header(run / "model.safetensors")["decoder.norm.bias"].dtype == "F32"
    assert "copied the model" in capsys.readouterr().err
    (run / "recipe.toml").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"run` is a run that was trained here"):
        demo.run_demo(tmp_path / "demo", "cpu", trained=True)
    (run / "recipe.toml").unlink()
    with pytest.raises(ConfigError, match="is not empty and is not a run folder"):
        demo.run_demo(tmp_path / "demo", "cpu")


def test_a_file_in_the_place_of_the_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="is a file, not a folder for the demo"):
        demo.run_demo(tmp_path / "demo", "cpu")
    assert (tmp_path / "demo").read_text(encoding="utf-8") == "mine"
