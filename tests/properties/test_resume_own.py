"""A run with parts, loss, optimizer, schedule, data, tokenizer and hooks of one's own, killed at any moment.

The same script goes on to the same bytes: real processes, killed by SIGKILL in a step, in a validation and between the
files of a checkpoint.
"""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.processes import run_python
from tests.toy_task import metrics

SCRIPT = '''
import os, signal, sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import pellucid
from tests.toy_task import SMALL, reversed_letters


class Windowed(pellucid.MultiHeadAttention):
    """Attends to neighbours alone, in self-attention."""

    def forward(self, x, memory=None, mask=None, cache=None, distances=None):
        if memory is None and cache is None:
            length = x.size(1)
            places = torch.arange(length, device=x.device)
            near = (places[:, None] - places).abs() <= 2
            mask = near if mask is None else mask & near
        return super().forward(x, memory, mask=mask, cache=cache, distances=distances)


class Gate(nn.Module):
    """A feed-forward network with parameters and a dropout of its own."""

    def __init__(self, config):
        super().__init__()
        self.inner, self.outer = nn.Linear(config.d_model, 24), nn.Linear(24, config.d_model)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return self.outer(self.drop(torch.tanh(self.inner(x))))


class Weighted(nn.Module):
    """A loss with a parameter that is trained."""

    def __init__(self):
        super().__init__()
        self.log_weight = nn.Parameter(torch.zeros(()))

    def forward(self, model, batch):
        found = pellucid.CrossEntropy(0.1)(model, batch)
        penalty = batch.num_tokens * self.log_weight.exp().log1p()
        return pellucid.Losses(found.minimised * self.log_weight.exp() + penalty, found.reported)


class Letters:
    size, pad_id, bos_id, eos_id, unk_id = 30, 0, 1, 2, 3

    def encode(self, text):
        return [ord(letter) - 93 for letter in text if "a" <= letter <= "h"]

    def decode(self, ids):
        return " ".join(chr(number + 93) for number in ids if number > self.unk_id)


class Pairs:
    """Gives the same pairs each time."""

    def __iter__(self):
        return iter(reversed_letters(60))


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


moment, step = sys.argv[1], int(sys.argv[2])
settings = [*SMALL, "train.steps=15", "train.save_every=4", "train.validate_every=5", "train.log_every=2"]
recipe = pellucid.Recipe.load("default", [*settings, "train.accumulate=2"])
run = pellucid.Run(
    recipe, "run", data=Pairs(), tokenizer=Letters(), device="cpu", quiet=True,
    parts=pellucid.Parts(attention=Windowed.from_config, feed_forward=Gate),
)
run.loss = Weighted()
run.optimizer = torch.optim.SGD([*run.model.parameters(), *run.loss.parameters()], lr=0.1, momentum=0.9)
run.schedule = lambda step: 0.3 / (3 + step)

@run.on_step
def seen(event):
    if moment == "step" and event.step == step:
        die()
    return {"odd": event.step % 2} if event.step % 3 == 0 else None

@run.on_validation
def judged(event):
    if moment == "validation" and event.step == step:
        die()
    if event.step == 5:
        event.scale_rate(0.5)

@run.on_checkpoint
def kept(event):
    if moment == "checkpoint" and event.step == step:
        die()

@run.on_end
def ended(event):
    if moment == "end":
        die()

if moment == "writing":
    from pellucid.training import state
    save = state.save_tensors
    def save_and_die(path, tensors):
        save(path, tensors)
        if path.name == "optimizer.safetensors" and f"step-{step:08d}" in str(path):
            die()
    state.save_tensors = save_and_die
run.train()
'''
DEATHS = [("step", 2), ("validation", 5), ("writing", 8), ("checkpoint", 8), ("step", 11), ("end", 15)]


def go(folder: Path, moment: str = "", step: int = 0) -> int:
    """Runs the script in a folder; it dies at that moment of that step."""
    folder.mkdir(exist_ok=True)
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    done = run_python("script.py", moment, step, cwd=folder, env=os.environ | {"PYTHONPATH": path})
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    assert go(folder) == 0
    return folder


@pytest.mark.slow
def test_the_script_trains_what_is_its_own(unbroken: Path) -> None:
    """Else the tests below would pass without it."""
    table = json.loads((unbroken / "run" / "pellucid.json").read_text(encoding="utf-8"))
    assert set(table["parts"]) == {"attention", "feed_forward"}
    lines = metrics(unbroken / "run")
    assert [line["odd"] for line in lines if "odd" in line] == [1, 0, 1, 0, 1]
    rates = {line["step"]: line["learning_rate"] for line in lines if line["event"] == "train"}
    assert rates[4] == pytest.approx(0.3 / 7)
    assert rates[6] == pytest.approx(0.5 * 0.3 / 9)


def assert_same(found: Path, expected: Path) -> None:
    for name in ("model.safetensors", "pellucid.json", "README.md", "recipe.toml", "corpus.json"):
        assert (found / "run" / name).read_bytes() == (expected / "run" / name).read_bytes(), name
    assert metrics(found / "run") == metrics(expected / "run")


@pytest.mark.slow
def test_killed_again_and_again(unbroken: Path, tmp_path: Path) -> None:
    for moment, step in DEATHS:
        assert go(tmp_path, moment, step) == -signal.SIGKILL, (moment, step)
    assert go(tmp_path) == 0
    assert_same(tmp_path, unbroken)


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "step"), DEATHS)
def test_killed_once(unbroken: Path, tmp_path: Path, moment: str, step: int) -> None:
    assert go(tmp_path, moment, step) == -signal.SIGKILL
    assert go(tmp_path) == 0
    assert_same(tmp_path, unbroken)
