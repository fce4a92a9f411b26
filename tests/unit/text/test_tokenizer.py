"""A text that the vocabulary does not know is told of, once, and one that it knows is not."""

import warnings

import pytest

from pellucid.text.tokenizer import LOOKED_AT, UnknownTokenMonitor
from pellucid.text.vocabulary import Vocabulary

WORDS = Vocabulary("words", ("a", "film"))


def look_in_silence(share: UnknownTokenMonitor, lines: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        share.look_at(lines)


def test_it_is_told_once_with_its_share() -> None:
    share = UnknownTokenMonitor(WORDS)
    with pytest.warns(UserWarning, match=r"^33% of the text \(2 of 6 tokens so far\) is unknown to the model's vocab"):
        share.look_at(["A film a", "film a ."])
    look_in_silence(share, ["B B B"])


@pytest.mark.parametrize("lines", [[], [""], ["a film"], ["a " * 9 + "B"]])
def test_a_small_part_is_not_told(lines: list[str]) -> None:
    look_in_silence(UnknownTokenMonitor(WORDS), lines)


def test_parts_add_up_over_what_is_read() -> None:
    share = UnknownTokenMonitor(WORDS)
    look_in_silence(share, ["a"] * 8)
    with pytest.warns(UserWarning, match=r"^11% of the text \(1 of 9 tokens so far\)"):
        share.look_at(["B"])


def test_only_the_beginning_is_looked_at() -> None:
    share = UnknownTokenMonitor(WORDS)
    look_in_silence(share, ["a"] * LOOKED_AT)
    look_in_silence(share, ["B"] * LOOKED_AT)
