"""The sides of a corpus that models write: a file each, as many lines in both, there as a whole or not at all."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from pellucid.files.writing import replacing


def write_sides(paths: Sequence[Path], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> int:
    """Writes the sides of pairs, a file each, in one piece; returns how many lines each has."""
    number = 0
    with ExitStack() as stack:
        temporaries = [stack.enter_context(replacing(path)) for path in paths]
        files = [stack.enter_context(t.open("w", encoding="utf-8", newline="\n")) for t in temporaries]
        for row in rows:
            number += 1
            for file, text in zip(files, row, strict=True):
                file.write(f"{text}\n")
        for file in files:  # before they take their places
            file.close()
    return number


def read_side(path: Path) -> Iterator[str]:
    """Yields the lines of a side, without their ends."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")
