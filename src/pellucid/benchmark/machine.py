"""Measures the machine: its processor, peak speed, and the memory of processes."""

import platform
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path

import torch

from pellucid.benchmark.times import time_call
from pellucid.model.fast.products import matmul_nt

PEAK_SIZE = 1024
ROUNDS = 20


def cpu_model() -> str:
    """Returns the processor's name, as far as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def matrix_peak(dtype: torch.dtype = torch.float32, rounds: int = ROUNDS) -> float:
    """Returns the operations per second of a product of two 1,024 x 1,024 matrices, the best of `rounds` rounds.

    In single precision it is the faster of PyTorch's product and of Pellucid's. It bounds a model's speed, and
    is measured again in each round, since the speed of a machine varies by the minute. 8-bit integers are accumulated
    in 32 bits. Raises RuntimeError for a dtype whose products torch lacks here.
    """
    if dtype == torch.int8:
        a, b = (torch.randint(-100, 100, (PEAK_SIZE, PEAK_SIZE), dtype=dtype) for _ in range(2))
        least = min(time_call(lambda: torch._int_mm(a, b)) for _ in range(rounds))
    else:
        a, b, out = (torch.rand(PEAK_SIZE, PEAK_SIZE).to(dtype) for _ in range(3))
        sides = (lambda: torch.mm(a, b, out=out)), (lambda: matmul_nt(a, b))
        least = min(time_call(side) for side in islice(cycle(sides), rounds))
    return 2 * PEAK_SIZE**3 / least


def measure_memory(pids: Iterable[int]) -> float | None:
    """Returns the bytes of memory of several processes: the private memory of each, and the shared memory once.

    Returns None if the system does not report them; Linux does.
    """
    own, shared = 0, 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            return None
        kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        private = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
        own, shared = own + private, max(shared, kilobytes["Rss"] - private)
    return 1024.0 * (own + shared)
