"""Runs the killing benchmark in small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.benchmarks.conftest import SCRIPTS

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_a_few_kills_in_phases_by_chance(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPTS / "kill_and_resume.py"), "--quick", "--kills", "5", "--seed", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["kills"], found["equal_bytes"], found["equal_metrics"]) == (5, True, True)
    assert len(found["kills_by_phase"]) > 1
    assert found["runs_compared"] >= 1
    assert list(tmp_path.iterdir()) == []
