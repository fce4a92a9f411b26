"""`pellucid check`: a learner's file, run in a process of its own, judged line by line."""

from pathlib import Path

import pytest

from pellucid.judge.mistakes import MISTAKES
from tests.unit.cli.command_line import CommandLine

FILE = """\
import math
import torch
from torch.nn import MultiheadAttention

print("a line of the file")

def subsequent_mask(size):
    return torch.ones(size, size).tril().bool()

def attention(q, k, v, mask):
    scores = q @ k.transpose(-2, -1)
    return scores.masked_fill(mask, -1e9).softmax(-1) @ v

def learning_rate(step, d_model, warmup):
    return d_model ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)

def beam(step, bos, eos, beam_size, max_length):
    return 0.5 * step([bos]).sum()

def greedy(step, bos, eos, max_length):
    return 1 / 0
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of five parts."""
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_a_file(pellucid: CommandLine, mine: Path) -> None:
    outcome = pellucid("check", mine)
    assert outcome.out.splitlines() == [
        "right causal_mask",
        f"wrong attention: no-scale: {MISTAKES['no-scale'].english}",
        f"wrong attention: mask-inverted: {MISTAKES['mask-inverted'].english}",
        "right learning_rate",
        "wrong greedy: raises: it raises ZeroDivisionError: division by zero (mine.py, line 21)",
        "unknown beam",
    ]
    assert outcome.err.startswith(f"note: this command runs {mine}; check only code that you trust\n")
    assert "note: learning_rate: step 0 has no rate (0^-0.5): count steps from 1\n" in outcome.err
    assert "note: beam: the judge does not know: " in outcome.err
    assert outcome.status == 1


@pytest.mark.slow
def test_one_part_in_korean(pellucid: CommandLine, mine: Path) -> None:
    outcome = pellucid("check", mine, "--only", "learning_rate", "--lang", "ko")
    assert (outcome.status, outcome.out) == (0, "right learning_rate\n")
    assert "0에서는 학습률이 정의되지 않습니다" in outcome.err


def test_mistakes_of_the_user(pellucid: CommandLine, mine: Path, tmp_path: Path) -> None:
    missing = pellucid("check", tmp_path / "other.py")
    assert missing.status == 2
    assert f"error: the file `{tmp_path / 'other.py'}` is missing" in missing.err
    (tmp_path / "lesson.ipynb").write_text("{}", encoding="utf-8")
    notebook = pellucid("check", tmp_path / "lesson.ipynb")
    assert notebook.status == 2
    assert "hint: save a notebook as a script, in Jupyter by File, Save and Export, Executable Script" in notebook.err
    unknown = pellucid("check", mine, "--only", "atention")
    assert unknown.status == 2
    assert "error: `atention` is no exercise; did you mean `attention`?" in unknown.err
    absent = pellucid("check", mine, "--only", "loss")
    assert absent.status == 2
    assert f"error: `{mine}` does not define loss" in absent.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def attention(q, k, v:\n    pass\n", "SyntaxError: '(' was never closed (broken.py, line 1)"),
        ("import torch\n\nimport no_such_library\n",
        "ModuleNotFoundError: No module named 'no_such_library' (broken.py, line 3)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 (broken.py, line 2)"),
        ("import os\nos._exit(3)\n", "SystemExit: Python ended with status 3"),
        ("import os\nos.kill(os.getpid(), 11)\n", "a crash of Python (signal 11)"),
        ("input()\n", "EOFError: EOF when reading a line (broken.py, line 1)"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_run_is_a_finding(pellucid: CommandLine, tmp_path: Path, source: str, line: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(source, encoding="utf-8")
    outcome = pellucid("check", path)
    assert (outcome.status, outcome.out) == (1, f"wrong broken.py: raises: it raises {line}\n")


def test_a_file_that_does_not_end(pellucid: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "endless.py"
    path.write_text("while True:\n    pass\n", encoding="utf-8")
    monkeypatch.setattr("pellucid.judge.file.SECONDS_TO_RUN", 0.5)
    outcome = pellucid("check", path)
    assert (outcome.status, outcome.out.partition(":")[0]) == (1, "wrong endless.py")
    assert "out-of-time: it takes longer than 0.5 seconds" in outcome.out
