"""How often two systems that do not differ are called different."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


def test_about_5_of_100_intervals_leave_out_0(
    script: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = random.Random(1)
    references = [draw.choices("abcdefgh", k=draw.randint(6, 12)) for _ in range(200)]
    for name, kept in (("ref", 1.0), ("a", 0.85), ("b", 0.8)):
        lines = [" ".join(w if draw.random() < kept else "x" for w in line) for line in references]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = [word for name in ("a", "b", "ref") for word in (f"--{name}", str(tmp_path / name))]
    assert script("paired_bootstrap").main([*files, "--trials", "300"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)["found"]
    assert 0.035 < found["interval leaves out 0"] < 0.09
    assert found["p below 0.01"] < found["p below 0.025"] < found["p below 0.05"]
    assert 0.05 < found["p below 0.05"] < 0.17, "sacreBLEU's p is of one side"
    assert f"interval leaves out 0: {100 * found['interval leaves out 0']:.1f} of 100 comparisons" in err
