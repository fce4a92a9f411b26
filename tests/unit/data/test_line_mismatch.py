"""Where files stop being parallel: found to a few lines by the lengths alone, and not found where nothing is wrong."""

import numpy as np
import numpy.typing as npt
import pytest

from pellucid.data.line_mismatch import FEW, find_line_mismatch

Lengths = npt.NDArray[np.uint32]
PLACES = [40, 333, 1500, 2900]


def lengths(lines: int = 3000, seed: int = 1, noise: float = 0.2) -> tuple[Lengths, Lengths]:
    """As of sentences with their translations: the logarithms have a correlation of 0.9 (with that noise)."""
    generator = np.random.default_rng(seed)
    logarithms = generator.normal(4, 0.4, lines)
    src, tgt = np.exp(logarithms), np.exp(logarithms + generator.normal(0.1, noise, lines))
    return src.astype(np.uint32) + 1, tgt.astype(np.uint32) + 1


@pytest.mark.parametrize("lines", [2, 3, 5, 20, FEW - 1])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_handful_of_lines_says_nothing(lines: int, seed: int) -> None:
    src, tgt = lengths(lines, seed)
    assert find_line_mismatch(src, tgt[::-1].copy()) is None
    assert find_line_mismatch(src[1:], tgt) is None


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("side", ["src", "tgt"])
@pytest.mark.parametrize("fault", ["lost", "doubled", "foreign"])
@pytest.mark.parametrize("seed", [1, 2])
def test_one_line_lost_or_doubled(place: int, side: str, fault: str, seed: int) -> None:
    sides = dict(zip(("src", "tgt"), lengths(seed=seed), strict=True))
    if fault == "lost":
        sides[side] = np.delete(sides[side], place)
    else:
        sides[side] = np.insert(sides[side], place, sides[side][place] if fault == "doubled" else 55)
    found = find_line_mismatch(sides["src"], sides["tgt"])
    assert found is not None
    other = "tgt" if side == "src" else "src"
    assert (found.lacking, found.lines) == (side if fault == "lost" else other, 1)
    assert abs(found.line - (place + 1)) <= 10
    assert found.earliest - 1 <= place + 1 <= found.latest + 1
    assert found.latest - found.earliest < 30
    assert found.earliest <= found.line <= found.latest
    assert found.until is None


@pytest.mark.parametrize("gap", [40, 400])
def test_a_shift_that_ends_again(gap: int) -> None:
    src, tgt = lengths()
    found = find_line_mismatch(np.delete(np.insert(src, 1000 + gap, src[1000 + gap]), 1000), tgt)
    assert found is not None
    assert (found.lacking, found.lines) == ("src", 1)
    assert abs(found.line - 1001) <= 10
    assert found.until is not None
    assert abs(found.until - (1001 + gap)) <= 16


@pytest.mark.parametrize(("lost", "lines"), [(slice(700, 703), 3), (slice(700, 760), 60), (slice(700, 1400), 700)])
def test_several_lines_lost_at_once(lost: slice, lines: int) -> None:
    src, tgt = lengths()
    for side, sides in (("src", (np.delete(src, lost), tgt)), ("tgt", (src, np.delete(tgt, lost)))):
        found = find_line_mismatch(*sides)
        assert found is not None
        assert (found.lacking, found.lines) == (side, lines)
        assert abs(found.line - 701) <= 10


def test_lines_lost_all_over_the_text() -> None:
    """As where one side was cleaned of some lines: the first place is named, whatever comes after it."""
    src, tgt = lengths()
    found = find_line_mismatch(np.delete(src, np.arange(600, 3000, 37)), tgt)
    assert found is not None
    assert (found.lacking, found.lines, abs(found.line - 601) <= 10) == ("src", 1, True)


@pytest.mark.parametrize("lost", [1, 5, 1000])
def test_a_lost_end_is_no_shift(lost: int) -> None:
    src, tgt = lengths()
    assert find_line_mismatch(src[:-lost], tgt) is None
    assert find_line_mismatch(src, tgt[:-lost]) is None


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_where_nothing_is_wrong(seed: int) -> None:
    generator = np.random.default_rng(seed)
    src, tgt = lengths(seed=seed)
    cases = {
        "parallel": (src, tgt),
        "loosely parallel": lengths(seed=seed, noise=0.8),
        "some bad pairs": (src, np.where(generator.random(len(tgt)) < 0.2, 5, tgt).astype(np.uint32)),
        "nothing to do with each other": (src, generator.permutation(tgt)),
        "and of different number": (src[:2500], generator.permutation(tgt)),
        "targets of one length": (src, np.full_like(tgt, 10)),
        "both of one length": (np.full_like(tgt, 10), np.full_like(tgt, 10)),
        "sorted by the source": (src[(order := np.argsort(src))], tgt[order]),
        "sorted by both": (src[(order := np.lexsort((src, tgt)))], tgt[order]),
        "each line four times": (np.repeat(src, 4), np.repeat(tgt, 4)),
        "few lines": (src[:12], tgt[:12]),
        "empty lines": (src * 0, tgt * 0),
    }
    assert [name for name, case in cases.items() if find_line_mismatch(*case) is not None] == []


@pytest.mark.parametrize(("sources", "targets"), [(0, 0), (0, 5), (5, 0), (1, 1), (1, 2), (2, 1)])
def test_hardly_any_lines(sources: int, targets: int) -> None:
    assert find_line_mismatch(np.arange(sources, dtype=np.uint32), np.arange(targets, dtype=np.uint32)) is None


@pytest.mark.parametrize("side", ["src", "tgt"])
def test_a_block_lost_here_and_another_added_further_on(side: str) -> None:
    sides = dict(zip(("src", "tgt"), lengths(), strict=True))
    block = lengths(4, seed=9)[0]
    sides[side] = np.delete(np.insert(sides[side], 2000, block), slice(1000, 1004))
    found = find_line_mismatch(sides["src"], sides["tgt"])
    assert found is not None
    assert (found.lacking, found.lines) == (side, 4)
    assert abs(found.line - 1001) <= 10
