"""The machine: its processor, the most that it can do, and the memory that processes take of it."""

import platform
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path

import torch

from pellucid.measuring.times import seconds
from pellucid.model.fast.products import product

PEAK_SIZE = 1024
ROUNDS = 20


def cpu_model() -> str:
    """Returns the processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def matrix_peak(dtype: torch.dtype = torch.float32, rounds: int = ROUNDS) -> float:
    """Returns the operations a second of a product of two 1,024 x 1,024 matrices, the best of some rounds.

    In single precision it is the faster of PyTorch's own product and of the one that Pellucid takes. No step of a model
    can do more than this share of 1: it is taken in each round, since machines change by the minute. Whole numbers of 8
    bits are added up in 32. Raises RuntimeError for a type whose products torch does not have here.
    """
    if dtype == torch.int8:
        a, b = (torch.randint(-100, 100, (PEAK_SIZE, PEAK_SIZE), dtype=dtype) for _ in range(2))
        least = min(seconds(lambda: torch._int_mm(a, b)) for _ in range(rounds))
    else:
        a, b, out = (torch.rand(PEAK_SIZE, PEAK_SIZE).to(dtype) for _ in range(3))
        sides = (lambda: torch.mm(a, b, out=out)), (lambda: product(a, b))
        least = min(seconds(side) for side in islice(cycle(sides), rounds))
    return 2 * PEAK_SIZE**3 / least


def memory_of(pids: Iterable[int]) -> float | None:
    """Returns the bytes that processes take together: what each has for itself, and once what they share.

    None where the system does not tell, as Linux does.
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
