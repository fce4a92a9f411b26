"""Claim: examples/one_file.py, plain Python, writes the translations of `pellucid translate`: 1,000 of 1,000 dates.

    python benchmarks/one_file.py > one_file.json        (--dates 20: a trial of seconds)

The model is the one of the package, the dates are those that the demo holds out of its training.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from report import circumstances, positive, print_json, refusals_in_words

from pellucid.data.dates import split_dates
from pellucid.demo import HELD_OUT, PAIRS, SEED, TRAINED
from pellucid.tasks.translator import Translator

SCRIPT = Path(__file__).parents[1] / "examples" / "one_file.py"


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dates", type=positive, default=HELD_OUT, help="how many of those held out")
    args = parser.parse_args(argv)
    _, held_out = split_dates(PAIRS, SEED, HELD_OUT)
    lines = [written for written, _ in held_out[: args.dates]]
    command = [sys.executable, str(SCRIPT), str(TRAINED)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, encoding="utf-8", check=True)
    wanted = [translation.text for translation in Translator.load(TRAINED, "cpu").translate(lines)]
    pairs = zip(lines, done.stdout.splitlines(), wanted, strict=True)
    different = [(line, found, text) for line, found, text in pairs if found != text]
    print_json({**circumstances(__file__, argv), "dates": len(lines), "different": different})
    return 0


if __name__ == "__main__":
    sys.exit(main())
