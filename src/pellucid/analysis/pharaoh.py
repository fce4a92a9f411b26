"""Word alignments as the common tools write them: a line a sentence, `0-0 1-2 2?3`, source before target.

`i-j` is a sure link, `i?j` or `ipj` a possible one. Numbers count words from 0 (Pharaoh, fast_align), or from 1 in some
gold sets.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pellucid.errors import DataError

Link = tuple[int, int]
"""The number of a source word and of a target word, from 0."""

LINK = re.compile(r"(\d+)([-?p])(\d+)")


@dataclass(frozen=True, slots=True)
class Gold:
    """What people say is aligned. Every sure link is a possible one, too."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def write_links(links: Iterable[Link]) -> str:
    """`0-0 1-2`, by the target's number, then the source's."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links, key=lambda link: link[::-1]))


def read_gold(lines: Iterable[str], one_based: bool = False) -> Iterator[Gold]:
    """The alignment of each line; a file without possible links has none but the sure ones.

    Raises DataError, with the line's number, for what is no link, or a 0 where numbers count from 1.
    """
    for number, line in enumerate(lines, start=1):
        sure, possible = set(), set()
        for text in line.split():
            link, is_sure = _link(text, number, int(one_based))
            possible.add(link)
            if is_sure:
                sure.add(link)
        yield Gold(frozenset(sure), frozenset(possible))


def _link(text: str, line: int, first: int) -> tuple[Link, bool]:
    """A link, and whether it is sure."""
    match = LINK.fullmatch(text)
    if match is None:
        raise DataError(
            f"line {line} of the alignments holds `{text[:40]}`, which is no link",
            "links are `i-j` (sure) or `i?j` (possible), with a space between them",
        )
    i, j = int(match[1]) - first, int(match[3]) - first
    if min(i, j) < 0:
        raise DataError(f"line {line} of the alignments holds `{text}`, but its words count from 1")
    return (i, j), match[2] == "-"
