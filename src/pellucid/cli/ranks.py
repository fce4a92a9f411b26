"""`--ranks N`: starts the processes of one training by torchrun's launcher, and reports an error of theirs once."""

import atexit
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pellucid import waits
from pellucid.cli.stop_signals import StopRequested
from pellucid.process import STOP_SIGNALS, count_cores
from pellucid.terminal import log_line
from pellucid.training.interrupts import TrainingInterrupted

SHUTDOWN = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
"""Torchrun's environment variable: the seconds between the request to stop and the kill of a rank."""
SECONDS_TO_SAVE = "40"
LAUNCHER, FOLDER = "PELLUCID_LAUNCHER", "PELLUCID_LAUNCHER_FOLDER"
"""Environment variables of a rank: the process that started it by `--ranks`, and the folder of that process."""
STOPPED = 10.0
"""Seconds after which a rank that a signal has stopped is killed: the others then have SECONDS_TO_SAVE."""
LOOKS = 0.2
"""Seconds between two checks of the ranks."""


def should_start_ranks(ranks: int | None, max_restarts: int) -> bool:
    """Returns True if this process has to start others instead of training. `ranks` None: one, or torchrun's number.

    Raises ConfigError for numbers that are too small, or that differ from torchrun's if it has started this process.
    """
    from pellucid.errors import ConfigError

    for name, value, least in (("ranks", ranks, 1), ("max-restarts", max_restarts, 0)):
        if value is not None and value < least:
            raise ConfigError(
                f"--{name} {value} must be at least {least}", f"leave --{name} out, or give a larger number"
            )
    started = os.environ.get("WORLD_SIZE") if "TORCHELASTIC_RUN_ID" in os.environ else None
    if started is None:
        return (ranks or 1) > 1 or max_restarts > 0
    if ranks is not None and str(ranks) != started:
        raise ConfigError(
            f"torchrun has started {started} processes for this training, but --ranks is {ranks}",
            "leave --ranks out: it is for a command that is started without torchrun",
        )
    return False


def check_alone(verb: str) -> None:
    """Raises ConfigError if torchrun has started several processes of a verb that runs in one."""
    from pellucid.errors import ConfigError

    if "TORCHELASTIC_RUN_ID" in os.environ and (started := os.environ.get("WORLD_SIZE", "1")) != "1":
        raise ConfigError(
            f"torchrun has started {started} processes of `pellucid {verb}`, which runs in one process",
            "run the command without torchrun; only `pellucid train` runs in several processes",
        )


def is_restarted() -> bool:
    """Returns True if torchrun has restarted this rank after a failure: then the run resumes in spite of `fresh`."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def start_ranks(command: list[str], ranks: int | None, max_restarts: int) -> int:
    """Runs a command of Pellucid in `ranks` processes on this machine, and returns the exit status."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from pellucid.files.writing import temporary_folder

    ranks = ranks or 1
    processors = count_cores()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, processors // ranks)))
    os.environ.setdefault(SHUTDOWN, SECONDS_TO_SAVE)
    _silence("torch.distributed.elastic")
    # Without a given folder, each start of the launcher leaves one. The folder of a killed launcher is removed when its
    # ranks end, or at the next start.
    with temporary_folder(Path(tempfile.gettempdir()) / "pellucid-ranks") as folder:
        os.environ |= {LAUNCHER: str(os.getpid()), FOLDER: str(folder)}
        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=ranks, rdzv_backend="c10d", rdzv_endpoint="localhost:0",
            run_id=str(uuid.uuid4()), max_restarts=max_restarts, monitor_interval=LOOKS, local_addr="localhost",
            logs_specs=DefaultLogsSpecs(str(folder)),
            signals_to_handle=",".join(each.name for each in (signal.SIGINT, signal.SIGQUIT, *STOP_SIGNALS)),
        )  # fmt: skip
        ended = threading.Event()
        threading.Thread(target=_end_stopped_ranks, args=(ended,), daemon=True).start()
        try:
            elastic_launch(config, sys.executable)("-m", "pellucid", *command)
        except SignalException as stop:
            return 128 + stop.sigval
        except ChildFailedError as error:
            return _choose_status({rank: (each.pid, each.exitcode) for rank, each in error.failures.items()})
        finally:
            ended.set()
    return 0


