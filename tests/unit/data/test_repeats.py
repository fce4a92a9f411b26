"""Pairs that occur again, by their hashes."""

import random
from array import array

import pytest

from pellucid.data.repeats import Repeats, hash_of, plain


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A dog runs.", "a dog runs!"), ("A  dog", "a-dog"), ("Straße", "STRASSE"), ("Ａ１", "a1"), ("é", "e\u0301"),
        ("犬。", "犬"), ("a\u200bb", "ab"),
    ],
)  # fmt: skip
def test_nearly_equal_lines_are_plainly_equal(one: str, other: str) -> None:
    assert plain(one) == plain(other)


@pytest.mark.parametrize(("one", "other"), [("5 dogs", "6 dogs"), ("कि", "का"), ("a", "ä"), ("犬", "犭")])
def test_others_are_not(one: str, other: str) -> None:
    assert plain(one) != plain(other)


def test_a_hash_is_of_both_sides_and_the_same_in_each_process() -> None:
    assert hash_of("a", "b") == 6888081726617775527
    assert len({hash_of("a", "b"), hash_of("b", "a"), hash_of("ab", ""), hash_of("", "ab"), hash_of("a\n", "b")}) == 5
    assert hash_of("\ud800", "") != hash_of("", "\ud800")


def test_the_first_of_equal_ones_is_found_as_a_plain_loop_finds_it() -> None:
    draw = random.Random(1)
    keys = [draw.choice([0, *range(1, 60), draw.getrandbits(60) + 100]) for _ in range(300)]
    found = Repeats(array("q", keys))
    first: dict[int, int] = {}
    for number, key in enumerate(keys):
        assert found.before(number) == (first.get(key, -1) if key else -1)
        found.meet(number)
        first.setdefault(key, number)
    assert len(found) == 300


def test_what_was_not_met_was_not_before() -> None:
    found = Repeats(array("q", [5, 5, 5]))
    assert found.before(1) == -1
    found.meet(1)
    assert found.before(2) == 1
    assert len(Repeats(array("q"))) == 0
