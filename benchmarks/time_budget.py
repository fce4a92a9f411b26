"""Claim: a time budget is all that has to be set: the run ends on time, with a good model for that time.

    python benchmarks/time_budget.py --data-dir DATA --budget 3m --budget 15m --budget 40m > time_budget.json

For each budget the whole command runs in a process of its own, timed from its start to its exit; then the test set is
translated with a beam of 5. Nothing else should run on the machine.

    python benchmarks/time_budget.py --data-dir DATA --budget 40m --pairs 5000 --teachers 3 --back-teachers 2

What a budget buys that is more than one model needs: the first pairs alone are known, and teachers share the time.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from report import circumstances, positive, print_json, refusals_in_words

from pellucid.data.lines import read_pairs
from pellucid.planning.duration import parse_duration

RECIPE, SIDES = "multi30k-de-en", ("de", "en")
HELD_OUT = {"validation": "multi30k/val", "test": "multi30k/test_2016_flickr"}


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Runs each budget, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder that holds multi30k/")
    parser.add_argument("--budget", action="append", required=True, help="as for `pellucid train`; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("runs/time-budget"), help="the run folders go below it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=positive, help="the first pairs alone are known (all)")
    parser.add_argument("--teachers", type=positive, help="models that share the time with the run (none)")
    parser.add_argument("--back-teachers", type=positive, help="as many of the other direction (none)")
    options = parser.parse_args(argv)
    for budget in options.budget:
        parse_duration(budget)  # all of them before the first one is spent
    texts = [] if options.pairs is None else first_pairs(options.data_dir, options.out, options.pairs)
    runs = [measured(budget, options, texts) for budget in options.budget]
    print_json(circumstances(__file__, argv) | {"runs": runs})
    return 0


def first_pairs(data: Path, out: Path, pairs: int) -> list[object]:
    """Writes the first pairs of the training text; returns the options that name them."""
    out.mkdir(parents=True, exist_ok=True)
    small = [out / f"train-{pairs}.{side}" for side in SIDES]
    whole, held = ([data / f"multi30k/{part}.{side}.gz" for side in SIDES] for part in ("train", "val"))
    write_first(pairs, whole, small)
    return ["--src", small[0], "--tgt", small[1], "--valid-src", held[0], "--valid-tgt", held[1]]


def write_first(count: int, whole: Sequence[Path], small: Sequence[Path]) -> None:
    """Writes the first pairs of a corpus, source and target, into two files."""
    for path, lines in zip(small, zip(*islice(read_pairs(*whole), count), strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def measured(budget: str, options: argparse.Namespace, texts: Sequence[object]) -> dict[str, Any]:
    """One budget's run: its wall time and its scores. The run's folder must be new."""
    data, seed = options.data_dir, options.seed
    shared = [word for name in ("teachers", "back_teachers") if (number := vars(options)[name])
              for word in (f"--{name.replace('_', '-')}", number)]  # fmt: skip
    pairs = [] if options.pairs is None else ["pairs", str(options.pairs)]
    folder = options.out / "-".join([budget, str(seed), *pairs, *(str(word).strip("-") for word in shared)])
    if folder.exists() or [*folder.parent.glob(f"{folder.name}.*")]:  # teachers come before the run
        raise SystemExit(f"{folder} exists: a run that has begun cannot be timed again")
    command = ["train", RECIPE, "--data-dir", data, *texts, "--out", folder, "--budget", budget, *shared]
    started = time.monotonic()
    pellucid(*command, "--set", f"train.seed={seed}")
    wall = time.monotonic() - started
    scores = {}
    for name, text in HELD_OUT.items():
        held_out = ("--src", data / f"{text}.de.gz", "--ref", data / f"{text}.en.gz")
        scores[name] = json.loads(pellucid("evaluate", folder, *held_out, "--beam-size", 5, "--json"))
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return {
        "budget": budget,
        "seed": seed,
        "budget_seconds": parse_duration(budget),
        "wall_seconds": round(wall, 1),
        "plan": plan["plan"],
        "expected_bleu": plan["expected_bleu"],
        "steps": result["steps"],
        "tokens": result["tokens"],
        "validation_bleu": result["valid_bleu"],
        **scores,
    }


def pellucid(*args: object) -> str:
    """What the command prints on standard output."""
    command = [sys.executable, "-m", "pellucid", *map(str, args)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:  # it has said why
        raise SystemExit(done.returncode)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
