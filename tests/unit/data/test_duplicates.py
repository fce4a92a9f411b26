"""Pairs that occur again, by their hashes."""

import random
from array import array

import pytest

from pellucid.data.duplicates import DuplicateIndex, hash_pair, normalize_for_dedup


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A dog runs.", "a dog runs!"), ("A  dog", "a-dog"), ("Straße", "STRASSE"), ("Ａ１", "a1"), ("é", "e\u0301"),
        ("犬。", "犬"), ("a\u200bb", "ab"),
    ],
)  # fmt: skip
def test_nearly_equal_lines_are_plainly_equal(one: str, other: str) -> None:
    assert normalize_for_dedup(one) == normalize_for_dedup(other)


@pytest.mark.parametrize(("one", "other"), [("5 dogs", "6 dogs"), ("कि", "का"), ("a", "ä"), ("犬", "犭")])
def test_others_are_not(one: str, other: str) -> None:
    assert normalize_for_dedup(one) != normalize_for_dedup(other)


def test_a_hash_is_of_both_sides_and_the_same_in_each_process() -> None:
    assert hash_pair("a", "b") == 6888081726617775527
    assert (
        len({hash_pair("a", "b"), hash_pair("b", "a"), hash_pair("ab", ""), hash_pair("", "ab"), hash_pair("a\n", "b")})
        == 5
    )
    assert hash_pair("\ud800", "") != hash_pair("", "\ud800")


def test_the_first_of_equal_ones_is_found_as_a_plain_loop_finds_it() -> None:
    draw = random.Random(1)
    keys = [draw.choice([0, *range(1, 60), draw.getrandbits(60) + 100]) for _ in range(300)]
    found = DuplicateIndex(array("q", keys))
    first: dict[int, int] = {}
    for number, key in enumerate(keys):
        assert found.first_occurrence(number) == (first.get(key, -1) if key else -1)
        found.meet(number)
        first.setdefault(key, number)
    assert len(found) == 300


def test_what_was_not_met_was_not_before() -> None:
    found = DuplicateIndex(array("q", [5, 5, 5]))
    assert found.first_occurrence(1) == -1
    found.meet(1)
    assert found.first_occurrence(2) == 1
    assert len(DuplicateIndex(array("q"))) == 0
