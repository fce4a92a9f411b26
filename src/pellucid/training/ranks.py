"""The processes of one training: their parts of a step, what they tell each other, and what is said where one is lost.

torchrun starts them, or `pellucid train --ranks N`, each with its number, the rank, in the environment.
`torch.distributed` carries what they tell each other: Gloo between processors, NCCL between GPUs. A single process is
`ALONE`: everything here is then a line that does nothing.
"""

import atexit
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError, PellucidError, shown

TIMEOUT = 40.0
"""Seconds that a rank waits for the others' part of a step, unless RANK_TIMEOUT says otherwise."""
RANK_TIMEOUT = "PELLUCID_RANK_TIMEOUT"
"""The environment variable with that number."""
JOINING = timedelta(minutes=5)
"""The wait for ranks that are being started."""
PATIENT = timedelta(days=1)
"""The wait for what one rank does alone, as reading texts and writing checkpoints. One that dies is noticed."""
ANSWERING = timedelta(seconds=10)
"""The wait for an answer of the store in which ranks look each other up: its process may hang, too."""
BEAT = 1.0
"""Seconds between two signs of life, by which those that wait so long tell a rank that works from one that hangs."""
ASKED = 3.0
"""Seconds in which a rank that is well answers that it has lost another one, too."""
BUCKET = 1 << 24
"""The numbers of a gradient that are added up at a time: so many take 64 MB, twice."""

GOES_ON = "the same command goes on from the last checkpoint; with `max_restarts=1` it does so once by itself"
_T = TypeVar("_T")


class LostRankError(PellucidError):
    """Is raised where another rank has died, does not answer, or has failed: the job is over.

    `speaks` is true of one of the ranks that are left: it is the one to say so.
    """

    def __init__(self, message: str, speaks: bool = True) -> None:
        super().__init__(message, GOES_ON)
        self.speaks = speaks


class _SilenceError(RuntimeError):
    """Is raised by a wait for ranks that give no sign of life."""

    def __init__(self, ranks: Sequence[int]) -> None:
        super().__init__("timed out")
        self.ranks = ranks


