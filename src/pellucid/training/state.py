"""The state of a training run, and the checkpoints that store it.

No random generator state is saved: the order of the batches follows from (seed, epoch, position), and each batch's
dropout from (seed, step, index in the step). A checkpoint is the weights, the optimizer's state and a few integers.

    checkpoints/step-00001000/model.safetensors       parameters
                              ema.safetensors         their moving average, if the run has one
                              loss.safetensors        parameters and buffers of a custom loss, if it has any
                              optimizer.safetensors   Adam's moments and step counts, by parameter
                              optimizer.json          the state of a custom optimizer other than tensors
                              state.json              the RunState, and size and SHA-256 of each file above
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from torch import nn

from pellucid.errors import CheckpointError
from pellucid.files.reading import hash_file
from pellucid.files.writing import fsync, replace_folder, write_text
from pellucid.training.loss import Loss, trained_tensors
from pellucid.training.optimizer import Optimizer, Table, Tensors, named_parameters, restore_state, split_state
from pellucid.weights.sharded import shard_like
from pellucid.weights.tensors import average_states, load_tensors, parameters, save_tensors, set_parameters

WEIGHTS, EMA, LOSS = "model.safetensors", "ema.safetensors", "loss.safetensors"
OPTIMIZER, OPTIMIZER_TABLE, STATE = "optimizer.safetensors", "optimizer.json", "state.json"


@dataclass
class Meter:
    """Sums over the steps since the last report, saved so that a resumed run reports the same numbers."""

    loss_sum: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, loss: float, tokens: int, seconds: float) -> None:
        """Adds a step: its summed loss, its target tokens, its time in seconds."""
        self.loss_sum += loss
        self.tokens += tokens
        self.seconds += seconds

    @property
    def loss(self) -> float:
        """Returns the mean loss per token, in nats."""
        return self.loss_sum / max(1, self.tokens)

    @property
    def speed(self) -> float:
        """Returns target tokens per second, without padding."""
        return self.tokens / max(1e-9, self.seconds)


@dataclass
class RunState:
    """The counters of a run. Steps are optimizer steps; `position` is the number of batches of `epoch` already used."""

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
    """[score, minus the step] of the best validations, best first, if their mean is a candidate."""
    last_step: int = 0
    """The last step, if it has changed since the run began; 0: as configured."""
    falls_at: int = 0
    """The step after which a stable learning rate decays, if the time budget or a plateau has determined it."""
    clock: float = 0.0
    """Seconds of the time budget already used."""
    stopped_early: bool = False
    """True if `train.patience` or a hook has shortened the run."""
    origin: dict[str, Any] = field(default_factory=dict)
    """The origin of the run, as in its folder, so that lost files can be rebuilt."""
    parts: int = 1
    """The number of parts that a batch is split into after running out of memory."""
    meter: Meter = field(default_factory=Meter)
    ranks: int = 1
    """The number of processes that train together."""
    accumulate: int = 0
    """Batches per step and process; 0: as configured. It changes with the number of processes."""
    replaced: dict[str, str] = field(default_factory=dict)
    """The names of the custom loss, optimizer and schedule, if the settings' have been replaced."""
    rate_factor: float = 1.0
    """The factor that hooks have multiplied the learning rate by."""

    @classmethod
    def from_table(cls, table: Table) -> Self:
        """Returns the state from a table of `to_table`. Raises KeyError or TypeError for any other table."""
        return cls(**table | {"meter": Meter(**table["meter"])})

    def copy_from(self, other: "RunState") -> None:
        """Takes the values of another state, which must not be used afterwards."""
        vars(self).update(vars(other))

    def to_table(self) -> Table:
        """Returns the state for JSON, without the unset fields that earlier versions cannot read."""
        table = asdict(self)
        unset = {"replaced": {}, "rate_factor": 1.0, "ranks": 1, "accumulate": 0}
        return {name: value for name, value in table.items() if name not in unset or value != unset[name]}


