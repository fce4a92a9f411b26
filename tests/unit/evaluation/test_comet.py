"""Scores by COMET: what `comet-score` wrote is read for the same translations, and tested as other scores are."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pellucid.errors import DataError
from pellucid.evaluation import comet
from pellucid.evaluation.comet import CometFile, comet_score, compare_comet

OURS, THEIRS = ["a dog", "a cat barks", "b"], ["a cat", "", "b"]
SCORES = {"ours": [1.0, 0.5, 1.0], "out/theirs.en": [0.5, 0.0, 1.0]}


def rows(outputs: list[str], scores: list[float]) -> list[dict[str, Any]]:
    """The rows of a system, as `comet-score --to_json` of unbabel-comet 2.2.7 writes them."""
    return [
        {"src": "s", "mt": output, "ref": "r", "COMET": score} for output, score in zip(outputs, scores, strict=True)
    ]


def written(folder: Path, table: object) -> Path:
    path = folder / "scores.json"
    path.write_text(json.dumps(table, indent=4), encoding="utf-8")
    return path


def test_each_system_is_found_by_its_translations(tmp_path: Path) -> None:
    path = written(tmp_path, {"x": rows(THEIRS, SCORES["out/theirs.en"]), "y": rows(OURS, SCORES["ours"])})
    scores = CometFile.read(path)
    assert scores.find(OURS, "ours") == SCORES["ours"]
    assert scores.find([f" {line}\n" for line in THEIRS], "theirs") == SCORES["out/theirs.en"]


def test_scores_of_other_translations_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, {"x": rows(OURS, SCORES["ours"])})
    with pytest.raises(
        DataError, match=r"has no scores of the 3 translations by `run`; it has scores of 3 trans"
    ) as caught:
        CometFile.read(path).find(THEIRS, "run")
    assert "write its translations to a file first" in caught.value.hint


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([], "has no scores of COMET"),
        ({}, "has no scores of the 3 translations by `ours`; it has scores of no translations"),
        ({"x": 3}, "has no scores of COMET"),
        ({"x": [{"mt": "a"}]}, "has no scores of COMET: 'COMET'"),
        ({"x": [{"mt": 3, "COMET": 1}]}, "a translation is 3, not a string"),
        ({"x": [{"mt": "a", "COMET": "good"}]}, "has no scores of COMET: could not convert"),
        ({"x": [{"mt": "a", "COMET": math.nan}]}, "has a score that is not a finite number"),
    ],
)
def test_a_file_without_scores(tmp_path: Path, table: object, said: str) -> None:
    with pytest.raises(DataError, match=said):
        CometFile.read(written(tmp_path, table)).find(OURS, "ours")


def test_a_file_that_is_no_json_or_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scores.json"
    with pytest.raises(DataError, match=r"scores\.json"):
        CometFile.read(path)
    path.write_text("[" * 20_000, encoding="utf-8")
    with pytest.raises(DataError, match="nested too deep"):
        CometFile.read(path)
    monkeypatch.setattr(comet, "MOST_BYTES", 1000)
    with pytest.raises(DataError, match=r"has 20,000 bytes; at most 1,000 are read"):
        CometFile.read(path)


def test_the_score_is_the_mean_within_its_interval() -> None:
    lines = [0.5, 0.75, 1.0, 0.25]
    found = comet_score(lines, "s")
    assert (found.score, found.lines) == (0.625, tuple(lines))
    assert found.interval[0] < 0.625 < found.interval[1]
    assert comet_score([0.5] * 7, "s").interval == (0.5, 0.5)
    assert "0.6250 ±" in found.report()
    assert found.report().endswith("  s")


def test_p_counts_exchanges_that_come_out_as_large() -> None:
    # Thirds and tenths are no sums of powers of two: only exact sums find each exchange's equal.
    a, b = [0.1, 0.2, 1 / 3], [0.3, 0.7, 0.6]
    differences = [x - y for x, y in zip(a, b, strict=True)]
    measured = abs(sum(differences))
    signs = [[1 if mask >> bit & 1 else -1 for bit in range(3)] for mask in range(8)]
    as_large = sum(abs(sum(s * d for s, d in zip(sign, differences, strict=True))) >= measured - 1e-9 for sign in signs)
    found = compare_comet(a, b, "s")
    assert as_large == 2
    assert math.isclose(found.p_value, as_large / 8, abs_tol=0.02)
    assert found.difference == found.a - found.b
    assert found.difference_interval[0] <= found.difference <= found.difference_interval[1]
    assert found.signature == "s|ar:10000|bs:1000|seed:12345"
    assert compare_comet(a, a, "s").p_value == 1.0
