"""Which of a teacher's translations are learnt."""

import numpy as np
import pytest

from pellucid.errors import ConfigError
from pellucid.synthetic_data.selection import TranslationFilter, filter_translations
from pellucid.synthetic_data.teacher_translation import TeacherTranslation

SOURCE = "ein Hund läuft durch das hohe Gras"


def of_scores(*scores: float) -> list[tuple[str, list[TeacherTranslation]]]:
    """Lines with a translation each, alike but for the log-probability a token."""
    return [
        (SOURCE, [TeacherTranslation(f"a dog runs through the tall grass {i}", 10 * s, 10)])
        for i, s in enumerate(scores)
    ]


def test_the_worst_share_by_token_is_left_out() -> None:
    scores = [-0.1, -0.9, -0.3, -0.5, -0.2, -0.4, -0.8, -0.35, -0.15, -0.25]
    found = filter_translations(of_scores(*scores), TranslationFilter(drop_worst=0.2))
    assert found.kept.tolist() == [score not in (-0.9, -0.8) for score in scores]
    assert (found.counts["score"], found.worst) == (2, pytest.approx(-0.5))
    all_kept = filter_translations(of_scores(*scores), TranslationFilter(drop_worst=0.0))
    assert (all_kept.kept.all(), all_kept.worst) == (True, None)
    assert filter_translations(of_scores(*scores), TranslationFilter(drop_worst=0.09)).kept.all(), (
        "a tenth of ten is the first to go"
    )


def test_equal_scores_are_treated_alike() -> None:
    """None of them is the worst, so that it does not hang on the order which one goes."""
    assert filter_translations(of_scores(*[-0.5] * 10), TranslationFilter(drop_worst=0.5)).kept.all()


def test_a_sum_counts_by_its_tokens() -> None:
    lines = [
        (
            SOURCE,
            [
                TeacherTranslation("a dog runs through high grass", -4.0, 8),
                TeacherTranslation("a dog runs on high grass", -3.0, 4),
            ],
        )
    ]
    assert filter_translations(lines, TranslationFilter(drop_worst=0.5)).kept.tolist() == [True, False]


def test_empty_ones_and_copies() -> None:
    lines = [
        (
            SOURCE,
            [
                TeacherTranslation(" ", -1.0, 2),
                TeacherTranslation(f"{SOURCE} ", -1.0, 8),
                TeacherTranslation(SOURCE[::-1], -1.0, 8),
            ],
        )
    ]
    found = filter_translations(lines, TranslationFilter())
    assert found.kept.tolist() == [False, False, True]
    assert (found.counts["empty"], found.counts["copy"]) == (1, 1)
    assert filter_translations(lines, TranslationFilter(keep_copies=True)).kept.tolist() == [False, True, True]


@pytest.mark.parametrize("usual", [0.3, 1.0, 3.0])
def test_lengths_are_compared_with_what_is_usual(usual: float) -> None:
    """Scripts differ in how many characters they need, so that no ratio is right for all."""
    source = "x" * 90

    def of_length(length: float) -> TeacherTranslation:
        return TeacherTranslation("y" * max(1, round(length)), -1.0, 5)

    lines = [(source, [of_length(100 * usual * factor - 10)]) for factor in (1, 1, 1, 1.9, 2.1, 1 / 1.9, 1 / 2.1)]
    found = filter_translations(lines, TranslationFilter(length_ratio=2.0, drop_worst=0))
    assert found.kept.tolist() == [True, True, True, True, False, True, False]
    assert found.counts["length"] == 2


def test_short_texts_may_differ_more() -> None:
    lines = [("ja", [TeacherTranslation("yes it is", -1.0, 4)]), *of_scores(-0.1, -0.1, -0.1)]
    assert filter_translations(lines, TranslationFilter(length_ratio=2.0)).kept.all()


def test_nothing_is_judged_well() -> None:
    for lines in ([], [("a", [])], [("a", [TeacherTranslation("", 0.0, 0)])]):
        found = filter_translations(lines, TranslationFilter(drop_worst=0.5))
        assert not np.any(found.kept)
        assert found.worst is None


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"drop_worst": 1.0}, "`drop_worst=1.0` must be at least 0 and below 1"),
        ({"drop_worst": -0.1}, "`drop_worst=-0.1` must be at least 0 and below 1"),
        ({"drop_worst": float("nan")}, "`drop_worst=nan` must be at least 0 and below 1"),
        ({"length_ratio": 1.0}, "`length_ratio=1.0` must be above 1"),
    ],
)
def test_rules_that_cannot_work(values: dict[str, float], error: str) -> None:
    with pytest.raises(ConfigError) as refused:
        TranslationFilter(**values)  # type: ignore[arg-type]
    assert (str(refused.value), bool(refused.value.hint)) == (error, True)
