"""What all tests share: nothing in them is left to chance."""

import os

# Before torch is imported, and for the processes that tests start: small tensors gain nothing from more threads, and
# threads that wait for each other are slow where cores are shared.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["PELLUCID_OFFLINE"] = "1"  # no test fetches anything by accident

import gc
from collections.abc import Callable

import pytest
import torch
from hypothesis import settings

from pellucid.model.fast import queue

# The same examples each time, and no verdict that hangs on the speed of the machine.
settings.register_profile("pellucid", derandomize=True, deadline=None)
settings.load_profile("pellucid")


@pytest.fixture(autouse=True)
def _seed() -> None:
    """The same random numbers in each test, whatever ran before it."""
    # Not torch.manual_seed(): it notes the whole call stack for each kind of device that is not there.
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`queued("cpu")` has a CPU taken for a device with a queue, as a GPU is; `queued("")` ends that.

    `queued("meta")` does it for tensors that hold no numbers: whatever waits for one, or looks for places whose number
    nothing but the numbers tells, raises an error there.
    """

    def choose(*types: str) -> None:
        monkeypatch.setattr(queue, "QUEUED", {*types})

    return choose


def pytest_collection_finish() -> None:
    """Collected tests and imported modules stay: the garbage collector need not look through them again and again."""
    gc.freeze()