@dataclass(frozen=True)
class TrainableState:
    """Holds all state that training changes, except for the counters of RunState."""

    model: nn.Module
    loss: Loss
    """Has state to save if it is an nn.Module."""
    optimizer: Optimizer
    ema: Tensors | None = None
    """The moving average of the model's weights, if there is one."""
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
        tensors, table = split_state(self.optimizer, named_parameters(self.model, self.loss))
        return files | {OPTIMIZER: tensors} | ({} if table is None else {OPTIMIZER_TABLE: table})

    def read(self, checkpoint: Path) -> None:
        """Loads a checkpoint. Raises CheckpointError if it belongs to another run."""
        set_parameters(self.model, load_tensors(checkpoint / WEIGHTS), f"`{checkpoint}`")
        if self.ema is not None:
            saved = load_tensors(checkpoint / EMA)
            for name, tensor in self.ema.items():
                tensor.copy_(shard_like(saved[name], tensor))
        of_loss = dict(trained_tensors(self.loss))
        saved = load_tensors(checkpoint / LOSS) if (checkpoint / LOSS).is_file() else {}
        if {n: t.shape for n, t in of_loss.items()} != {n: t.shape for n, t in saved.items()}:
            raise CheckpointError(
                f"`{checkpoint}` holds {_format_tensors(saved)} of the loss, which now has {_format_tensors(of_loss)}",
                "pass the loss that the run was started with, or start over with `fresh=True`",
            )
        for name, tensor in of_loss.items():
            tensor.data.copy_(shard_like(saved[name], tensor))
        path = checkpoint / OPTIMIZER_TABLE
        table = json.loads(path.read_bytes()) if path.is_file() else None
        known = named_parameters(self.model, self.loss)
        restore_state(self.optimizer, known, load_tensors(checkpoint / OPTIMIZER), table)


def _format_tensors(tensors: Tensors) -> str:
    return ", ".join(f"`{name}` {tuple(tensor.shape)}" for name, tensor in tensors.items()) or "nothing"


