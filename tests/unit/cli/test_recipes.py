"""`pellucid recipes`: a list, or a recipe that can be used as it is."""

from pathlib import Path

from pellucid.config import Recipe, shipped_recipes
from tests.unit.cli.command_line import CommandLine


def test_recipes_are_listed_and_shown_whole(pellucid: CommandLine, tmp_path: Path) -> None:
    listed = pellucid("recipes")
    assert (listed.status, listed.err) == (0, "")
    assert [line.split()[0] for line in listed.out.splitlines()] == list(shipped_recipes())
    for name in shipped_recipes():
        shown = pellucid("recipes", name)
        (tmp_path / "own.toml").write_text(shown.out, encoding="utf-8")
        assert Recipe.load(tmp_path / "own.toml") == Recipe.load(name)
    unknown = pellucid("recipes", "defaul")
    assert unknown.status == 2
    assert "did you mean `default`?" in unknown.error
