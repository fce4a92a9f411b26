"""The committed bundle is what its sources give, small, and free of what pages must not hold."""

import base64
import re
import subprocess
import zlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "src" / "pellucid" / "views" / "viewer"
SOURCES = sorted((ROOT / "viewer").rglob("*.js"))


@pytest.mark.parametrize("name", ["viewer.js", "loader.js", "viewer.css"])
def test_it_is_what_its_sources_give(tmp_path: Path, name: str) -> None:
    subprocess.run([ROOT / "viewer" / "build.sh", tmp_path], check=True)
    assert (tmp_path / name).read_bytes() == (SHIPPED / name).read_bytes(), (
        "run `make viewer` and commit what it writes"
    )


def test_it_takes_at_most_60_kilobytes_of_a_page() -> None:
    carried = base64.b64encode(zlib.compress((SHIPPED / "viewer.js").read_bytes(), 6))
    assert len(carried) + (SHIPPED / "loader.js").stat().st_size <= 60_000


def test_it_leaves_one_name_in_the_page() -> None:
    text = (SHIPPED / "viewer.js").read_text(encoding="utf-8")
    assert text.startswith(("(()=>{", '"use strict";(()=>{'))
    assert "</script" not in text.lower()
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
