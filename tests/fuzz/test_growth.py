"""Time and memory grow at most in proportion to what a stranger brings; `python -m tests.fuzz.growth` makes a table."""

from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import growth
from tests.fuzz.growth import MOST, SUBJECTS, Growth, grown

pytestmark = pytest.mark.slow


def _mark(subject: str) -> Any:
    """Parquet needs a library that only the tests beside foreign libraries install."""
    return pytest.param(subject, marks=pytest.mark.foreign) if "Parquet" in subject else subject


@pytest.mark.parametrize("subject", [_mark(subject) for subject in SUBJECTS])
def test_no_doubling_takes_more_than_threefold(subject: str, tmp_path: Path) -> None:
    found = grown(subject, 3, tmp_path)
    assert max(found.factors) <= MOST, found


def test_what_is_quadratic_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUBJECTS, "quadratic", (400, lambda n, _: lambda: [n - k for n in range(n) for k in range(n)]))
    monkeypatch.setattr(growth, "LEAST_SECONDS", 0.005)
    assert max(grown("quadratic", 3, tmp_path).factors) > MOST


def test_what_is_too_little_to_be_compared_is_not() -> None:
    assert Growth([0.001, 0.01, 0.04], [0.0, 1.0, 9.0]).factors == (0.0, 0.0)
    assert Growth([0.1, 0.2, 0.4, 6.4], [100.0, 200.0, 400.0, 400.0]).factors == (pytest.approx(32**0.5), 2.0)
