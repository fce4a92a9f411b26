"""Makes many tries and writes down what came of them.

python -m tests.fuzz.run_long --tries 2000 --out benchmarks/results/2026-11-22-fuzz.json
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

from tests.fuzz.subjects import SUBJECTS, WITH_TOKENIZERS
from tests.fuzz.trying import MEMORY, SECONDS, try_out

SLOW = {"run folders": 10, "HTTP answers": 2}
"""Of these one try in so many is made: each takes a whole training, or waits for a server."""


def main() -> int:
    """Returns 1 where a try was a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    subjects = SUBJECTS | WITH_TOKENIZERS
    parser.add_argument("--tries", type=int, default=1000, help="of each subject")
    parser.add_argument("--first", type=int, default=0, help="the number of the first try")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--only", choices=list(subjects), action="append")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    given = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["no_proxy"] = "*"
    told, faulty = {}, 0
    with tempfile.TemporaryDirectory() as name:
        for number, subject in enumerate(given.only or subjects):
            begun = time.monotonic()
            base = Path(name) / str(number)
            base.mkdir()
            attempt = subjects[subject](base / "sound")
            count = max(1, given.tries // SLOW.get(subject, 1))
            found = try_out(attempt, given.seed, range(given.first, given.first + count), base / "tries")
            faulty += len(found.faults)
            told[subject] = {
                "tries": found.tries, **found.counts, "most_growth_mb": round(found.growth / 1e6),
                "slowest_try_s": round(found.slowest, 1), "seconds": round(time.monotonic() - begun),
                "faults": found.faults[:20],
            }  # fmt: skip
            print(f"{subject}: {json.dumps(told[subject])}", flush=True)
    if given.out:
        table = {
            "command": f"python -m tests.fuzz.run_long --tries {given.tries} --seed {given.seed}",
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, torch {torch.__version__}",
            "limits": {"address_space_mb": MEMORY // 2**20, "seconds": SECONDS},
            "tries": sum(one["tries"] for one in told.values()),
            "subjects": told,
        }
        given.out.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
