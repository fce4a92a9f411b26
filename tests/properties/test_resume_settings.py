"""Each way to train resumes to the same bytes: through the command line, with a signal in the middle."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from pellucid.cli.main import main
from pellucid.weights.tensors import load_tensors
from tests.toy_task import metrics, reversed_letters, small_arguments, write_pairs
from tests.unit.run.test_run import at_step, interrupt

pytestmark = pytest.mark.slow  # tests/properties/test_resume.py has one resume for the quick tests

PLAIN = ("train.steps=8", "train.validate_every=2", "train.save_every=4")
WAYS = {
    "moving average": ("train.ema_decay=0.9",),
    "R-Drop": ("train.r_drop=5",),
    "best checkpoints": ("train.average_strategy=best",),
    "patience": ("train.patience=1", "train.best_metric=loss", "train.learning_rate=0.5"),
    "plateau": ("train.patience=1", "train.schedule=wsd", "train.learning_rate=0.5", "train.validate_every=1"),
    "bfloat16": ("train.precision=bfloat16",),
    "all": (
        "train.ema_decay=0.9", "train.r_drop=1", "train.average_strategy=best", "train.patience=3",
        "train.best_metric=loss",
        "train.precision=bfloat16", "train.accumulate=2", "train.grad_clip=1",
    ),
}  # fmt: skip


def command(folder: Path, *settings: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    src, tgt = write_pairs(folder, reversed_letters(60))
    return [*small_arguments(src, tgt, folder / "run", *PLAIN, *settings), "--device", "cpu"]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run without an interruption of each way, made when it is first asked for."""

    @cache
    def trained(way: str) -> Path:
        folder = tmp_path_factory.mktemp("unbroken")
        assert main(command(folder, *WAYS.get(way, ()))) == 0
        return folder / "run"

    return trained


@pytest.mark.parametrize("way", WAYS)
def test_stopped_and_gone_on_with_it_ends_in_the_same_bytes(
    unbroken: Callable[[str], Path], tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = command(tmp_path, *WAYS[way])
    for step in (1, 3, 6):
        with monkeypatch.context() as patch:
            at_step(step, interrupt, patch)
            stopped = main(broken)
        assert stopped == 130 or way in ("patience", "plateau"), (
            "a run that has come to its end cannot be stopped any more"
        )
    assert main(broken) == 0
    expected = unbroken(way)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (expected / "model.safetensors").read_bytes()
    assert metrics(tmp_path / "run") == metrics(expected)


@pytest.mark.slow
def test_each_way_is_a_way_of_its_own(unbroken: Callable[[str], Path]) -> None:
    """Else a setting that nobody reads would pass the test above."""
    ways = ("plain", *WAYS)
    # Two ways may choose the same weights at the end; what they chose from is not the same.
    runs = [unbroken(way) for way in ways]
    assert len({((run / "model.safetensors").read_bytes(), json.dumps(metrics(run))) for run in runs}) == len(ways)
    sizes = [sum(t.numel() for t in load_tensors(run / "model.safetensors").values()) for run in runs]
    assert len(set(sizes)) == 1
