"""Distributed training: the ranks' parts of a step, their communication, and the errors when a rank is lost.

torchrun or `pellucid train --ranks N` starts the processes, each with its rank in the environment. They communicate by
`torch.distributed`: Gloo between CPUs, NCCL between GPUs. A single process is `SINGLE_PROCESS`, whose methods do
nothing.
"""

import atexit
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError, PellucidError, format_value
from pellucid.process import stop_with_parent
from pellucid.waits import is_running, kill

TIMEOUT = 40.0
"""Seconds that a rank waits for the others' part of a step, unless RANK_TIMEOUT is set."""
RANK_TIMEOUT = "PELLUCID_RANK_TIMEOUT"
"""The environment variable with the timeout in seconds."""
JOINING = timedelta(minutes=5)
"""The timeout for ranks that are being started."""
PATIENT = timedelta(days=1)
"""The timeout for work of one rank, as reading texts or saving. The death of a rank is noticed earlier."""
ANSWERING = timedelta(seconds=10)
"""The timeout of the store through which ranks find each other: its process may hang, too."""
BEAT = 1.0
"""Seconds between two heartbeats, which distinguish a rank that works for long from one that hangs."""
ASKED = 3.0
"""Seconds within which a healthy rank reports that it has lost another rank, too."""
BUCKET = 1 << 24
"""The numbers of a gradient that are reduced at a time: they take 64 MB, twice."""

GOES_ON = (
    "run the same command again to resume from the last checkpoint; with `max_restarts=1` this happens once "
    "automatically"
)
_T = TypeVar("_T")


class LostRankError(PellucidError):
    """Raised if another rank has died, does not answer, or has failed: the job ends.

    `speaks` is True on one of the remaining ranks, which reports the error.
    """

    def __init__(self, message: str, speaks: bool = True) -> None:
        super().__init__(message, GOES_ON)
        self.speaks = speaks


class _SilenceError(RuntimeError):
    """Raised while waiting for ranks that send no heartbeat."""

    def __init__(self, ranks: Sequence[int]) -> None:
        super().__init__("timed out")
        self.ranks = ranks


