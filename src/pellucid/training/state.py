"""All state of a run in one place, and the checkpoints that keep it.

Nothing here is random: the order of the batches follows from (seed, epoch, position), and each step's dropout from
(seed, step). So weights, Adam's moments and a few integers are the whole of it.

    checkpoints/step-00001000/model.safetensors       parameters
                              optimizer.safetensors   Adam's moments and step counts, by parameter
                              state.json              the rest, and the SHA-256 of both files
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from pellucid.errors import CheckpointError
from pellucid.weights.files import flush
from pellucid.weights.tensors import load_tensors, parameters, save_tensors, set_parameters

MOMENTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass
class Meter:
    """The steps since the last report. It belongs to the state: a resumed run reports what an unbroken one does."""

    loss_sum: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, loss: float, tokens: int, seconds: float) -> None:
        """Counts a step: its summed loss, its target tokens, its time."""
        self.loss_sum += loss
        self.tokens += tokens
        self.seconds += seconds

    @property
    def loss(self) -> float:
        """Mean loss per token, in nats."""
        return self.loss_sum / max(1, self.tokens)

    @property
    def speed(self) -> float:
        """Target tokens a second, without padding."""
        return self.tokens / max(1e-9, self.seconds)


@dataclass
class RunState:
    """Where a run stands. Steps are optimizer steps; `position` counts batches of `epoch` already used."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best_step: int = 0
    best_loss: float | None = None
    best_bleu: float | None = None
    meter: Meter = field(default_factory=Meter)

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Self:
        """What asdict() made a table of. Raises KeyError or TypeError for another one."""
        return cls(**table | {"meter": Meter(**table["meter"])})


class Checkpoints:
    """The checkpoints of a run folder."""

    def __init__(self, folder: Path, save_every: int, average: int, last_step: int | None = None) -> None:
        self.folder = folder
        self.save_every = save_every
        self.average = average
        self.last_step = last_step

    def save(self, state: RunState, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Writes a checkpoint of this moment, whole or not at all, then removes those that nothing needs."""
        final = self.folder / f"step-{state.step:08d}"
        temporary = self.folder / f"{final.name}.partial"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        save_tensors(temporary / "model.safetensors", parameters(model))
        save_tensors(temporary / "optimizer.safetensors", _moments(model, optimizer))
        table = asdict(state) | {"sha256": {path.name: _sha256(path) for path in sorted(temporary.iterdir())}}
        (temporary / "state.json").write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
        flush(temporary / "state.json")
        flush(temporary)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(temporary, final)
        flush(self.folder)
        self._prune(state.step)

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer, say: Callable[[str], None]) -> RunState:
        """The state of the newest whole checkpoint, set in model and optimizer; a new state where there is none.

        `say` is told of each damaged one that is passed over. Raises CheckpointError where there are checkpoints and
        none of them is whole.
        """
        found = self._all()
        for path in reversed(found):
            state = _read_state(path)
            if state is not None:
                set_parameters(model, load_tensors(path / "model.safetensors"), f"`{path}`")
                _set_moments(model, optimizer, load_tensors(path / "optimizer.safetensors"))
                return state
            say(f"the checkpoint `{path}` is not whole: passed over")
        if found:
            raise CheckpointError(
                f"none of the {len(found)} checkpoints in `{self.folder}` is whole", "start over with --fresh"
            )
        return RunState()

    def to_average(self) -> list[Path]:
        """The last `average` checkpoints that were due, oldest first; an interruption's do not count."""
        return [path for path in self._all() if self._was_due(_step_of(path))][-self.average :]

    def _was_due(self, step: int) -> bool:
        return step % self.save_every == 0 or step == self.last_step

    def _all(self) -> list[Path]:
        """The checkpoints by step; one that was not written to its end has another name."""
        return sorted((path for path in self.folder.glob("step-*") if path.name[5:].isdigit()), key=_step_of)

    def _prune(self, newest: int) -> None:
        """Keeps what the average needs, and two for resuming.

        What is newer than the checkpoint just written was damaged when the run resumed, and is trained anew.
        """
        stale = [path for path in self._all() if _step_of(path) > newest]
        for path in (*stale, *self.folder.glob("step-*.partial")):
            shutil.rmtree(path)
        resumable = self._all()[-2:]
        for path in self._all():
            if path not in (*self.to_average(), *resumable):
                shutil.rmtree(path)
            elif path not in resumable:
                (path / "optimizer.safetensors").unlink(missing_ok=True)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _read_state(path: Path) -> RunState | None:
    """The state of a checkpoint whose files are as they were written; None for any other."""
    try:
        table = json.loads((path / "state.json").read_text(encoding="utf-8"))
        digests = table.pop("sha256")
        state = RunState.from_table(table)
        whole = all(_sha256(path / name) == digest for name, digest in digests.items())
        return state if whole and state.step == _step_of(path) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{moment}.{name}": optimizer.state[parameter][moment]
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
        for moment in MOMENTS
    }


def _set_moments(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        if f"step.{name}" in tensors:
            optimizer.state[parameter] = {
                # Fused Adam counts steps in single precision, beside the parameter.
                moment: tensors[f"{moment}.{name}"].to(parameter.device)
                for moment in MOMENTS
            }
