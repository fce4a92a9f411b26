"""The killing benchmark: which phase a dead process was in, what counts as a difference, and a small trial."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.benchmarks.conftest import SCRIPTS

pytestmark = pytest.mark.slow

SETTINGS = {"train.steps": 20, "train.validate_every": 10}
SAID = "training the tokenizer (bpe)\nvocabulary: 400\ntraining: 9 pairs\nmodel: 5,824 parameters on cpu\n"


@pytest.fixture
def module(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("kill_and_resume")


def train(*steps: int) -> list[tuple[str, int]]:
    return [("train", step) for step in steps]


@pytest.mark.parametrize(
    ("files", "events", "said", "phase"),
    [
        ([], [], "", "starting"),
        ([], [], SAID[:30], "training the tokenizer"),
        ([], [], SAID[:50], "starting"),
        (["data/train.partial/source.ids"], [], SAID[:50], "encoding"),
        ([], [], SAID, "first step"),
        ([], train(1), SAID + "step 1: loss 5", "training"),
        ([], train(9, 10), SAID + "step 10: loss 5", "validating"),
        ([], [*train(10), ("validation", 10)], SAID + "step 10: loss 5", "training"),
        ([".model.safetensors.ab12_xyz"], train(9, 10), SAID + "step 10: loss 5", "writing the model"),
        (["checkpoints/step-00000010.partial/state.json"], train(10), SAID, "writing a checkpoint"),
        ([], train(20), SAID + "step 20: loss 5", "validating"),
        (["checkpoints/step-00000020/state.json"], [*train(20), ("validation", 20)], SAID, "averaging"),
        (["checkpoints/step-00000020/state.json"], [("candidate", 20)], SAID, "finishing"),
        (["result.json"], [("candidate", 20)], SAID, "finishing"),
    ],
)
def test_the_phase_is_read_off_what_is_left(
    module: ModuleType, tmp_path: Path, files: list[str], events: list[tuple[str, int]], said: str, phase: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    lines = [json.dumps({"event": event, "step": step}) + "\n" for event, step in events]
    (tmp_path / "metrics.jsonl").write_text("".join(lines) + '{"event": "tra', encoding="utf-8")
    assert module.phase_of(tmp_path, said, SETTINGS) == phase
    assert phase in module.PHASES


def test_what_differs_is_named(module: ModuleType) -> None:
    files = dict.fromkeys(module.MODEL_FILES, b"x")
    metrics: list[dict[str, Any]] = [{"event": "train", "step": 1, "loss": 2.5}]
    one = module.Outcome(files, metrics)
    assert one.differences(module.Outcome(dict(files), list(metrics))) == []
    assert one.differences(module.Outcome(files | {"config.json": b"y"}, metrics)) == ["config.json"]
    assert one.differences(module.Outcome(files, [*metrics, *metrics])) == ["metrics"]


@pytest.mark.slow
def test_a_few_kills_in_phases_by_chance(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPTS / "kill_and_resume.py"), "--quick", "--kills", "5", "--seed", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["kills"], found["equal_bytes"], found["equal_metrics"]) == (5, True, True)
    assert len(found["kills_by_phase"]) > 1
    assert found["runs_compared"] >= 1
    assert list(tmp_path.iterdir()) == []