@dataclass(frozen=True)
class Ranks:
    """Says which of how many processes this one is, and what they do together.

    Every method is called by all ranks, in the same order; it raises LostRankError where one of them does not.
    """

    rank: int = 0
    count: int = 1
    timeout: float = TIMEOUT

    @property
    def is_first(self) -> bool:
        """Returns whether this is the rank that writes, and speaks."""
        return self.rank == 0

    def place(self, number: int) -> int:
        """Returns the place, within a step, of this rank's batch of that number: rank r takes r, r + count, ..."""
        return self.rank + number * self.count

    def exchange(self, numbers: Sequence[float]) -> list[list[float]]:
        """Returns the numbers of each rank, by rank."""
        if self.count == 1:
            return [list(numbers)]
        import torch.distributed as dist

        own = torch.tensor(numbers, dtype=torch.float64)
        all_of_them = list(torch.empty(self.count, len(own), dtype=torch.float64).unbind())
        with self._noticing():
            dist.all_gather(all_of_them, own, group=_JOINED[self])
        return [each.tolist() for each in all_of_them]

    def any(self, flag: bool) -> bool:
        """Returns whether it is true of one rank."""
        return any(told for (told,) in self.exchange([flag]))

    def gather(self, value: _T) -> list[_T]:
        """Returns a value of each rank, by rank: text, numbers, what can be pickled. However long the slowest takes."""
        if self.count == 1:
            return [value]
        import torch.distributed as dist

        found: list[_T] = [value] * self.count
        self.wait()
        with self._noticing():
            dist.all_gather_object(found, value, group=_JOINED[self])
        return found

    def of_first(self, make: Callable[[], _T]) -> _T:
        """Returns what the first rank alone makes, which the others wait for. All raise its error where it has one."""
        if self.count == 1:
            return make()
        import torch.distributed as dist

        told: list[Any] = [None, None]
        if self.is_first:
            try:
                told = [make(), None]
            except PellucidError as error:
                told = [None, error]
        self.wait()
        with self._noticing():
            dist.broadcast_object_list(told, src=0, group=_JOINED[self])
        if isinstance(told[1], PellucidError):
            raise told[1]
        return cast(_T, told[0])

    def wait(self) -> None:
        """Waits until all are here, however long it takes; for `timeout` where one gives no sign of life."""
        if self.count == 1:
            return
        import torch.distributed as dist

        with self._noticing():
            arrived = dist.barrier(group=_PATIENTLY[self], async_op=True)
            signs, pause, since = Signs(self), 0.0005, 0.0
            while not arrived.is_completed():
                time.sleep(pause)
                since, pause = since + pause, min(2 * pause, 0.02)
                if since >= signs.apart:
                    signs.look(since)
                    since = 0.0
            arrived.wait()  # raises what went wrong

    @property
    def group(self) -> Any:
        """Returns the group of processes whose waits end after `timeout`, for what else they do together."""
        return _JOINED[self]

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Puts the sum over ranks in the place of each tensor.

        Each rank adds up one part of them, in the order of the ranks, and hands its sum to the others: so the sum does
        not depend on how the network carries it, and all ranks have the same, bit by bit.
        """
        if self.count == 1:
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
        share = -(-size // self.count)
        flat = tensors[0].new_zeros(self.count, share)
        torch.cat([tensor.flatten() for tensor in tensors], out=flat.view(-1)[:size])
        parts = torch.empty_like(flat)
        with self._noticing():
            dist.all_to_all_single(parts, flat, group=_JOINED[self])
            total = parts[0]
            for part in parts[1:]:
                total += part
            dist.all_gather(list(flat.unbind()), total, group=_JOINED[self])
        start = 0
        for tensor in tensors:
            tensor.copy_(flat.view(-1)[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()

    def same_weights(self, model: nn.Module) -> None:
        """Gives all ranks the first one's parameters and buffers, as those of one's own model may be random."""
        if self.count > 1:
            import torch.distributed as dist

            with self._noticing():
                for tensor in (*model.parameters(), *model.buffers()):
                    dist.broadcast(tensor.data, src=0)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Says of a connection that is closed, or of a wait that is over, which rank it was."""
        try:
            yield
        except RuntimeError as error:
            raise self.lost(error) from error

    def lost(self, error: BaseException) -> LostRankError:
        """Returns what there is to say of the ranks that do not answer; those on this machine that hang are ended."""
        for number in (signal.SIGTERM, signal.SIGINT):  # torchrun sends them, since the same rank is lost
            with suppress(ValueError):
                signal.signal(number, signal.SIG_IGN)
        timed_out = "timed out" in str(error).lower()
        with suppress(RuntimeError):
            silent = self._silent()
            speaks = self.rank == min(set(range(self.count)) - set(silent))
            if isinstance(error, _SilenceError):  # another one that did not answer may be at work alone
                silent = [*error.ranks]
            if silent:
                return LostRankError("; ".join(self._said_of(rank, timed_out) for rank in silent), speaks)
        return LostRankError(f"the connection to the other ranks is lost: {str(error).partition(chr(10))[0]}")

    def _silent(self) -> list[int]:
        """Returns the ranks that have failed, or do not say in time that they are well."""
        store, others = _store(), [rank for rank in range(self.count) if rank != self.rank]
        store.set(f"well/{self.rank}", "")
        until = time.monotonic() + ASKED
        while time.monotonic() < until and not all(self._is_decided(rank) for rank in others):
            time.sleep(0.05)
        return [rank for rank in others if store.check([f"failed/{rank}"]) or not store.check([f"well/{rank}"])]

    def _is_decided(self, rank: int) -> bool:
        """Returns whether a rank has said that it is well, or that it has failed, or has died on this machine."""
        pid, host = _PEERS[rank]
        told = any(_store().check([f"{word}/{rank}"]) for word in ("well", "failed"))
        return told or (host == socket.gethostname() and not _is_running(pid))

    def _said_of(self, rank: int, timed_out: bool) -> str:
        pid, host = _PEERS[rank]
        who = f"rank {rank} (process {pid} on {host})"
        if _store().check([f"failed/{rank}"]):
            return f"{who} has failed: {_store().get(f'failed/{rank}').decode()}"
        is_here = host == socket.gethostname()
        if is_here and not _is_running(pid):
            return f"{who} has died, as by SIGKILL; where memory does not suffice, the system sends that"
        if is_here and hasattr(signal, "SIGKILL"):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if timed_out or is_here:
            ended = " and was ended" if is_here else ""
            return f"{who} has not answered for {self.timeout:,.0f} s (`{RANK_TIMEOUT}`){ended}"
        return f"{who} has died, or its machine cannot be reached"


