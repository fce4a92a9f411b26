"""Noise on synthetic sources: as often and as far as it is meant to be."""

import numpy as np
import pytest

from pellucid.errors import ConfigError
from pellucid.synthetic_data.noise import BLANK, Noise

WORDS = [f"w{number}" for number in range(2000)]
TEXT = " ".join(WORDS)


def noisy(noise: Noise, text: str = TEXT, seed: int = 1) -> list[str]:
    return noise.apply(text, np.random.default_rng(seed)).split()


@pytest.mark.parametrize("most", [1, 3])
def test_words_end_near_their_places(most: int) -> None:
    found = [WORDS.index(word) for word in noisy(Noise(swap_words=most))]
    assert sorted(found) == list(range(len(WORDS)))
    moved = [abs(place - word) for place, word in enumerate(found)]
    assert max(moved) == most, "as far as is allowed, among so many, and no further"


def test_words_are_dropped_and_blanked_as_often_as_is_said() -> None:
    """Five standard deviations of a binomial draw."""
    kept = noisy(Noise(drop_words=0.1))
    assert [word for word in WORDS if word in set(kept)] == kept, "in their order"
    assert abs(len(kept) - 1800) < 5 * (2000 * 0.1 * 0.9) ** 0.5
    blanked = noisy(Noise(blank_words=0.2))
    assert len(blanked) == len(WORDS)
    assert all(word in (there, BLANK) for word, there in zip(blanked, WORDS, strict=True))
    assert abs(blanked.count(BLANK) - 400) < 5 * (2000 * 0.2 * 0.8) ** 0.5


def test_the_generator_alone_decides() -> None:
    noise = Noise(drop_words=0.1, blank_words=0.1, swap_words=3)
    assert noisy(noise) == noisy(noise)
    assert noisy(noise) != noisy(noise, seed=2)


def test_nothing_is_left_as_it_was_and_something_stays() -> None:
    assert not Noise()
    assert Noise().apply("a  b", np.random.default_rng(1)) == "a b"
    for seed in range(20):
        assert noisy(Noise(drop_words=0.99), "a b c", seed)
    assert Noise(drop_words=0.5).apply(" ", np.random.default_rng(1)) == " "


def test_scripts_without_spaces_have_characters() -> None:
    text = "狗在草地上奔跑" * 5
    found = Noise(swap_words=2).apply(text, np.random.default_rng(1))
    assert found != text
    assert sorted(found) == sorted(text)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"drop_words": 1.0}, "`drop_words=1.0` must be at least 0 and below 1"),
        ({"blank_words": -0.1}, "`blank_words=-0.1` must be at least 0 and below 1"),
        ({"swap_words": -1}, "`swap_words=-1` must be at least 0"),
    ],
)
def test_noise_that_cannot_be(given: dict[str, float], error: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Noise(**given)  # type: ignore[arg-type]
    assert (str(refused.value), bool(refused.value.hint)) == (error, True)
