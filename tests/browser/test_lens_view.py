"""What the lens and the contributions show is what Python computes of the same trace."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.analysis.contributions import attribute_logits
from pellucid.analysis.lens import logit_lens
from pellucid.views.page import page
from tests.browser.conftest import Open, Opened
from tests.browser.living_pages import living, write_living_page
from tests.browser.test_safety import CORPUS

pytestmark = pytest.mark.browser

FAMILIES: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm": "pre", "tie_embeddings": "all", "output_bias": True},
    "rms": {"norm": "pre", "norm_type": "rms", "positions": "rotary", "gated_feed_forward": True, "bias": False},
    "decoder": {"family": "decoder", "norm": "pre", "positions": "learned"},
    "classifier": {"family": "classifier", "pooling": "mean"},
}


def opened_page(open_page: Open, tmp_path: Path, name: str, view: str, **state: Any) -> tuple[Opened, Any, Any]:
    task, trace = living(**FAMILIES[name])
    path = write_living_page(tmp_path / "page.html", task, [trace], view, ["text", "lens", "contributions"])
    opened = open_page.file(path, {"language": "en", **state})  # type: ignore[attr-defined]
    return opened, task, trace


@pytest.mark.parametrize("name", FAMILIES)
def test_the_lens_is_pythons(open_page: Open, tmp_path: Path, name: str) -> None:
    opened, task, trace = opened_page(open_page, tmp_path, name, "lens")
    found = logit_lens(task, trace)
    shape = found.probabilities.shape[:2]
    assert tuple(opened.ask("[p.app.shown.size.rows, p.app.shown.size.columns]")) == shape
    assert opened.ask("p.shown()") == pytest.approx(found.probabilities[:, :, 0].ravel().tolist(), abs=1e-4)
    for stage in range(shape[0]):
        cell = opened.ask("p.read(a, 0)", stage)
        assert cell["figures"][1][1] == percent(float(found.chosen[stage, 0]))
        more = int(found.ranks[stage, 0])
        assert cell["figures"][2][1] == ("none" if more == 0 else str(more))
        for token in found.top[stage][0]:
            assert token.text.strip() in cell["text"]


def percent(probability: float) -> str:
    """A probability as all views of the page write it."""
    if probability < 0.0005:
        return "< 0.1\u00a0%"
    if probability < 0.01:
        return f"{100 * probability:.1f}\u00a0%"
    return "> 99\u00a0%" if probability > 0.995 else f"{round(100 * probability)}\u00a0%"


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("against", ["", "none"])
def test_contributions_are_pythons(open_page: Open, tmp_path: Path, name: str, against: str) -> None:
    state = {"contributions.order": "pass", "contributions.row": 1, "contributions.against": against}
    opened, task, trace = opened_page(open_page, tmp_path, name, "contributions", **state)
    row = 0 if name == "classifier" else 1
    told = opened.page.inner_text(".conclusion")
    rival: Any = None
    if against == "":
        last = logit_lens(task, trace).top[-1][row]
        written = logit_lens(task, trace).rows[row].id
        rival = next(token.id for token in last if token.id != written)
        assert "times as probable as" in told
    found = attribute_logits(task, trace, row=row, foil=rival)
    assert opened.ask("p.shown()") == pytest.approx([part.value for part in found.parts], abs=1e-3)
    assert opened.page.locator("main").inner_text().count("difference") == 1
    assert f"{found.total:.3f}".replace("-", "−") in told


def test_a_head_opens_where_it_looks(open_page: Open, tmp_path: Path) -> None:
    opened, _, _ = opened_page(open_page, tmp_path, "pre", "contributions", **{"contributions.order": "pass"})
    names = opened.ask("p.app.shown.parts.map((part) => part.name)")
    opened.ask("p.app.moveTo({ row: a, column: 0 }, true)", names.index("cross layer 1 head 1"))
    opened.press("Enter")
    chosen = ["view", "attention", "layer", "head", "text.by"]
    assert opened.ask("a.map((key) => p.get(key))", chosen) == ["text", "cross", "1", "1", "head"]


def test_another_word_and_another_rival(open_page: Open, tmp_path: Path) -> None:
    opened, task, trace = opened_page(open_page, tmp_path, "pre", "contributions")
    opened.page.locator(".bar").get_by_label("Word").select_option(index=2)
    opened.settle()
    options = opened.page.locator(".bar").get_by_label("against").locator("option")
    assert options.count() == 5
    opened.page.locator(".bar").get_by_label("against").select_option(index=2)
    opened.settle()
    rival = int(opened.ask("p.get('contributions.against')"))
    found = attribute_logits(task, trace, row=2, foil=rival)
    parts = sorted((part.value for part in found.parts), key=lambda value: -abs(value))
    assert opened.ask("p.shown()") == pytest.approx(parts, abs=1e-3)


@pytest.mark.parametrize("view", ["lens", "contributions"])
def test_keyboard_table_and_numbers(open_page: Open, tmp_path: Path, view: str) -> None:
    opened, _, _ = opened_page(open_page, tmp_path, "pre", view)
    opened.press("ArrowDown", "ArrowDown", "t")
    assert opened.told()
    assert opened.page.locator("tbody tr").count() > 5
    opened.press("e")
    with opened.page.expect_download() as download:
        opened.page.locator("dialog button", has_text="All numbers").click()
    assert download.value.path().read_bytes().count(b"\n") > 5


def test_numbers_have_names_and_run_as_no_formula(open_page: Open, tmp_path: Path) -> None:
    words = ("=1+1", "-2", "@x", "+3")
    task, trace = living("decoder", words=words, text=" ".join(words))
    path = write_living_page(tmp_path / "page.html", task, [trace], "lens", ["contributions"])
    opened = open_page.file(path, {"language": "en"})  # type: ignore[attr-defined]
    rows = list(csv.reader(io.StringIO(opened.ask("p.app.shown.csv()"))))
    written = [token.text for token in trace.sequences["out"]]
    assert set(written) & set(words)
    assert rows[0][1::3] == ["'" + text if text in words else text for text in written]
    assert not any(cell.startswith(("=", "+", "@", "-2")) for row in rows for cell in row)
    assert [row[0] for row in rows[1:]] == opened.ask("p.app.shown.stages")
    assert list(csv.reader(io.StringIO(opened.ask("p.app.shown.csv(2)")))) == [rows[0], rows[3]]
    opened.set(view="contributions").press("ArrowDown", "ArrowDown", "r")
    part = opened.ask("p.app.shown.parts[1]")
    name, line = list(csv.reader(io.StringIO(opened.ask("p.app.copied"))))
    assert name == ["part", "attention", "layer", "head", "value"]
    assert (line[0], float(line[4])) == (part["name"], part["value"])


@pytest.mark.parametrize("view", ["lens", "contributions"])
@pytest.mark.parametrize("context", [{"color_scheme": "dark"}, {"viewport": {"width": 360, "height": 740}}])
def test_it_draws(open_page: Open, tmp_path: Path, view: str, context: dict[str, Any]) -> None:
    task, trace = living(**FAMILIES["pre"])
    path = write_living_page(tmp_path / "page.html", task, [trace], view)
    opened = open_page.file(path, {"language": "ko"}, **context)  # type: ignore[attr-defined]
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.page.evaluate(
        "(() => { const c = document.querySelector('.stage canvas'), ctx = c.getContext('2d');"
        "return new Set(new Uint32Array(ctx.getImageData(0, 0, c.width, c.height).data.buffer)).size; })()"
    ) > 8  # fmt: skip


def test_what_python_put_into_the_page_is_shown_without_a_model(open_page: Open, tmp_path: Path) -> None:
    task, trace = living(**FAMILIES["pre"])
    extras = {
        "lens": {"traces": [pellucid.logit_lens(task, trace).to_json()]},
        "contributions": {"traces": [[pellucid.attribute_logits(task, trace, row=1, foil="dog").to_json()]]},
    }
    path = tmp_path / "static.html"
    path.write_text(page([trace], view="lens", views=["lens", "contributions"], extras=extras), encoding="utf-8")
    opened = open_page.file(path, {"language": "en"})  # type: ignore[attr-defined]
    expected = logit_lens(task, trace).probabilities[:, :, 0].ravel().tolist()
    assert opened.ask("p.shown()") == pytest.approx(expected, abs=1e-4)
    opened.set(view="contributions")
    assert "“dog”" in opened.page.inner_text(".conclusion")
    assert opened.page.locator(".bar").get_by_label("against").count() == 0


def test_what_is_hardly_probable_is_told_so(open_page: Open, tmp_path: Path) -> None:
    task, trace = living(**FAMILIES["pre"])
    found = pellucid.logit_lens(task, trace).to_json()
    found["cells"][0][0]["chosen"] = 1e-9
    path = tmp_path / "static.html"
    path.write_text(page([trace], view="lens", extras={"lens": {"traces": [found]}}), encoding="utf-8")
    opened = open_page.file(path, {"language": "en"})  # type: ignore[attr-defined]
    assert opened.ask("p.read(0, 0)")["figures"][1][1] == "< 0.1\u00a0%"
    assert opened.set(language="ko").ask("p.read(0, 0)")["figures"][1][1] == "< 0.1%"


def test_of_several_words_that_python_explained_one_can_be_chosen(open_page: Open, tmp_path: Path) -> None:
    task, trace = living(**FAMILIES["pre"])
    found = [attribute_logits(task, trace, row=row) for row in (0, 1)]
    path = tmp_path / "static.html"
    view = pellucid.view(trace, "contributions", contributions=found)
    view.html(path, ["contributions"])
    opened = open_page.file(path, {"language": "en"})  # type: ignore[attr-defined]
    assert opened.page.get_by_label("Word").locator("option").count() == 2
    for row in (1, 0):
        opened.page.get_by_label("Word").select_option(str(row))
        opened.set(**{"contributions.order": "pass", "contributions.row": row})
        assert opened.ask("p.shown().reduce((sum, one) => sum + one, 0)") == pytest.approx(found[row].total, abs=1e-3)


@pytest.mark.parametrize("view", ["lens", "contributions"])
def test_hostile_words_stay_words(open_page: Open, tmp_path: Path, view: str) -> None:
    words = [one.replace(" ", "_") for one in CORPUS if one.isprintable()]
    task, trace = living(words=words, text=" ".join(words[:5]))
    path = write_living_page(tmp_path / "hostile.html", task, [trace], view)
    opened = open_page.file(path, {"table": 1})  # type: ignore[attr-defined]
    opened.press("ArrowDown", "ArrowDown", "Enter")
    assert opened.page.evaluate("document.querySelectorAll('img, svg, base').length") == 0
    assert opened.page.evaluate("window.__p") is None
