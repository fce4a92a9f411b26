"""The settings that a command makes for its own process. Importing Pellucid changes nothing of it."""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
ONE_GIGABYTE, MOST_MAPPED = 1 << 30, 32 << 20
PR_SET_PDEATHSIG = 1


def most_memory() -> int:
    """Returns the most bytes of memory that this process has had so far; 0 where the system does not count them."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0
    # Kilobytes, but on a Mac.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def keep_freed_memory() -> bool:
    """Has glibc keep freed blocks for the next allocation instead of handing each large one back to the kernel.

    A training step frees and takes the same large blocks hundreds of times; fresh pages cost more than the arithmetic
    on them (benchmarks/training_speed.py). Returns whether it could be set: with glibc on Linux alone.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library, as musl
        return False
    # Each by itself: one that is refused is no reason to leave the other. Older versions take 32 MB at most.
    mapped = mallopt(M_MMAP_THRESHOLD, ONE_GIGABYTE) or mallopt(M_MMAP_THRESHOLD, MOST_MAPPED)
    trimmed = mallopt(M_TRIM_THRESHOLD, ONE_GIGABYTE)
    return bool(mapped) and bool(trimmed)


@contextmanager
def torch_threads_kept() -> Iterator[None]:
    """Leaves PyTorch, where a program has imported it, the threads that it has: CTranslate2 sets them to its own."""
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 0
    try:
        yield
    finally:
        if torch:
            torch.set_num_threads(threads)


def stop_with_parent(parent: int) -> None:
    """Has this process get SIGTERM when the one that started it dies, however that dies: with Linux alone.

    Args:
        parent: the number of that process. Where it is gone already, this one ends at once.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    except AttributeError:  # a C library without it
        return
    if os.getppid() != parent:
        sys.exit(128 + signal.SIGTERM)
