"""Each term has one Korean word in the documentation and in the viewer."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TERMS = tomllib.loads((ROOT / "docs" / "ko" / "glossary.toml").read_text(encoding="utf-8"))["term"]
TEXTS = [
    ROOT / "README.ko.md",
    *sorted((ROOT / "docs" / "ko").rglob("*.md")),
    *sorted((ROOT / "viewer" / "shell" / "ko").glob("*.js")),
    ROOT / "src" / "pellucid" / "views" / "words.json",
    ROOT / "src" / "pellucid" / "judge" / "mistakes.py",
]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_text_says_each_term_as_the_glossary_does(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    said = {other: term["korean"] for term in TERMS for other in term["not"] if other in text}
    assert said == {}, "write what docs/ko/glossary.toml has"


def test_each_term_is_used_and_replaces_none_that_another_one_is() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in TEXTS)
    for term in TERMS:
        word = term["korean"].partition(",")[0].partition("(")[0]
        assert word in texts, term["english"]
        assert not [other for other in TERMS for wrong in other["not"] if wrong in term["korean"]]