@dataclass(frozen=True)
class DistributedContext:
    """The rank of this process, the number of processes, and their collective operations.

    Every method is called by all ranks, in the same order; it raises LostRankError if one of them does not.
    """

    rank: int = 0
    world_size: int = 1
    timeout: float = TIMEOUT

    @property
    def is_first(self) -> bool:
        """Returns True if this is the rank that writes files and logs."""
        return self.rank == 0

    def place(self, number: int) -> int:
        """Returns the index, within a step, of this rank's batch `number`: rank r takes r, r + world_size, ..."""
        return self.rank + number * self.world_size

    def all_gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Returns the numbers of each rank, by rank."""
        if self.world_size == 1:
            return [list(numbers)]
        import torch.distributed as dist

        own = torch.tensor(numbers, dtype=torch.float64)
        all_of_them = list(torch.empty(self.world_size, len(own), dtype=torch.float64).unbind())
        with self._convert_errors():
            dist.all_gather(all_of_them, own, group=_JOINED[self])
        return [each.tolist() for each in all_of_them]

    def any(self, flag: bool) -> bool:
        """Returns True if the flag is True on any rank."""
        return any(told for (told,) in self.all_gather([flag]))

    def gather(self, value: _T) -> list[_T]:
        """Returns each rank's value, by rank: any object that can be pickled. Waits without `timeout`."""
        if self.world_size == 1:
            return [value]
        import torch.distributed as dist

        found: list[_T] = [value] * self.world_size
        self.barrier()
        with self._convert_errors():
            dist.all_gather_object(found, value, group=_JOINED[self])
        return found

    def broadcast_result(self, make: Callable[[], _T]) -> _T:
        """Calls `make` on rank 0 and returns its result on all ranks; a PellucidError there is raised on every rank."""
        if self.world_size == 1:
            return make()
        import torch.distributed as dist

        told: list[Any] = [None, None]
        if self.is_first:
            try:
                told = [make(), None]
            except PellucidError as error:
                told = [None, error]
        self.barrier()
        with self._convert_errors():
            dist.broadcast_object_list(told, src=0, group=_JOINED[self])
        if isinstance(told[1], PellucidError):
            raise told[1]
        return cast(_T, told[0])

    def barrier(self) -> None:
        """Waits for all ranks, however long it takes, but only `timeout` for a rank that sends no heartbeat."""
        if self.world_size == 1:
            return
        import torch.distributed as dist

        with self._convert_errors():
            arrived = dist.barrier(group=_PATIENTLY[self], async_op=True)
            signs, pause, since = Heartbeats(self), 0.0005, 0.0
            while not arrived.is_completed():
                time.sleep(pause)
                since, pause = since + pause, min(2 * pause, 0.02)
                if since >= signs.apart:
                    signs.look(since)
                    since = 0.0
            arrived.wait()  # raises the error, if there was one

    @property
    def group(self) -> Any:
        """Returns the process group whose operations end after `timeout`, for other collective operations."""
        return _JOINED[self]

    def all_reduce_sum(self, tensors: Sequence[Tensor]) -> None:
        """Replaces each tensor by its sum over ranks.

        Each rank sums one part of the tensors, in the order of the ranks, and sends its sum to the others: so the sum
        does not depend on the network's algorithm and is the same on all ranks, bit by bit.
        """
        if self.world_size == 1:
            return
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            bucket, size = list[Tensor](), 0
            for tensor in (tensor for tensor in tensors if tensor.dtype == dtype):
                if bucket and size + tensor.numel() > BUCKET:
                    self._add_bucket(bucket)
                    bucket, size = [], 0
                bucket.append(tensor)
                size += tensor.numel()
            self._add_bucket(bucket)

    def _add_bucket(self, tensors: list[Tensor]) -> None:
        import torch.distributed as dist

        size = sum(tensor.numel() for tensor in tensors)
        share = -(-size // self.world_size)
        flat = tensors[0].new_zeros(self.world_size, share)
        torch.cat([tensor.flatten() for tensor in tensors], out=flat.view(-1)[:size])
        parts = torch.empty_like(flat)
        with self._convert_errors():
            dist.all_to_all_single(parts, flat, group=_JOINED[self])
            total = parts[0]
            for part in parts[1:]:
                total += part
            dist.all_gather(list(flat.unbind()), total, group=_JOINED[self])
        start = 0
        for tensor in tensors:
            tensor.copy_(flat.view(-1)[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()

    def broadcast_parameters(self, model: nn.Module) -> None:
        """Sends rank 0's parameters and buffers to all ranks, as a custom model may be initialized at random."""
        if self.world_size > 1:
            import torch.distributed as dist

            with self._convert_errors():
                for tensor in (*model.parameters(), *model.buffers()):
                    dist.broadcast(tensor.data, src=0)

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Converts a closed connection or a timeout to a LostRankError that names the rank."""
        try:
            yield
        except RuntimeError as error:
            raise self.make_lost_rank_error(error) from error

    def make_lost_rank_error(self, error: BaseException) -> LostRankError:
        """Returns the error on the ranks that do not answer; kills hanging ones on this machine."""
        for number in (signal.SIGTERM, signal.SIGINT):  # torchrun sends them for the same lost rank
            with suppress(ValueError):
                signal.signal(number, signal.SIG_IGN)
        timed_out = "timed out" in str(error).lower()
        with suppress(RuntimeError):
            silent = self._silent()
            speaks = self.rank == min(set(range(self.world_size)) - set(silent))
            if isinstance(error, _SilenceError):  # a rank without an answer may only be busy
                silent = [*error.ranks]
            if silent:
                return LostRankError("; ".join(self._describe_rank(rank, timed_out) for rank in silent), speaks)
        return LostRankError(f"the connection to the other ranks is lost: {str(error).partition(chr(10))[0]}")

    def _silent(self) -> list[int]:
        """Returns the ranks that have failed, or do not report in time that they are healthy."""
        store, others = _store(), [rank for rank in range(self.world_size) if rank != self.rank]
        store.set(f"well/{self.rank}", "")
        until = time.monotonic() + ASKED
        while time.monotonic() < until and not all(self._is_decided(rank) for rank in others):
            time.sleep(0.05)
        return [rank for rank in others if store.check([f"failed/{rank}"]) or not store.check([f"well/{rank}"])]

    def _is_decided(self, rank: int) -> bool:
        """Returns True if a rank has reported that it is healthy or has failed, or if it has died on this machine."""
        pid, host = _PEERS[rank]
        told = any(_store().check([f"{word}/{rank}"]) for word in ("well", "failed"))
        return told or (host == socket.gethostname() and not is_running(pid))

    def _describe_rank(self, rank: int, timed_out: bool) -> str:
        pid, host = _PEERS[rank]
        who = f"rank {rank} (process {pid} on {host})"
        if _store().check([f"failed/{rank}"]):
            return f"{who} has failed: {_store().get(f'failed/{rank}').decode()}"
        is_here = host == socket.gethostname()
        if is_here and not is_running(pid):
            return f"{who} has died, for instance by SIGKILL, which the system sends if memory is short"
        if is_here:
            kill(pid)
        if timed_out or is_here:
            ended = " and was ended" if is_here else ""
            return f"{who} has not answered for {self.timeout:,.0f} s (`{RANK_TIMEOUT}`){ended}"
        return f"{who} has died, or its machine cannot be reached"


class Heartbeats:
    """Watches the heartbeats of the other ranks.

    Their silence is counted in this process's running time, so that a process that was suspended itself reports no
    other rank.
    """

    def __init__(self, ranks: DistributedContext) -> None:
        self.apart: float = get_heartbeat_interval(ranks)
        self._ranks = ranks
        self._others = [f"beat/{rank}" for rank in range(ranks.world_size) if rank != ranks.rank]
        self._seen: dict[str, bytes] = {}
        self._silent: dict[str, float] = {}

    def look(self, seconds: float) -> None:
        """Checks the heartbeats, `seconds` after the last check. Raises _SilenceError for silent ranks."""
        if not _STORE:  # a script has initialized torch.distributed
            return
        for name in self._others:  # a rank that hangs from the start has sent none yet
            beat = _store().get(name) if _store().check([name]) else b""
            self._silent[name] = 0.0 if self._seen.get(name) != beat else self._silent[name] + seconds
            self._seen[name] = beat
        if silent := [name for name in self._others if self._silent[name] > self._ranks.timeout]:
            raise _SilenceError([int(name.partition("/")[2]) for name in silent])


def get_heartbeat_interval(ranks: DistributedContext) -> float:
    """Returns the seconds between two heartbeats."""
    return min(BEAT, ranks.timeout / 4)


def give_signs(ranks: DistributedContext) -> None:
    """Starts a thread that sends heartbeats of this rank until its process ends."""
    ended = threading.Event()
    store = _connection()

    def beat() -> None:
        number = 0
        with suppress(RuntimeError):  # the launcher has ended
            while not ended.wait(get_heartbeat_interval(ranks) if number else 0.0):
                store.set(f"beat/{ranks.rank}", str(number := number + 1))

    thread = threading.Thread(target=beat, name="signs of life", daemon=True)
    thread.start()

    def end() -> None:
        ended.set()
        thread.join(ASKED)  # before the interpreter shuts down

    atexit.register(end)


SINGLE_PROCESS = DistributedContext()
"""The only process of a training."""

_JOINED: dict[DistributedContext, Any] = {}
"""The process group whose operations end after `timeout`, by its context: at most one entry."""
_PATIENTLY: dict[DistributedContext, Any] = {}
"""The process group that waits for the work of rank 0 alone, likewise."""
_PEERS: list[tuple[int, str]] = []
"""Process and machine of each rank."""
_STORE: list[Any] = []


def is_distributed() -> bool:
    """Returns True if torchrun, or a launcher with the same variables, has started several processes."""
    return all(os.environ.get(name) for name in ("RANK", "MASTER_ADDR", "MASTER_PORT")) and _number("WORLD_SIZE") > 1


def local_device(device: torch.device) -> torch.device:
    """Returns the device of this process: if no GPU is named, the GPU of its local rank.

    Raises ConfigError if this machine has fewer GPUs than processes.
    """
    if device.type != "cuda" or device.index is not None or not is_distributed():
        return device
    local, found = _number("LOCAL_RANK"), torch.cuda.device_count()
    if local >= found:
        raise ConfigError(
            f"rank {_number('RANK')} has no GPU: this machine has {found}, and {_number('LOCAL_WORLD_SIZE')} ranks",
            f'start {found} ranks on it, or train on the CPU with `device="cpu"`',
        )
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    return device


def init_distributed(device: torch.device) -> DistributedContext:
    """Initializes torch.distributed if torchrun has started several processes; otherwise returns SINGLE_PROCESS.

    Raises ConfigError for an invalid timeout, LostRankError if the others cannot be found within JOINING.
    """
    if not is_distributed():
        return SINGLE_PROCESS
    if _JOINED:
        return next(iter(_JOINED))
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    ranks = DistributedContext(_number("RANK"), _number("WORLD_SIZE"), _timeout())
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if not dist.is_initialized():  # otherwise a script has done so
        try:
            store, rank, count = next(iter(rendezvous("env://", timeout=JOINING)))
        except RuntimeError as error:
            where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
            raise LostRankError(
                f"rank {ranks.rank} has not reached the other ranks at {format_value(where)} within "
                f"{JOINING.total_seconds():,.0f} s"
            ) from error
        # The launcher keeps its store when it restarts all ranks: entries of the earlier ranks must not be read.
        store = PrefixStore(f"pellucid/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        _STORE.append(store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=JOINING)
    _JOINED[ranks] = dist.new_group(backend=backend, timeout=timedelta(seconds=ranks.timeout))
    _PATIENTLY[ranks] = dist.new_group(backend="gloo", timeout=PATIENT)
    _PEERS[:] = ranks.gather((os.getpid(), socket.gethostname()))
    if _STORE:
        _STORE[0] = _connection()
        give_signs(ranks)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        stop_with_parent(os.getppid())  # from here on there is state to save
    return ranks


def report_failure(reason: str) -> None:
    """Reports to the other ranks why this one ends."""
    if _STORE:
        with suppress(RuntimeError):
            _STORE[0].set(f"failed/{_number('RANK')}", reason)


def has_first_rank_reported() -> bool:
    """Returns True if rank 0 has reported, within some seconds, why the job ends, so that the others need not."""
    if not _STORE:  # only settings have been read, which are the same for all ranks on this machine
        time.sleep(ASKED)
        return _number("LOCAL_RANK") > 0
    until = time.monotonic() + 2 * ASKED
    with suppress(RuntimeError):
        while time.monotonic() < until:
            if _STORE[0].check(["failed/0"]):
                return True
            time.sleep(0.05)
    return False


def _store() -> Any:
    if not _STORE:
        raise RuntimeError("another process has joined the ranks")
    return _STORE[0]


def _connection() -> Any:
    """Returns a separate connection to the store with a short timeout, which does not wait for other calls."""
    connection = _store().clone()
    connection.set_timeout(ANSWERING)
    return connection


def _timeout() -> float:
    given = os.environ.get(RANK_TIMEOUT, "")
    try:
        seconds = float(given or TIMEOUT)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < PATIENT.total_seconds():
        raise ConfigError(
            f"`{RANK_TIMEOUT}` in the environment ({format_value(given)}) is not a number of seconds above 0 and below "
            f"{PATIENT.total_seconds():,.0f}",
            f"set the number of seconds that a rank may delay the others within a step, such as {TIMEOUT:.0f}",
        )
    return seconds


def _number(name: str) -> int:
    try:
        return int(os.environ.get(name, "") or 0)
    except ValueError:
        raise ConfigError(
            f"`{name}` in the environment ({format_value(os.environ[name])}) is not a number",
            "let torchrun set it, or unset it: it is set for distributed training",
        ) from None
