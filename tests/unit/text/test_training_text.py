"""What is known of training lines: their lengths, whether they are sentences, and how many of them hold several."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.config.tables import from_table, to_table
from pellucid.errors import ConfigError
from pellucid.text.training_text import Sample, TrainingTextStats


def sample_of(lines: list[str]) -> Sample:
    sample = Sample()
    for line in lines:
        sample.add(line, f"{line} 그래.")
    return sample


def test_what_lines_tell() -> None:
    lines = ["Ein Mann.", "Ein Hund", "Eine Frau läuft. Sie lacht.", "Ja!"]
    lengths = np.arange(1, 2001)
    found = TrainingTextStats.from_lengths(np.bincount(lengths), np.bincount(lengths[:10]), sample_of(lines))
    assert found == TrainingTextStats(
        source_length=1999, source_longest=2000, target_length=10, target_longest=10, source_script="Latin",
        target_script="", sentence_ends=0.75, several_sentences=0.25,
    )  # fmt: skip
    assert (lengths <= 1999).mean() >= 0.999 > (lengths <= 1997).mean()
    assert from_table(TrainingTextStats, to_table(found), "text") == found
    assert TrainingTextStats.from_lengths(np.zeros(0, np.int64), np.zeros(0, np.int64), Sample()) == TrainingTextStats()


@pytest.mark.parametrize(("korean", "script"), [(0, "Latin"), (1, "Latin"), (2, ""), (20, "Hangul")])
def test_a_text_in_several_scripts_is_in_none(korean: int, script: str) -> None:
    lines = ["3 mai 2021"] * (20 - korean) + ["2024년 3월 7일"] * korean + ["18.3.2016"]
    lengths = np.bincount([len(line) for line in lines])
    assert TrainingTextStats.from_lengths(lengths, lengths, sample_of(lines)).source_script == script


@pytest.mark.slow
@given(st.integers(0, 3000), st.integers(1, 100))
def test_a_sample_is_bounded_and_evenly_spread(count: int, most: int) -> None:
    sample = Sample(most=most)
    for i in range(count):
        sample.add(str(i), str(i))
    places = [int(source) for source, _ in sample.pairs]
    gaps = set(np.diff(places).tolist())
    assert len(places) <= most
    assert len(gaps) <= 1
    assert places[:1] == [0][:count]
    assert len(places) == count or len(places) > (most - 1) // 2
    assert len(places) in (0, 1) or count - places[-1] <= 2 * gaps.pop()


@pytest.mark.parametrize(
    ("fields", "short", "long"),
    [
        ({}, False, False),  # nothing is known
        ({"sentence_ends": 0.02, "several_sentences": 0.0, "source_length": 20}, False, False),  # dates
        ({"sentence_ends": 0.9, "several_sentences": 0.01, "source_length": 20}, True, True),
        ({"sentence_ends": 0.9, "several_sentences": 0.8, "source_length": 20}, False, True),  # paragraphs
        ({"sentence_ends": 0.9, "several_sentences": 0.8}, False, False),
        ({"sentence_ends": 1.0, "several_sentences": 0.0}, True, True),  # a translator of others, length unknown
    ],
)
def test_which_lines_are_unlike_it(fields: dict[str, Any], short: bool, long: bool) -> None:
    text = TrainingTextStats(**fields)
    assert (text.is_unlike(20), text.is_unlike(21)) == (short, long)
    assert not text.is_too_long(20)
    assert text.is_too_long(21) == (text.is_sentences and "source_length" in fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sentence_ends": 1.5}, r"`sentence_ends` \(1.5\) must be a share of the lines, from 0 to 1"),
        ({"several_sentences": -0.5}, r"`several_sentences` \(-0.5\) must be a share of the lines, from 0 to 1"),
        ({"source_length": -1}, r"`source_length` \(-1\) must be at least 0"),
        ({"target_longest": "9"}, "`target_longest` must be a whole number or \"none\", not '9'"),
        ({"source_script": None}, "`source_script` must be a string, not None"),
    ],
)
def test_what_cannot_be(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainingTextStats(**fields)
