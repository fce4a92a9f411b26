"""Holds all state of a run in one place, and writes and reads the checkpoints that keep it.

Nothing here is random: the order of the batches follows from (seed, epoch, position), and each batch's dropout from
(seed, step, place in the step). So weights, the optimizer's state and a few integers are the whole of it.

    checkpoints/step-00001000/model.safetensors       parameters
                              ema.safetensors         their moving average, in a run that keeps one
                              loss.safetensors        parameters and buffers of a loss of one's own that has some
                              optimizer.safetensors   Adam's moments and step counts, by parameter
                              optimizer.json          what an optimizer of one's own has besides tensors
                              state.json              the rest, and size and SHA-256 of all of these
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from torch import nn

from pellucid.errors import CheckpointError
from pellucid.files.reading import sha256_of
from pellucid.files.writing import flush, write_text
from pellucid.training.loss import Loss, trained_tensors
from pellucid.training.optimizer import Optimizer, Table, Tensors, named_parameters, restore_state, saved_state
from pellucid.weights.sharded import sharded_like
from pellucid.weights.tensors import load_tensors, mean_of, parameters, save_tensors, set_parameters

WEIGHTS, EMA, LOSS = "model.safetensors", "ema.safetensors", "loss.safetensors"
OPTIMIZER, OPTIMIZER_TABLE, STATE = "optimizer.safetensors", "optimizer.json", "state.json"


@dataclass
class Meter:
    """Adds up the steps since the last report. It is saved, so that a resumed run reports what an unbroken one does."""

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
        """Returns the mean loss per token, in nats."""
        return self.loss_sum / max(1, self.tokens)

    @property
    def speed(self) -> float:
        """Returns target tokens a second, without padding."""
        return self.tokens / max(1e-9, self.seconds)


@dataclass
class RunState:
    """Says where a run stands. Steps are optimizer steps; `position` counts batches of `epoch` already used."""

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
    """True where `train.patience`, or a hook, has made the run shorter."""
    origin: dict[str, Any] = field(default_factory=dict)
    """The origin of the run, as its folder has it: what is lost there is made again by it."""
    parts: int = 1
    """In how many parts batches are taken, as memory did not suffice for whole ones."""
    meter: Meter = field(default_factory=Meter)
    ranks: int = 1
    """The number of processes that train together."""
    accumulate: int = 0
    """The batches of a step that each of them takes; 0: as configured. It moves with their number."""
    replaced: dict[str, str] = field(default_factory=dict)
    """The loss, optimizer and schedule that are not those of the settings, by their names."""
    rate_factor: float = 1.0
    """The factor that hooks have multiplied the learning rate by."""

    @classmethod
    def from_table(cls, table: Table) -> Self:
        """Returns what `to_table` made a table of. Raises KeyError or TypeError for another one."""
        return cls(**table | {"meter": Meter(**table["meter"])})

    def to_table(self) -> Table:
        """Returns the state as JSON has it: without what nothing has set, where earlier versions know nothing of it."""
        table = asdict(self)
        unset = {"replaced": {}, "rate_factor": 1.0, "ranks": 1, "accumulate": 0}
        return {name: value for name, value in table.items() if name not in unset or value != unset[name]}


@dataclass(frozen=True)
class Trained:
    """Holds all that training changes beside the numbers of RunState: what a checkpoint keeps."""

    model: nn.Module
    loss: Loss
    """Has something to keep where it is an nn.Module."""
    optimizer: Optimizer
    ema: Tensors | None = None
    """The moving average of the model's weights, where there is one."""
    replaced: dict[str, str] = field(default_factory=dict)
    """As RunState has it."""

    @property
    def files(self) -> dict[str, Tensors | Table]:
        """Returns all files, tensors or tables, by name; WEIGHTS and EMA hold the model's weights."""
        files: dict[str, Tensors | Table] = {WEIGHTS: parameters(self.model)}
        if self.ema is not None:
            files[EMA] = self.ema
        of_loss = dict(trained_tensors(self.loss))
        if of_loss:
            files[LOSS] = of_loss
        tensors, table = saved_state(self.optimizer, named_parameters(self.model, self.loss))
        return files | {OPTIMIZER: tensors} | ({} if table is None else {OPTIMIZER_TABLE: table})

    def read(self, checkpoint: Path) -> None:
        """Sets all of it to what a checkpoint holds. Raises CheckpointError where that is of another run."""
        set_parameters(self.model, load_tensors(checkpoint / WEIGHTS), f"`{checkpoint}`")
        if self.ema is not None:
            saved = load_tensors(checkpoint / EMA)
            for name, tensor in self.ema.items():
                tensor.copy_(sharded_like(saved[name], tensor))
        of_loss = dict(trained_tensors(self.loss))
        saved = load_tensors(checkpoint / LOSS) if (checkpoint / LOSS).is_file() else {}
        if {n: t.shape for n, t in of_loss.items()} != {n: t.shape for n, t in saved.items()}:
            raise CheckpointError(
                f"`{checkpoint}` holds {_listed(saved)} of the loss, which now has {_listed(of_loss)}",
                "hand over the loss that the run began with, or start over with `fresh=True`",
            )
        for name, tensor in of_loss.items():
            tensor.data.copy_(sharded_like(saved[name], tensor))
        path = checkpoint / OPTIMIZER_TABLE
        table = json.loads(path.read_bytes()) if path.is_file() else None
        known = named_parameters(self.model, self.loss)
        restore_state(self.optimizer, known, load_tensors(checkpoint / OPTIMIZER), table)