def _end_stopped_ranks(ended: threading.Event) -> None:
    """Kills each rank that has been stopped for STOPPED seconds, until `ended` is set.

    The ranks check each other's heartbeats once all have joined; a rank that is stopped earlier is noticed only here.
    """
    silence = waits.Silence(STOPPED)
    while not ended.wait(waits.LOOK):
        for pid in silence.look(waits.find_stopped_children()):
            waits.kill(pid)


def end_with_launcher() -> None:
    """Makes the system kill this rank, even if it is stopped, when its launcher dies while the ranks start: there is
    nothing to save yet.

    Once the rank has joined the others it gets SIGTERM instead. Call this before PyTorch is imported, which takes
    seconds. It applies to ranks that torchrun has started, too.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    from pellucid.process import stop_with_parent

    launcher = int(os.environ.get(LAUNCHER) or os.getppid())
    if os.getppid() != launcher and waits.is_running(launcher):  # a command started by a rank
        return
    if folder := os.environ.get(FOLDER):
        atexit.register(partial(_tidy_after, launcher, Path(folder)))
    stop_with_parent(launcher, getattr(signal, "SIGKILL", signal.SIGTERM))


def _tidy_after(launcher: int, folder: Path) -> None:
    """Removes the folder of a launcher that has died."""
    if os.getppid() != launcher and folder.name.startswith(".pellucid-ranks."):
        shutil.rmtree(folder, ignore_errors=True)


def _choose_status(failures: dict[int, tuple[int, int]]) -> int:
    """Returns the exit status for failed ranks, given their process ids and exit statuses; logs which were killed."""
    statuses = {rank: status for rank, (_, status) in failures.items()}
    killed = [rank for rank, status in statuses.items() if status < 0 and -status != signal.SIGTERM]
    for rank in killed:
        name = signal.Signals(-statuses[rank]).name
        log_line(f"rank {rank} (process {failures[rank][0]}) was ended by {name}")
    positive = [status for status in statuses.values() if status > 0]
    return 1 if killed or not positive else positive[0]


def _silence(name: str) -> None:
    """Silences the launcher's log: the ranks themselves report an error, as a message."""
    for each in (name, *(other for other in logging.root.manager.loggerDict if other.startswith(name))):
        logging.getLogger(each).setLevel(logging.CRITICAL)


@contextmanager
def report_once() -> Iterator[None]:
    """Reports an error of one rank, or of all, by one rank only."""
    from pellucid.training.ranks import LostRankError, is_distributed, report_failure

    if not is_distributed():
        yield
        return
    rank = int(os.environ["RANK"])
    try:
        yield
    except LostRankError as lost:
        if not lost.speaks:
            raise SystemExit(lost.exit_status) from None
        raise
    except (TrainingInterrupted, StopRequested) as stop:
        if rank:
            raise SystemExit(128 + stop.signal) from None
        raise
    except Exception as error:
        _record(error)
        report_failure(str(error) or type(error).__name__)
        if rank and _is_reported_by_first():
            raise SystemExit(getattr(error, "exit_status", 1)) from None
        if rank:
            log_line(f"on rank {rank}:")
        raise


def _is_reported_by_first() -> bool:
    """Returns True if the first rank reports the error, or torchrun ends this rank after the first has reported."""
    from pellucid.training.ranks import has_first_rank_reported

    try:
        reported = has_first_rank_reported()
        time.sleep(LOOKS if reported else 0)  # torchrun ends all ranks when one ends: let the first report before
    except StopRequested:
        return True
    return reported


def _record(error: Exception) -> None:
    """Records the error in the file that torchrun reads."""
    from torch.distributed.elastic.multiprocessing.errors import get_error_handler

    get_error_handler().record_exception(error)
