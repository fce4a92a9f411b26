"""`pellucid sweep` and `pellucid runs`: from a file to a table, over failures and changed files."""

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pellucid.sweep import subprocesses
from tests.toy_task import SMALL, reversed_letters, small_arguments, write_pairs
from tests.unit.cli.command_line import CommandLine


def write_sweep(folder: Path, plan: str, *settings: str, seeds: str = "[1, 2]") -> Path:
    """Writes the file of a sweep over the toy task, below `folder`."""
    src, tgt = write_pairs(folder, reversed_letters(200))
    lines = []
    for setting in (*SMALL, *settings):
        key, _, value = setting.partition("=")
        lines.append(f"{key} = " + (f'"{value}"' if value.isalpha() else value))
    head = f'out = "{folder / "out"}"\nsrc = "{src}"\ntgt = "{tgt}"\nseeds = {seeds}\n'
    path = folder / "s.toml"
    path.write_text(f"{head}\n[set]\n" + "\n".join(lines) + f"\n\n{plan}\n", encoding="utf-8")
    return path


def test_an_unknown_setting_is_refused_before_anything_is_written(pellucid: CommandLine, tmp_path: Path) -> None:
    path = write_sweep(tmp_path, "[grid]\ntrain.lr = [0.1, 0.2]")
    outcome = pellucid("sweep", path)
    assert outcome.status == 2
    line = 1 + path.read_text(encoding="utf-8").splitlines().index("train.lr = [0.1, 0.2]")
    assert outcome.error == f"`{path}`, line {line}: unknown setting `train.lr`; did you mean `learning_rate`?"
    assert not (tmp_path / "out").exists()


def test_a_text_that_is_nowhere_is_refused_before_anything_is_written(pellucid: CommandLine, tmp_path: Path) -> None:
    path = write_sweep(tmp_path, "")
    (tmp_path / "train.src").unlink()
    outcome = pellucid("sweep", path)
    assert outcome.status == 2
    assert "train.src" in outcome.error
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_plan_says_what_is_to_do_and_trains_nothing(pellucid: CommandLine, tmp_path: Path) -> None:
    path = write_sweep(tmp_path, '[grid]\nmodel.norm = ["pre", "post"]')
    outcome = pellucid("sweep", path, "--dry-run")
    assert outcome.status == 0
    rows = [line.split() for line in outcome.out.splitlines()]
    assert [row[:4] for row in rows[1:5]] == [
        [f"norm={norm}/seed-{seed}", norm, "to", "do"] for norm in ("pre", "post") for seed in (1, 2)
    ]
    assert "4 of 4 runs to train, 1 at a time with 1 thread each: about " in outcome.out
    assert not (tmp_path / "out").exists()


def test_runs_lists_settings_that_differ_and_scores(pellucid: CommandLine, finished_run: Path) -> None:
    [row] = json.loads(pellucid("runs", finished_run.parent, "--format", "json").out)
    result = json.loads((finished_run / "result.json").read_text(encoding="utf-8"))
    assert (row["run"], row["state"], row["steps"]) == ("run", "finished", result["steps"])
    assert row["loss"] == result["valid_loss"]
    assert not any("." in key for key in row)  # one run differs from none
    assert pellucid("runs", finished_run.parent, "--sort", "los").error.startswith("`--sort los` is not a column")


def test_a_folder_without_runs_is_said(pellucid: CommandLine, tmp_path: Path) -> None:
    assert pellucid("runs", tmp_path).error == f"there is no run in or below `{tmp_path}`"
    assert pellucid("runs", tmp_path / "no").error == f"no folder `{tmp_path / 'no'}`"
    (tmp_path / "file").touch()
    assert pellucid("runs", tmp_path / "file").error == f"`{tmp_path / 'file'}` is a file, not a folder"


