"""`pellucid distill`: a student in one command, and what is said of what cannot work, before anything is translated."""

from pathlib import Path

import pytest

from pellucid.config import Recipe
from pellucid.tasks.translator import Translator
from tests.toy_task import SMALL, reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine

OWN_VOCABULARY = "data.tokenizer="
SETTINGS = [part for each in SMALL if not each.startswith(OWN_VOCABULARY) for part in ("--set", each)]


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PELLUCID_DATA", raising=False)
    write_pairs(tmp_path, reversed_letters(60))


@pytest.mark.slow
def test_a_student_and_the_same_command_again(pellucid: CommandLine, finished_run: Path) -> None:
    command = ["distill", finished_run, "--src", "train.src", "--tgt", "train.tgt", "--out", "s", "--device", "cpu"]
    command += ["--drop-worst", "0.2", "--keep-copies", *SETTINGS]
    first = pellucid(*command)
    assert (first.status, first.out) == (0, "")
    assert f"`{finished_run}` translates source.src into `s.distilled/teacher-" in first.err
    assert " of the lowest log-probability per token" in first.err
    assert "\ns: finished after 6 steps, validation loss " in first.err
    assert Translator.load("s", "cpu").tokenizers.source.kind == "spaces", "the teacher's, and not the recipe's"
    stored = Recipe.load("s/recipe.toml")
    assert (stored.data.src, stored.data.valid_tgt) == ("s.distilled/train.src", "s.distilled/valid.tgt")
    again = pellucid(*command)
    assert (again.status, again.err.count("\n")) == (0, 1)
    assert again.err.startswith("s: already finished, nothing to do; 6 steps, ")
    other = pellucid(*command, "--n-best", "2")
    assert other.status == 2
    assert other.error == "the corpus in `s.distilled` was made with `--n-best 1`, this command has `--n-best 2`"
    assert other.hint.endswith("choose another `--corpus`, or replace it with `--fresh`")
    corpus = Path("s.distilled").rename("kept")
    without = pellucid(*command)
    assert (without.status, "translates" in without.err) == (0, False), "a finished run needs no corpus"
    assert "`s.distilled` is missing" in without.err
    assert "\ns: already finished, nothing to do; 6 steps, " in without.err
    corpus.rename("s.distilled")
    shared = pellucid(*command, "--out", "t", "--corpus", "s.distilled", "--set", "train.seed=2")
    assert (shared.status, "translates" in shared.err) == (0, False)
    assert "\nt: finished after 6 steps" in shared.err


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        ([], "no teacher is given", "name the run or model folder of a teacher"),
        (["RUN", "--out", ""], "--out is missing", "name the run folder of the student, as in `--out student`"),
        (
            ["RUN", "--out", "RUN"],
            "`RUN` cannot be both the teacher and the student's folder",
            "choose another `--out`",
        ),
        (
            ["RUN", "--corpus", "s"],
            "`s` cannot be both the corpus and the student's folder",
            "choose another `--corpus`",
        ),
        (["RUN", "--out", "train.src"], "`train.src` is a file, not a folder for a run", "choose another `--out`"),
        (["RUN", "--n-best", "9"], "`n_best` (9) cannot exceed `beam_size` (2)", "use a beam of at least 9"),
        (
            ["RUN", "--drop-worst", "2"],
            "`--drop-worst 2.0` must be at least 0 and below 1",
            "use a share: 0.05 drops",
        ),
        (["RUN", "--length-ratio", "1"], "`--length-ratio 1.0` must be above 1", "use a factor"),
        (
            ["RUN", "--recipe", "sst2"],
            'a student is a translator, and the recipe has `task = "classify"`',
            "name another",
        ),
        (["RUN", "--recipe", "tiny"], "no recipe `tiny`", ""),
        (["RUN", "--teacher-only"], "--teacher-only has no effect without --tgt", "leave it out"),
        (["RUN", "--budget", "soon"], "`soon` is not a duration", "write 90s, 15m, 1h30m or 2d"),
        (["nowhere"], "`nowhere` is not a model folder: it does not exist", "check the path"),
        (["RUN", "nowhere"], "`nowhere` is not a model folder: it does not exist", "check the path"),
        (["RUN", "--src", "none", "--teacher-only"], "no file `none`; looked for `none`", "check the path"),
        (["RUN", "--src-lang", "de"], "`--src-lang de` has no effect on this model", "leave it out"),
    ],
)
def test_what_cannot_work_is_said_first(
    pellucid: CommandLine, finished_run: Path, options: list[str], error: str, hint: str
) -> None:
    def real(text: str) -> str:
        return text.replace("RUN", str(finished_run))

    given = ["--src", "train.src", "--out", "s"]
    outcome = pellucid("distill", *given, "--device", "cpu", *map(real, options))
    assert outcome.status == 2
    assert outcome.err.replace("texts: 60 lines in `train.src`\n", "").startswith(f"error: {real(error)}")
    assert real(hint) in outcome.err
    assert sorted(path.name for path in Path().iterdir()) == ["train.src", "train.tgt"], "nothing was written"


@pytest.mark.parametrize(("text", "error"), [("", "`blank` is empty"), ("\n \n", "no line of the text is left to")])
def test_a_text_without_words(pellucid: CommandLine, finished_run: Path, text: str, error: str) -> None:
    Path("blank").write_text(text)
    outcome = pellucid("distill", finished_run, "--src", "blank", "--out", "s")
    assert outcome.status == 2
    assert f"error: {error}" in outcome.err
    assert not Path("s.distilled").exists()


def test_a_text_is_looked_for_in_a_folder(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    student = ("--out", tmp_path / "student")
    assert "--data-dir" in pellucid("distill", finished_run, "--src", "some.de", *student).err
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "some.de").write_text(" \n", encoding="utf-8")
    found = pellucid("distill", finished_run, "--src", "some.de", "--data-dir", tmp_path / "texts", *student)
    assert (found.status, f"{tmp_path / 'texts' / 'some.de'}" in found.err) == (2, True)


def test_no_text(pellucid: CommandLine, finished_run: Path) -> None:
    outcome = pellucid("distill", finished_run, "--out", "s")
    assert (outcome.status, outcome.error) == (2, "`--src` is not given")
    assert outcome.hint == "name the text that the teacher translates"


@pytest.mark.slow
def test_a_corpus_of_both_sides_in_a_file(pellucid: CommandLine, finished_run: Path) -> None:
    pairs = reversed_letters(60)
    Path("both.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    command = ["distill", finished_run, "--src", "both.tsv", "--teacher-only", "--out", "s", "--device", "cpu"]
    outcome = pellucid(*command, "--drop-worst", "0", "--length-ratio", "100", "--keep-copies", *SETTINGS)
    assert outcome.status == 0
    assert "originals" not in outcome.err
    valid = Path("s.distilled/valid.tgt").read_text().splitlines()
    assert set(valid) <= {target for _, target in pairs}, "it is validated on what people wrote"
