"""How often two systems that do not differ are called different."""

import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from pellucid.evaluation.comparison import randomization_p

pytestmark = pytest.mark.slow

_DRAW = random.Random(2)
LINES = [" ".join(_DRAW.choices(string.ascii_lowercase, k=30)) for _ in range(40)]


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
    found = {name: part["of 100"] for name, part in json.loads(out)["found"].items()}
    # 300 comparisons: 5 deviations of the binomial are 6.3 at 5 of 100, and 8.7 at 10.
    assert abs(found["interval leaves out 0"] - 5) < 6.3
    assert abs(found["approximate randomization: p below 0.05"] - 5) < 6.3
    assert abs(found["approximate randomization: p below 0.1"] - 10) < 8.7
    assert found["paired bootstrap: p below 0.05"] > found["approximate randomization: p below 0.05"]
    for name, part in json.loads(out)["found"].items():
        low, high = part["interval"]
        assert low <= part["of 100"] <= high
        assert f"{name}: {part['of 100']:.1f} of 100 comparisons ({low:.1f} to {high:.1f})" in err


def test_p_of_many_trials_at_a_time_is_that_of_the_comparison(script: Callable[[str], ModuleType]) -> None:
    """The benchmark's own arithmetic against randomization_p, whose exchanges it is given."""
    draw, metric, trials = np.random.default_rng(3), BLEU(force=True), 500
    counts = [
        np.array(
            metric._extract_corpus_statistics([" ".join(line.split()[: 30 // step]) for line in LINES], [LINES]), float
        )
        for step in (1, 2)
    ]
    counts = [np.where(draw.integers(2, size=(len(LINES), 1), dtype=bool), *counts), counts[0]]
    exchanged = np.random.default_rng(9).integers(2, size=(trials, len(LINES)), dtype=bool).astype(float)
    scores = [metric._compute_score_from_stats(list(side.sum(axis=0))).score for side in counts]
    found = script("paired_bootstrap").exchange_p(*counts, exchanged, scores[0] - scores[1])
    assert found == randomization_p(metric, *counts, trials=trials, seed=9)
