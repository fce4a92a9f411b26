"""The benchmark of several sentences a line: which lines it makes of pairs."""

from collections.abc import Callable
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

PAIRS = [(f"s{i}. ", f"t{i}.") for i in range(7)]


@pytest.mark.parametrize(("sentences", "lines"), [(1, 7), (2, 3), (3, 2), (5, 1), (8, 0)])
def test_lines_hold_so_many_pairs(sentences: int, lines: int, script: Callable[[str], ModuleType]) -> None:
    found = script("sentences_a_line").lines_of(PAIRS, sentences)
    assert len(found) == lines
    assert all(len(source.split()) == len(target.split()) == sentences for source, target in found)
    assert [source.replace("s", "t") for source, _ in found] == [target for _, target in found]
