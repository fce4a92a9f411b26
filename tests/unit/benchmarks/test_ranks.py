"""Runs the benchmark of ranks in small."""

from collections.abc import Callable

import pytest

from tests.unit.benchmarks.conftest import Ran

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_a_trial(run_script: Callable[..., Ran]) -> None:
    table, _ = run_script("ranks", "--quick", "--cores", "2")
    assert table["equal"]
    assert [*table["tokens a second"]] == ["1 x 2 threads", "2 x 1 threads"]
