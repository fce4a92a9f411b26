"""What all tests share: nothing in them is left to chance."""

import os

# Before torch is imported, and for the processes that tests start: small tensors gain nothing from more threads, and
# threads that wait for each other are slow where cores are shared.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["PELLUCID_OFFLINE"] = "1"  # no test fetches anything by accident

import gc

import pytest
import torch
from hypothesis import settings

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


def pytest_collection_finish() -> None:
    """Collected tests and imported modules stay: the garbage collector need not look through them again and again."""
    gc.freeze()
