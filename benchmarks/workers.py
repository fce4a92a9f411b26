"""Claim: two workers with a thread each translate more lines a second than one process with two threads, and the same.

    python benchmarks/workers.py --model RUN --input TEST.de > workers.json      (--quick: a trial on a few lines)

Each side is the command, `pellucid translate RUN --workers N --threads T`, from its start to its end; only one runs at
a time, and they take turns, each time another first. `--cores` is N times T: two of them make 1 x 2 and 2 x 1. The
seconds of a start, importing torch and opening the model, are told apart: those of a command that is given one line.
What all sides write must be equal, byte for byte; exit status 1 where it is not.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from report import circumstances, format_times, positive, print_json, refusals_in_words, summarize_times, time_call

from pellucid import read_lines
from pellucid.tasks.task import open_model

BEAMS = (5, 1)


def command(args: argparse.Namespace, workers: int, beam_size: int) -> list[str]:
    """Returns the command of one side."""
    options = {"--workers": workers, "--threads": args.cores // workers, "--beam-size": beam_size, "--device": "cpu"}
    words = [sys.executable, "-m", "pellucid", "translate", str(args.model)]
    return [*words, *(str(word) for option in options.items() for word in option)]


def measure(args: argparse.Namespace, text: Path, beam_size: int) -> tuple[dict[str, Any], bool]:
    """Returns the seconds of each side, and whether all wrote the same."""
    sides = {f"{n} x {args.cores // n}": command(args, n, beam_size) for n in (1, args.cores)}
    times: dict[str, list[float]] = {name: [] for name in sides}
    written: set[bytes] = set()

    def translate(words: list[str]) -> None:
        with text.open("rb") as lines:
            written.add(subprocess.run(words, stdin=lines, stdout=subprocess.PIPE, check=True).stdout)

    for number in range(args.rounds):
        names = [*sides] if number % 2 == 0 else [*sides][::-1]
        for name in names:
            times[name].append(time_call(lambda name=name: translate(sides[name])))  # type: ignore[misc]
    one, several = times.values()
    ratios = summarize_times([a / b for a, b in zip(one, several, strict=True)])
    words = ", ".join(f"{name} {statistics.median(values):.3g} s" for name, values in times.items())
    what = f"beam {beam_size}, {text.name}"
    print(f"{what}: {words}: workers are {format_times(ratios)} times as fast", file=sys.stderr)
    found = {name: summarize_times(values) for name, values in times.items()}
    return {"seconds": found, "workers times as fast": ratios}, len(written) == 1


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Measures; JSON on standard output, a line a beam on standard error. Returns 1 where outputs differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a run or model folder of a translator")
    parser.add_argument("--input", type=Path, required=True, help="source sentences, one a line")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--cores", type=positive, default=max(2, torch.get_num_threads()))
    parser.add_argument("--quick", action="store_true", help="a round with 80 lines, a trial of the script")
    args = parser.parse_args(argv)
    open_model(args.model)  # which says what is wrong with it
    lines = list(islice(read_lines(args.input), 80 if args.quick else None))
    args.rounds = 1 if args.quick else args.rounds
    with tempfile.TemporaryDirectory() as folder:
        text, line = Path(folder, "all lines"), Path(folder, "one line")
        text.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")
        line.write_text(f"{lines[0] if lines else ''}\n", encoding="utf-8")
        found = {f"beam {beam}": measure(args, text, beam) for beam in BEAMS}
        start = {f"beam {beam}": measure(args, line, beam)[0]["seconds"] for beam in BEAMS[1:]}
    equal = all(same for _, same in found.values())
    table = {"lines": len(lines), "equal": equal, "start": start} | {name: each for name, (each, _) in found.items()}
    print_json(circumstances(__file__, argv) | table)
    return int(not equal)


if __name__ == "__main__":
    sys.exit(main())
