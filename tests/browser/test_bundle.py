"""The committed bundle is what its sources give, small, and free of what pages must not hold."""

import re
import subprocess
from pathlib import Path

import pytest

from pellucid.views import ASKING, VIEWS
from pellucid.views.page import page
from pellucid.views.script import page_script
from tests.browser.traces import translation

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "src" / "pellucid" / "views" / "viewer"
SOURCES = sorted((ROOT / "viewer").rglob("*.js"))


def built(folder: Path) -> dict[str, bytes]:
    """What `make viewer` leaves in a folder, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*") if path.suffix in {".js", ".css"}
    }  # fmt: skip


def test_it_is_what_its_sources_give(tmp_path: Path) -> None:
    subprocess.run([ROOT / "viewer" / "build.sh", tmp_path], check=True)
    given, shipped = built(tmp_path), built(SHIPPED)
    differing = [name for name in given.keys() | shipped.keys() if given.get(name) != shipped.get(name)]
    assert differing == [], "run `make viewer` and commit what it writes"


def test_a_page_of_one_view_takes_at_most_64_kilobytes() -> None:
    sizes = {view: len(page([translation()], view=view)) for view in VIEWS}
    assert max(size for view, size in sizes.items() if view not in ASKING) <= 64_000, sizes
    # These stand in pages with a model alone, beside which they are small.
    assert max(sizes[view] for view in ASKING) <= 72_000, sizes


def test_the_script_leaves_no_name_in_the_page() -> None:
    text = page_script(VIEWS)
    assert text.startswith('(()=>{"use strict";')
    assert text.endswith("})();")
    assert not re.search(r"\b(define|require|module|exports)\s*[.(\[=]", text)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "viewer")))
def test_a_source_writes_no_markup(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|setAttribute\(.style"
    assert not re.search(markup + r"|\beval\(|new Function", text)
    assert not re.search(r"https?://|(?<!\{)(?<!typeof )\bimport\(", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))
    assert len(text.splitlines()) <= 400


def test_every_source_says_what_it_is_for() -> None:
    assert [path.name for path in SOURCES if not path.read_text(encoding="utf-8").startswith("// ")] == []
