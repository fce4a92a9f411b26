"""`pellucid inspect`: what a model attends to, as a page, a picture or a trace."""

import io
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pellucid as package
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.translator import Translator
from pellucid.tracing.trace import load_trace
from pellucid.training.state import read_checkpoint_weights
from pellucid.views.canvas.text import labels
from pellucid.views.page import read_data_blocks
from pellucid.weights.tensors import set_parameters
from tests.other_tasks import CLASSIFY, GENERATE, labelled_letters, small_recipe_for, write_alphabet, write_labelled
from tests.unit.cli.command_line import CommandLine

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    package.train(small_recipe_for(CLASSIFY, *write_labelled(folder, labelled_letters(80))), folder / "run", quiet=True)
    return folder / "run"


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    package.train(small_recipe_for(GENERATE, write_alphabet(folder), ""), folder / "run", quiet=True)
    return folder / "run"


def manifest(path: Path) -> dict[str, Any]:
    """What a page's viewer reads first."""
    found: dict[str, Any] = json.loads(read_data_blocks(path.read_text(encoding="utf-8"))["manifest"].unpack())
    return found


def svg_of(path: Path) -> ElementTree.Element:
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    return root


def texts(path: Path) -> set[str]:
    return {element.text or "" for element in svg_of(path).iter(f"{SVG}text")}


@pytest.mark.parametrize("view", ["heads", "matrix", "model", "neuron", "beam", "alignment", "flow", "evolution"])
def test_each_view_of_a_translation(pellucid: CommandLine, finished_run: Path, tmp_path: Path, view: str) -> None:
    outcome = pellucid("inspect", finished_run, "a b c", "--view", view, "-o", tmp_path / "a.svg")
    assert (outcome.status, outcome.out) == (0, ""), outcome.err
    svg_of(tmp_path / "a.svg")


