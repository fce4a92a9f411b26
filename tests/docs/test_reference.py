"""The reference is that of the code: written by docs/generate.py, and complete."""

import inspect
import re
from dataclasses import fields
from itertools import takewhile

import pytest

import pellucid.errors
from docs.generate import PAGES, REFERENCE, attribute_docstrings
from pellucid.config import SECTIONS, Recipe, SamplingConfig, list_shipped_recipes
from pellucid.errors import PellucidError
from tests.docs.pages import CURRENT, ROOT, Page

GUIDES = [page for page in CURRENT if page.path.parent != REFERENCE]


def written(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["configuration.md", "errors.md", "recipe.schema.json"])
def test_the_reference_is_up_to_date(name: str) -> None:
    assert written(name) == PAGES[name](), "run docs/generate.py"


@pytest.mark.slow
def test_the_command_line_is_up_to_date() -> None:
    """Word by word: where lines break is up to the parser's version."""
    assert written("command-line.md").split() == PAGES["command-line.md"]().split(), "run docs/generate.py"


def test_each_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    """As GitHub's Markdown has it: a table is from its rule to the first line that is empty or begins another block."""
    wrong = []
    for page in CURRENT:
        lines = page.text.splitlines()
        for number, rule in enumerate(lines):
            if not re.fullmatch(r"\|( *:?-+:? *\|)+", rule):
                continue
            rows = [lines[number - 1], *takewhile(lambda line: line.strip(), lines[number + 1 :])]
            wrong += [f"{page}: {row}" for row in rows if _cells(row) != _cells(rule)]
    assert wrong == []


def _cells(row: str) -> int:
    """How many cells a row has; what is no row has none."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1 if row.startswith("|") and row.endswith("|") else 0


@pytest.mark.parametrize("cls", [*SECTIONS.values(), SamplingConfig], ids=lambda cls: cls.__name__)
def test_each_setting_has_a_sentence(cls: type) -> None:
    texts = attribute_docstrings(cls)
    assert list(texts) == [f.name for f in fields(cls)]
    assert all(text.endswith(".") for text in texts.values())


@pytest.mark.parametrize("name", list_shipped_recipes())
def test_each_recipe_loads_and_is_in_the_documentation(name: str) -> None:
    assert Recipe.load(name).name == name
    assert any(re.search(rf"\b{name}\b", page.text) for page in GUIDES)
    assert f"| `{name}` |" in written("configuration.md")


ERRORS = [cls for cls in vars(pellucid.errors).values() if inspect.isclass(cls) and issubclass(cls, PellucidError)]


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__name__)
def test_each_error_is_documented(cls: type[PellucidError]) -> None:
    rows = {row[0]: row[1] for row in Page(REFERENCE / "errors.md").table_rows}
    assert rows[f"`{cls.__name__}`"] == str(cls.exit_status)


def test_the_message_in_the_documentation_is_the_real_one() -> None:
    with pytest.raises(pellucid.errors.ConfigError) as caught:
        pellucid.config.ModelConfig(d_model=500, num_heads=8)
    shown = f"error: {caught.value}\n\nhint: {caught.value.hint}\n"
    assert shown in Page(ROOT / "docs" / "reference" / "errors.md").fences("text")
