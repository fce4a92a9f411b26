"""Which plan a command with a budget finds in a run's folder."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.config import Recipe
from pellucid.errors import ConfigError
from pellucid.planning.budget import Plan
from pellucid.planning.pace import Throughput
from pellucid.planning.request import PlanRequest
from pellucid.planning.rules import CorpusFacts
from pellucid.run import inputs
from pellucid.run.folder import RunFolder
from pellucid.run.run import train
from tests.toy_task import reversed_letters, small_recipe, write_pairs


def request(*settings: str, budget: str = "15m", recipe: Recipe | None = None) -> PlanRequest:
    return PlanRequest.from_recipe(recipe or Recipe.load("default", list(settings)), budget, settings)


def planned_run(folder: Path, asked: PlanRequest, recipe: Recipe) -> RunFolder:
    """A run that began with a plan and has trained."""
    run = RunFolder(folder / "run")
    run.begin(recipe)
    pace = Throughput(tokens_per_second=1000.0, tokens_per_batch=100.0)
    run.save_plan(Plan(asked, recipe, CorpusFacts(10, 100), {"float32": pace}))
    (run.path / "model.safetensors").touch()
    return run


def test_the_same_request_finds_the_plan(tmp_path: Path) -> None:
    recipe = Recipe.load("default", ["train.steps=17"])
    run = planned_run(tmp_path, request(), recipe)
    assert run.find_planned(request()) == recipe
    assert run.find_planned(request(budget="900s")) == recipe


def test_the_texts_may_lie_elsewhere(tmp_path: Path) -> None:
    before, after = (Recipe.load("default", [f'data.src="{place}.de"', f'data.tgt="{place}.en"']) for place in "ab")
    run = planned_run(tmp_path, request(recipe=before), before)
    assert run.find_planned(request(recipe=after)) is not None
    elsewhere = PlanRequest.from_recipe(after, "15m", ['data.src="b.de"', 'data.tgt="b.en"'])
    assert run.find_planned(elsewhere) is not None


def test_where_nothing_has_trained_a_new_plan_is_made(tmp_path: Path) -> None:
    assert RunFolder(tmp_path / "nowhere").find_planned(request()) is None
    run = planned_run(tmp_path, request(), Recipe())
    (run.path / "model.safetensors").unlink()
    assert run.find_planned(request()) is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (request(budget="20m"), "was started with `budget=15m`, this command has `budget=20m`"),
        (
            request("train.seed=3"),
            "was started with `budget=15m`, this command has `budget=15m` `overrides=train.seed=3`",
        ),
        (request(recipe=Recipe.load("dates")), "was started from another recipe, this command has `budget=15m`"),
    ],
)
def test_another_request_is_refused(tmp_path: Path, asked: PlanRequest, said: str) -> None:
    run = planned_run(tmp_path, request(), Recipe())
    with pytest.raises(ConfigError) as caught:
        run.find_planned(asked)
    assert str(caught.value) == f"the run in `{run.path}` {said}"


def test_a_run_without_a_budget_gets_none(tmp_path: Path) -> None:
    run = planned_run(tmp_path, request(), Recipe())
    (run.path / "plan.json").unlink()
    with pytest.raises(ConfigError, match=r"was started without a budget, this command has `budget=15m`$"):
        run.find_planned(request())


def test_the_plan_file_says_what_was_planned(tmp_path: Path) -> None:
    run = planned_run(tmp_path, request(), Recipe())
    table = json.loads((run.path / "plan.json").read_text(encoding="utf-8"))
    assert table["facts"] == {"pairs": 10, "tokens": 100, "left_out": 0}
    assert table["tokens_per_second"] == {"float32": 1000}
    assert table["plan"][0] == "plan for 15m:"
    assert table["expected_bleu"] is None


@pytest.mark.slow
def test_a_planned_run_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = small_recipe(*write_pairs(tmp_path, reversed_letters(60)))
    settings = ["train.steps=6", "model.d_model=16", "train.decode_and_evaluate=4"]
    recipe = replace(recipe, train=replace(recipe.train, steps=6))
    run = tmp_path / "run"
    first = train(recipe, run, budget="1m", overrides=settings, quiet=True)
    plans: list[float] = []
    monkeypatch.setattr(inputs, "plan_budget", lambda *_: plans.append(time.perf_counter()))
    (run / "result.json").unlink()
    again = train(recipe, run, budget="1m", overrides=settings, quiet=True)
    assert (again.steps, again.tokens, plans) == (first.steps, first.tokens, [])
    assert train(recipe, run, budget="1m", overrides=settings, quiet=True).already_finished
    with pytest.raises(ConfigError, match=r"this command has `budget=2m` "):
        train(recipe, run, budget="2m", overrides=settings, quiet=True)