def test_what_was_recorded_is_told(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    outcome = pellucid("inspect", finished_run, "a b c", "--target", "c b a", "-o", tmp_path / "a.svg")
    lines = outcome.err.splitlines()
    assert lines[0] == "read 4 tokens: a b c </s>"
    assert lines[1] == "wrote 4 tokens: c b a </s>"
    assert lines[2].startswith("encoder.self: 1 layers x 2 heads, 4 x 4 tokens; most diagonal layer 0 head ")
    assert lines[-2].startswith("faithfulness: ")
    assert lines[-1] == f"wrote {tmp_path / 'a.svg'}"


def test_layer_head_and_target_are_those_asked_for(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    pellucid(
        "inspect", finished_run, "a b", "--target", "b a", "--view", "matrix", "--attention", "decoder.self",
        "--layer", 0, "--head", 1, "--hide-special", "--title", "T", "-o", tmp_path / "a.svg",
    )  # fmt: skip
    trace = Translator.load(finished_run, "cpu").trace("a b", "b a")
    view = package.view(trace, "matrix", attention="decoder.self", layer=0, head=1, special=False, title="T")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == view.drawing.as_svg()


@pytest.mark.slow
def test_a_trace_is_kept_and_looked_at_later(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    kept, direct, later = (tmp_path / name for name in ("a.trace", "direct.svg", "later.svg"))
    assert pellucid("inspect", finished_run, "a b c", "--beam-size", 3, "-o", kept).status == 0
    assert package.load_trace(kept).search is not None
    pellucid("inspect", finished_run, "a b c", "--beam-size", 3, "--view", "beam", "-o", direct)
    outcome = pellucid("inspect", kept, "--view", "beam", "-o", later)
    assert outcome.status == 0, outcome.err
    assert later.read_bytes() == direct.read_bytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("default:all views would exceed")
def test_a_page_and_a_png(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.html").write_text("old", encoding="utf-8")
    assert pellucid("inspect", finished_run, "a b", "--one-view", "-o", tmp_path / "a.html").status == 0
    small = (tmp_path / "a.html").stat().st_size
    assert pellucid("inspect", finished_run, "a b", "-o", tmp_path / "a.html").status == 0
    every = (tmp_path / "a.html").read_bytes()
    assert len(every) > small
    assert pellucid("inspect", finished_run, "a b", "--all-views", "-o", tmp_path / "a.html").status == 0
    assert (tmp_path / "a.html").read_bytes() == every
    monkeypatch.setattr("pellucid.views.view.LARGEST_PAGE", small)
    large = pellucid("inspect", finished_run, "a b", "-o", tmp_path / "a.html")
    assert "warning: all views would exceed 8 MB, so the page has one: `--all-views` writes all of them\n" in large.err
    assert (tmp_path / "a.html").stat().st_size == small
    assert pellucid("inspect", finished_run, "a b", "--all-views", "-o", tmp_path / "a.html").status == 0
    assert pellucid("inspect", finished_run, "a b", "--no-model", "--all-views", "-o", tmp_path / "b.html").status == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes() != every
    assert pellucid("inspect", finished_run, "a b", "--view", "model", "-o", tmp_path / "a.png").status == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_text_from_standard_input(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b c\nnot this\n")))
    outcome = pellucid("inspect", finished_run, "-", "-o", tmp_path / "a.svg")
    assert outcome.err.startswith("read 4 tokens: a b c </s>\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert pellucid("inspect", finished_run, "-", "-o", tmp_path / "a.svg").error.startswith("standard input is empty")


def test_a_classifier_and_a_language_model(
    pellucid: CommandLine, classifier: Path, language_model: Path, tmp_path: Path
) -> None:
    outcome = pellucid("inspect", classifier, "a b c", "-o", tmp_path / "a.svg")
    assert outcome.status == 0, outcome.err
    assert {"a", "b", "c"} <= texts(tmp_path / "a.svg")
    outcome = pellucid("inspect", language_model, "a b c", "--view", "matrix", "-o", tmp_path / "b.svg")
    assert outcome.status == 0, outcome.err
    assert "masked" in texts(tmp_path / "b.svg")
    trace = LanguageModel.load(language_model).trace("a b c")
    read = " ".join(labels(trace.sequences["tgt"]))
    assert outcome.err.startswith(f"read {len(trace.sequences['tgt'])} tokens: {read}\n")
    outcome = pellucid("inspect", classifier, "a", "--target", "b", "-o", tmp_path / "a.svg")
    assert outcome.error == f"`--target` has no effect with `{classifier}`, which is for `classify`"
    outcome = pellucid("inspect", language_model, "a", "--second", "b", "-o", tmp_path / "a.svg")
    assert outcome.error == f"`--second` has no effect with `{language_model}`, which is for `generate`"


@pytest.mark.slow
def test_two_models_are_compared_on_one_translation(
    pellucid: CommandLine, finished_run: Path, classifier: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "other.trace"
    pellucid("inspect", finished_run, "a b", "--target", "b a", "-o", kept)
    outcome = pellucid("inspect", finished_run, "a b", "--compare", finished_run, "-o", tmp_path / "a.svg")
    assert outcome.status == 0, outcome.err
    assert {"A − B", "A: run", "B: run"} <= texts(tmp_path / "a.svg")
    outcome = pellucid("inspect", kept, "--compare", kept, "-o", tmp_path / "b.svg")
    assert outcome.status == 0, outcome.err
    outcome = pellucid("inspect", finished_run, "a b", "--compare", kept, "--view", "heads", "-o", tmp_path / "c.svg")
    assert outcome.error == "`--compare` has no effect with the view `heads`"
    outcome = pellucid("inspect", finished_run, "a b", "--compare", classifier, "-o", tmp_path / "c.svg")
    assert outcome.error == f"a translator cannot be compared with `{classifier}`, which is for `classify`"


@pytest.mark.parametrize("view", ["lens", "contributions", "text"])
def test_what_the_model_tells_is_drawn(view: str, finished_run: Path, pellucid: CommandLine, tmp_path: Path) -> None:
    outcome = pellucid("inspect", finished_run, "a b c", "--target", "c b a", "--view", view, "-o", tmp_path / "a.svg")
    assert outcome.status == 0, outcome.error
    words = {text.text for text in svg_of(tmp_path / "a.svg").iter(f"{SVG}text")}
    told = {
        "lens": {"layer 0, cross-attention", "c"},
        "contributions": {"layer 0, feed-forward", "biases"},
        "text": {"a", "b", "c"},
    }
    assert told[view] <= words


@pytest.mark.slow
def test_contributions_to_a_row_against_a_word(finished_run: Path, pellucid: CommandLine, tmp_path: Path) -> None:
    asked = ["inspect", finished_run, "a b c", "--target", "c b a", "--view", "contributions"]
    outcome = pellucid(*asked, "--row", "1", "--foil", "c", "-o", tmp_path / "a.svg")
    assert outcome.status == 0, outcome.error
    title = next(svg_of(tmp_path / "a.svg").iter(f"{SVG}title")).text
    assert title == "What speaks for “b” against “c”"
    outcome = pellucid(*asked, "--foil", "c b", "-o", tmp_path / "b.svg")
    assert outcome.status == 2
    assert outcome.error == "`--foil c b` is not one token of the model: it is encoded as 2 (c b)"
    outcome = pellucid(*asked, "--row", "9", "-o", tmp_path / "b.svg")
    assert outcome.error == "`--row 9` must be in 0..3"
    outcome = pellucid("inspect", finished_run, "a b c", "--foil", "c", "-o", tmp_path / "b.svg")
    assert outcome.error == "`--foil` has no effect with the view `heads`"
    assert not (tmp_path / "b.svg").exists()


@pytest.mark.slow
def test_a_page_tells_what_layers_would_write(
    finished_run: Path, classifier: Path, language_model: Path, pellucid: CommandLine, tmp_path: Path
) -> None:
    for model in (finished_run, classifier, language_model):
        outcome = pellucid("inspect", model, "a b c", "-o", tmp_path / "a.html")
        assert outcome.status == 0, outcome.error
        told = manifest(tmp_path / "a.html")
        assert {"lens", "contributions"} <= set(told["views"])
        stages = told["extras"]["lens"]["traces"][0]["stages"]
        assert stages[:2] == ["embedding", "layer 0 self_attn"]
        assert told["extras"]["contributions"]["traces"][0][0]["parts"][0]["name"] == "embedding"
        said = told["traces"][0]
        assert (said["predictions"] is None) == (said["classes"] is not None) == (model == classifier)
        pellucid("inspect", model, "a b c", "--one-view", "-o", tmp_path / "a.html")
        assert not {"lens", "contributions"} & set(manifest(tmp_path / "a.html")["extras"])


def test_a_trace_file_does_not_tell_it(finished_run: Path, pellucid: CommandLine, tmp_path: Path) -> None:
    assert pellucid("inspect", finished_run, "a b c", "-o", tmp_path / "a.trace").status == 0
    outcome = pellucid("inspect", tmp_path / "a.trace", "--view", "lens", "-o", tmp_path / "a.svg")
    assert outcome.status == 2
    assert outcome.error == "the view lens requires the model, not a trace"
    assert pellucid("inspect", tmp_path / "a.trace", "-o", tmp_path / "a.html").status == 0
    assert "lens" not in manifest(tmp_path / "a.html")["views"]


def test_a_row_of_another_view_leaves_the_contributions_whole(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path
) -> None:
    asked = ["inspect", finished_run, "a b c", "--target", "c b a", "--view", "neuron", "--row", "3"]
    assert pellucid(*asked, "-o", tmp_path / "a.html").status == 0
    told = manifest(tmp_path / "a.html")["extras"]["contributions"]["traces"][0]
    assert [one["row"] for one in told] == [0, 1, 2, 3]


def test_a_row_beyond_those_that_are_shown_has_a_word_to_be_compared_with(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pellucid.analysis.contributions.MOST_PARTS", 1)
    asked = ["inspect", finished_run, "a b c", "--target", "c b a", "--view", "contributions", "--row", "2"]
    assert pellucid(*asked, "-o", tmp_path / "a.html").status == 0
    (told,) = manifest(tmp_path / "a.html")["extras"]["contributions"]["traces"][0]
    assert told["row"] == 2
    assert told["foil"]["text"]


@pytest.mark.slow
def test_a_page_of_checkpoints_explains_none_of_them(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    """What the finished model would write is not what an early checkpoint would."""
    asked = ["inspect", finished_run, "a b c", "--view", "evolution", "-o", tmp_path / "a.html"]
    assert pellucid(*asked).status == 0
    told = manifest(tmp_path / "a.html")
    assert len(told["traces"]) > 1
    assert not {"lens", "contributions"} & {*told["extras"], *told["views"]}


@pytest.mark.slow
def test_a_checkpoint_of_a_run_is_a_model_too(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    checkpoint = sorted((finished_run / "checkpoints").iterdir())[0]
    outcome = pellucid("inspect", finished_run, "a b", "--compare", checkpoint, "-o", tmp_path / "a.svg")
    assert outcome.status == 0, outcome.err
    assert "A: run" in texts(tmp_path / "a.svg")
    assert any(text.startswith("B: step-") for text in texts(tmp_path / "a.svg"))
    for name, model in (("of_run", finished_run), ("of_checkpoint", checkpoint)):
        assert pellucid("inspect", model, "a b", "--target", "b a", "-o", tmp_path / f"{name}.trace").status == 0
    kept, last = (load_trace(tmp_path / f"{name}.trace") for name in ("of_checkpoint", "of_run"))
    translator = Translator.load(finished_run)
    set_parameters(translator.model, read_checkpoint_weights(checkpoint), "its weights")
    expected = translator.trace("a b", "b a")["cross"].weights(0, 0)
    np.testing.assert_array_equal(kept["cross"].weights(0, 0), expected)
    assert np.abs(last["cross"].weights(0, 0) - expected).max() > 0


def test_gold_is_framed_and_scored(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.txt"
    gold.write_text("0-1 1-0\n0-0\n", encoding="utf-8")
    outcome = pellucid("inspect", finished_run, "a b", "--target", "b a", "--gold", gold, "-o", tmp_path / "a.svg")
    assert outcome.status == 0, outcome.err
    assert any("AER" in text for text in texts(tmp_path / "a.svg"))
    gold.write_text("", encoding="utf-8")
    outcome = pellucid("inspect", finished_run, "a b", "--gold", gold, "-o", tmp_path / "a.svg")
    assert outcome.error == f"`{gold}` is empty: it has no gold alignment"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a b", "-o", "a.pdf"], "`--output a.pdf` must end in one of .html, .svg, .png, .trace"),
        (["a b", "--view", "matrx", "-o", "a.svg"], "unknown view `matrx`; did you mean `matrix`?"),
        (
            ["a b", "--view", "heads", "-o", "a.trace"],
            "`--view heads` has no effect: a trace has the data of every view",
        ),
        (["a b", "--all-views", "-o", "a.trace"], "`--all-views` has no effect: a trace is of one model and one text"),
        (
            ["a b", "--compare", "", "--view", "model", "-o", "a.html"],
            "`--compare` has no effect with the view `model`",
        ),
        (["-o", "a.svg"], "no text is given for the model"),
        (["a b", "--layer", "4", "-o", "a.svg"], "`--layer 4` of `cross` must be in 0..0"),
        (["a b", "--head", "x", "-o", "a.svg"], "`head` 'x' is unknown"),
        (["a b", "--second", "c", "-o", "a.svg"], "`--second` has no effect with"),
        (["a b", "--row", "1", "-o", "a.svg"], "`row` has no effect with the view `heads`"),
        (
            ["a b", "--layer", "1", "-o", "a.trace"],
            "`--layer` has no effect: a trace has all data of a view",
        ),
        (["a b", "--hide-sink", "-o", "a.trace"], "`--hide-sink` has no effect: a trace has all data of a view"),
        (["a b", "--title", "x", "-o", "a.trace"], "`--title` has no effect: a trace has all data of a view"),
        (
            ["a b", "--target", "b a", "--beam-size", "2", "-o", "a.svg"],
            "`--beam-size` has no effect if `--target` is given: nothing is searched",
        ),
        (["a b", "--all-views", "-o", "a.svg"], "`--all-views` is for a page"),
        (["a b", "--one-view", "-o", "a.png"], "`--one-view` is for a page"),
        (["a b", "--one-view", "--all-views", "-o", "a.html"], "`--all-views` and `--one-view` cannot be combined"),
        (["a b", "--pair", "ab", "-o", "a.svg"], "`pair` 'ab' requires two texts"),
        (["", "-o", "a.svg"], "the source is empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_shown(
    pellucid: CommandLine,
    finished_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = pellucid("inspect", finished_run, *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert f"error: {message}" in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_trace_file_has_its_own_text(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    pellucid("inspect", finished_run, "a b", "-o", tmp_path / "a.trace")
    outcome = pellucid("inspect", tmp_path / "a.trace", "c d", "-o", tmp_path / "a.svg")
    assert outcome.error.startswith("a text has no effect with the trace")
    outcome = pellucid("inspect", tmp_path / "a.trace", "--view", "evolution", "-o", tmp_path / "a.svg")
    assert "requires the checkpoints of a run, not a trace" in outcome.err


@pytest.mark.slow
def test_where_there_is_no_model_it_is_said(pellucid: CommandLine, tmp_path: Path) -> None:
    outcome = pellucid("inspect", tmp_path, "a b", "--second", "c", "-o", tmp_path / "a.svg")
    assert outcome.status == 2
    assert outcome.error.startswith(f"`{tmp_path}` is not a model folder")
