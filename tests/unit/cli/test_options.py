"""What several verbs have in common: a model folder, and two texts side by side."""

from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DecodeConfig
from pellucid.errors import CheckpointError, format_value
from pellucid.model.families import build_model
from pellucid.model.parts import Parts
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights.folder import save_model
from tests.own_parts import Windowed
from tests.tiny_model import tiny_config
from tests.toy_task import reversed_letters
from tests.unit.cli.command_line import CommandLine
from tests.unit.text.test_own_tokenizer import Letters

PARTS = Parts(attention=Windowed.from_config)
CLASSIFIER = {"num_decoder_layers": 0, "num_classes": 2, "tie_embeddings": "none"}
LANGUAGE_MODEL = {"num_encoder_layers": 0}
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
    "evaluate": ["--src", "FILE", "--ref", "FILE"], "inspect": ["b", "-o", "a.html"], "info": [], "average": [],
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


REVISED = [
    "translate", "classify", "generate", "score", "evaluate", "inspect", "convert", "info", "heads", "align", "plot",
]  # fmt: skip


@pytest.mark.parametrize("verb", REVISED)
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
        "inspect": ["b", "-o", "a.html"], "convert": ["out"],
        "info": [], "heads": ["--src", "a", "--tgt", "a"], "align": ["--src", "a", "--tgt", "a"],
        "plot": ["-o", "a.svg"],
    }.get(verb, ["b"])  # fmt: skip
    verb_of = [verb, *(["positions"] if verb == "plot" else [])]
    outcome = pellucid(*verb_of, "some/model", *options, "--revision", "v1.2")
    assert outcome.err.startswith("error: it is asked for"), outcome.err
    assert asked[0] in (("some/model@v1.2", None), ("some/model", "v1.2"))
    asked.clear()
    path = pellucid(*verb_of, tmp_path, *options, "--revision", "v1.2")
    assert (path.status, path.error) == (
        2,
        f"`--revision v1.2` requires a model on the hub, but `{format_value(str(tmp_path))}` is not",
    )
    twice = pellucid(*verb_of, "some/model@v1", *options, "--revision", "v2")
    assert (twice.status, twice.error) == (2, "`some/model@v1` and `--revision v2` name different revisions")


def test_a_revision_of_no_model(pellucid: CommandLine) -> None:
    outcome = pellucid("plot", "masks", "-o", "a.svg", "--revision", "v1")
    assert (outcome.status, outcome.error) == (2, "`--revision v1` requires `plot positions` with a model")


@pytest.mark.parametrize("verb", [*(verb for verb in MISTYPED if verb != "average"), "plot"])
def test_what_is_of_ones_own_is_for_python(
    pellucid: CommandLine, texts: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The command line cannot be handed objects: each verb says so, with lines that can be pasted as they stand."""
    monkeypatch.chdir(tmp_path)
    task = {"classify": CLASSIFIER, "generate": LANGUAGE_MODEL}.get(verb, {})
    model = build_model(tiny_config(**{"src_vocab_size": 12, "tgt_vocab_size": 12} | task), PARTS)
    labels = ("a", "b") if model.config.num_classes else ()
    save_model(tmp_path / "own", model, TokenizerPair(Letters()), DecodeConfig(), "", labels)
    words = {"plot": ["positions", "own", "-o", "a.svg"], "convert": ["own", "new", "--to", "hf"]}.get(
        verb, ["own", *MISTYPED.get(verb, ())]
    )
    outcome = pellucid(verb, *(texts[0] if word == "FILE" else word for word in words))
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error == (
        "the model in `own` has custom parts (attention=tests.own_parts.Windowed.from_config), but none are given"
    )
    imports, _, call = outcome.hint.removeprefix("from Python: ").partition("; ")
    assert imports == "import pellucid, tests.own_parts, tests.unit.text.test_own_tokenizer"
    names: dict[str, Any] = {}
    exec(f"{imports}\nopened = {call}", names)
    assert names["opened"].model.parts.names == PARTS.names
