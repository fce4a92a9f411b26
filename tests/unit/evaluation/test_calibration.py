"""Calibration: its fit finds what made the data, its measures are those of their definitions, its file is checked."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.errors import CheckpointError, DataError
from pellucid.evaluation.calibration import (
    CALIBRATION,
    Calibration,
    area_under_curve,
    calibration_error,
    calibration_in,
    cross_fitted,
    fit_coefficients,
    hash_weights,
    save_calibration,
    words_right,
)

MADE = Calibration(
    weights="0", coefficients=(0.5, 1.0, 0.0, 0.0, 0.0), lines=2, words=100, right=0.5, error=0.1, error_before=0.2,
    log_probability=-3.0, length_ratio=(0.5, 2.0), copied=0.25, numbers_kept=1.0,
)  # fmt: skip


def drawn(count: int, coefficients: list[float]) -> tuple[Any, Any]:
    """Features, and words that are right with the probability that the coefficients give."""
    random = np.random.default_rng(1)
    features = random.normal(size=(count, 4)) * [3, 0.5, 2, 1] + [1, -1, 0, 0]
    p = 1 / (1 + np.exp(-(coefficients[0] + features @ coefficients[1:])))
    return features, random.random(count) < p


def test_the_fit_finds_the_coefficients_that_made_the_words() -> None:
    made = [0.3, 0.7, -0.4, 0.2, 0.0]
    features, right = drawn(40_000, made)
    assert fit_coefficients(features, right) == pytest.approx(made, abs=0.06)
    found = replace(MADE, coefficients=fit_coefficients(features, right)).probabilities(features)
    assert found.mean() == pytest.approx(right.mean(), abs=1e-6), "as many are expected right as are"
    assert calibration_error(found, right) < 0.01


def test_a_word_has_its_probability_from_the_other_half() -> None:
    features, right = drawn(400, [0.0, 1.0, 0.0, 0.0, 0.0])
    lines = np.arange(400) // 5
    found = cross_fitted(features, right, lines)
    flipped = right ^ (lines % 2 == 0)
    changed = cross_fitted(features, flipped, lines)
    assert (found[lines % 2 == 0] == changed[lines % 2 == 0]).all(), "its own half's words do not matter"
    assert (found[lines % 2 == 1] != changed[lines % 2 == 1]).all()


@pytest.mark.parametrize("right", [[True] * 200, [False] * 200, [True, False] * 20])
def test_too_little_to_fit_is_said(right: list[bool]) -> None:
    expected = (
        f"{len(right)} words, of which {sum(right)} are correct, are too few for a calibration: it requires at least "
        f"100 words"
    )
    with pytest.raises(DataError, match=expected):
        fit_coefficients(np.zeros((len(right), 4)), np.array(right))


def test_the_calibration_error_is_the_gap_of_each_bin_by_its_size() -> None:
    probabilities = np.array([0.01] * 6 + [0.99] * 4)
    right = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 0])
    expected = 0.6 * abs(1 / 6 - 0.01) + 0.4 * abs(0.75 - 0.99)
    assert calibration_error(probabilities, right) == pytest.approx(expected)
    whole = np.array([0.2, 0.2, 0.8] * 15)
    assert calibration_error(whole, np.array([0, 0, 1] * 15), equal_mass=True) == pytest.approx(0.2)


def test_the_area_under_the_curve_counts_pairs() -> None:
    positive, negative = [0.9, 0.4, 0.4], [0.1, 0.4]
    pairs = [1.0 if p > n else 0.5 if p == n else 0.0 for p in positive for n in negative]
    assert area_under_curve(positive, negative) == pytest.approx(sum(pairs) / len(pairs))


def test_words_are_right_at_their_place() -> None:
    reference = ["A", "man", "is", "riding", "a", "red", "bike", "."]
    assert words_right(["A", "man", "rides", "a", "bike", "."], reference) == [True, True, False, True, True, True]
    assert words_right(["bike", "A", "man", "."], ["A", "man", "bike", "."]) == [False, True, True, True], "no shifts"
    assert words_right([], reference) == []
    assert words_right(["A"], []) == [False]


def test_a_calibration_belongs_to_its_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert calibration_in(tmp_path) is None
    save_calibration(MADE, tmp_path)
    saved = calibration_in(tmp_path)
    assert saved == replace(MADE, weights=hash_weights(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"others")
    with pytest.warns(UserWarning, match="was fitted with other weights, and is ignored"):
        assert calibration_in(tmp_path) is None
    save_calibration(None, tmp_path)
    assert not (tmp_path / CALIBRATION).exists()
    with pytest.raises(CheckpointError, match=r"has no model\.safetensors"):
        hash_weights(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "pellucid-calibration/9"}, "has format 'pellucid-calibration/9', not 'pellucid-calibration/1'"),
        ({"copied": None}, r"has `copied` = None; it must be a number from 0 to 1"),
        ({"copied": 1.5}, r"has `copied` = 1\.5; it must be a number from 0 to 1"),
        ({"coefficients": [1.0, 2.0]}, "is damaged: `coefficients` must be 5 numbers"),
        ({"length_ratio": ["a", 1]}, "`length_ratio` = .* must be a list of a finite number"),
    ],
)
def test_a_damaged_file_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    MADE.save(tmp_path)
    path = tmp_path / CALIBRATION
    table = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps(table), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        Calibration.load(tmp_path)
    del table["words"]
    path.write_text(json.dumps(table | {"format": "pellucid-calibration/1"}), encoding="utf-8")
    with pytest.raises(CheckpointError, match="is damaged: it has no `words`"):
        Calibration.load(tmp_path)