class Signs:
    """Looks for the others' signs of life.

    Their silence is counted in time that passes for this process, so that one which was stopped, too, blames nobody.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.apart: float = apart(ranks)
        self._ranks = ranks
        self._others = [f"beat/{rank}" for rank in range(ranks.count) if rank != ranks.rank]
        self._seen: dict[str, bytes] = {}
        self._silent: dict[str, float] = {}

    def look(self, seconds: float) -> None:
        """Looks, so many seconds after the look before. Raises _SilenceError for ranks that are silent too long."""
        if not _STORE:  # a script has joined them
            return
        for name in self._others:  # one that hangs at once has given no sign yet
            beat = _store().get(name) if _store().check([name]) else b""
            self._silent[name] = 0.0 if self._seen.get(name) != beat else self._silent[name] + seconds
            self._seen[name] = beat
        if silent := [name for name in self._others if self._silent[name] > self._ranks.timeout]:
            raise _SilenceError([int(name.partition("/")[2]) for name in silent])


def apart(ranks: Ranks) -> float:
    """Returns the seconds between two signs of life."""
    return min(BEAT, ranks.timeout / 4)


def give_signs(ranks: Ranks) -> None:
    """Has this rank give signs of life, whatever it does, until its process ends."""
    ended = threading.Event()
    store = _connection()

    def beat() -> None:
        number = 0
        with suppress(RuntimeError):  # the launcher has gone
            while not ended.wait(apart(ranks) if number else 0.0):
                store.set(f"beat/{ranks.rank}", str(number := number + 1))

    thread = threading.Thread(target=beat, name="signs of life", daemon=True)
    thread.start()

    def end() -> None:
        ended.set()
        thread.join(ASKED)  # before the interpreter is taken down around it

    atexit.register(end)


ALONE = Ranks()
"""The only process of a training."""

_JOINED: dict[Ranks, Any] = {}
"""The group whose waits end after `timeout`, by the ranks that have joined it: one entry, or none."""
_PATIENTLY: dict[Ranks, Any] = {}
"""The group that waits for what the first rank does alone, likewise."""
_PEERS: list[tuple[int, str]] = []
"""Process and machine of each rank."""
_STORE: list[Any] = []


def is_one_of_several() -> bool:
    """Returns whether torchrun, or what sets the same variables, has started this process as one of several."""
    return all(os.environ.get(name) for name in ("RANK", "MASTER_ADDR", "MASTER_PORT")) and _number("WORLD_SIZE") > 1


def local_device(device: torch.device) -> torch.device:
    """Returns the device of this process: of several GPUs, where none is named, that of its number on this machine.

    Raises ConfigError where this machine has fewer GPUs than processes.
    """
    if device.type != "cuda" or device.index is not None or not is_one_of_several():
        return device
    local, found = _number("LOCAL_RANK"), torch.cuda.device_count()
    if local >= found:
        raise ConfigError(
            f"rank {_number('RANK')} has no GPU: this machine has {found}, and {_number('LOCAL_WORLD_SIZE')} ranks",
            f'start {found} ranks on it, or train on the processor by `device="cpu"`',
        )
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    return device


def join(device: torch.device) -> Ranks:
    """Returns the ranks of this training, joined where torchrun has started several, else ALONE.

    Raises ConfigError for a time limit that is none.
    """
    if not is_one_of_several():
        return ALONE
    if _JOINED:
        return next(iter(_JOINED))
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    ranks = Ranks(_number("RANK"), _number("WORLD_SIZE"), _timeout())
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if not dist.is_initialized():  # else a script has done so
        store, rank, count = next(iter(rendezvous("env://")))
        # The launcher keeps its store when it starts all ranks once more: what those before wrote is not to be read.
        store = PrefixStore(f"pellucid/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        _STORE.append(store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=JOINING)
    _JOINED[ranks] = dist.new_group(backend=backend, timeout=timedelta(seconds=ranks.timeout))
    _PATIENTLY[ranks] = dist.new_group(backend="gloo", timeout=PATIENT)
    _PEERS[:] = ranks.gather((os.getpid(), socket.gethostname()))
    if _STORE:
        _STORE[0] = _connection()
        give_signs(ranks)
    return ranks


def tell_failure(reason: str) -> None:
    """Has the other ranks know why this one ends."""
    if _STORE:
        with suppress(RuntimeError):
            _STORE[0].set(f"failed/{_number('RANK')}", reason)


def first_has_told() -> bool:
    """Returns whether the first rank has said, within some seconds, why the job ends: then the others need not."""
    if not _STORE:  # nothing has been read yet but settings, which are the same for all on this machine
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
        raise RuntimeError("somebody else has joined the ranks")
    return _STORE[0]


def _connection() -> Any:
    """Returns a connection to the store of its own, which waits for no other's answer, and not for long."""
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
            f"`{RANK_TIMEOUT}` in the environment ({shown(given)}) is not a number of seconds above 0 and below "
            f"{PATIENT.total_seconds():,.0f}",
            f"set the seconds that a rank may keep the others waiting within a step, as {TIMEOUT:.0f}",
        )
    return seconds


def _number(name: str) -> int:
    try:
        return int(os.environ.get(name, "") or 0)
    except ValueError:
        raise ConfigError(
            f"`{name}` in the environment ({shown(os.environ[name])}) is not a number",
            "let torchrun set it, or unset it: it says how many processes train together",
        ) from None


def _is_running(pid: int) -> bool:
    """Returns whether a process of this machine runs, be it that it was stopped; not one that waits to be buried."""
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] != "Z"
        )
    if sys.platform == "linux":
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
