"""`pellucid evaluate`: a report for people, JSON for programs; models, finished translations, and two of them."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from pellucid.evaluation.comparison import compare_outputs
from pellucid.evaluation.scores import score_corpus
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine

PAIRS = [*reversed_letters(6, seed=9), ("", "a")]
SOURCES, REFERENCES = ([pair[side] for pair in PAIRS] for side in (0, 1))
OTHER = ["a b c d e f g h", *REFERENCES[1:]]


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    return write_pairs(tmp_path, PAIRS, "test")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Finished translations."""
    return write(tmp_path / "other.txt", OTHER)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def translations(run: Path, **options: int) -> list[str]:
    return [t.text for t in Translator.load(run, "cpu").translate(SOURCES, **options)]


def test_evaluate_reports_and_gives_json(pellucid: CommandLine, finished_run: Path, texts: tuple[str, str]) -> None:
    options = ["--src", texts[0], "--ref", texts[1], "--beam-size", "1"]
    report = pellucid("evaluate", finished_run, *options)
    assert (report.status, report.err) == (0, "")
    for text in ("BLEU", "chrF", "nrefs:1|case:mixed", "7 sentences"):
        assert text in report.out
    table = json.loads(pellucid("evaluate", finished_run, *options, "--json").out)
    assert table["sentences"] == 7
    assert f"{table['bleu']:.2f}" in report.out
    assert table["signature"].startswith("nrefs:1|case:mixed")


def test_finished_translations_need_no_model(
    pellucid: CommandLine, texts: tuple[str, str], other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = score_corpus(OTHER, REFERENCES)
    from_file = pellucid("evaluate", other, "--ref", texts[1])
    assert (from_file.status, from_file.out, from_file.err) == (0, f"{scores.report()}\n", "")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(other.read_bytes())))
    assert pellucid("evaluate", "-", "--ref", texts[1]) == from_file


def test_two_models(pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], tmp_path: Path) -> None:
    second = shutil.copytree(finished_run, tmp_path / "second")
    config = json.loads((second / "pellucid.json").read_text(encoding="utf-8"))
    config["decode"]["beam_size"] = 1
    (second / "pellucid.json").write_text(json.dumps(config), encoding="utf-8")
    options = ["--src", texts[0], "--ref", texts[1]]
    outcome = pellucid("evaluate", finished_run, "--against", second, *options)
    outputs = translations(finished_run), translations(second)
    assert outputs[0] != outputs[1]
    comparison = compare_outputs(*outputs, REFERENCES)
    report = comparison.report(str(finished_run), str(second))
    assert (outcome.status, outcome.out, outcome.err) == (0, f"{report}\n", "")
    table = json.loads(pellucid("evaluate", finished_run, "--against", second, *options, "--json").out)
    assert table == json.loads(json.dumps({"a": str(finished_run), "b": str(second), **comparison.to_json()}))


def test_a_model_against_a_file(pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], other: Path) -> None:
    options = ["--src", texts[0], "--ref", texts[1], "--beam-size", "1", "--json"]
    for systems, outputs in (
        ((finished_run, other), (translations(finished_run, beam_size=1), OTHER)),
        ((other, finished_run), (OTHER, translations(finished_run, beam_size=1))),
    ):
        table = json.loads(pellucid("evaluate", systems[0], "--against", systems[1], *options).out)
        assert table["bleu"]["difference"] == compare_outputs(*outputs, REFERENCES).bleu.difference


def test_on_a_terminal_it_says_what_takes_so_long(
    pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    outcome = pellucid("evaluate", finished_run, "--src", texts[0], "--ref", texts[1])
    assert outcome.err == f"translating 7 sentences with {finished_run}\n"


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["{run}", "--ref", "{ref}"], "the model `{run}` needs sentences to translate", "name their file with --src"),
        (
            ["{run}", "--against", "{run}/.", "--src", "{src}", "--ref", "{ref}"],
            "`{run}` is compared with itself",
            "name another one with --against",
        ),
        (["{other}", "--against", "{other}", "--ref", "{ref}"], "`{other}` is compared with itself", None),
        (["-", "--against", "-", "--ref", "{ref}"], "`-` is compared with itself", None),
        (["-", "--ref", "-"], "standard input (`-`) can be only one of the files", None),
        (
            ["{short}", "--ref", "{ref}"],
            "`{ref}` and `{short}` must have as many lines as each other, but `{ref}` has 7 and `{short}` 2",
            "line n of each file must belong to the same sentence; an empty translation is an empty line",
        ),
        (["{other}", "--src", "{short}", "--ref", "{ref}"], "`{ref}` and `{short}` must have as many lines", None),
        (["{other}", "--against", "{short}", "--ref", "{ref}"], "`{ref}` and `{short}` must have as many lines", None),
        (["{empty}", "--ref", "{empty}"], "`{empty}` is empty", "give a sentence a line"),
        (["{other}", "--ref", "no.txt"], "no file `no.txt`", None),
        (["{run}", "--ref", "{run}", "--src", "{src}"], "`{run}` is a folder, not a text file", None),
        (["{other}"], "the reference translations are not given: `--ref FILE`", "name their file"),
    ],
)
def test_what_cannot_be_evaluated(
    pellucid: CommandLine,
    finished_run: Path,
    texts: tuple[str, str],
    other: Path,
    tmp_path: Path,
    arguments: list[str],
    error: str,
    hint: str | None,
) -> None:
    names = {
        "run": finished_run, "src": texts[0], "ref": texts[1], "other": other,
        "short": write(tmp_path / "short.txt", OTHER[:2]), "empty": write(tmp_path / "empty.txt", []),
    }  # fmt: skip
    outcome = pellucid("evaluate", *(argument.format(**names) for argument in arguments))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error.startswith(error.format(**names))
    assert hint is None or outcome.hint == hint


@pytest.mark.parametrize("place", ["model", "against"])
def test_a_model_that_there_is_not_is_said_before_another_translates(
    pellucid: CommandLine,
    finished_run: Path,
    texts: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    monkeypatch.delattr(Translator, "translate")
    missing = finished_run.with_name("rum")
    first, second = (missing, finished_run) if place == "model" else (finished_run, missing)
    outcome = pellucid("evaluate", first, "--against", second, "--src", texts[0], "--ref", texts[1])
    assert outcome.status == 1
    assert outcome.error.startswith(f"`{missing}` is not a model folder: it does not exist; did you mean `run`?")
