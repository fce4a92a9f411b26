"""A conversion to a page: the file, what its proof says and where that stands, and what is refused."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid.conversion.convert import convert
from pellucid.conversion.counterparts import library
from pellucid.conversion.pages import Page, node
from pellucid.conversion.proof import ConversionReport
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
    assert str(proof).startswith("not compared: node is not installed; node runs the page's script")
    found = about(tmp_path / "a.html")
    assert (found["weights"], found["examples"]) == ("int8", ["abc"])
    assert found["proof"]["reason"] == proof.reason
    beside = json.loads((tmp_path / "a.conversion.json").read_text("utf-8"))
    assert beside == {"compared": False, "reason": proof.reason}


OLD_CARD = """---
library_name: pellucid
language:
  - de
datasets:
  - mes textes.fr
model-index:
  - name: default
---

# default

| trained on | mes textes.fr, my texts.en |
| steps | 9 |
"""


@pytest.mark.slow
def test_a_page_for_a_friend_has_words_of_ones_own_and_no_private_name(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    copy = tmp_path / "run"
    shutil.copytree(finished_run, copy)
    (copy / "README.md").write_text(OLD_CARD, encoding="utf-8")
    (copy / "aligning_head.json").unlink()
    convert(copy, tmp_path / "a.html", to="page", title="For <Ada>", note="Trained by me.")
    found, kept = about(tmp_path / "a.html"), pellucid.Translator.load(finished_run, "cpu").aligning_head
    assert kept is not None
    assert found["aligning"] == kept.to_trace_facts(), "found anew on the ids in the folder of an earlier version's run"
    assert (found["title"], found["note"]) == ("For <Ada>", "Trained by me.")
    assert "<title>For &lt;Ada&gt;</title>" in (tmp_path / "a.html").read_text("utf-8")
    assert found["card"].startswith("---\nlibrary_name: pellucid\nlanguage:\n  - de\n---\n")
    assert not [word for word in ("mes textes", "my texts", "model-index", "datasets") if word in found["card"]]
    assert "| steps | 9 |" in found["card"]


@pytest.mark.parametrize(
    ("given", "verdict", "said"),
    [
        ({"greedy_equal": 18}, "good", "good: 18 of 20 sentences have the same output as the original"),
        ({"greedy_equal": 11, "greedy_near_ties": 4}, "good", "good: 15 of 20 sentences"),
        (
            {"greedy_equal": 11},
            "look",
            "check the page: 11 of 20 sentences have the same output as the original",
        ),
        ({"greedy_equal": 20, "tokenized_equal": 19}, "look", "weights in float16 are closer"),
        ({"largest_difference": 0.01}, "good", "good; the rest is the rounding to int8"),
        ({"largest_difference": 0.2}, "look", "sentences of your text for a reliable verdict"),
    ],
    ids=str,
)
def test_a_rounded_page_is_good_or_to_be_looked_at(given: dict[str, Any], verdict: str, said: str) -> None:
    plain = {"compared": True, "sentences": 20, "rounded_to": "int8", "decides": False, "is_page": True}
    proof = ConversionReport(**{**plain, "tokenized_equal": 20, **given})
    assert proof.verdict == verdict == proof.to_dict()["verdict"]
    assert said in str(proof).splitlines()[-1]
    assert ConversionReport(**{**plain, **given, "is_page": False}).verdict == ""
    assert "verdict" not in ConversionReport(**{**plain, **given, "decides": True}).to_dict()


@pytest.mark.browser
def test_a_runs_page_is_compared_on_its_validation_text(finished_run: Path, tmp_path: Path) -> None:
    proof = convert(finished_run, tmp_path / "a.html", to="page")
    assert (proof.sentences, proof.origin, proof.verdict) == (20, "the run's validation text", "good")
    assert "on 20 sentences of the run's validation text" in str(proof)
    assert about(tmp_path / "a.html")["proof"]["origin"] == proof.origin


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
        ({"to": "onnx", "weights": "int8"}, '`weights="int8"` has no effect with `to="onnx"`'),
        ({"to": "hf", "example": "abc"}, '`example="abc"` has no effect with `to="hf"`'),
        ({"to": "page", "weights": "int4"}, "unknown `weights` `int4`; did you mean `int8`?"),
        ({"to": "page", "quantization": "int8"}, '`quantization="int8"` has no effect with `to="page"`'),
    ],
    ids=str,
)
def test_what_cannot_be_asked(given: dict[str, Any], message: str, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        convert(folder, tmp_path / "a.html", **given)
    assert not (tmp_path / "a.html").exists()


def test_a_name_that_no_browser_opens(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"does not end in \.html, which browsers require") as caught:
        convert(folder, tmp_path / "page", to="page")
    assert caught.value.hint == f"name it `{tmp_path / 'page'}.html`"


def test_a_page_that_is_there_stays(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="already exists") as caught:
        convert(folder, tmp_path / "a.html", to="page")
    assert caught.value.hint == "name a file that does not exist yet"
    assert (tmp_path / "a.html").read_text("utf-8") == "mine"


@pytest.mark.browser
def test_a_page_without_a_model_cannot_be_compared(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<!doctype html><title>mine</title>", encoding="utf-8")
    with pytest.raises(DataError, match="is not a page with a model"):
        Page(tmp_path / "a.html", translator().model.config)


def test_node_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ImportError):
        library("page")
