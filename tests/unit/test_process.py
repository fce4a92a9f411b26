"""What a command sets for its process: with glibc alone, and never by an import."""

import ctypes
import sys
from typing import Any

import pytest

from pellucid.process import ONE_GIGABYTE, keep_freed_memory


class Library:
    """Stands in for the C library; notes what is set."""

    def __init__(self, most: int = ONE_GIGABYTE) -> None:
        self.calls: list[tuple[int, int]] = []
        self.most = most

    def mallopt(self, parameter: int, value: int) -> int:
        if parameter == -3 and value > self.most:
            return 0
        self.calls.append((parameter, value))
        return 1


def test_glibc_is_told_to_keep_large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert keep_freed_memory()
    assert sorted(library.calls) == [(-3, ONE_GIGABYTE), (-1, ONE_GIGABYTE)]


def test_an_older_glibc_is_told_as_much_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(most=32 << 20)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert keep_freed_memory()
    assert sorted(library.calls) == [(-3, 32 << 20), (-1, ONE_GIGABYTE)]


@pytest.mark.parametrize(("platform", "library"), [("linux", object()), ("darwin", Library()), ("win32", Library())])
def test_elsewhere_nothing_is_set(monkeypatch: pytest.MonkeyPatch, platform: str, library: Any) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert not keep_freed_memory()
    assert getattr(library, "calls", []) == []
