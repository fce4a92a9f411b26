"""The charts of the learning rate, of label smoothing and of a run."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import pellucid
from pellucid.config import Recipe
from pellucid.errors import ConfigError, DataError
from pellucid.training.schedule import DecayPlan
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.shapes import Line
from pellucid.views.plots import schedule as schedule_module
from pellucid.views.plots.run import column, read_metrics
from pellucid.views.plots.smoothing import loss_by_confidence, target_distribution
from tests.unit.views.drawn import outside, texts


def curves(drawing: Drawing) -> list[Line]:
    return [shape for shape in drawing.shapes if isinstance(shape, Line) and shape.width == 1.5]


def write_log(folder: Path, *lines: dict[str, object], end: str = "\n") -> Path:
    folder.mkdir(exist_ok=True)
    text = "\n".join(json.dumps(line) for line in lines) + end
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    return folder


def step(number: int, **values: object) -> dict[str, object]:
    return {"event": "train", "step": number} | values


def test_the_rate_is_that_of_training() -> None:
    recipe = Recipe.load("default", ["train.steps=200", "train.warmup_steps=50", "train.schedule=cosine"])
    line = schedule_module._curve("x", recipe, {})
    assert line.x[0] == 1
    assert line.x[-1] == 200
    assert 50 in line.x
    for number, rate in zip(line.x, line.y, strict=True):
        assert rate == pellucid.learning_rate(int(number), recipe.train, recipe.model.d_model)


def test_several_schedules_share_their_axes() -> None:
    drawing = pellucid.plot_schedule("dates", "multi30k-de-en", settings=["train.warmup_steps=300"])
    assert len(curves(drawing)) == 2
    assert {"dates", "multi30k-de-en", "step"} <= set(texts(drawing))
    assert "300 steps of warm-up" in drawing.description
    assert outside(drawing) == []


def test_of_a_run_the_clock_decides_when_the_rate_falls(tmp_path: Path) -> None:
    run = write_log(tmp_path / "run", {"event": "clock", "step": 60, "last_step": 100})
    recipe = Recipe.load("default", ["train.schedule=wsd", "train.steps=5000", "train.warmup_steps=10"])
    (run / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    _, endings = schedule_module._load(run, [])
    assert endings == {60: DecayPlan(60, 100)}
    assert len(curves(pellucid.plot_schedule(run))) == 1


def test_of_a_run_whose_fall_was_shortened_each_step_has_the_rate_that_it_had(tmp_path: Path) -> None:
    shortened = {"event": "clock", "step": 80, "falls_at": 70, "last_step": 90}
    run = write_log(tmp_path / "run", {"event": "plateau", "step": 60, "last_step": 100}, shortened)
    recipe = Recipe.load("default", ["train.schedule=wsd", "train.steps=5000", "train.warmup_steps=10"])
    (run / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    line = schedule_module._curve("x", *schedule_module._load(run, []))
    assert line.x[-1] == 90
    rate = dict(zip(line.x, line.y, strict=True))
    peak = rate[60]
    assert [rate[step] / peak for step in (10, 61, 80, 81, 90)] == pytest.approx([1, 40 / 41, 21 / 41, 10 / 21, 1 / 21])


def test_the_three_curves_of_the_paper_without_a_recipe() -> None:
    shapes = [(512, 4000), (512, 8000), (256, 4000)]
    names = [f"model.d_model={width},train.warmup_steps={steps}" for width, steps in shapes]
    picture = pellucid.plot_schedule(*names, settings=["train.schedule=noam", "train.steps=20000"])
    assert len(curves(picture)) == 3
    assert "d_model=512, warmup_steps=8000" in texts(picture)
    for name, (width, warmup) in zip(names, shapes, strict=True):
        recipe, _ = schedule_module._load(name, ["train.schedule=noam", "train.steps=20000"])
        line = schedule_module._curve(name, recipe, {})
        paper = width**-0.5 * np.minimum(line.x**-0.5, line.x * warmup**-1.5)
        np.testing.assert_allclose(line.y, paper, rtol=1e-12)
    alone = pellucid.plot_schedule(settings=["train.schedule=noam", "train.steps=900"])
    assert len(curves(alone)) == 1


def test_a_recipe_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match="dats"):
        pellucid.plot_schedule("dats")
    with pytest.raises(DataError, match="a schedule requires a recipe"):
        pellucid.plot_schedule()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_target_is_what_the_loss_is_lowest_at(smoothing: float) -> None:
    target = target_distribution(smoothing, 8, 3)
    expected = np.full(8, smoothing / 8)
    expected[3] += 1 - smoothing
    np.testing.assert_allclose(target, expected, atol=1e-12)


def test_with_smoothing_a_model_can_be_too_sure() -> None:
    right, losses = loss_by_confidence(0.1, 8)
    assert right[losses.argmin()] == pytest.approx(0.9125, abs=0.005)
    assert losses[-1] > losses.min()
    _, plain = loss_by_confidence(0.0, 8)
    np.testing.assert_allclose(plain, -np.log(right), atol=1e-9)


def test_the_picture_of_smoothing() -> None:
    drawing = pellucid.plot_smoothing(0.2, 10)
    assert {"0.820", "0.020", "smoothing 0.2", "smoothing 0"} <= set(texts(drawing))
    assert outside(drawing) == []
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("smoothing", "words", "value"), [(1.0, 9, "1.0"), (-0.1, 9, "-0.1"), (0.1, 1, "1"), (0.1, 61, "61")]
)
def test_smoothing_that_cannot_be(smoothing: float, words: int, value: str) -> None:
    with pytest.raises(DataError, match=rf"\({value}\) must be"):
        pellucid.plot_smoothing(smoothing, words)


def test_a_runs_metrics(tmp_path: Path) -> None:
    run = write_log(
        tmp_path / "run",
        step(10, loss=4.0, learning_rate=0.1, gradient_norm=1.0, tokens_per_second=900),
        step(20, loss=2.0, learning_rate=0.2, gradient_norm=0.5, tokens_per_second=1000),
        {"event": "validation", "step": 20, "loss": 1.5, "bleu": 20.0, "best": True},
    )
    drawing = pellucid.plot_run(run)
    assert {"Loss", "BLEU", "Learning rate", "Gradient norm", "Tokens per second", "training", "validation"} <= set(
        texts(drawing)
    )
    assert "Accuracy" not in texts(drawing)
    assert "Loss (training) 4 at step 10, 2 at step 20" in drawing.description
    assert outside(drawing) == []


def test_several_runs_are_told_apart(tmp_path: Path) -> None:
    runs = [write_log(tmp_path / name, step(1, loss=2.0), step(2, loss=1.0)) for name in ("one", "two")]
    shown = texts(pellucid.plot_run(*runs))
    assert {"one, training", "two, training"} <= set(shown)
    alike = [write_log(tmp_path / f"{name}-of", step(1, loss=2.0)) for name in ("a", "b")]
    for run in alike:
        write_log(run / "run", step(1, loss=2.0))
    assert "a-of/run, b-of/run" in pellucid.plot_run(*(run / "run" for run in alike)).title
    assert "run (1), run (2)" in pellucid.plot_run(alike[0] / "run", alike[0] / "run", names=["run", "run"]).title
    assert "mine, training" in texts(pellucid.plot_run(*runs, names=["mine"]))


def test_runs_are_told_apart_by_the_settings_that_differ(tmp_path: Path) -> None:
    runs = [write_log(tmp_path / name, step(1, loss=2.0), step(2, loss=1.0)) for name in ("one", "two")]
    for run, settings in zip(runs, (["train.learning_rate=0.001"], ["train.learning_rate=0.01"]), strict=True):
        recipe = pellucid.Recipe.load("default", ["train.schedule=cosine", "model.dropout=0.2", *settings])
        (run / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    drawing = pellucid.plot_run(*runs)
    assert {"one (learning_rate 0.001), training", "two (learning_rate 0.01), training"} <= set(texts(drawing))
    assert outside(drawing) == []
    more = ["train.steps=7", "model.d_model=64", "model.dropout=0.4", "data.vocab_size=500"]
    (runs[1] / "recipe.toml").write_text(pellucid.Recipe.load("default", more).to_toml(), encoding="utf-8")
    drawing = pellucid.plot_run(*runs)
    assert "two (d_model 64, dropout 0.4, vocab_size 500, 3 more), training" in texts(drawing)
    assert outside(drawing) == []
    (runs[1] / "recipe.toml").write_text("[model", encoding="utf-8")
    assert {"one, training", "two, training"} <= set(texts(pellucid.plot_run(*runs)))


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    run = write_log(tmp_path / "run", step(1, loss=2.0), step(2, loss=1.0), end='\n{"event": "tra')
    steps, losses = column(read_metrics(run), "train", "loss")
    assert (steps.tolist(), losses.tolist()) == ([1, 2], [2, 1])


def test_a_log_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file `.*metrics.jsonl`"):
        pellucid.plot_run(tmp_path)
    with pytest.raises(DataError, match=r"line 2 of `.*` is not a line of a run's log"):
        pellucid.plot_run(write_log(tmp_path / "run", step(1), {"x": 1}))
    with pytest.raises(DataError, match=r"the log of `.*` holds no step yet"):
        pellucid.plot_run(write_log(tmp_path / "empty", {"event": "clock", "step": 1}))
    with pytest.raises(DataError, match="no run is given"):
        pellucid.plot_run()
