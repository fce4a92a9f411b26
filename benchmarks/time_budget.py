"""Claim: a time budget is all that has to be set: the run ends on time, with a good model for that time.

    python benchmarks/time_budget.py --data-dir DATA --budget 3m --budget 15m --budget 40m > time_budget.json

For each budget the whole command runs in a process of its own, timed from its start to its exit; then the test set is
translated with a beam of 5. Nothing else should run on the machine.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from report import circumstances, print_json, refusals_in_words

from pellucid.planning.duration import parse_duration

RECIPE = "multi30k-de-en"
TEST = "multi30k/test_2016_flickr"


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Runs each budget, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder that holds multi30k/")
    parser.add_argument("--budget", action="append", required=True, help="as for `pellucid train`; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("runs/time-budget"), help="the run folders go below it")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    for budget in options.budget:
        parse_duration(budget)  # all of them before the first one is spent
    runs = [measured(budget, options.seed, options.out, options.data_dir) for budget in options.budget]
    print_json(circumstances(__file__, argv) | {"runs": runs})
    return 0


def measured(budget: str, seed: int, out: Path, data: Path) -> dict[str, Any]:
    """One budget's run: its wall time and its scores. The run's folder must be new."""
    folder = out / f"{budget}-{seed}"
    if folder.exists():
        raise SystemExit(f"{folder} exists: a run that has begun cannot be timed again")
    set_seed = ("--set", f"train.seed={seed}")
    started = time.monotonic()
    pellucid("train", RECIPE, "--data-dir", data, "--out", folder, "--budget", budget, *set_seed)
    wall = time.monotonic() - started
    test = ("--src", data / f"{TEST}.de.gz", "--ref", data / f"{TEST}.en.gz")
    scores = json.loads(pellucid("evaluate", folder, *test, "--beam-size", 5, "--json"))
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
        "test": scores,
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
