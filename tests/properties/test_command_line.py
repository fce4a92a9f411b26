"""Command lines that nobody would write: each ends in a sentence and an exit status, whatever its streams are."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.properties.command_line_fuzz import STREAMS, VERBS, draw

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_verb_and_every_kind_of_stream_is_drawn() -> None:
    tries = [draw(random.Random(number)) for number in range(1000)]
    assert {tried.arguments[0] for tried in tries} >= set(VERBS)
    assert {tried.stdout for tried in tries} == {tried.stderr for tried in tries} == set(STREAMS)
    assert any(tried.stdin is None for tried in tries)
    assert tries == [draw(random.Random(number)) for number in range(1000)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children are given their memory as Linux counts it")
@pytest.mark.parametrize("seed", [1, 2])
def test_no_command_line_ends_in_a_bare_error(seed: int) -> None:
    command = [sys.executable, "-m", "tests.properties.command_line_fuzz", "--tries", "80", "--seed", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[:5000]
    assert json.loads(done.stdout)["outcomes"] == {"right": 80}
