"""`pellucid train --budget`: the plan alone, a run to a plan, and what is said of budgets that make no sense."""

import json
from pathlib import Path

import pytest

from pellucid.config import Recipe
from tests.toy_task import reversed_letters, small_arguments, write_pairs
from tests.unit.cli.command_line import CommandLine

TEXTS = ("--src", "train.src", "--tgt", "train.tgt", "--set", "data.tokenizer=spaces")


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path, reversed_letters(60))


@pytest.mark.slow
def test_the_plan_alone(pellucid: CommandLine) -> None:
    outcome = pellucid("train", *TEXTS, "--budget", "1h", "--dry-run")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("plan for 1h:\n  data      53 pairs, ")
    assert "\n  given     data.tokenizer\n" in outcome.out
    assert sorted(path.name for path in Path().iterdir()) == ["train.src", "train.tgt"]


@pytest.mark.slow
def test_a_run_says_its_plan_before_the_first_step(pellucid: CommandLine) -> None:
    outcome = pellucid(*small_arguments("train.src", "train.tgt", Path("run")), "--budget", "1m", "--device", "cpu")
    assert outcome.status == 0
    assert outcome.err.index("plan for 1m:\n") < outcome.err.index("step 1: loss ")
    assert "train.decode_and_evaluate, train.log_every" in outcome.err
    plan = json.loads(Path("run/plan.json").read_text(encoding="utf-8"))
    assert plan["facts"]["pairs"] == 53  # a tenth is held out, and a copy of one of these
    assert "\n".join(plan["plan"]) in outcome.err


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        (("--dry-run",), "--dry-run requires --budget", "add a time, as in `--budget 15m --dry-run`"),
        (("--out", "run", "--budget", "soon"), "`soon` is not a duration", "write 90s, 15m, 1h30m or 2d"),
        (("--budget", "5m"), "--out is missing", "name the run folder, as in `--out run`"),
        (
            ("--out", "run", "--teachers", "2"),
            "`--teachers 2` requires a time budget for the teachers and the run",
            "set it, as in `--budget 1h`",
        ),
        (
            ("--out", "run", "--back-teachers", "2", "--budget", "5m"),
            "--back-teachers requires --teachers",
            "add `--teachers 3`",
        ),
        (
            ("--out", "run", "--teachers", "2", "--budget", "5m", "--ranks", "2"),
            "--teachers trains in one process, so --ranks and --max-restarts cannot be used",
            "leave one of them out",
        ),
        (
            ("--out", "run", "--teachers", "2", "--budget", "5m", "--src-lang", "de"),
            "--teachers trains for one language pair, so --src-lang and --tgt-lang cannot be used",
            "leave one of them out",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(pellucid: CommandLine, options: tuple[str, ...], error: str, hint: str) -> None:
    outcome = pellucid("train", *TEXTS, *options)
    assert (outcome.status, outcome.error, outcome.hint) == (2, error, hint)
    assert not Path("run").exists()


@pytest.mark.slow
def test_a_budget_that_is_forgotten_is_named(pellucid: CommandLine) -> None:
    command = small_arguments("train.src", "train.tgt", Path("run"))
    pellucid(*command, "--budget", "1m", "--device", "cpu")
    again = pellucid("train", "--src", "train.src", "--tgt", "train.tgt", "--out", "run")
    said = "the run in `run` was started with `--budget 1m`, this command has no budget"
    assert (again.status, again.error) == (2, said)
    alone = pellucid("train", "--out", "run")
    assert (alone.status, alone.err.startswith("run: already finished, nothing to do; ")) == (0, True)


@pytest.mark.slow
def test_teachers_their_translations_and_the_run(pellucid: CommandLine) -> None:
    command = small_arguments("train.src", "train.tgt", Path("run"))
    command += ["--budget", "3m", "--teachers", "2", "--back-teachers", "1", "--device", "cpu"]
    plan = pellucid(*command, "--dry-run")
    assert plan.out.startswith(
        "3m: 2 teachers and 1 of the other direction of 40s, about 18s to translate, and the run; of the first "
        "teacher\nplan "
    )
    first = pellucid(*command)
    assert first.status == 0
    told = ["teacher 1 of 2, for ", "teacher 2 of 2, for ", "back teacher 1 of 1, for "]
    told += [" translates source.src into `run.distilled/", " lines in `run.distilled/original.tgt`"]
    told += [
        "training the run on their translations, for ",
        "validation BLEU of the teachers: ",
        "run: finished after ",
    ]
    assert [first.err.index(text) for text in told] == sorted(first.err.index(text) for text in told)
    seeds = [Recipe.load(f"{name}/recipe.toml").train.seed for name in ("run.teachers/1", "run.teachers/2", "run")]
    assert seeds[0] == seeds[2] != seeds[1]
    stored = Recipe.load("run/recipe.toml")
    assert stored.data.src == ("run.distilled/train.src", "run.teachers/back-1.pairs/train.src")
    assert stored.data.tgt == ("run.distilled/train.tgt", "run.teachers/back-1.pairs/train.tgt")
    assert stored.model == Recipe.load("run.teachers/1/recipe.toml").model
    back = Recipe.load("run.teachers/back-1/recipe.toml").data
    assert (back.src, back.tgt) == ("train.tgt", "train.src")
    for again in (command, ["train", "--out", "run"]):
        outcome = pellucid(*again)
        assert (outcome.status, outcome.err.count("\n")) == (0, 1)
        assert outcome.err.startswith("run: already finished, nothing to do; ")
    other = pellucid(*command, "--budget", "4m")
    assert other.error == "the teachers in `run.teachers` were made with `--budget 3m`, this command has `--budget 4m`"
