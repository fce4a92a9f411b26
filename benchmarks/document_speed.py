"""How fast is a page next to its lines as plain text, without marks and with a bold word in each paragraph?

    OMP_NUM_THREADS=1 python benchmarks/document_speed.py RUN LINES.de --units 10000 --rounds 2

Each round translates the lines, a page with a paragraph per line, and the page with a bold word in each paragraph, in
turn. Equal lines are left out: a document translates them once. Times are of the processor (of all threads), so that
other programs on the machine count little. Speeds are relative to the lines. JSON goes to standard output.
"""

import argparse
import html
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from report import circumstances, positive, print_json, refusals_in_words

from pellucid.data.lines import read_lines
from pellucid.errors import DataError
from pellucid.tasks.translator import Translator

Sides = dict[str, Callable[[], object]]


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run folder of a translator")
    parser.add_argument("lines", type=Path, help="lines of its source language")
    parser.add_argument("--units", type=positive, default=10_000)
    parser.add_argument("--rounds", type=positive, default=2)
    arguments = parser.parse_args(argv)
    found = dict.fromkeys(line for line in read_lines(str(arguments.lines)) if line.strip())
    lines = list(islice(found, arguments.units))
    if len(lines) < arguments.units:
        raise DataError(f"`{arguments.lines}` has {len(lines):,} different lines", f"give `--units {len(lines)}`")
    translator = Translator.load(arguments.run, device="cpu")
    translator.translate(lines[:8])
    times = dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as folder:
        sides: Sides = {"lines": lambda: translator.translate(lines)}
        for name, has_marks in (("page", False), ("page with bold words", True)):
            path = Path(folder) / f"{name}.html"
            path.write_text("".join(make_paragraph(line, has_marks) for line in lines), encoding="utf-8")
            sides[name] = lambda path=path: translator.translate_document(path, path.with_suffix(".out.html"))  # type: ignore[misc]
        for _ in range(arguments.rounds):
            for name, side in sides.items():
                begin = time.process_time()
                side()
                times.setdefault(name, []).append(time.process_time() - begin)
                print(f"{name}: {times[name][-1]:.1f} s", file=sys.stderr)
    middle = {name: statistics.median(each) for name, each in times.items()}
    print_json(
        circumstances(__file__, argv)
        | {"units": len(lines), "seconds": {name: [round(each, 1) for each in row] for name, row in times.items()}}
        | {"relative speed": {name: round(middle["lines"] / each, 3) for name, each in middle.items()}}
    )
    return 0


def make_paragraph(line: str, has_marks: bool) -> str:
    """Returns a line as a paragraph of a page; the word in its middle may be bold."""
    words = [html.escape(word, quote=False) for word in line.split()]
    if has_marks:
        words[len(words) // 2] = f"<b>{words[len(words) // 2]}</b>"
    return f"<p>{' '.join(words)}</p>\n"


if __name__ == "__main__":
    sys.exit(main())
