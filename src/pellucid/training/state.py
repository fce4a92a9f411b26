"""All state of a run in one place, and the checkpoints that keep it.

Nothing here is random: the order of the batches follows from (seed, epoch, position), and each step's dropout from
(seed, step). So weights, Adam's moments and a few integers are the whole of it.

    checkpoints/step-00001000/model.safetensors       parameters
                              ema.safetensors         their moving average, in a run that keeps one
                              optimizer.safetensors   Adam's moments and step counts, by parameter
                              state.json              the rest, and size and SHA-256 of all four
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from pellucid.errors import CheckpointError
from pellucid.files.reading import sha256_of
from pellucid.files.writing import flush
from pellucid.weights.tensors import load_tensors, parameters, save_tensors, set_parameters

Tensors = dict[str, Tensor]

WEIGHTS, EMA, OPTIMIZER = "model.safetensors", "ema.safetensors", "optimizer.safetensors"
STATE = "state.json"
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
    best_accuracy: float | None = None
    best_chrf: float | None = None
    bad_validations: int = 0
    """Validations since the best one."""
    lowest_loss: float | None = None
    bad_losses: int = 0
    """Validations since the one with the lowest loss."""
    ranking: list[list[float]] = field(default_factory=list)
    """Score and minus the step of those that validated best, the best first, where their mean is to be looked at."""
    last_step: int = 0
    """The last step, where something has moved it since the run began; 0: as configured."""
    falls_at: int = 0
    """The step after which a stable rate falls, where the clock or a plateau has decided it."""
    clock: float = 0.0
    """Seconds of the time budget that are used up."""
    stopped_early: bool = False
    """Whether `train.patience` has made the run shorter."""
    origin: dict[str, Any] = field(default_factory=dict)
    """What the run comes from, as its folder has it: what is lost there is made again by it."""
    parts: int = 1
    """In how many parts batches are taken, as memory did not suffice for whole ones."""
    meter: Meter = field(default_factory=Meter)

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Self:
        """What asdict() made a table of. Raises KeyError or TypeError for another one."""
        return cls(**table | {"meter": Meter(**table["meter"])})


@dataclass(frozen=True)
class Candidate:
    """Weights that may become the run's model: those of one checkpoint, or the mean of several."""

    name: str
    """start, best, mean of last or mean of best."""
    paths: tuple[Path, ...]

    @property
    def steps(self) -> list[int]:
        """The steps of its checkpoints."""
        return [_step_of(path) for path in self.paths]

    def __str__(self) -> str:
        if self.name == "start":
            return "the weights that the run started from"
        if self.name == "best":
            return f"the best validation (step {self.steps[0]:,})"
        return f"the mean of the {self.name.removeprefix('mean of ')} {len(self.paths)} checkpoints"


