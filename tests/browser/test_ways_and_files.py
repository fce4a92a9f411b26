"""Ways through a page (Back, links, keys, the first Tab) and what is taken along of it: SVG, the page, paper."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pellucid.views.page import read_data_blocks
from pellucid.weights.aligning_head import AligningHead
from tests.browser.conftest import Open, Opened
from tests.browser.living_pages import TEXT, living, write_living_page
from tests.browser.test_writing import until
from tests.browser.traces import translation

pytestmark = pytest.mark.browser

VIEWS = ("translate", "overview", "heads", "alignment", "flow", "lens", "contributions", "what_if", "step")


def open_living(open_page: Open, path: Path, view: str = "translate", family: str = "translator") -> Opened:
    """The page of a small model that has no trace yet, and whose folder names the head that aligns."""
    task, _ = living(family)
    if family == "translator":
        task.aligning_head = AligningHead(1, 1, "reads", 0.5, 20)
    write_living_page(path, task, [], view, VIEWS if family == "translator" else VIEWS[:3])
    opened: Opened = open_page.file(path, {"text": TEXT, "view": view})  # type: ignore[attr-defined]
    return opened


def test_back_leads_to_the_view_before_and_moving_within_one_is_no_step(open_page: Open) -> None:
    opened = open_page(translation(), view="heads", views=["heads", "matrix", "model"])
    before = opened.page.evaluate("history.length")
    opened.page.click(".tabs button:has-text('Matrix')")
    opened.settle().set(layer=1)
    opened.page.click(".tabs button:has-text('Model')")
    opened.settle()
    assert opened.page.evaluate("history.length") == before + 2
    for view, layer in (("matrix", "1"), ("heads", "")):
        opened.page.go_back()
        until(opened, "document.querySelector('.tabs [aria-current]').textContent.toLowerCase() === a", view)
        assert opened.settle().ask("[p.get('view'), p.get('layer')]") == [view, layer]


def test_a_link_to_a_view_waits_for_the_model_and_no_text_is_told(open_page: Open, tmp_path: Path) -> None:
    opened = open_living(open_page, tmp_path / "page.html", "heads")
    until(opened, "document.querySelector('.stage canvas')")
    opened.set(view="translate")
    opened.page.fill("textarea", "")
    until(opened, "document.querySelector('.written').textContent.trim() === ''")
    opened.set(view="heads")
    until(opened, "document.querySelector('.stage').textContent === 'Nothing is written yet.'")


def test_a_view_without_a_trace_says_what_it_waits_for(open_page: Open, tmp_path: Path) -> None:
    opened = open_living(open_page, tmp_path / "page.html", "heads")
    until(opened, "document.querySelector('.stage canvas')")
    told = []
    for why in ("The model is being opened …", "Nothing is written yet."):
        opened.ask("p.app.clear()")
        opened.ask("p.app.tell(a)", why)
        told.append(opened.settle().page.inner_text(".stage"))
    assert told == ["The model is being opened …", "Nothing is written yet."], "not that the view has nothing to show"


@pytest.mark.parametrize(("family", "tab"), [("classifier", "Classify"), ("decoder", "Write on")])
def test_the_first_tab_is_named_for_what_the_model_does(open_page: Open, tmp_path: Path, family: str, tab: str) -> None:
    task, trace = living(family)
    write_living_page(tmp_path / "page.html", task, [trace], "heads", ["translate", "heads"])
    opened: Opened = open_page.file(tmp_path / "page.html")  # type: ignore[attr-defined]
    opened.ask("p.live.ready")
    assert opened.page.locator(".tabs button").first.inner_text() == tab


def test_the_head_that_the_folder_names_is_shown_by_all_views(open_page: Open, tmp_path: Path) -> None:
    opened = open_living(open_page, tmp_path / "page.html", "heads")
    until(opened, "document.querySelector('.stage canvas')")
    assert opened.ask("[p.app.layer, p.app.head]") == [1, 1]
    opened.set(view="alignment")
    assert opened.ask("[p.app.layer, p.app.head, p.app.shown.how.reads]") == [1, 1, True]
    opened.set(view="overview")
    until(opened, "document.querySelector('.findings').textContent.includes('aligns the words, as held-out text')")
    assert "Layer 1, head 1 of the cross-attention" in opened.page.inner_text(".findings")
    opened.set(view="flow")
    assert "pellucid." not in opened.page.inner_text("main > .note"), "a reader of the page has no Python"
    assert "switched off, in “What if”" in opened.page.inner_text("main > .note")
    assert opened.page.locator(".signs .sign").count() >= 2, "a scale for each meaning of the colours"


def test_the_keys_that_are_listed_are_those_that_mean_something(open_page: Open, tmp_path: Path) -> None:
    opened = open_living(open_page, tmp_path / "page.html")
    opened.ask("p.live.ready")
    until(opened, "document.querySelector('textarea')")
    opened.page.keyboard.press("Tab")
    opened.page.keyboard.press("Enter")
    assert opened.page.evaluate("document.activeElement.matches('main button, main textarea')"), "past all tabs"
    opened.page.evaluate("document.activeElement.blur()")
    opened.press("?")
    keys = opened.page.locator("dialog dl.keys").first.inner_text()
    assert "what the model could have written instead" in keys
    assert "move from cell to cell" not in keys


@pytest.mark.parametrize("view", ["heads", "matrix", "model", "neuron"])
def test_a_picture_is_saved_as_svg_with_text_as_text(open_page: Open, view: str) -> None:
    trace = translation()
    first, *rest = trace.sequences["src"]
    hostile = replace(trace, sequences={**trace.sequences, "src": (replace(first, text='<b>&"\x01'), *rest)})
    opened = open_page(hostile, view=view, state={"attention": "cross", "head": 1, "heads": "1"})
    root = ElementTree.fromstring(opened.ask("p.svg()"))
    space = root.tag.removesuffix("svg")
    shown = ["".join(one.itertext()) for one in root.iter(f"{space}text")]
    assert any("dog" in one for one in shown) or view == "model"
    if view != "model":
        assert any(one.startswith('<b>&"') for one in shown)
    kinds = {one.tag.removeprefix(space) for one in root.iter()}
    assert kinds <= {"svg", "title", "defs", "clipPath", "pattern", "g", "path", "rect", "text", "image"}
    assert not re.search(r"NaN|undefined", ElementTree.tostring(root, encoding="unicode"))


def test_the_page_as_a_file_is_the_page(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(translation(), view="heads", views=["heads", "matrix"])
    opened.set(view="matrix").press("?")
    saved = opened.ask("p.file()")
    given = read_data_blocks(next(tmp_path.glob("page*.html")).read_text("utf-8"))
    assert {name: one.unpack() for name, one in read_data_blocks(saved).items()} == {
        name: one.unpack() for name, one in given.items()
    }
    (tmp_path / "saved.html").write_text(saved, encoding="utf-8")
    again: Opened = open_page.file(tmp_path / "saved.html")  # type: ignore[attr-defined]
    assert again.page.locator(".tabs [aria-current]").inner_text() == "Heads", "as it was opened, not as it was left"


def test_on_paper_there_are_no_tabs_and_buttons(open_page: Open) -> None:
    opened = open_page(translation(), view="heads", views=["heads", "matrix"])
    opened.page.emulate_media(media="print")
    assert not [name for name in (".tabs", ".tools", ".bar") if opened.page.locator(name).is_visible()]
    assert opened.page.locator(".picture").first.is_visible()
