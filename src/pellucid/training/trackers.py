"""Writes a run's numbers for TensorBoard, in the run's folder (`train.report_to`). Other trackers use hooks."""

import contextlib
import importlib.util
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pellucid.errors import ConfigError, format_install_command, format_value
from pellucid.files.writing import write_text

SWITCH = "PELLUCID_TENSORBOARD"
"""The environment variable that enables TensorBoard as well, or disables it."""
GIVEN = "trackers.json"
"""A run's file with the last step of each event that has been written, so that a resumed run writes no step twice."""
NAME = "tensorboard"
FOLDERS = (NAME, "trackio")
"""Folders of a run, the second one by an earlier version."""
DATABASE = "mlflow.db"
"""A file of a run by an earlier version."""


def select_trackers(report_to: Sequence[str]) -> list[str]:
    """Returns `["tensorboard"]` if the settings or the environment enable it, otherwise an empty list.

    Raises ConfigError if it is not installed, or for a switch other than auto, on or off.
    """
    switch = os.environ.get(SWITCH, "").strip().lower() or "auto"
    if switch not in ("auto", "on", "1", "true", "yes", "off", "0", "false", "no"):
        raise ConfigError(f"`{SWITCH}` in the environment ({format_value(switch)}) must be auto, on or off")
    if not (NAME in report_to if switch == "auto" else switch in ("on", "1", "true", "yes")):
        return []
    if importlib.util.find_spec(NAME) is None:
        raise ConfigError(
            f"the run's metrics are to be written to {NAME}, which is not installed", format_install_command(NAME)
        )
    return [NAME]


class TensorBoard:
    """Writes each event of a run once; a failure does not stop the run. To view: `tensorboard --logdir RUNS`.

    Args:
        folder: the run folder.
        is_wanted: if False, nothing is written.
        warn: called with a message if TensorBoard fails.
    """

    def __init__(self, folder: Path, is_wanted: bool, warn: Callable[[str], None]) -> None:
        self._folder, self._warn = folder, warn
        self._record: dict[str, Any] = {}
        self._writer: Any = None
        if not is_wanted:
            return
        if (folder / GIVEN).is_file():
            with contextlib.suppress(ValueError):
                self._record = json.loads((folder / GIVEN).read_text(encoding="utf-8"))
        with self._convert_errors_to_warnings():
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / NAME))

    def write(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Writes the finite numbers among the values of an event, unless they were written before a resumption."""
        numbers = {
            f"{event}/{name}": float(value)
            for name, value in values.items()
            if isinstance(value, int | float) and math.isfinite(value)
        }
        given = self._record.setdefault(NAME, {}).setdefault("given", {})
        if self._writer is None or not numbers or step <= given.get(event, -1):
            return
        with self._convert_errors_to_warnings():
            for name, value in numbers.items():
                self._writer.add_scalar(name, value, step)
            self._writer.flush()
            given[event] = step
            write_text(self._folder / GIVEN, json.dumps(self._record) + "\n")

    def close(self) -> None:
        """Flushes and closes TensorBoard."""
        if self._writer is not None:
            with self._convert_errors_to_warnings():
                self._writer.close()
        self._writer = None

    @contextlib.contextmanager
    def _convert_errors_to_warnings(self) -> Any:
        """Converts an error to a warning and disables TensorBoard, so that training continues."""
        try:
            yield
        except Exception as error:
            self._writer = None
            words = str(error).strip().partition("\n")[0] or type(error).__name__
            self._warn(f"warning: {NAME} receives no more metrics: {format_value(words)}")
