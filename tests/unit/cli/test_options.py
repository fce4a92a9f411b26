"""What several verbs have in common: a model folder, and two texts side by side."""

from pathlib import Path

import pytest

from pellucid.errors import CheckpointError, shown
from tests.toy_task import reversed_letters
from tests.unit.cli.command_line import CommandLine

PAIRS = [*reversed_letters(6, seed=9), ("", "a")]


@pytest.mark.parametrize(("verb", "side"), [("score", "--tgt"), ("evaluate", "--ref")])
def test_a_text_that_is_not_named(pellucid: CommandLine, texts: tuple[str, str], verb: str, side: str) -> None:
    assert f"{side} FILE" in pellucid(verb, "no-model", "--src", texts[0]).error


@pytest.mark.parametrize("verb", ["score", "evaluate", "translate", "info"])
def test_a_folder_that_is_no_model(pellucid: CommandLine, tmp_path: Path, texts: tuple[str, str], verb: str) -> None:
    side = {"score": "--tgt", "evaluate": "--ref"}.get(verb)
    folder = tmp_path / "no-model"  # alone in its folder: no other has a name like it
    folder.mkdir()
    outcome = pellucid(verb, folder, *(["--src", texts[0], side, texts[1]] if side else []))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error == f"`{folder}` is not a model folder: no pellucid.json in it"


MISTYPED = {
    "translate": ["a"], "classify": ["a"], "generate": ["a"], "score": ["--src", "FILE", "--tgt", "FILE"],
    "evaluate": ["--src", "FILE", "--ref", "FILE"], "inspect": ["a", "-o", "a.html"], "info": [], "average": [],
    "heads": ["--src", "FILE", "--tgt", "FILE"], "align": ["--src", "FILE", "--tgt", "FILE"], "convert": ["new"],
}  # fmt: skip
"""Each verb that opens a model, with what else it needs."""


@pytest.mark.parametrize("verb", MISTYPED)
@pytest.mark.parametrize("name", ["no-such-model", "no/such/model", "./no-such-model"])
def test_a_mistyped_model_is_a_mistake(
    pellucid: CommandLine, texts: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    outcome = pellucid(verb, name, *(texts[0] if word == "FILE" else word for word in MISTYPED[verb]))
    assert (outcome.status, outcome.out) == (2, "")
    assert "no-such-model" in outcome.error or "no/such/model" in outcome.error
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("arguments", [["train", "dates", "--init-from", "nothing", "--out", "run"],
                                       ["plot", "positions", "nothing", "-o", "a.svg"],
                                       ["plot", "run", "nothing", "-o", "a.svg"]])  # fmt: skip
def test_so_is_a_mistyped_model_elsewhere(
    pellucid: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = pellucid(*arguments)
    assert (outcome.status, "`nothing`" in outcome.error) == (2, True), outcome.err


@pytest.mark.parametrize("verb", ["translate", "classify", "generate", "score", "evaluate", "inspect", "convert"])
def test_a_revision_reaches_the_hub(
    pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verb: str
) -> None:
    asked = []

    def fetch(name: str, revision: str | None = None, offline: bool | None = None) -> Path:
        asked.append((name, revision))
        raise CheckpointError("it is asked for", exit_status=2)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pellucid.weights.hugging_face.hub.fetch", fetch)
    (tmp_path / "a").write_text("a\n")
    options = {
        "score": ["--src", "a", "--tgt", "a"], "evaluate": ["--src", "a", "--ref", "a"],
        "inspect": ["a", "-o", "a.html"], "convert": ["out"],
    }.get(verb, ["a"])  # fmt: skip
    outcome = pellucid(verb, "some/model", *options, "--revision", "v1.2")
    assert outcome.err.startswith("error: it is asked for"), outcome.err
    assert asked[0] in (("some/model@v1.2", None), ("some/model", "v1.2"))
    asked.clear()
    path = pellucid(verb, tmp_path, *options, "--revision", "v1.2")
    assert (path.status, path.error) == (
        2,
        f"`--revision v1.2` is of a model on the hub, and `{shown(str(tmp_path))}` is none",
    )
    twice = pellucid(verb, "some/model@v1", *options, "--revision", "v2")
    assert (twice.status, twice.error) == (2, "`some/model@v1` names a revision, and `--revision v2` another")