def _listed(tensors: Tensors) -> str:
    return ", ".join(f"`{name}` {tuple(tensor.shape)}" for name, tensor in tensors.items()) or "nothing"


@dataclass(frozen=True)
class Candidate:
    """Names weights that may become the run's model: those of one checkpoint, or the mean of several."""

    name: str
    """start, best, mean of last or mean of best."""
    paths: tuple[Path, ...]

    @property
    def steps(self) -> list[int]:
        """Returns the steps of its checkpoints."""
        return [_step_of(path) for path in self.paths]

    def __str__(self) -> str:
        if self.name == "start":
            return "the weights that the run started from"
        if self.name == "best":
            return f"the best validation (step {self.steps[0]:,})"
        return f"the mean of the {self.name.removeprefix('mean of ')} {len(self.paths)} checkpoints"


class Checkpoints:
    """Writes, reads and removes the checkpoints of a run folder."""

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

    def save(self, state: RunState, files: Mapping[str, Tensors | Table]) -> None:
        """Writes a checkpoint of this moment, whole or not at all, then removes those that nothing needs.

        Raises OSError where it cannot be written; those before it are as they were then.
        """
        self.write(state, files)
        with suppress(OSError):  # what cannot be removed now goes the next time
            self._prune(state.step)

    def write(self, state: RunState, files: Mapping[str, Tensors | Table]) -> None:
        """Writes the folder of a checkpoint with these files, tensors or tables, whole or not at all."""
        final = self.path_of(state.step)
        temporary = self.folder / f"{final.name}.partial"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            for name, content in files.items():
                if name.endswith(".json"):
                    write_text(temporary / name, json.dumps(content) + "\n")
                else:
                    save_tensors(temporary / name, content)
            _write_state(temporary, state)
            flush(temporary)
            shutil.rmtree(final, ignore_errors=True)
            os.replace(temporary, final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        flush(self.folder)

    def restore(self, trained: Trained, say: Callable[[str], None]) -> RunState:
        """Sets what is trained to the newest whole checkpoint and returns its state; a new state where there is none.

        `say` is told of each one that is passed over, and why. Raises CheckpointError where there are checkpoints and
        none of them is whole, or they are of a run with another loss, optimizer or schedule.
        """
        found = self._all()
        for path in reversed(found):
            try:
                state = _read_state(path)
            except CheckpointError as error:
                say(f"the checkpoint `{path}` is passed over: {error}")
                continue
            self._check_replaced(state.replaced, trained.replaced)
            trained.read(path)
            return state
        if found:
            raise CheckpointError(
                f"none of the {len(found)} checkpoints in `{self.folder}` is whole",
                "finish the run with the version that began it, if that was another; else start over with `fresh=True`",
            )
        return RunState()

    def _check_replaced(self, saved: dict[str, str], now: dict[str, str]) -> None:
        """Raises CheckpointError where loss, optimizer or schedule are not those that a run has trained with."""
        for what in ("loss", "optimizer", "schedule"):
            if saved.get(what) == now.get(what):
                continue
            began, has = (f"`{each[what]}`" if what in each else "that of the settings" for each in (saved, now))
            raise CheckpointError(
                f"the {what} of the run in `{self.folder.parent}` was {began}, and now is {has}",
                (f"set `run.{what}` to the one that it began with" if what in saved else f"leave `run.{what}` as it is")
                + ", or start over with `fresh=True`",
            )

    def path_of(self, step: int) -> Path:
        """Returns the folder of a step's checkpoint."""
        return self.folder / f"step-{step:08d}"

    @property
    def last_step_saved(self) -> int:
        """Returns the step that a run would resume after, as far as the names tell."""
        return last_step_saved(self.folder)

    def to_average(self, of: str = "") -> list[Path]:
        """Returns the last `average` checkpoints that were due, or those that validated best; oldest first.

        Args:
            of: "last" or "best"; empty: as the run was told.
        """
        found, state = {_step_of(path): path for path in self._all()}, newest_state(self.folder)
        best = (of or self.average_of) == "best"
        steps = self._ranked(state) if best else [step for step in found if self._is_due(step, state)][-self.average :]
        return [found[step] for step in sorted(steps) if step in found]

    def candidates(self, state: RunState) -> list[Candidate]:
        """Returns what a run's model is chosen from at its end, `state`, as far as that is still there.

        These are the weights that it started from, where it did; the best validation; the means of the last and of the
        best.
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
        """Returns those of `steps` whose weights a run that has come to `state` needs at its end.

        Each run that comes to such a step must save it, interrupted or not; of what an interruption alone saved
        nothing is needed.
        """
        kept = {0, state.best_step, *(self._ranked(state) if "best" in self._means else [])}
        last = sorted(step for step in steps if self._is_due(step, state)) if "last" in self._means else []
        return {*kept.intersection(steps), *last[-self.average :]}

    def weights_of_step(self, step: int) -> tuple[Path, str] | None:
        """Returns the checkpoint with the weights of a step, and their SHA-256; None where none can be read."""
        path = self.path_of(step)
        with suppress(CheckpointError):
            marks = _read_table(path)[1]
            return path, str(marks[EMA if EMA in marks else WEIGHTS]["sha256"])
        return None

    @property
    def _means(self) -> tuple[str, ...]:
        """Returns the kinds of means that are looked at."""
        if self.average < 2:
            return ()
        return ("last", "best") if self.average_of == "last" else ("best",)

    def _ranked(self, state: RunState) -> list[int]:
        return [-int(row[-1]) for row in state.ranking[: self.average]]

    def _is_due(self, step: int, state: RunState) -> bool:
        return step > 0 and (step % self.save_every == 0 or step == (state.last_step or self.last_step))

    def _all(self) -> list[Path]:
        """Returns the checkpoints by step; one that was not written to its end has another name."""
        return checkpoints_in(self.folder)

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
        needed = [found[step] for step in self.needed(found, newest_state(self.folder))]
        for path in found.values():
            if path not in (*needed, *resumable, *kept):
                shutil.rmtree(path)
            elif path not in resumable:
                for name in (OPTIMIZER, OPTIMIZER_TABLE, LOSS):
                    (path / name).unlink(missing_ok=True)
                if (path / EMA).is_file():  # it is what is averaged
                    (path / WEIGHTS).unlink(missing_ok=True)


def checkpoints_in(folder: Path) -> list[Path]:
    """Returns the checkpoints in a folder by step; one that was not written to its end has another name."""
    return sorted((path for path in folder.glob("step-*") if path.name[5:].isdigit()), key=_step_of)


def newest_state(folder: Path) -> RunState:
    """Returns the newest state that can be read in a folder of checkpoints, of one that is whole or not."""
    for path in reversed(checkpoints_in(folder)):
        with suppress(CheckpointError):
            return _read_table(path)[0]
    return RunState()


def last_step_saved(folder: Path) -> int:
    """Returns the step that a run with these checkpoints would resume after, as far as their names tell."""
    return max((_step_of(path) for path in checkpoints_in(folder) if (path / OPTIMIZER).is_file()), default=0)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def read_weights(checkpoint: Path) -> Tensors:
    """Returns the weights of a checkpoint that the model is made from: their moving average, where it has one.

    Raises CheckpointError where they are not as written.
    """
    try:
        marks = _read_table(checkpoint)[1]
        name = EMA if EMA in marks else WEIGHTS
        _check_file(checkpoint / name, marks)
    except CheckpointError as error:
        raise CheckpointError(
            f"the checkpoint `{checkpoint}` is one of those that the model is made from, but {error}",
            "remove this folder, and the same command does with the others; or start over with `fresh=True`",
        ) from error
    return load_tensors(checkpoint / name)


def average_into(model: nn.Module, checkpoints: Sequence[Path]) -> None:
    """Sets the model's parameters to the mean of those checkpoints: of their moving averages, where they have them."""
    set_parameters(model, mean_of([read_weights(path) for path in checkpoints]), "the average")


def _write_state(checkpoint: Path, state: RunState) -> None:
    """Writes state.json, which vouches for itself and for the files beside it."""
    files = sorted(checkpoint.iterdir())
    marks = {path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)} for path in files}
    table = state.to_table() | {"files": marks}
    text = json.dumps(table | {"sha256": _digest(table)}, indent=2) + "\n"
    (checkpoint / STATE).write_text(text, encoding="utf-8")
    flush(checkpoint / STATE)


def _read_state(checkpoint: Path) -> RunState:
    """Returns the state of a checkpoint to resume from. Raises CheckpointError, which says what is not as written."""
    state, marks = _read_table(checkpoint)
    for name in sorted({OPTIMIZER, *marks}):
        _check_file(checkpoint / name, marks)
    return state


def _read_table(checkpoint: Path) -> tuple[RunState, Table]:
    """Returns the state in state.json, and size and SHA-256 of the files beside it."""
    if not (checkpoint / STATE).is_file():  # a pipe is not one either: reading it would wait
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


def _digest(table: Table) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
