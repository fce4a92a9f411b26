"""Guards: each fault is seen with its evidence, and what only looks like one is not."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from unittest.mock import patch

import pytest

from pellucid.tasks import quality_flags
from pellucid.tasks.quality_flags import (
    beyond_source,
    find_changed_numbers,
    find_flags,
    find_repetition,
    measure_copying,
)
from tests.unit.evaluation.test_calibration import MADE


def names(source: str, target: str, lengths: tuple[int, int] = (8, 8)) -> list[str]:
    return [flag.name for flag in find_flags(source, target, lengths, -1.0, MADE)]


@pytest.mark.parametrize(
    ("target", "text", "times", "beyond"),
    [
        ("a man a man a man runs", "a man", 3, 4),
        ("so very very very very good", "very", 4, 3),
        ("x y z x y z x y z x", "x y z", 3, 7),
        ("狗在跑狗在跑狗在跑狗在跑", "狗在跑", 4, 9),
        ("xx bababababababa", "ba", 7, 12),
    ],
)
def test_loops(target: str, text: str, times: int, beyond: int) -> None:
    found = find_repetition(target)
    assert found is not None
    assert sorted(found.text) == sorted(text)
    assert (found.times, found.beyond) == (times, beyond)
    (flag,) = [flag for flag in find_flags("ein ganz anderer Satz", target, (8, 8), -1.0, MADE) if flag.name == "loop"]
    assert flag.evidence == f'"{found.text}" {times} times in a row'


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Ein Mann und ein Hund und ein Kind .", "A man and a dog and a child ."),
        ("Das ist sehr sehr gut", "That is very very good"),
        ("ha ha ha ha", "ha ha ha ha"),
        ("nein nein nein nein sagte er", "no no no no he said"),
        ("Warte ...........", "Wait ..........."),
    ],
)
def test_what_is_no_loop(source: str, target: str) -> None:
    assert "loop" not in names(source, target)


def test_a_loop_counts_beyond_that_of_its_source() -> None:
    assert beyond_source("ein Hund", "a dog a dog a dog") == 4
    assert beyond_source("ha ha ha", "ha ha ha ha") == 1
    assert beyond_source("ha ha ha", "so funny") == 0
    assert "loop" in names("ha ha ha lacht er", "ha ha ha ha ha ha ha ha he laughs")


def test_copies() -> None:
    source = "Ein kleiner Hund läuft über die Wiese ."
    assert measure_copying(source, source) == (1.0, 7)
    assert names(source, source) == ["copy"]
    assert names(source, "A small Hund läuft über die Wiese .") == ["copy"]
    assert names(source, "A small dog runs over the meadow .") == []
    assert names("Angela Merkel in Berlin", "Angela Merkel visits the mayor of Berlin") == [], "names are copied"
    assert names("Berlin", "Berlin") == []
    as_usual = replace(MADE, copied=1.0)
    assert find_flags(source, source, (8, 8), -1.0, as_usual) == [], "where references are copies, one is nothing odd"
    (flag,) = find_flags(source, source, (8, 8), -1.0, None)
    assert flag.evidence == "100% of the words are the source's, in its order"


def test_empty_sides() -> None:
    assert [flag.evidence for flag in find_flags("Ein Hund", " ", (2, 0), None, None)] == [
        "the translation has no text"
    ]
    assert [flag.evidence for flag in find_flags("", "A dog", (0, 2), -9.0, MADE)] == ["the source has no text"]
    assert find_flags("", "", (0, 0), None, MADE) == []


@pytest.mark.parametrize(
    ("source", "target", "lost", "new"),
    [
        ("im Jahr 1984", "in 1984", [], []),
        ("im Jahr 1984", "in 1948", ["1984"], ["1948"]),
        ("1.500 Leute und 3,5 km", "1,500 people and 3.5 km", [], []),
        ("1 500 personnes", "1,500 people", [], []),
        ("3 Männer", "three men", [], []),
        ("zwei Hunde", "2 dogs", [], []),
        ("3 Männer", "2 men", ["3"], ["2"]),
        ("25 Männer", "twenty-five men", ["25"], []),
        ("um 05:30 Uhr", "at 5:30", [], []),
        ("٢٥ رجلا", "25 men", [], []),
        ("Im Jahr 2016 300 Leute", "300 people in 2016", [], []),
        ("1 234 567 Leute", "1,234,567 people", [], []),
        ("7" * 5000, "8" + "7" * 4999, ["7" * 5000], ["8" + "7" * 4999]),
        ("007 und 0", "7 and 0", [], []),
        ("Trikot 77", "shirt 77, 77", [], ["77"]),
    ],
)
def test_numbers(source: str, target: str, lost: list[str], new: list[str]) -> None:
    assert find_changed_numbers(source, target) == (lost, new)
    said = [flag.evidence for flag in find_flags(source, target, (8, 8), -1.0, MADE) if flag.name == "numbers"]
    parts = [f"{', '.join(lost)} lost"] * bool(lost) + [f"{', '.join(new)} not in the source"] * bool(new)
    assert said == ["; ".join(parts)] * bool(parts)


def test_numbers_are_looked_at_where_references_keep_them() -> None:
    assert find_flags("3. Mai 2021", "2021-05-03", (8, 8), -1.0, replace(MADE, numbers_kept=0.1)) == []


def test_lengths_and_mismatches_are_odd_beyond_what_is_usual() -> None:
    assert names("Ein Hund", "A dog", (2, 2)) == []
    (flag,) = find_flags("Ein Hund", "A dog", (20, 2), -1.0, MADE)
    assert (flag.name, flag.evidence) == ("length", "2 tokens for 20, 5 added to each: 0.28, usual is 0.5 to 2")
    assert names("Ein Hund", "A dog", (1, 3)) == [], "one token more says nothing of a short line"
    (flag,) = find_flags("Ein Hund", "A dog", (2, 2), -3.5, MADE)
    assert (flag.name, flag.evidence) == ("mismatch", "log-probability per token -3.50, usual is at least -3.00")
    assert find_flags("Ein Hund", "A dog", (2, 2), -3.5, None) == [], "nobody knows what is usual"


def test_what_the_search_finds_is_flagged_where_it_is_improbable() -> None:
    assert find_flags("Un chien", "A dog", (2, 2), -1.9, None, searched=True) == []
    (flag,) = find_flags("Un chien", "A dog", (2, 2), -2.5, None, searched=True)
    assert (flag.name, flag.evidence) == ("mismatch", "log-probability per token -2.50, usual is at least -2.00")
    (flag,) = find_flags("Un chien", "A dog", (2, 2), -2.5, MADE, searched=True)
    assert flag.evidence.endswith("usual is at least -2.00"), "the stricter of the two bounds"


def test_a_long_line_is_compared_in_parts() -> None:
    """So that the time does not grow with the third power of its words; what is copied is found all the same."""
    compared = []

    class Matcher(SequenceMatcher[str]):
        def __init__(self, isjunk: None, a: Sequence[str], b: Sequence[str], autojunk: bool) -> None:
            compared.append(max(len(a), len(b)))
            super().__init__(isjunk, a, b, autojunk)

    words = [f"word{number % 700}" for number in range(1500)]
    with patch.object(quality_flags, "SequenceMatcher", Matcher):
        assert measure_copying(" ".join(words), " ".join(words)) == (1.0, 1500)
        assert measure_copying(" ".join(words), "other " * 1500) == (0.0, 0)
        assert measure_copying("one two", " ".join(words))[1] == 0
    assert max(compared) <= quality_flags.MOST_COMPARED
    assert len(compared) == 3 * 8


def test_of_many_numbers_a_few_are_named() -> None:
    flags = find_flags(" ".join(map(str, range(20, 60))), "a", (9, 9), None, None)
    evidence = next(flag.evidence for flag in flags if flag.name == "numbers")
    assert evidence == "20, 21, 22, 23, 24, 25, 26, 27, 28, 29 and 30 more lost"
