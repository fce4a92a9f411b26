"""The mean of a run's checkpoints as a model folder of its own."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from pellucid.errors import CheckpointError, ConfigError, PellucidError
from pellucid.run.average import average_run
from pellucid.run.run import train
from pellucid.tasks.translator import Translator
from pellucid.text.word_forms import WordForms
from pellucid.weights.tensors import load_tensors
from tests.toy_task import reversed_letters, small_recipe, write_pairs


def checkpoints(run: Path) -> list[Path]:
    return sorted(path / "model.safetensors" for path in (run / "checkpoints").iterdir())


@pytest.mark.slow
def test_the_mean_is_a_model_that_loads(finished_run: Path, tmp_path: Path) -> None:
    assert average_run(finished_run, tmp_path / "mean") == 2
    states = [load_tensors(path) for path in checkpoints(finished_run)[-2:]]
    found = load_tensors(tmp_path / "mean" / "model.safetensors")
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, (states[0][name] + states[1][name]) / 2)
    assert Translator.load(tmp_path / "mean", "cpu").translate(["a b c"])
    names = {path.name for path in (tmp_path / "mean").iterdir()}
    others = {"config.json", "tokenizer.json", "tokenizer_config.json"}
    assert names == {"README.md", "pellucid.json", "model.safetensors", "vocabulary.json"} | others


@pytest.mark.slow
def test_a_run_counts_the_words_of_its_sources_and_the_mean_keeps_them(tmp_path: Path) -> None:
    pairs = [(f"Ein {word} läuft {n}", "a b") for word in ("Hund", "Mann", "Wolf") for n in range(20)]
    train(small_recipe(*write_pairs(tmp_path, pairs), "train.steps=2"), tmp_path / "run", device="cpu", quiet=True)
    forms = WordForms.load(tmp_path / "run")
    assert forms is not None
    assert {*forms.words} == {"ein", "Hund", "Mann", "Wolf", "läuft"}
    assert forms.begins_upper
    average_run(tmp_path / "run", tmp_path / "mean")
    Translator.load(tmp_path / "mean", "cpu").save(tmp_path / "saved")
    assert WordForms.load(tmp_path / "saved") == forms


def test_fewer_may_be_averaged(finished_run: Path, tmp_path: Path) -> None:
    assert average_run(finished_run, tmp_path / "last", num_checkpoints=1) == 1
    newest = checkpoints(finished_run)[-1].read_bytes()
    assert (tmp_path / "last" / "model.safetensors").read_bytes() == newest


def test_more_than_there_are_cannot(finished_run: Path, tmp_path: Path) -> None:
    expected = f"`{finished_run}` has 2 checkpoints to average, not 3"
    with pytest.raises(CheckpointError, match=f"^{re.escape(expected)}$"):
        average_run(finished_run, tmp_path / "mean", num_checkpoints=3)
    with pytest.raises(ConfigError, match=r"^`num_checkpoints=0` must be at least 1$"):
        average_run(finished_run, tmp_path / "mean", num_checkpoints=0)
    assert not (tmp_path / "mean").exists()


def test_a_run_without_checkpoints_cannot(finished_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    with pytest.raises(CheckpointError, match=r"has 0 checkpoints to average, not 2$"):
        average_run(run, tmp_path / "mean")


@pytest.mark.parametrize("taken", ["file", "folder"])
def test_what_is_there_stays(finished_run: Path, tmp_path: Path, taken: str) -> None:
    out = tmp_path / "mean"
    if taken == "folder":
        out.mkdir()
        (out / "x").touch()
    else:
        out.touch()
    with pytest.raises(ConfigError, match=f"^{re.escape(f'`{out}`')} already exists$"):
        average_run(finished_run, out)
    assert [path.name for path in tmp_path.rglob("*")] == (["mean", "x"] if taken == "folder" else ["mean"])


def test_a_model_folder_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(PellucidError, match="holds no run"):
        average_run(tmp_path, tmp_path / "mean")


@pytest.mark.slow
def test_of_a_run_that_keeps_a_moving_average_and_its_best(tmp_path: Path) -> None:
    settings = (
        "train.ema_decay=0.9",
        "train.average_strategy=best",
        "train.validate_every=1",
        "train.best_metric=loss",
    )
    run = tmp_path / "run"
    train(small_recipe(*write_pairs(tmp_path, reversed_letters(120)), *settings), run, quiet=True)
    best = json.loads(max((run / "checkpoints").iterdir()).joinpath("state.json").read_text())["ranking"]
    folders = [run / "checkpoints" / f"step-{-int(row[-1]):08d}" for row in best]
    assert average_run(run, tmp_path / "mean") == len(folders) == 2
    first, second = (load_tensors(folder / "ema.safetensors") for folder in folders)
    for name, tensor in load_tensors(tmp_path / "mean" / "model.safetensors").items():
        torch.testing.assert_close(tensor, (first[name] + second[name]) / 2)


@pytest.mark.slow
def test_the_best_or_the_last_are_averaged_whatever_the_run_kept(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(small_recipe(*write_pairs(tmp_path, reversed_letters(120)), "train.validate_every=1"), run, quiet=True)
    ranking = json.loads(max((run / "checkpoints").iterdir()).joinpath("state.json").read_text())["ranking"]
    steps = {"last": [4, 6], "best": [-int(row[-1]) for row in ranking]}
    assert steps["best"] != steps["last"]
    for of, places in steps.items():
        assert average_run(run, tmp_path / of, strategy=of) == 2  # type: ignore[arg-type]
        first, second = (load_tensors(run / "checkpoints" / f"step-{n:08d}" / "model.safetensors") for n in places)
        for name, tensor in load_tensors(tmp_path / of / "model.safetensors").items():
            torch.testing.assert_close(tensor, (first[name] + second[name]) / 2)


def test_of_a_run_that_ranked_nothing_the_last_can_be_averaged_alone(finished_run: Path, tmp_path: Path) -> None:
    """As earlier versions left their runs."""
    run = shutil.copytree(finished_run, tmp_path / "run")
    for path in (run / "checkpoints").glob("step-*/state.json"):
        table = json.loads(path.read_text(encoding="utf-8")) | {"ranking": []}
        del table["sha256"]
        digest = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps(table | {"sha256": digest}), encoding="utf-8")
    assert average_run(run, tmp_path / "mean") == 2
    with pytest.raises(CheckpointError, match=r"has 0 checkpoints to average, not 2$") as error:
        average_run(run, tmp_path / "best", strategy="best")
    assert "runs of earlier versions keep the ones" in error.value.hint