@pytest.mark.slow  # a process for each training and each score
def test_a_run_that_fails_is_told_and_the_others_go_on(pellucid: CommandLine, tmp_path: Path) -> None:
    plan = "[runs.well]\n[runs.diverges]\ntrain.learning_rate = 1e30\ntrain.warmup_steps = 1"
    path = write_sweep(tmp_path, plan, seeds="[1]")
    outcome = pellucid("sweep", path, "--jobs", 2, "--json")
    assert outcome.status == 1
    assert "diverges/seed-1: failed after " in outcome.err
    assert "1 of 2 runs failed: diverges/seed-1" in outcome.err
    found = json.loads(outcome.out)
    assert [row["seeds"] for row in found["settings"]] == [1, 0]
    assert found["settings"][0]["half_width"] is None
    assert "no interval" in found["interval"]
    # What is done is not done again; a file that says something else is noticed.
    before = (tmp_path / "out" / "well" / "seed-1" / "result.json").stat().st_mtime_ns
    path.write_text(path.read_text(encoding="utf-8").partition("[runs.diverges]")[0], encoding="utf-8")
    again = pellucid("sweep", path)
    assert again.status == 0
    assert f"`{tmp_path / 'out' / 'diverges' / 'seed-1'}` is not in {path}" in again.err
    assert (tmp_path / "out" / "well" / "seed-1" / "result.json").stat().st_mtime_ns == before
    path.write_text(path.read_text(encoding="utf-8").replace("train.steps = 6", "train.steps = 7"), encoding="utf-8")
    changed = pellucid("sweep", path)
    assert changed.status == 2
    assert "has `train.steps = 6`, the file now `train.steps = 7`" in changed.error


@pytest.mark.slow  # a process for each training and each score
@pytest.mark.parametrize("start", [False, True])
def test_what_a_run_decides_is_no_change_of_the_file(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, start: bool
) -> None:
    path = write_sweep(
        tmp_path,
        "[runs.only]\n" + f'train.init_from = "{finished_run}"\n' * start,
        'train.precision="auto"',
        seeds="[1]",
    )

    def change(pattern: str, new: str) -> None:
        path.write_text(re.sub(pattern, new, path.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8")

    if start:  # whose shape and tokenizer are its own
        change(r"^(data|model)\..*\n", "")
    assert (first := pellucid("sweep", path)).status == 0, first.err
    (tmp_path / "out" / "only" / "seed-1" / "result.json").unlink()
    assert (again := pellucid("sweep", path)).status == 0, again.err
    change("train.steps = 6", "train.steps = 7")
    assert "has `train.steps = 6`, the file now `train.steps = 7`" in pellucid("sweep", path).error


@pytest.mark.slow  # a process for each training and each score
def test_runs_on_another_text_are_not_compared(pellucid: CommandLine, tmp_path: Path) -> None:
    path = write_sweep(tmp_path, "[runs.only]\n", seeds="[1]")
    assert (first := pellucid("sweep", path)).status == 0, first.err
    source = tmp_path / "train.src"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("a", "b"), encoding="utf-8")
    changed = pellucid("sweep", path)
    assert changed.status == 2
    assert re.search(
        r"train\.src` has changed since `.*only/seed-1` was trained on it, and runs on different", changed.error
    )
    source.write_text(text, encoding="utf-8")
    assert pellucid("sweep", path).status == 0


@pytest.mark.slow  # a process for each training and each score
def test_a_training_that_is_stopped_goes_on_to_the_same_weights(
    pellucid: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle of a training: it is saved, and the same command ends in what an undisturbed one does."""
    path = write_sweep(
        tmp_path, "[runs.only]\ntrain.steps = 300\ntrain.save_every = 100\ntrain.validate_every = 300", seeds="[1]"
    )
    run, wait, stopped = tmp_path / "out" / "only" / "seed-1", time.sleep, list[int]()

    def interrupted(seconds: float) -> None:
        wait(seconds)
        metrics = run / "metrics.jsonl"
        steps = metrics.read_text(encoding="utf-8").count('"event": "train"') if metrics.is_file() else 0
        if not stopped and steps >= 20:
            stopped.append(steps)
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocesses, "time", SimpleNamespace(sleep=interrupted, monotonic=time.monotonic))
    assert pellucid("sweep", path).status == 130
    assert stopped[0] < 300
    assert (run / "checkpoints").is_dir()
    assert not (run / "result.json").exists()
    assert pellucid("sweep", path).status == 0
    alone = small_arguments(tmp_path / "train.src", tmp_path / "train.tgt", tmp_path / "alone")
    alone += ["--set", "train.steps=300", "--set", "train.save_every=100"]
    alone += ["--set", "train.validate_every=300", "--set", "train.seed=1"]
    assert pellucid(*alone).status == 0
    found = [(folder / "model.safetensors").read_bytes() for folder in (run, tmp_path / "alone")]
    assert found[0] == found[1]