@dataclass(frozen=True)
class WeightsCandidate:
    """A candidate for the run's model: the weights of one checkpoint, or the mean of several."""

    name: str
    """start, best, mean of last or mean of best."""
    paths: tuple[Path, ...]

    @property
    def steps(self) -> list[int]:
        """Returns the steps of its checkpoints."""
        return [_get_step(path) for path in self.paths]

    def __str__(self) -> str:
        if self.name == "start":
            return "the initial weights of the run"
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
        average_strategy: str = "last",
        keep_every: int = 0,
    ) -> None:
        self.folder = folder
        self.save_every = save_every
        self.average = average
        self.last_step = last_step
        self.average_strategy = average_strategy
        self.keep_every = keep_every

    def save(self, state: RunState, files: Mapping[str, Tensors | Table]) -> None:
        """Writes a checkpoint atomically, then removes the checkpoints that are no longer needed.

        Raises OSError if it cannot be written; the earlier checkpoints are then unchanged.
        """
        self.write(state, files)
        with suppress(OSError):  # removed after the next checkpoint instead
            self._prune(state.step)

    def write(self, state: RunState, files: Mapping[str, Tensors | Table]) -> None:
        """Writes the folder of a checkpoint with these files, tensors or tables, atomically."""
        final = self.get_path(state.step)
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
            fsync(temporary)
            replace_folder(temporary, final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise

    def restore(self, trained: TrainableState, log_line: Callable[[str], None]) -> RunState:
        """Loads the newest complete checkpoint and returns its state, or a new state if there is no checkpoint.

        `log_line` is called with each checkpoint that is skipped, and the reason. Raises CheckpointError if there are
        checkpoints and none of them is complete, or if they belong to a run with another loss, optimizer or schedule.
        """
        found = self._all()
        for path in reversed(found):
            try:
                state = _read_state(path)
            except CheckpointError as error:
                log_line(f"the checkpoint `{path}` is skipped: {error}")
                continue
            self._check_replaced(state.replaced, trained.replaced)
            trained.read(path)
            return state
        if found:
            raise CheckpointError(
                f"none of the {len(found)} checkpoints in `{self.folder}` is complete",
                "finish the run with the version of pellucid that started it, if it was another one; otherwise start "
                "over with `fresh=True`",
            )
        return RunState()

    def _check_replaced(self, saved: dict[str, str], now: dict[str, str]) -> None:
        """Raises CheckpointError if loss, optimizer or schedule differ from the run's in its checkpoints."""
        for what in ("loss", "optimizer", "schedule"):
            if saved.get(what) == now.get(what):
                continue
            began, has = (f"`{each[what]}`" if what in each else "that of the settings" for each in (saved, now))
            raise CheckpointError(
                f"the {what} of the run in `{self.folder.parent}` was {began}, and now is {has}",
                (f"set `run.{what}` to the one of its start" if what in saved else f"leave `run.{what}` unchanged")
                + ", or start over with `fresh=True`",
            )

    def get_path(self, step: int) -> Path:
        """Returns the folder of a step's checkpoint."""
        return self.folder / f"step-{step:08d}"

    @property
    def last_step_saved(self) -> int:
        """Returns the step that a run would resume after, judging by the folders' names alone."""
        return last_step_saved(self.folder)

    def to_average(self, of: str = "") -> list[Path]:
        """Returns the last `average` checkpoints that were due, or the ones with the best validation; oldest first.

        Args:
            of: "last" or "best"; if empty, the run's setting.
        """
        found, state = {_get_step(path): path for path in self._all()}, newest_state(self.folder)
        best = (of or self.average_strategy) == "best"
        steps = (
            self._list_ranked(state) if best else [step for step in found if self._is_due(step, state)][-self.average :]
        )
        return [found[step] for step in sorted(steps) if step in found]

    def candidates(self, state: RunState) -> list[WeightsCandidate]:
        """Returns the candidates for the run's model at its end, `state`, whose checkpoints still exist.

        The candidates are the weights that the run was initialized from, if any; the best validation; the means of the
        last and of the best checkpoints.
        """
        found = {_get_step(path): path for path in self._all()}
        singles = [WeightsCandidate("start", (found[0],))] if 0 in found and state.best_step else []
        if state.best_step in found:
            singles.append(WeightsCandidate("best", (found[state.best_step],)))
        means = [WeightsCandidate(f"mean of {of}", tuple(self.to_average(of))) for of in self._means]
        return singles + [
            mean
            for i, mean in enumerate(means)
            if len(mean.paths) > 1 and mean.paths not in [m.paths for m in means[:i]]
        ]

    def list_needed(self, steps: Iterable[int], state: RunState) -> set[int]:
        """Returns the subset of `steps` whose weights a run at `state` needs at its end.

        Each run must save these steps, interrupted or not. Checkpoints that were saved only because of an interruption
        are not needed.
        """
        kept = {0, state.best_step, *(self._list_ranked(state) if "best" in self._means else [])}
        last = sorted(step for step in steps if self._is_due(step, state)) if "last" in self._means else []
        return {*kept.intersection(steps), *last[-self.average :]}

    def weights_of_step(self, step: int) -> tuple[Path, str] | None:
        """Returns the checkpoint with the weights of a step, and their SHA-256; None if it cannot be read."""
        path = self.get_path(step)
        with suppress(CheckpointError):
            marks = _read_table(path)[1]
            return path, str(marks[EMA if EMA in marks else WEIGHTS]["sha256"])
        return None

    @property
    def _means(self) -> tuple[str, ...]:
        """Returns the kinds of means that are candidates."""
        if self.average < 2:
            return ()
        return ("last", "best") if self.average_strategy == "last" else ("best",)

    def _list_ranked(self, state: RunState) -> list[int]:
        return [-int(row[-1]) for row in state.ranking[: self.average]]

    def _is_due(self, step: int, state: RunState) -> bool:
        return step > 0 and (step % self.save_every == 0 or step == (state.last_step or self.last_step))

    def _all(self) -> list[Path]:
        """Returns the checkpoints by step; incomplete ones have another name."""
        return checkpoints_in(self.folder)

    def _prune(self, newest: int) -> None:
        """Removes all checkpoints that are not needed for averaging, resuming (two) or `keep_every` (weights).

        Checkpoints newer than the one just written were damaged when the run resumed, and their steps are trained
        again.
        """
        stale = [path for path in self._all() if _get_step(path) > newest]
        for path in (*stale, *self.folder.glob("step-*.partial")):
            shutil.rmtree(path)
        found = {_get_step(path): path for path in self._all()}
        resumable = [path for path in found.values() if (path / OPTIMIZER).is_file()][-2:]
        kept = [path for step, path in found.items() if self.keep_every and step % self.keep_every == 0]
        needed = [found[step] for step in self.list_needed(found, newest_state(self.folder))]
        for path in found.values():
            if path not in (*needed, *resumable, *kept):
                shutil.rmtree(path)
            elif path not in resumable:
                for name in (OPTIMIZER, OPTIMIZER_TABLE, LOSS):
                    (path / name).unlink(missing_ok=True)
                if (path / EMA).is_file():  # the moving averages are averaged, not the weights
                    (path / WEIGHTS).unlink(missing_ok=True)


def checkpoints_in(folder: Path) -> list[Path]:
    """Returns the checkpoints in a folder by step; incomplete ones have another name."""
    return sorted((path for path in folder.glob("step-*") if path.name[5:].isdigit()), key=_get_step)


def newest_state(folder: Path) -> RunState:
    """Returns the newest readable state in a folder of checkpoints, even of an incomplete checkpoint."""
    for path in reversed(checkpoints_in(folder)):
        with suppress(CheckpointError):
            return _read_table(path)[0]
    return RunState()


def last_step_saved(folder: Path) -> int:
    """Returns the step that a run with these checkpoints would resume after, judging by their names alone."""
    return max((_get_step(path) for path in checkpoints_in(folder) if (path / OPTIMIZER).is_file()), default=0)


def _get_step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def read_checkpoint_weights(checkpoint: Path) -> Tensors:
    """Returns the weights of a checkpoint for the model: their moving average, if it has one.

    Raises CheckpointError if the file was changed after it was written.
    """
    try:
        marks = _read_table(checkpoint)[1]
        name = EMA if EMA in marks else WEIGHTS
        _check_file(checkpoint / name, marks)
    except CheckpointError as error:
        raise CheckpointError(
            f"the checkpoint `{checkpoint}` is required for the averaged model, but {error}",
            "remove this folder and run the same command again to use the others; or start over with `fresh=True`",
        ) from error
    return load_tensors(checkpoint / name)


def average_into(model: nn.Module, checkpoints: Sequence[Path]) -> None:
    """Sets the model's parameters to the mean of the checkpoints: of their moving averages, if they have them."""
    set_parameters(model, average_states([read_checkpoint_weights(path) for path in checkpoints]), "the average")


def _write_state(checkpoint: Path, state: RunState) -> None:
    """Writes state.json, with the SHA-256 of itself and of the checkpoint's other files."""
    files = sorted(checkpoint.iterdir())
    marks = {path.name: {"bytes": path.stat().st_size, "sha256": hash_file(path)} for path in files}
    table = state.to_table() | {"files": marks}
    text = json.dumps(table | {"sha256": _digest(table)}, indent=2) + "\n"
    (checkpoint / STATE).write_text(text, encoding="utf-8")
    fsync(checkpoint / STATE)


def _read_state(checkpoint: Path) -> RunState:
    """Returns the state of a checkpoint to resume from. Raises CheckpointError if a file is missing or damaged."""
    state, marks = _read_table(checkpoint)
    for name in sorted({OPTIMIZER, *marks}):
        _check_file(checkpoint / name, marks)
    return state


def _read_table(checkpoint: Path) -> tuple[RunState, Table]:
    """Returns the state in state.json, and size and SHA-256 of the checkpoint's other files."""
    if not (checkpoint / STATE).is_file():  # neither is a pipe: reading it would block
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
        raise CheckpointError(f"{STATE} has changed since it was written: its SHA-256 differs")
    if state.step != _get_step(checkpoint):
        raise CheckpointError(f"it holds step {state.step:,}")
    return state, marks


def _check_file(path: Path, marks: Mapping[str, Any]) -> None:
    """Raises CheckpointError if a file was changed after it was written."""
    if path.name not in marks or not path.is_file():
        raise CheckpointError(f"it has no {path.name}")
    size, mark = path.stat().st_size, marks[path.name]
    if size != mark["bytes"]:
        raise CheckpointError(f"{path.name} has {size:,} bytes instead of {mark['bytes']:,}")
    try:
        digest = hash_file(path)
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror}") from error
    if digest != mark["sha256"]:
        raise CheckpointError(f"{path.name} has changed since it was written: its SHA-256 differs")


def _digest(table: Table) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
