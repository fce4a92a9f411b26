"""A few tries of everything that a stranger may have written; `python -m tests.fuzz.run_long` makes many."""

import mmap
import os
import random
import signal
import time
from pathlib import Path

import pytest

from pellucid.errors import DataError
from tests.fuzz import trying
from tests.fuzz.changing import ODD, as_json, changed_bytes, changed_table
from tests.fuzz.subjects import SUBJECTS, WITH_TOKENIZERS
from tests.fuzz.trying import Found, try_out

FEW = 12
MANY = 200
LONG = {"run folders": 20}
"""Of these a try is a whole training."""


@pytest.fixture(autouse=True)
def _without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def tried(subject: str, count: int, folder: Path, random_seed: int) -> Found:
    attempt = (SUBJECTS | WITH_TOKENIZERS)[subject](folder / "sound")
    return try_out(attempt, str(random_seed), range(count), folder / "tries")


@pytest.mark.parametrize("subject", [subject for subject in SUBJECTS if subject not in LONG])
def test_what_is_damaged_is_refused_with_a_sentence(subject: str, tmp_path: Path) -> None:
    found = tried(subject, FEW, tmp_path, draw_seed())
    assert found.faults == []
    assert found.tries == FEW


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
def test_and_so_it_is_in_many_tries(subject: str, tmp_path: Path) -> None:
    found = tried(subject, LONG.get(subject, MANY), tmp_path, draw_seed())
    assert found.faults == []
    assert found.tries == LONG.get(subject, MANY)


@pytest.mark.foreign
@pytest.mark.parametrize("subject", WITH_TOKENIZERS)
def test_a_foreign_tokenizer_that_is_damaged_is_refused(subject: str, tmp_path: Path) -> None:
    assert tried(subject, MANY, tmp_path, draw_seed()).faults == []


def draw_seed() -> int:
    """A seed that is another one each time, and printed with a failure."""
    return random.randrange(10**6)  # pytest-randomly seeds it


@pytest.mark.slow
def test_each_kind_of_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that tries is worth something only where it notices: errors, deaths, delays, memory."""
    monkeypatch.setattr(trying, "SECONDS", 3)
    monkeypatch.setattr(trying, "MEMORY", 2**28)
    ends = [
        lambda: None,
        lambda: (_ for _ in ()).throw(DataError("refused")),
        lambda: 1 // 0,
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        lambda: time.sleep(60),
        lambda: mmap.mmap(-1, 2**30),  # new address space, whatever this process has freed
        lambda: bytearray(2**27),
    ]

    def attempt(draw: random.Random, folder: Path) -> None:
        ends[int(folder.name)]()  # type: ignore[no-untyped-call]

    found = try_out(attempt, "0", range(len(ends)), tmp_path)
    assert found.counts == {"fine": 2, "refused": 1, "bare": 2, "killed": 1, "late": 1}
    assert [(fault["try"], fault["what"].partition(":")[0]) for fault in found.faults] == [
        (2, "ZeroDivisionError"), (3, "SIGKILL"), (4, "SIGALRM"), (5, "OSError"),
    ]  # fmt: skip
    assert found.growth >= 2**26


def test_a_change_is_one_and_is_drawn_by_the_seed() -> None:
    table = {"a": [1, {"b": "c"}], "d": None}
    made = [as_json(changed_table(table, random.Random(seed))) for seed in range(50)]
    assert made == [as_json(changed_table(table, random.Random(seed))) for seed in range(50)]
    assert len(set(made)) > 20
    assert table == {"a": [1, {"b": "c"}], "d": None}
    assert len({changed_bytes(b"some bytes", random.Random(seed)) for seed in range(50)}) > 20
    assert changed_table(5, random.Random(0)) in ODD
