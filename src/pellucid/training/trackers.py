"""Hands a run's numbers to programs that draw them: TensorBoard, trackio, MLflow (`train.log_to`).

Each writes into the run's folder, and sends nothing anywhere, unless the environment says otherwise in the program's
own way: MLFLOW_TRACKING_URI, TRACKIO_DIR, TRACKIO_SPACE_ID.
"""

import contextlib
import importlib.util
import io
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pellucid.errors import ConfigError, install, shown
from pellucid.files.writing import write_text

SWITCH = "PELLUCID_TENSORBOARD"
"""The environment variable that asks for TensorBoard as well, or forbids it."""
GIVEN = "trackers.json"
"""A run's file that says what each program has been given, so that a resumed run goes on behind it."""
PROJECT = "pellucid"
FOLDERS = ("tensorboard", "trackio")
DATABASE = "mlflow.db"
Numbers = Mapping[str, float]


class Tracker(Protocol):
    """A program that draws numbers over steps."""

    def write(self, numbers: Numbers, step: int) -> None:
        """Takes the numbers of a step."""

    def close(self, finished: bool) -> None:
        """Writes out what is held back."""


class TensorBoard:
    """Writes events: `tensorboard --logdir RUNS` shows them."""

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def write(self, numbers: Numbers, step: int) -> None:
        """Takes the numbers of a step."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, finished: bool) -> None:
        """Writes out what is held back."""
        self._writer.close()


class MLflow:
    """Writes to the server or database of MLFLOW_TRACKING_URI, else to a database of the run's own."""

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        self._metric = Metric
        place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.absolute() / DATABASE}"
        self._client = MlflowClient(place)
        if "run" in record:
            self._client.update_run(record["run"], status="RUNNING")
        else:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
            found = self._client.get_experiment_by_name(name)
            experiment = self._client.create_experiment(name) if found is None else found.experiment_id
            record["run"] = self._client.create_run(experiment, run_name=folder.absolute().name).info.run_id
        self._run: str = record["run"]

    def write(self, numbers: Numbers, step: int) -> None:
        """Takes the numbers of a step."""
        now = time.time_ns() // 1_000_000
        self._client.log_batch(self._run, [self._metric(name, value, now, step) for name, value in numbers.items()])

    def close(self, finished: bool) -> None:
        """Says whether the run has come to its end."""
        self._client.set_terminated(self._run, "FINISHED" if finished else "KILLED")


class Trackio:
    """Writes to the folder of TRACKIO_DIR, else to one of the run's own."""

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        os.environ.setdefault("TRACKIO_DIR", str(folder.absolute() / "trackio"))
        with contextlib.redirect_stdout(io.StringIO()):  # where translations may be written to
            import trackio

            self._trackio: Any = trackio
            self._run: Any = trackio.init(
                PROJECT, folder.absolute().name, resume="allow", embed=False, auto_log_cpu=False, auto_log_gpu=False
            )

    def write(self, numbers: Numbers, step: int) -> None:
        """Takes the numbers of a step."""
        self._run.log(dict(numbers), step)

    def close(self, finished: bool) -> None:
        """Writes out what is held back."""
        with contextlib.redirect_stdout(io.StringIO()):
            self._trackio.finish()


KINDS: dict[str, Callable[[Path, dict[str, Any]], Tracker]] = {
    "tensorboard": TensorBoard, "trackio": Trackio, "mlflow": MLflow,
}  # fmt: skip


def wanted(log_to: Sequence[str]) -> list[str]:
    """Returns the programs that a run's numbers go to: those of the settings, as the environment alters them.

    Raises ConfigError for one that is not installed, or a switch that says something else than auto, on or off.
    """
    switch = os.environ.get(SWITCH, "").strip().lower() or "auto"
    if switch not in ("auto", "on", "1", "true", "yes", "off", "0", "false", "no"):
        raise ConfigError(f"`{SWITCH}` in the environment ({shown(switch)}) must be auto, on or off")
    names = [name for name in KINDS if name in log_to]
    if switch != "auto":
        names = [name for name in names if name != "tensorboard"]
        names[:0] = ["tensorboard"] if switch in ("on", "1", "true", "yes") else []
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ConfigError(f"the run's numbers are to go to {name}, which is not installed", install(name))
    return names


class Trackers:
    """Hands each event of a run to the programs that draw them, once, and does without one that fails.

    Args:
        folder: the run's.
        names: the programs, as in KINDS.
        warn: is told of one that fails.
    """

    def __init__(self, folder: Path, names: Sequence[str], warn: Callable[[str], None]) -> None:
        self._folder, self._warn = folder, warn
        self._record: dict[str, dict[str, Any]] = {}
        if names and (folder / GIVEN).is_file():
            with contextlib.suppress(ValueError):
                self._record = json.loads((folder / GIVEN).read_text(encoding="utf-8"))
        self._open: dict[str, Tracker] = {}
        for name in names:
            record = self._record.setdefault(name, {})
            with self._doing_without(name):
                self._open[name] = KINDS[name](folder, record)

    def write(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Hands on the numbers of an event; what a program has been given of before a resumption is passed over."""
        numbers = {
            f"{event}/{name}": float(value)
            for name, value in values.items()
            if isinstance(value, int | float) and math.isfinite(value)
        }
        for name, tracker in [*self._open.items()]:
            given = self._record[name].setdefault("given", {})
            if numbers and step > given.get(event, -1):
                with self._doing_without(name):
                    tracker.write(numbers, step)
                    given[event] = step
                    write_text(self._folder / GIVEN, json.dumps(self._record) + "\n")

    def close(self) -> None:
        """Has all of them write what they hold back. The run is finished unless an error is on its way."""
        finished = sys.exc_info()[0] is None
        for name, tracker in self._open.items():
            with self._doing_without(name):
                tracker.close(finished)
        self._open = {}

    @contextlib.contextmanager
    def _doing_without(self, name: str) -> Any:
        """Goes on without a program that fails, and says so: no training ends for its picture."""
        try:
            yield
        except Exception as error:
            self._open = {other: tracker for other, tracker in self._open.items() if other != name}
            words = str(error).strip().partition("\n")[0] or type(error).__name__
            self._warn(f"warning: {name} gets no more numbers: {shown(words)}")
