"""What all tests share: nothing in them is left to chance."""

import os

# Before torch is imported, and for the processes that tests start: small tensors gain nothing from more threads, and
# threads that wait for each other are slow where cores are shared.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# What is the same bit for bit is so on a CPU: a GPU is hidden, unless the variable says which one to test on.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ["PELLUCID_OFFLINE"] = "1"  # no test fetches anything by accident

import gc
import re
import signal
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from pellucid.model.fast import gpu
from tests import disk

disk.without_waiting()
if hasattr(signal, "SIGHUP"):  # under nohup it is ignored, and commands that are tested would ignore it, too
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

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
        monkeypatch.setattr(gpu, "GPU_TYPES", {*types})

    return choose


WHOLLY = {
    "browser": ("tests/browser",),
    "slow": ("tests/unit/benchmarks",),
    "foreign": ("tests/parity/export", "tests/parity/foreign_tokenizers", "tests/parity/hugging_face"),
}
"""Folders of which every test has that mark (tests/project/lint.py): where it is left out, they are not read."""


MARKS = "slow", "foreign", "browser", "types"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Passes over folders whose tests would all be left out, and over files that do not name the mark asked for."""
    chosen = config.getoption("markexpr")
    asked = [mark for mark in MARKS if re.search(rf"(?<!not ){mark}", chosen)]
    if asked and collection_path.suffix == ".py":
        text = collection_path.read_text(encoding="utf-8")
        return None if any(mark in text for mark in asked) else True
    left_out = {folder for mark, folders in WHOLLY.items() if f"not {mark}" in chosen for folder in folders}
    return True if collection_path.is_dir() and _place(collection_path, config) in left_out else None


def _place(path: Path, config: pytest.Config) -> str:
    return path.relative_to(config.rootpath).as_posix() if path.is_relative_to(config.rootpath) else ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Selects one part of the long suites: `PELLUCID_TEST_PART=7/4` selects part 3 of 4.

    The long suites are the tests with a mark, and those that `make numerics` repeats; others are always selected.
    """
    number, _, parts = os.environ.get("PELLUCID_TEST_PART", "0/1").partition("/")
    chosen, repeats = int(number) % int(parts), "ATEN_CPU_CAPABILITY" in os.environ
    left_out = {
        item
        for item in items
        if (repeats or any(item.get_closest_marker(mark) for mark in ("slow", "foreign", "browser")))
        and zlib.crc32(item.nodeid.encode()) % int(parts) != chosen
    }
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Collected tests and imported modules stay: the garbage collector need not look through them again and again."""
    gc.freeze()
