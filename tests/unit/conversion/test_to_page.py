"""A conversion to a page: the file, what its proof says and where that stands, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid.conversion.convert import convert
from pellucid.conversion.counterparts import library
from pellucid.conversion.pages import Page, node
from pellucid.errors import ConfigError, DataError
from tests.unit.conversion.tutorial_models import tutorial
from tests.unit.views.test_model_page import data_of, translator


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    translator().save(tmp_path / "model")
    return tmp_path / "model"


def about(path: Path) -> dict[str, Any]:
    """What a page says of its model."""
    found: dict[str, Any] = json.loads(data_of(path)["model.about"])
    return found


def test_without_node_the_page_is_written_and_says_that_nothing_was_compared(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    proof = convert(folder, tmp_path / "a.html", to="page", example="abc")
    assert proof.passed
    assert str(proof).startswith("not compared: node is not installed; it runs the page's script here")
    found = about(tmp_path / "a.html")
    assert (found["weights"], found["examples"]) == ("int8", ["abc"])
    assert found["proof"]["reason"] == proof.reason
    beside = json.loads((tmp_path / "a.conversion.json").read_text("utf-8"))
    assert beside == {"compared": False, "reason": proof.reason}


@pytest.mark.browser
@pytest.mark.parametrize("weights", ["float32", "float16", None])
def test_what_the_page_computes_is_compared(weights: str | None, folder: Path, tmp_path: Path) -> None:
    lines = ["abc", "de", "fghi", "a"]
    proof = convert(folder, tmp_path / "a.html", to="page", weights=weights, sentences=lines, references=lines)
    assert proof.compared
    assert proof.passed
    assert proof.engine == node()
    assert proof.tokenized_equal == 4
    assert proof.rounded_to == ("" if weights == "float32" else weights or "int8")
    assert proof.bleu is not None
    if weights == "float32":
        assert proof.greedy_equal == 4
        assert proof.largest_difference < 1e-5
        assert str(proof).endswith("equal within a tolerance of 0.0001")
    assert re.search(r"  page             [\d.]+ MB, our weights [\d.]+ MB", str(proof))
    assert about(tmp_path / "a.html")["proof"]["said"] == str(proof)


@pytest.mark.browser
def test_a_tutorials_model_becomes_a_page(vocabularies: dict[str, str], tmp_path: Path) -> None:
    torch.save(dict(tutorial("aladdin-persson")[0]), tmp_path / "model.pt")
    options = pellucid.TutorialOptions(**vocabularies)
    proof = convert(tmp_path / "model.pt", tmp_path / "a.html", to="page", weights="float32", tutorial=options)
    assert proof.passed
    assert proof.greedy_equal == proof.sentences == 20


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"to": "onnx", "weights": "int8"}, '`weights="int8"` means nothing to `to="onnx"`'),
        ({"to": "hf", "example": "abc"}, '`example="abc"` means nothing to `to="hf"`'),
        ({"to": "page", "weights": "int4"}, "unknown `weights` `int4`; did you mean `int8`?"),
        ({"to": "page", "quantization": "int8"}, '`quantization="int8"` means nothing to `to="page"`'),
    ],
    ids=str,
)
def test_what_cannot_be_asked(given: dict[str, Any], message: str, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        convert(folder, tmp_path / "a.html", **given)
    assert not (tmp_path / "a.html").exists()


def test_a_name_that_no_browser_opens(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"does not end in \.html, so no browser would open it") as caught:
        convert(folder, tmp_path / "page", to="page")
    assert caught.value.hint == f"name it `{tmp_path / 'page'}.html`"


def test_a_page_that_is_there_stays(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="is there already") as caught:
        convert(folder, tmp_path / "a.html", to="page")
    assert caught.value.hint == "name a file that does not exist yet"
    assert (tmp_path / "a.html").read_text("utf-8") == "mine"


@pytest.mark.browser
def test_a_page_without_a_model_cannot_be_compared(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<!doctype html><title>mine</title>", encoding="utf-8")
    with pytest.raises(DataError, match="is not a page with a model in it"):
        Page(tmp_path / "a.html", translator().model.config)


def test_node_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ImportError):
        library("page")
