"""How many lines a stream hands out at a time."""

import pytest

from pellucid.data.chunks import FEWEST, MOST, SECONDS, ChunkSizes


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def sizes_at(pace: float, count: int) -> list[int]:
    """The sizes of the first chunks of one process that answers so many lines a second."""
    clock = Clock()
    sizes, found = ChunkSizes(clock=clock), list[int]()
    for _ in range(count):
        found.append(sizes.choose())
        sizes.begin(found[-1])
        clock.now += found[-1] / pace
        sizes.end()
    return found


@pytest.mark.parametrize(
    ("pace", "expected"),
    [
        (0.5, [FEWEST] * 6),
        (37.0, [8, 32, 128, 148, 148, 148]),
        (250.0, [8, 32, 128, 512, 1000, 1000]),
        (1e5, [8, 32, 128, 512, MOST, MOST]),
    ],
)
def test_a_stretch_takes_some_seconds_whatever_the_pace(pace: float, expected: list[int]) -> None:
    assert sizes_at(pace, 6) == expected


def test_waiting_for_lines_is_no_slow_answer() -> None:
    clock = Clock()
    sizes = ChunkSizes(clock=clock)
    for lines in (8, 32, 128):
        clock.now += 1000.0  # nobody has written anything
        sizes.begin(lines)
        clock.now += lines / 100
        sizes.end()
    assert sizes.choose() == 100 * SECONDS


def test_workers_share_the_pace_that_they_have_together() -> None:
    """Two workers, each with 50 lines a second: a chunk of either takes the seconds that it should."""
    clock = Clock()
    sizes = ChunkSizes(2, clock)
    for _ in range(6):
        size = sizes.choose()
        sizes.begin(size)
        sizes.begin(size)
        clock.now += size / 50
        sizes.end()
        sizes.end()
    assert sizes.choose() == 50 * SECONDS


def test_near_the_end_workers_get_fewer_lines_each() -> None:
    clock = Clock()
    sizes = ChunkSizes(2, clock)
    for _ in range(4):
        sizes.begin(1000)
        clock.now += 1.0
        sizes.end()
    assert sizes.choose(share=0.5, read=4000) == 1000
    assert sizes.choose(share=0.9, read=4000) == 111
    assert sizes.choose(share=1.0, read=4000) == FEWEST
