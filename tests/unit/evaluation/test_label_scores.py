"""Accuracy, its interval and F1."""

import pytest

from pellucid.errors import DataError
from pellucid.evaluation.label_scores import score_labels, wilson_interval


def test_scores_by_hand() -> None:
    found, right = ["a", "a", "b", "b", "c", "a"], ["a", "b", "b", "b", "a", "a"]
    scores = score_labels(found, right)
    assert scores.accuracy == pytest.approx(100 * 4 / 6)
    # a: 2 of both, 3 found, 3 right; b: 2 of both, 2 found, 3 right; c: found once, never right.
    assert scores.f1_by_label == pytest.approx({"a": 100 * 4 / 6, "b": 100 * 4 / 5, "c": 0.0})
    assert scores.f1 == pytest.approx(100 * (4 / 6 + 4 / 5) / 3)
    assert scores.texts == 6
    assert "accuracy   66.67" in scores.report()
    assert scores.to_json()["accuracy_interval"] == list(scores.accuracy_interval)


@pytest.mark.parametrize(
    ("hits", "trials", "interval"),
    # Newcombe, "Two-sided confidence intervals for the single proportion" (1998), table I, method 3.
    [(81, 263, (25.53, 36.62)), (15, 148, (6.24, 16.05)), (0, 20, (0.0, 16.11)), (1, 29, (0.61, 17.18))],
)
def test_wilson_interval(hits: int, trials: int, interval: tuple[float, float]) -> None:
    assert wilson_interval(hits, trials) == pytest.approx(interval, abs=0.005)
    mirrored = wilson_interval(trials - hits, trials)
    assert mirrored == pytest.approx((100 - interval[1], 100 - interval[0]), abs=0.005)


def test_what_cannot_be_scored() -> None:
    with pytest.raises(DataError, match=r"^1 labels cannot be scored against 2 right ones$"):
        score_labels(["a"], ["a", "b"])
    with pytest.raises(DataError, match=r"^nothing to score: 0 labels$"):
        score_labels([], [])
