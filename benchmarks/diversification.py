"""Claim: a corpus gives more than itself: one model of what several write of it is ahead of one of the corpus alone.

    python benchmarks/diversification.py --data-dir DATA --direction de-en --forward A B C --backward D E \
        --seed 1 --test > diversification.json

Data diversification (Nguyen et al. 2020) on Multi30k, without further text: to the pairs come the sources as the
forward models translate them together, and for each backward model the targets with the sources that it writes. The
recipe of the direction is trained on all of it. BLEU of the validation text by length penalty, with `--test` of the
test of 2016 by the recipe's. What is there already is not made again, so the same command goes on after a stop.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from report import circumstances, print_json, refusals_in_words
from time_budget import pellucid

HELD_OUT = {"validation": "multi30k/val", "test": "multi30k/test_2016_flickr"}
PENALTIES = (1.2, 1.6, 2.0)


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Writes the texts, trains on them, scores, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder that holds multi30k/")
    parser.add_argument("--direction", choices=("de-en", "en-de"), required=True)
    parser.add_argument("--forward", type=Path, nargs="+", required=True, help="runs of this direction")
    parser.add_argument("--backward", type=Path, nargs="+", required=True, help="runs of the other one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="a setting of the training, as section.key=value")
    parser.add_argument("--test", action="store_true", help="score on the test of 2016, too: once, at the end")
    parser.add_argument("--out", type=Path, default=Path("runs/diversification"), help="all folders go below it")
    options = parser.parse_args(argv)
    run = train(options)
    found = {f"validation, length penalty {x}": scored(run, "validation", options, x) for x in PENALTIES}
    if options.test:
        found["test"] = scored(run, "test", options)
    print_json(circumstances(__file__, argv) | {"scores": found})
    return 0


def train(options: argparse.Namespace) -> Path:
    """Writes what the models make of the corpus, trains on all of it, returns the run."""
    recipe, out, data = f"multi30k-{options.direction}", options.out / options.direction, options.data_dir
    src, tgt = (data / f"multi30k/train.{language}.gz" for language in options.direction.split("-"))
    held = [data / f"{HELD_OUT['validation']}.{language}.gz" for language in options.direction.split("-")]
    real = ["--recipe", recipe, "--data-dir", data, "--src", src, "--tgt", tgt]
    real += ["--valid-src", held[0], "--valid-tgt", held[1]]
    first, *others = options.forward
    together = ["--ensemble", *others] if others else []
    made = [out / "forward", *(out / f"backward-{number}" for number in range(1, len(options.backward) + 1))]
    pellucid("augment", first, "--direction", "forward", "--input", src, "--out", made[0], *together, *real)
    for model, folder in zip(options.backward, made[1:], strict=True):
        pellucid("augment", model, "--input", tgt, "--tag", "", "--out", folder, *real)
    corpora = [(src, tgt), *((folder / "train.src", folder / "train.tgt") for folder in made)]
    named = [word for source, target in corpora for word in ("--src", source, "--tgt", target)]
    settings = [part for each in (*options.set, f"train.seed={options.seed}") for part in ("--set", each)]
    run: Path = out / f"seed-{options.seed}"
    pellucid("train", recipe, "--data-dir", data, *named, "--out", run, *settings)
    return run


def scored(run: Path, text: str, options: argparse.Namespace, length_penalty: float | None = None) -> dict[str, Any]:
    """The scores of a run on a text."""
    src, ref = (options.data_dir / f"{HELD_OUT[text]}.{language}.gz" for language in options.direction.split("-"))
    penalty = [] if length_penalty is None else ["--length-penalty", length_penalty]
    scores: dict[str, Any] = json.loads(pellucid("evaluate", run, "--src", src, "--ref", ref, *penalty, "--json"))
    return scores


if __name__ == "__main__":
    sys.exit(main())
