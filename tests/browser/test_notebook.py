"""A notebook's cell and still pictures where people look at them: in a browser, and with fonts for every script."""

import warnings
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.shapes import Label
from tests.browser.traces import made

pytestmark = pytest.mark.browser

# What VS Code's notebooks have in the page; bundles that look for it never set their own names.
HOST = """<!doctype html><script>window.define = () => {{}}; window.define.amd = {{}}; window.require = window.define;
window.secret = "of the notebook";</script>{cell}"""


@pytest.fixture
def cell(browser: Any, tmp_path: Path) -> Any:
    """The frame of a view's cell, in a page like a notebook's."""
    path = tmp_path / "notebook.html"
    html = pellucid.view(made(6), "matrix")._repr_mimebundle_()["text/html"]
    path.write_text(HOST.format(cell=html), encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(path.as_uri())
    frame = page.frames[1]
    frame.wait_for_selector("canvas")
    yield frame
    context.close()
    assert faults == []


def test_the_view_is_drawn_beside_a_module_loader(cell: Any) -> None:
    assert (
        cell.evaluate("async () => { const p = await pellucid; await p.settled(); return typeof p.weight }")
        == "function"
    )


def test_the_frame_cannot_reach_the_notebook(cell: Any) -> None:
    reach = "() => { try { return parent.secret } catch (error) { return error.name } }"
    assert cell.evaluate(reach) == "SecurityError"
    assert cell.evaluate("origin") == "null"


SCRIPTS = {
    "korean": "2024년 3월 이천이십사년",
    "chinese": "漢字 汉字 かな",
    "arabic": "عربي فارسی",
    "hebrew": "שלום",
    "greek": "Ελληνικά Кириллица",
    "symbols": "😀 ✓ → ␣ ⇥ ↵ ▁ √ ₙ ‖",
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("bold", [False, True])
def test_every_script_has_a_font(script: str, bold: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Drawing("t", width=300, height=30).add(Label(SCRIPTS[script], 5, 20, 14, bold=bold)).as_png()


@pytest.mark.parametrize("view", ["heads", "matrix", "model", "neuron"])
def test_an_svg_is_shown_as_wide_as_it_says(browser: Any, tmp_path: Path, view: str) -> None:
    pellucid.view(made(6), view, width="column").svg(tmp_path / "a.svg")
    (tmp_path / "a.html").write_text('<img src="a.svg">', encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "a.html").as_uri())
    page.wait_for_function("document.images[0].complete")
    assert 100 < page.evaluate("document.images[0].naturalWidth") <= 318
    page.close()