class Checkpoints:
    """The checkpoints of a run folder."""

    def __init__(
        self,
        folder: Path,
        save_every: int,
        average: int,
        last_step: int | None = None,
        average_of: str = "last",
        keep_every: int = 0,
    ) -> None:
        self.folder = folder
        self.save_every = save_every
        self.average = average
        self.last_step = last_step
        self.average_of = average_of
        self.keep_every = keep_every

    def save(
        self, state: RunState, model: nn.Module, optimizer: torch.optim.Optimizer, ema: Tensors | None = None
    ) -> None:
        """Writes a checkpoint of this moment, whole or not at all, then removes those that nothing needs.

        Raises OSError where it cannot be written; those before it are as they were then.
        """
        self.write(state, weights_of(model, ema) | {OPTIMIZER: _moments(model, optimizer)})
        with suppress(OSError):  # what cannot be removed now goes the next time
            self._prune(state.step)

    def write(self, state: RunState, files: Mapping[str, Tensors]) -> None:
        """Writes the folder of a checkpoint with these files, whole or not at all."""
        final = self.folder / f"step-{state.step:08d}"
        temporary = self.folder / f"{final.name}.partial"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            for name, tensors in files.items():
                save_tensors(temporary / name, tensors)
            _write_state(temporary, state)
            flush(temporary)
            shutil.rmtree(final, ignore_errors=True)
            os.replace(temporary, final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        flush(self.folder)

    def restore(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        say: Callable[[str], None],
        ema: Tensors | None = None,
    ) -> RunState:
        """The state of the newest whole checkpoint, set in model, optimizer and `ema`; a new state where there is none.

        `say` is told of each one that is passed over, and why. Raises CheckpointError where there are checkpoints and
        none of them is whole.
        """
        found = self._all()
        for path in reversed(found):
            try:
                state = _read_state(path)
            except CheckpointError as error:
                say(f"the checkpoint `{path}` is passed over: {error}")
                continue
            set_parameters(model, load_tensors(path / WEIGHTS), f"`{path}`")
            _set_moments(model, optimizer, load_tensors(path / OPTIMIZER))
            if ema is not None:
                _set_ema(ema, path)
            return state
        if found:
            raise CheckpointError(
                f"none of the {len(found)} checkpoints in `{self.folder}` is whole",
                "finish the run with the version that began it, if that was another; else start over with --fresh",
            )
        return RunState()

    @property
    def last_step_saved(self) -> int:
        """The step that a run would resume after, as far as the names tell."""
        return max((_step_of(path) for path in self._all() if (path / OPTIMIZER).is_file()), default=0)

    def to_average(self, of: str = "") -> list[Path]:
        """The last `average` checkpoints that were due, or those that validated best; oldest first.

        Args:
            of: "last" or "best"; empty: as the run was told.
        """
        found, state = {_step_of(path): path for path in self._all()}, self.newest_state()
        best = (of or self.average_of) == "best"
        steps = self._ranked(state) if best else [step for step in found if self._is_due(step, state)][-self.average :]
        return [found[step] for step in sorted(steps) if step in found]

    def candidates(self, state: RunState) -> list[Candidate]:
        """What the model of a run that has come to its end at `state` is chosen from, as far as it is still there.

        The weights that it started from, where it did; the best validation; the means of the last and of the best.
        """
        found = {_step_of(path): path for path in self._all()}
        singles = [Candidate("start", (found[0],))] if 0 in found and state.best_step else []
        if state.best_step in found:
            singles.append(Candidate("best", (found[state.best_step],)))
        means = [Candidate(f"mean of {of}", tuple(self.to_average(of))) for of in self._means]
        return singles + [
            mean
            for i, mean in enumerate(means)
            if len(mean.paths) > 1 and mean.paths not in [m.paths for m in means[:i]]
        ]

    def needed(self, steps: Iterable[int], state: RunState) -> set[int]:
        """Those of `steps` whose weights a run that has come to `state` needs at its end.

        Each run that comes to such a step must save it, interrupted or not; of what an interruption alone saved
        nothing is needed.
        """
        kept = {0, state.best_step, *(self._ranked(state) if "best" in self._means else [])}
        last = sorted(step for step in steps if self._is_due(step, state)) if "last" in self._means else []
        return {*kept.intersection(steps), *last[-self.average :]}

    def weights_of_step(self, step: int) -> tuple[Path, str] | None:
        """The checkpoint with the weights of a step, and their SHA-256; None where there is none that can be read."""
        path = self.folder / f"step-{step:08d}"
        with suppress(CheckpointError):
            marks = _read_table(path)[1]
            return path, str(marks[EMA if EMA in marks else WEIGHTS]["sha256"])
        return None

    @property
    def _means(self) -> tuple[str, ...]:
        """The kinds of means that are looked at."""
        if self.average < 2:
            return ()
        return ("last", "best") if self.average_of == "last" else ("best",)

    def _ranked(self, state: RunState) -> list[int]:
        return [-int(row[-1]) for row in state.ranking[: self.average]]

    def _is_due(self, step: int, state: RunState) -> bool:
        return step > 0 and (step % self.save_every == 0 or step == (state.last_step or self.last_step))

    def newest_state(self) -> RunState:
        """The newest state that can be read, of a checkpoint whole or not."""
        for path in reversed(self._all()):
            with suppress(CheckpointError):
                return _read_table(path)[0]
        return RunState()

    def _all(self) -> list[Path]:
        """The checkpoints by step; one that was not written to its end has another name."""
        return sorted((path for path in self.folder.glob("step-*") if path.name[5:].isdigit()), key=_step_of)

    def _prune(self, newest: int) -> None:
        """Keeps what the average needs, two for resuming, and the weights of those that are kept to be looked at.

        What is newer than the checkpoint just written was damaged when the run resumed, and is trained anew.
        """
        stale = [path for path in self._all() if _step_of(path) > newest]
        for path in (*stale, *self.folder.glob("step-*.partial")):
            shutil.rmtree(path)
        found = {_step_of(path): path for path in self._all()}
        resumable = [path for path in found.values() if (path / OPTIMIZER).is_file()][-2:]
        kept = [path for step, path in found.items() if self.keep_every and step % self.keep_every == 0]
        needed = [found[step] for step in self.needed(found, self.newest_state())]
        for path in found.values():
            if path not in (*needed, *resumable, *kept):
                shutil.rmtree(path)
            elif path not in resumable:
                (path / OPTIMIZER).unlink(missing_ok=True)
                if (path / EMA).is_file():  # it is what is averaged
                    (path / WEIGHTS).unlink(missing_ok=True)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def weights_of(model: nn.Module, ema: Tensors | None = None) -> dict[str, Tensors]:
    """The files of a checkpoint that hold weights."""
    return {WEIGHTS: parameters(model)} | ({} if ema is None else {EMA: ema})


def read_weights(checkpoint: Path) -> Tensors:
    """The weights of a checkpoint that the model is made from: their moving average, in a run that keeps one.

    Raises CheckpointError where they are not as written.
    """
    try:
        marks = _read_table(checkpoint)[1]
        name = EMA if EMA in marks else WEIGHTS
        _check_file(checkpoint / name, marks)
    except CheckpointError as error:
        raise CheckpointError(
            f"the checkpoint `{checkpoint}` is one of those that the model is made from, but {error}",
            "remove this folder, and the same command does with the others; or start over with --fresh",
        ) from error
    return load_tensors(checkpoint / name)


def _write_state(checkpoint: Path, state: RunState) -> None:
    """Writes state.json, which vouches for itself and for the files beside it."""
    files = sorted(checkpoint.iterdir())
    marks = {path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)} for path in files}
    table = asdict(state) | {"files": marks}
    text = json.dumps(table | {"sha256": _digest(table)}, indent=2) + "\n"
    (checkpoint / STATE).write_text(text, encoding="utf-8")
    flush(checkpoint / STATE)


