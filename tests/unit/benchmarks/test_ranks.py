"""The benchmark of ranks: what it reckons, and a trial to its end."""

import json
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.unit.benchmarks.conftest import Ran

pytestmark = pytest.mark.slow


def test_what_is_reckoned(script: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: 8 GPUs send 7/8 of the gradient twice, 4 bytes each; twice the tokens take twice the computing."""
    rows = []
    for tokens in ("1000", "2000"):
        assert script("ranks").main(["--paper", "--tokens", tokens]) == 0
        rows.append(json.loads(capsys.readouterr().out)["paper"])
    base = rows[0]["base, 8 GPUs"]
    assert base["megabytes sent a rank"] == pytest.approx(2 * 4 * base["parameters"] * 7 / 8 / 1e6, abs=0.1)
    assert base["travel ms"] == pytest.approx(base["megabytes sent a rank"] / 200, abs=0.1)
    assert rows[1]["big, 8 GPUs"]["compute ms"] == pytest.approx(2 * rows[0]["big, 8 GPUs"]["compute ms"], abs=0.2)
    apart = rows[0]["big, 4 nodes of 8 GPUs"]
    assert apart["travel ms"] == pytest.approx(2 * 4 * apart["parameters"] * 24 / 32 / 6.25e6, rel=1e-3)


@pytest.mark.slow
def test_a_trial(run_script: Callable[..., Ran]) -> None:
    table, _ = run_script("ranks", "--quick", "--cores", "2")
    assert table["equal"]
    assert [*table["tokens a second"]] == ["1 x 2 threads", "2 x 1 threads"]
