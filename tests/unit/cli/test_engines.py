"""`--engine ctranslate2` on the command line: lines and numbers as of the own engine, and what is refused."""

import json
import shutil
from pathlib import Path

import pytest

from tests.rounding import NETWORK
from tests.unit.cli.command_line import CommandLine

ENGINE = ("--engine", "ctranslate2", "--threads", 1)
LINES = "a b c\n\nh g f e d c b a b c d e f\nd e\n"
WITH_TORCH = "load it with `--engine torch`"


@pytest.fixture(scope="module")
def model(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the run, beside which a conversion may be kept, with a file of lines."""
    folder = tmp_path_factory.mktemp("engines") / "run"
    shutil.copytree(finished_run, folder)
    (folder.parent / "lines").write_text(LINES, encoding="utf-8")
    return folder


@pytest.mark.foreign
def test_lines_scores_and_tests_are_those_of_the_own_engine(pellucid: CommandLine, model: Path) -> None:
    lines = model.parent / "lines"
    translate = ("translate", model, "--input", lines, "--json", "--beam-size", 1)
    ours, theirs = (pellucid(*translate, *how).out.splitlines() for how in ((), ENGINE))
    assert len(theirs) == len(LINES.splitlines())
    for own, other in zip(map(json.loads, ours), map(json.loads, theirs), strict=True):
        assert own.pop("score") == pytest.approx(other.pop("score"), rel=NETWORK)
        assert own == other
    score = ("score", model, "--src", lines, "--tgt", lines)
    numbers = [[float(line) for line in pellucid(*score, *how).out.splitlines()] for how in ((), ENGINE)]
    assert numbers[0] == pytest.approx(numbers[1], rel=NETWORK)
    evaluate = ("evaluate", model, "--src", lines, "--ref", lines, "--beam-size", 1, "--json")
    bleus = [json.loads(pellucid(*evaluate, *how).out)["bleu"] for how in ((), ENGINE)]
    assert bleus[0] == bleus[1]


@pytest.mark.foreign
def test_an_output_belongs_to_its_engine_and_type(pellucid: CommandLine, model: Path, tmp_path: Path) -> None:
    command = ("translate", model, "--input", model.parent / "lines", "--output", tmp_path / "out", "--beam-size", 1)
    assert pellucid(*command, *ENGINE).status == 0
    first = (tmp_path / "out").read_text(encoding="utf-8")
    assert pellucid(*command).status == 0
    assert (tmp_path / "out").read_text(encoding="utf-8") == first


@pytest.mark.foreign
@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        (["--sample"], "a translator on CTranslate2 does not sample: it has one stream", WITH_TORCH),
        (["--dtype", "int4"], "dtype `int4` is unknown to CTranslate2; did you mean `int8`?", "choose one of float32"),
        (["--device", "tpu"], "device `tpu` is not available in CTranslate2 here", "choose one of auto, cpu"),
    ],
)
def test_what_the_engine_refuses(pellucid: CommandLine, model: Path, options: list[str], error: str, hint: str) -> None:
    outcome = pellucid("translate", model, "a b", *ENGINE, *options)
    assert (outcome.status, outcome.out) == (2, "")
    assert error in outcome.err
    assert hint in outcome.err


def test_engines_and_types_that_there_are_not(pellucid: CommandLine, model: Path) -> None:
    outcome = pellucid("translate", model, "a b", "--engine", "ct2")
    assert (outcome.status, outcome.error) == (2, "unknown `--engine ct2`")
    assert outcome.hint == "choose one of torch, auto, compiled, ctranslate2"
    outcome = pellucid("translate", model, "a b", "--dtype", "int8")
    assert outcome.error == "unknown dtype `int8`"
    assert outcome.hint.endswith("or load it with `--engine ctranslate2`, which supports int8")