def _read_state(checkpoint: Path) -> RunState:
    """The state of a checkpoint to resume from. Raises CheckpointError: what of it is not as it was written."""
    state, marks = _read_table(checkpoint)
    for name in sorted({OPTIMIZER, *marks}):
        _check_file(checkpoint / name, marks)
    return state


def _read_table(checkpoint: Path) -> tuple[RunState, dict[str, Any]]:
    """The state in state.json, and size and SHA-256 of the files beside it."""
    if not (checkpoint / STATE).is_file():  # a pipe is no file either: reading it would wait
        raise CheckpointError(f"it has no {STATE}")
    try:
        data = (checkpoint / STATE).read_bytes()
        table = json.loads(data)
        digest = table.pop("sha256")
        found = _digest(table)
        marks = table.pop("files")
        state = RunState.from_table(table)
    except OSError as error:
        raise CheckpointError(f"{STATE} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{STATE} is damaged ({len(data):,} bytes)") from error
    if digest != found:
        raise CheckpointError(f"{STATE} is not as it was written: its SHA-256 is another")
    if state.step != _step_of(checkpoint):
        raise CheckpointError(f"it holds step {state.step:,}")
    return state, marks


def _check_file(path: Path, marks: Mapping[str, Any]) -> None:
    """Raises CheckpointError where a file is not as it was written."""
    if path.name not in marks or not path.is_file():
        raise CheckpointError(f"it has no {path.name}")
    size, mark = path.stat().st_size, marks[path.name]
    if size != mark["bytes"]:
        raise CheckpointError(f"{path.name} has {size:,} bytes instead of {mark['bytes']:,}")
    try:
        digest = sha256_of(path)
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror}") from error
    if digest != mark["sha256"]:
        raise CheckpointError(f"{path.name} is not as it was written: its SHA-256 is another")


def _digest(table: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


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


def _set_ema(ema: Tensors, checkpoint: Path) -> None:
    saved = load_tensors(checkpoint / EMA)
    for name, tensor in ema.items():
        tensor.copy_(saved[name])
