"""What a machine can do, and what processes take of it."""

import os
import platform
import sys

import pytest
import torch

from pellucid.benchmark import machine
from pellucid.benchmark.machine import cpu_model, matrix_peak, measure_memory
from pellucid.benchmark.times import format_times, summarize_times_with_p95


def test_a_peak_is_operations_over_the_least_time(monkeypatch: pytest.MonkeyPatch) -> None:
    took = iter([0.5, 0.25, 1.0])
    monkeypatch.setattr(machine, "time_call", lambda call: call() is None or next(took))
    monkeypatch.setattr(machine, "PEAK_SIZE", 64)
    assert matrix_peak(rounds=3) == 2 * 64**3 / 0.25


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_each_type_has_one(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    monkeypatch.setattr(machine, "PEAK_SIZE", 64)
    assert matrix_peak(dtype, rounds=1) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells it")
def test_memory_is_what_processes_have_and_once_what_they_share() -> None:
    one = measure_memory([os.getpid()])
    assert one is not None
    assert 50e6 < one < 50e9
    twice = measure_memory([os.getpid()] * 2)
    assert twice is not None
    assert one < twice < 2 * one
    assert measure_memory([2**30]) is None


def test_a_processor_has_a_name() -> None:
    assert cpu_model() or not platform.processor()


def test_a_spread_in_words() -> None:
    values = [0.001 * n for n in range(1, 102)]
    found = summarize_times_with_p95(values)
    assert found == {"median": 0.051, "min": 0.001, "max": 0.101, "p95": 0.096}
    assert format_times(found) == "0.051 (0.001-0.101)"
    assert format_times({"median": 1480.4, "min": 99.94, "max": 1700.0}) == "1,480 (99.9-1,700)"
