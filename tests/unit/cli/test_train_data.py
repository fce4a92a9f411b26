"""`pellucid train` with a recipe whose texts are not there: fetched, or not, and what is said."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.config import Recipe
from pellucid.data import locate
from pellucid.data.catalogue import read_catalogue
from tests.toy_task import SMALL, reversed_letters
from tests.unit.cli.command_line import CommandLine
from tests.unit.data.file_server import FileServer, serving

SIDES = [b"".join(f"{side[i]}\n".encode() for side in reversed_letters(60)) for i in (0, 1)]
CATALOGUE = """
[letters]
title = "Letters"
publisher = "https://letters.example"
terms = "free"
sources = [{{ url = "{address}/good/{{name}}", tried = false }}]
[letters.files]
"a.src" = {{ bytes = {sizes[0]}, sha256 = "{sums[0]}" }}
"a.tgt" = {{ bytes = {sizes[1]}, sha256 = "{sums[1]}" }}
"""
RECIPE = '[data]\nsrc = "letters/a.src"\ntgt = "letters/a.tgt"\n'


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder and with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PELLUCID_DATA", raising=False)
    monkeypatch.delenv("PELLUCID_OFFLINE")
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """Publishes the two texts of recipe.toml."""
    with serving() as server:
        server.files |= dict(zip(("a.src", "a.tgt"), SIDES, strict=True))
        sums = [hashlib.sha256(side).hexdigest() for side in SIDES]
        toml = CATALOGUE.format(address=server.address, sizes=[len(side) for side in SIDES], sums=sums)
        monkeypatch.setattr(locate, "catalogue", lambda: read_catalogue(toml))
        Path("recipe.toml").write_text(RECIPE, encoding="utf-8")
        yield server


def arguments(*options: str) -> list[str]:
    settings = [part for setting in SMALL for part in ("--set", setting)]
    return ["train", "recipe.toml", "--out", "run", "--device", "cpu", *settings, *options]


@pytest.mark.slow
def test_a_recipes_texts_are_fetched(pellucid: CommandLine, server: FileServer, tmp_path: Path) -> None:
    done = pellucid(*arguments())
    assert (done.status, done.out) == (0, "")
    assert done.err.startswith(
        f"downloading 2 files of Letters ({sum(map(len, SIDES))} bytes)\n"
        f"  from   https://letters.example\n  terms  free\n  to     {tmp_path / 'cache' / 'letters'}\n"
        f"  {server.address}/good/a.src (this address has not been tried by the authors)\n"
        f"  {server.address}/good/a.tgt (this address has not been tried by the authors)\n"
    )
    assert Recipe.load("run/recipe.toml").data.src == str(tmp_path / "cache" / "letters" / "a.src")
    again = pellucid(*arguments("--fresh"))
    assert (again.status, "fetching" in again.err) == (0, False)
    assert len(server.requests) == 2


def test_a_recipe_whose_texts_cannot_be_fetched(pellucid: CommandLine, server: FileServer, tmp_path: Path) -> None:
    server.files["a.src"] = b"something else"
    failed = pellucid(*arguments())
    assert failed.status == 2
    complaint = failed.err[failed.err.index("error: ") :]
    assert complaint == (
        f"error: could not download `letters/a.src`: `{server.address}/good/a.src`: offers 14 bytes instead of "
        f"{len(SIDES[0])}\n\nhint: download it to `{tmp_path}/cache/letters/a.src`, or pass a folder with "
        f"letters/a.src as `--data-dir`\n"
    )
    assert not Path("run").exists()


def test_offline(pellucid: CommandLine, server: FileServer) -> None:
    failed = pellucid(*arguments("--offline"))
    assert failed.status == 2
    assert failed.error.startswith("no file `letters/a.src`; looked for `letters/a.src`, ")
    assert "; not downloaded in offline mode: " in failed.error
    assert (server.requests, Path("run").exists()) == ([], False)


@pytest.mark.parametrize(
    ("recipe", "size"),
    [("multi30k-de-en", "1.3 MB"), ("wmt14-en-de-base", "1.7 GB and 1 file of unknown size")],
)
def test_a_shipped_recipe_offline(pellucid: CommandLine, recipe: str, size: str, tmp_path: Path) -> None:
    failed = pellucid("train", recipe, "--out", "run", "--offline")
    assert (failed.status, failed.out) == (2, "")
    source = Recipe.load(recipe).data.files("src")[0]
    assert failed.error.startswith(
        f"no file `{source}`; looked for `{source}`, `{tmp_path}/cache/{source}`; not downloaded in offline mode: "
    )
    assert failed.error.endswith(f"({size})")
    assert "`--data-dir` or PELLUCID_DATA" in failed.hint
    assert list(tmp_path.iterdir()) == []
