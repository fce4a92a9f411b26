"""Process-wide settings that a command makes for its own process. Importing Pellucid changes none of them."""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def _list_existing_signals(*names: str) -> tuple[signal.Signals, ...]:
    """Returns the signals with these names that exist on this system."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


WARNING_SIGNALS = _list_existing_signals("SIGHUP", "SIGBREAK", "SIGUSR1", "SIGUSR2", "SIGXCPU")
"""Stop signals that precede another signal and may arrive several times: a closed terminal (SIGHUP), a closed window on
Windows (SIGBREAK), the warning that a scheduler sends before its time limit (Slurm's `--signal`), a CPU limit."""
STOP_SIGNALS = (*_list_existing_signals("SIGTERM"), *WARNING_SIGNALS)
"""The signals that request a process to stop, except Ctrl-C."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
ONE_GIGABYTE, MOST_MAPPED = 1 << 30, 32 << 20
PR_SET_PDEATHSIG = 1


def get_peak_memory() -> int:
    """Returns the peak memory of this process in bytes, or 0 if the system does not count it."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0
    # Kilobytes, except on macOS, where it is bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def keep_freed_memory() -> bool:
    """Makes glibc keep freed blocks for the next allocation instead of returning each large block to the kernel.

    A training step frees and allocates the same large blocks hundreds of times; fresh pages cost more than the
    arithmetic on them (benchmarks/training_speed.py). Returns True if it was set, which requires glibc on Linux.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library, such as musl
        return False
    # Set separately, since one may be refused alone. Older versions accept at most 32 MB.
    mapped = mallopt(M_MMAP_THRESHOLD, ONE_GIGABYTE) or mallopt(M_MMAP_THRESHOLD, MOST_MAPPED)
    trimmed = mallopt(M_TRIM_THRESHOLD, ONE_GIGABYTE)
    return bool(mapped) and bool(trimmed)


def count_cores() -> int:
    """Returns the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


@contextmanager
def keep_torch_threads() -> Iterator[None]:
    """Restores PyTorch's number of threads at exit, if PyTorch is imported: CTranslate2 changes the number."""
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 0
    try:
        yield
    finally:
        if torch:
            torch.set_num_threads(threads)


def stop_with_parent(parent: int, number: int = signal.SIGTERM) -> None:
    """Makes this process receive a signal when the thread that started it dies for any reason (Linux only).

    Args:
        parent: the process id of that thread. If that process is already gone, this process exits at once.
        number: the signal.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number))
    except AttributeError:  # a C library without it
        return
    if os.getppid() != parent:
        sys.exit(128 + number)
