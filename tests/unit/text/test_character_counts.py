"""The characters of a text: how many there are, how much they make up, and what two texts have in common."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.text.character_counts import CharacterCounts


def test_a_space_stands_before_each_line_as_sentencepiece_has_it() -> None:
    inventory = CharacterCounts.from_lines(["a b", "", "b"])
    assert inventory.counts == Counter({"▁": 4, "b": 2, "a": 1})
    assert inventory.ranked == ["▁", "b", "a"]
    assert len(inventory) == 3


@pytest.mark.slow
@given(st.lists(st.text(max_size=9), min_size=1), st.floats(0.01, 1))
def test_the_characters_that_are_needed_cover_the_text_and_one_less_does_not(lines: list[str], part: float) -> None:
    inventory = CharacterCounts.from_lines(lines)
    number = inventory.count_for_coverage(part)
    assert 1 <= number <= len(inventory)
    covered = [inventory.counts[character] for character in inventory.ranked[:number]]
    assert sum(covered) >= part * inventory.counts.total()
    assert sum(covered[:-1]) < part * inventory.counts.total()
    assert inventory.share(number) == sum(covered) / inventory.counts.total()


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("ab", "ba", 1.0),
        ("aabb", "abcc", 0.5),
        ("犬が", "dog", 0.0),
        ("1 2", "dog", 1.0),
        ("", "", 1.0),
        ("a, 1", "a; 2", 1),
    ],
)
def test_letters_in_common(one: str, other: str, shared: float) -> None:
    first, second = CharacterCounts.from_lines([one]), CharacterCounts.from_lines([other])
    assert first.overlap(second) == second.overlap(first) == shared
