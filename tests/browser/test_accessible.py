"""Each view of a page is right by axe-core's rules: light and dark, wide and narrow, in both languages."""

import sys
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.views import VIEWS
from pellucid.views.model_page import list_views, model_islands, model_page
from tests.browser.conftest import Open, Opened
from tests.browser.test_page_answers import translator

pytestmark = pytest.mark.browser

AXE = Path(sys.prefix, "js", "node_modules", "axe-core", "axe.min.js")
VIEWPORTS = {"wide": {"width": 1280, "height": 860}, "narrow": {"width": 390, "height": 844}}
VIOLATIONS = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`)"""


@pytest.fixture(scope="module")
def rules() -> str:
    """The script of axe-core, which the browser runs beside the page."""
    if not AXE.exists():
        pytest.fail(f"this test needs axe-core: `make browser` installs it ({AXE})")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model: pellucid.Translator = translator(beam_size=2)
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(model_page(model, model_islands(model, "int8", examples=["abc def"])), encoding="utf-8")
    return path


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", VIEWPORTS)
def test_no_rule_is_violated(
    width: str, scheme: str, language: str, open_page: Open, written: Path, rules: str
) -> None:
    opened: Opened = open_page.file(  # type: ignore[attr-defined]
        written, {"language": language}, viewport=VIEWPORTS[width], color_scheme=scheme
    )
    page: Any = opened.page
    page.evaluate(rules)
    page.evaluate("pellucid.ready")
    found = {}
    for view in VIEWS:
        if view in list_views(translator()):
            opened.set(view=view)
            page.wait_for_timeout(250)  # what the model is asked for comes
            if violations := page.evaluate(VIOLATIONS):
                found[view] = violations
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} scrolls sideways"
    assert found == {}
