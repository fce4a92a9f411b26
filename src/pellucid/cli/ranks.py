"""`--ranks N`: starts the processes of one training by torchrun's own launcher; and lets them speak with one voice."""

import logging
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pellucid.cli.stop_signals import Stopped
from pellucid.training.interrupts import Interrupted

SHUTDOWN = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
"""Torchrun's environment variable for the seconds that ranks have from a request to stop until they are killed."""
SECONDS_TO_SAVE = "40"
LOOKS = 0.2
"""Seconds between two looks at the ranks."""


def starts_ranks(ranks: int | None, max_restarts: int) -> bool:
    """Returns whether this process is to start others, in place of training. No number of ranks is one, or torchrun's.

    Raises ConfigError for numbers that cannot be, or that torchrun contradicts, where that has started this process.
    """
    from pellucid.errors import ConfigError

    for name, value, least in (("ranks", ranks, 1), ("max-restarts", max_restarts, 0)):
        if value is not None and value < least:
            raise ConfigError(f"--{name} {value} must be at least {least}", f"leave --{name} out, or give a number")
    started = os.environ.get("WORLD_SIZE") if "TORCHELASTIC_RUN_ID" in os.environ else None
    if started is None:
        return (ranks or 1) > 1 or max_restarts > 0
    if ranks is not None and str(ranks) != started:
        raise ConfigError(
            f"torchrun has started {started} processes for this training, and --ranks says {ranks}",
            "leave --ranks out: it is for a command that torchrun has not started",
        )
    return False


def check_alone(verb: str) -> None:
    """Raises ConfigError where torchrun has started several processes of a verb that is for one."""
    from pellucid.errors import ConfigError

    if "TORCHELASTIC_RUN_ID" in os.environ and (started := os.environ.get("WORLD_SIZE", "1")) != "1":
        raise ConfigError(
            f"torchrun has started {started} processes of `pellucid {verb}`, which is for one",
            "give the command without torchrun; of several processes there is `pellucid train` alone",
        )


def is_restarted() -> bool:
    """Returns whether torchrun starts this rank once more after a failure: then nothing begins anew."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def start_ranks(command: list[str], ranks: int | None, max_restarts: int) -> int:
    """Runs a command of Pellucid in so many processes on this machine and returns the exit status."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    ranks = ranks or 1
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, processors // ranks)))
    os.environ.setdefault(SHUTDOWN, SECONDS_TO_SAVE)
    _silence("torch.distributed.elastic")
    # The launcher leaves a folder for each start behind where it is not told of one.
    with tempfile.TemporaryDirectory(prefix="pellucid-ranks-", ignore_cleanup_errors=True) as folder:
        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=ranks, rdzv_backend="c10d", rdzv_endpoint="localhost:0",
            run_id=str(uuid.uuid4()), max_restarts=max_restarts, monitor_interval=LOOKS, local_addr="localhost",
            logs_specs=DefaultLogsSpecs(folder),
        )  # fmt: skip
        try:
            elastic_launch(config, sys.executable)("-m", "pellucid", *command)
        except SignalException as stop:
            return 128 + stop.sigval
        except ChildFailedError as error:
            return _status_of({rank: (each.pid, each.exitcode) for rank, each in error.failures.items()})
    return 0


def _status_of(failures: dict[int, tuple[int, int]]) -> int:
    """Returns the exit status of ranks that have failed, by their process and their own; says which one was killed."""
    statuses = {rank: status for rank, (_, status) in failures.items()}
    killed = [rank for rank, status in statuses.items() if status < 0 and -status != signal.SIGTERM]
    for rank in killed:
        name = signal.Signals(-statuses[rank]).name
        print(f"rank {rank} (process {failures[rank][0]}) was ended by {name}", file=sys.stderr)
    told = [status for status in statuses.values() if status > 0]
    return 1 if killed or not told else told[0]


def _silence(name: str) -> None:
    """Has the launcher's log say nothing: the ranks themselves say what was wrong, and in a sentence."""
    for each in (name, *(other for other in logging.root.manager.loggerDict if other.startswith(name))):
        logging.getLogger(each).setLevel(logging.CRITICAL)


@contextmanager
def one_voice() -> Iterator[None]:
    """Lets one of several ranks say what went wrong on one of them, or on all."""
    from pellucid.training.ranks import LostRankError, is_one_of_several, tell_failure

    if not is_one_of_several():
        yield
        return
    rank = int(os.environ["RANK"])
    try:
        yield
    except LostRankError as lost:
        if not lost.speaks:
            raise SystemExit(lost.exit_status) from None
        raise
    except (Interrupted, Stopped) as stop:
        if rank:
            raise SystemExit(128 + stop.signal) from None
        raise
    except Exception as error:
        _record(error)
        tell_failure(str(error) or type(error).__name__)
        if rank and _is_told_by_the_first():
            raise SystemExit(getattr(error, "exit_status", 1)) from None
        if rank:
            print(f"on rank {rank}:", file=sys.stderr)
        raise


def _is_told_by_the_first() -> bool:
    """Returns whether the first rank says what is wrong, or torchrun ends this one since the first has."""
    from pellucid.training.ranks import first_has_told

    try:
        told = first_has_told()
        time.sleep(LOOKS if told else 0)  # torchrun ends all when one has ended: the first has to have spoken
    except Stopped:
        return True
    return told


def _record(error: Exception) -> None:
    """Writes what went wrong where torchrun looks for it."""
    from torch.distributed.elastic.multiprocessing.errors import get_error_handler

    get_error_handler().record_exception(error)
