"""Guards: each fault is seen with its evidence, and what only looks like one is not."""

from dataclasses import replace

import pytest

from pellucid.tasks.guards import beyond_source, changed_numbers, copied, flags_of, repeated
from tests.unit.evaluation.test_calibration import MADE


def names(source: str, target: str, lengths: tuple[int, int] = (8, 8)) -> list[str]:
    return [flag.name for flag in flags_of(source, target, lengths, -1.0, MADE)]


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
    found = repeated(target)
    assert found is not None
    assert sorted(found.text) == sorted(text)
    assert (found.times, found.beyond) == (times, beyond)
    (flag,) = [flag for flag in flags_of("ein ganz anderer Satz", target, (8, 8), -1.0, MADE) if flag.name == "loop"]
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
    assert copied(source, source) == (1.0, 7)
    assert names(source, source) == ["copy"]
    assert names(source, "A small Hund läuft über die Wiese .") == ["copy"]
    assert names(source, "A small dog runs over the meadow .") == []
    assert names("Angela Merkel in Berlin", "Angela Merkel visits the mayor of Berlin") == [], "names are copied"
    assert names("Berlin", "Berlin") == []
    as_usual = replace(MADE, copied=1.0)
    assert flags_of(source, source, (8, 8), -1.0, as_usual) == [], "where references are copies, one is nothing odd"
    (flag,) = flags_of(source, source, (8, 8), -1.0, None)
    assert flag.evidence == "100% of the words are the source's, in its order"


def test_empty_sides() -> None:
    assert [flag.evidence for flag in flags_of("Ein Hund", " ", (2, 0), None, None)] == ["the translation has no text"]
    assert [flag.evidence for flag in flags_of("", "A dog", (0, 2), -9.0, MADE)] == ["the source has no text"]
    assert flags_of("", "", (0, 0), None, MADE) == []


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
    assert changed_numbers(source, target) == (lost, new)
    said = [flag.evidence for flag in flags_of(source, target, (8, 8), -1.0, MADE) if flag.name == "numbers"]
    parts = [f"{', '.join(lost)} lost"] * bool(lost) + [f"{', '.join(new)} not in the source"] * bool(new)
    assert said == ["; ".join(parts)] * bool(parts)


def test_numbers_are_looked_at_where_references_keep_them() -> None:
    assert flags_of("3. Mai 2021", "2021-05-03", (8, 8), -1.0, replace(MADE, numbers_kept=0.1)) == []


def test_lengths_and_mismatches_are_odd_beyond_what_is_usual() -> None:
    assert names("Ein Hund", "A dog", (2, 2)) == []
    (flag,) = flags_of("Ein Hund", "A dog", (20, 2), -1.0, MADE)
    assert (flag.name, flag.evidence) == ("length", "2 tokens for 20, 5 added to each: 0.28, usual is 0.5 to 2")
    assert names("Ein Hund", "A dog", (1, 3)) == [], "one token more says nothing of a short line"
    (flag,) = flags_of("Ein Hund", "A dog", (2, 2), -3.5, MADE)
    assert (flag.name, flag.evidence) == ("mismatch", "log-probability a token -3.50, usual is -3.00 at least")
    assert flags_of("Ein Hund", "A dog", (2, 2), -3.5, None) == [], "nobody knows what is usual"
