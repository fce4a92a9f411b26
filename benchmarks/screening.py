"""Says which differences between two recipes matter: the main effects of seven factors, in eight runs.

    python benchmarks/screening.py --data-dir DATA --jobs 2 > screening.json

screening.toml has the factors: what the recipe multi30k-en-de and the one of Wu et al. (2021) do differently. It is a
file for `pellucid sweep`; the texts are written as lower-cased Moses tokens first, as published_recipe.py has them. The
same command goes on after a stop. Scored is the validation text, with a beam of 5; the test set is not read.

Needs sacremoses, of the extra `dev`.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from published_recipe import write_tokens
from report import circumstances, positive, print_json, refusals_in_words
from time_budget import pellucid

from pellucid.config.tables import toml_line

FILE = Path(__file__).with_suffix(".toml")


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Writes the texts, runs the sweep, prints what came of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder that holds multi30k/")
    parser.add_argument("--jobs", type=positive, default=1, help="trainings side by side, a thread each")
    parser.add_argument("--file", type=Path, default=FILE, help="the factors, and what all runs have (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("runs/screening"), help="texts and runs go below it")
    options = parser.parse_args(argv)
    texts, file = options.out / "texts", options.out / "screening.toml"
    write_tokens(options.data_dir / "multi30k", texts)
    where = toml_line("data_dir", str(texts))
    file.write_text(f"{where}\n{options.file.read_text(encoding='utf-8')}", encoding="utf-8")
    pellucid("sweep", file, "--out", options.out / "runs", "--jobs", options.jobs)
    found = json.loads((options.out / "runs/results.json").read_text(encoding="utf-8"))
    print_json(circumstances(__file__, argv, ["sacremoses"]) | {"sweep": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
