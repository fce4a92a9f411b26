"""Tries of what could break, each in a process with a limit of memory and of time; what came of them, in numbers."""

import json
import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.errors import PellucidError

MEMORY = 3 * 2**30
"""Bytes of address space that a try may take beyond what the process has when it begins."""
SECONDS = 60
"""Seconds of a try. Each takes far less where nothing is wrong; machines differ."""
BATCH = 50
"""Tries that share a process, while it lives."""

Attempt = Callable[[random.Random, Path], object]
"""One try in an empty folder. It returns, or raises a PellucidError; whatever else happens is a fault."""


@dataclass
class Found:
    """What came of the tries of one subject."""

    counts: Counter[str] = field(default_factory=Counter)
    """fine, refused (with a PellucidError), bare (another error), killed (by a signal), late."""
    faults: list[dict[str, Any]] = field(default_factory=list)
    """Of each try that is a fault: its number, and what happened."""
    growth: int = 0
    """The most bytes by which a process of them grew."""
    slowest: float = 0.0
    """The most seconds of the processor that a try took."""

    @property
    def tries(self) -> int:
        """How many there were."""
        return sum(self.counts.values())


def try_out(attempt: Attempt, seed: str, numbers: range, folder: Path) -> Found:
    """Makes the tries `numbers`; each draws by its own number, so that it can be made again alone."""
    found, first = Found(), numbers.start
    while first < numbers.stop:
        batch = range(first, min(first + BATCH, numbers.stop))
        first = _in_child(attempt, seed, batch, folder, found)
    return found


def _in_child(attempt: Attempt, seed: str, batch: range, folder: Path, found: Found) -> int:
    """Makes a batch in a process of its own; returns the number of the next try, which is earlier where it died."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        with suppress(BaseException):
            _be_the_child(attempt, seed, batch, folder, writer)
            status = 0
        os._exit(status)
    os.close(writer)
    begun = batch.start - 1
    with os.fdopen(reader, encoding="utf-8") as lines:
        for line in lines:
            told = json.loads(line)
            if "begun" in told:
                begun = told["begun"]
                continue
            found.counts[told["came"]] += 1
            found.growth = max(found.growth, told["growth"])
            found.slowest = max(found.slowest, told["seconds"])
            if told["came"] not in ("fine", "refused"):
                found.faults.append({"try": begun, "what": told["what"]})
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = signal.Signals(os.WTERMSIG(status))
        came = "late" if number == signal.SIGALRM else "killed"
        found.counts[came] += 1
        found.faults.append({"try": begun, "what": number.name})
        return begun + 1
    assert os.WEXITSTATUS(status) == 0, "the child says what happens, or dies of it"
    return batch.stop


def _be_the_child(attempt: Attempt, seed: str, batch: range, folder: Path, writer: int) -> None:
    """Makes the tries, and tells of each before and after it."""
    import torch

    torch.set_num_threads(1)
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (as long as the process lives)
    told = Path("/proc/self/statm")
    if told.exists():  # Linux tells how much it has, and holds it to a limit; elsewhere growth is measured alone
        taken = int(told.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    before = _resident()

    def tell(**facts: Any) -> None:
        os.write(writer, json.dumps(facts).encode() + b"\n")

    warnings.simplefilter("ignore")  # a warning is no fault
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for number in batch:
        tell(begun=number)
        own = folder / str(number)
        own.mkdir(parents=True)
        signal.alarm(SECONDS)
        came, what, start = "fine", "", time.process_time()
        try:
            attempt(random.Random(f"{seed}:{number}"), own)
        except PellucidError:
            came = "refused"
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            came, what = (
                "bare",
                f"{type(error).__name__}: {str(error)[:200]} ({Path(place.filename).name}:{place.lineno})",
            )
        signal.alarm(0)
        tell(came=came, what=what, growth=max(0, _resident() - before), seconds=time.process_time() - start)
        _remove(own)


def _resident() -> int:
    """The most memory that this process has had at a time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _remove(folder: Path) -> None:
    """A folder with all that a try left in it: loops of links and pipes, too."""
    for path in sorted(folder.rglob("*"), reverse=True):
        with suppress(OSError):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    with suppress(OSError):
        folder.rmdir()
