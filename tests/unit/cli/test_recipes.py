"""`pellucid recipes`: a list, or a recipe that can be used as it is."""

from pathlib import Path

import pytest

from pellucid.config import Recipe, list_shipped_recipes
from tests.unit.cli.command_line import CommandLine


def test_recipes_are_listed(pellucid: CommandLine) -> None:
    listed = pellucid("recipes")
    assert (listed.status, listed.err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in listed.out.splitlines())
    assert list(lines) == list(list_shipped_recipes())
    for name, line in lines.items():
        recipe = Recipe.load(name)
        assert line.startswith(f"{recipe.description}; ")
        assert line.endswith(f"; {recipe.time or 'time not measured'}")
    assert "; data: 1.3 MB; " in lines["multi30k-de-en"]
    assert "; data: 1.7 GB and 2 files of unknown size; " in lines["wmt14-en-de-big"]
    assert "; your own texts; " in lines["default"]


@pytest.mark.parametrize("name", list_shipped_recipes())
def test_a_recipe_is_printed_as_it_is(pellucid: CommandLine, name: str, tmp_path: Path) -> None:
    """With its remarks; and what is printed can be used."""
    shown = pellucid("recipes", name)
    assert (shown.status, shown.err) == (0, "")
    assert shown.out == list_shipped_recipes()[name].read_text(encoding="utf-8")
    assert shown.out.startswith("# ")
    (tmp_path / "own.toml").write_text(shown.out, encoding="utf-8")
    assert Recipe.load(tmp_path / "own.toml") == Recipe.load(name)
    assert pellucid("recipes", tmp_path / "own.toml").out == shown.out


def test_a_recipe_that_there_is_not(pellucid: CommandLine) -> None:
    unknown = pellucid("recipes", "defaul")
    assert unknown.status == 2
    assert "did you mean `default`?" in unknown.error
