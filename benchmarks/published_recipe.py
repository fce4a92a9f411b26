"""Claim: a published recipe comes to its published score in Pellucid, so that a difference is the recipe's.

    python benchmarks/published_recipe.py --data-dir DATA --seed 1 > published_recipe.json

The recipe is that of Wu et al. (2021), published_recipe.toml: Transformer-Tiny, 2.6 million parameters, English to
German, 41.02 multi-bleu on lower-cased Moses tokens of Multi30k's test of 2016, which are what it is trained on. Scored
are the tokens as they are translated, with a beam of 5, against those of the references. Two hours on one core; the
same command goes on after a stop. `--recipe benchmarks/norms_recipe.toml` trains by what a time budget has, on the same
texts; `--augmented FOLDER` on the pairs that `pellucid augment` made of them, too.

Needs sacremoses, of the extra `dev`.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from multi_bleu import MultiBleu, moses_tokens, multi_bleu
from report import circumstances, print_json, refusals_in_words
from time_budget import pellucid

from pellucid.data.lines import read_lines
from pellucid.files.writing import write_text

RECIPE = Path(__file__).with_suffix(".toml")
PARTS, LANGUAGES = ("train", "val", "test_2016_flickr"), ("en", "de")
PUBLISHED = 41.02


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Trains with each seed, scores validation and test, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder that holds multi30k/")
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--recipe", type=Path, default=RECIPE, help="another recipe on the same texts (%(default)s)")
    parser.add_argument("--augmented", type=Path, nargs="+", default=[], help="folders of further pairs to train on")
    parser.add_argument("--length-penalty", type=float, help="of the search (the recipe's)")
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings, as section.key=value")
    parser.add_argument("--out", type=Path, default=Path("runs/published-recipe"), help="texts and runs go below it")
    options = parser.parse_args(argv)
    texts = options.out / "texts"
    write_tokens(options.data_dir / "multi30k", texts)
    runs = []
    for seed in options.seed:
        run = trained(options, texts, seed)
        scores = {part: asdict(scored(run, texts / part, options.length_penalty)) for part in PARTS[1:]}
        runs.append({"seed": seed, "scores": scores})
        told = ", ".join(f"{part} {score['score']:.2f}" for part, score in scores.items())
        print(f"seed {seed}: {told}", file=sys.stderr)
    print_json(circumstances(__file__, argv, ["sacremoses"]) | {"published": PUBLISHED, "runs": runs})
    return 0


def write_tokens(data: Path, out: Path) -> None:
    """Writes each text of Multi30k that is not there yet as lower-cased Moses tokens, a sentence a line."""
    out.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        for language in LANGUAGES:
            path = out / f"{part}.{language}"
            if path.exists():
                continue
            tokens = moses_tokens(list(read_lines(data / f"{part}.{language}.gz")), language)
            write_text(path, "".join(f"{' '.join(line)}\n" for line in tokens))


def trained(options: argparse.Namespace, texts: Path, seed: int) -> Path:
    """Trains on the texts and on what was made of them, returns the run."""
    run: Path = options.out / f"seed-{seed}"
    corpora = [(folder / "train.src", folder / "train.tgt") for folder in options.augmented]
    if corpora:  # files that are named stand for those of the recipe
        corpora.insert(0, (texts / f"train.{LANGUAGES[0]}", texts / f"train.{LANGUAGES[1]}"))
    named = [word for source, target in corpora for word in ("--src", source, "--tgt", target)]
    settings = [part for each in (*options.set, f"train.seed={seed}") for part in ("--set", each)]
    pellucid("train", options.recipe, "--data-dir", texts, *named, "--out", run, *settings)
    return run


def scored(run: Path, text: Path, length_penalty: float | None) -> MultiBleu:
    """Returns the score of a run's translations, as tokens, of a text."""
    source, target = (text.with_name(f"{text.name}.{language}") for language in LANGUAGES)
    out = run.with_name(f"{run.name}.{text.name}")
    penalty = [] if length_penalty is None else ["--length-penalty", length_penalty]
    pellucid("translate", run, "--input", source, "--output", out, "--fresh", *penalty)
    hypotheses, references = ([line.split() for line in read_lines(path)] for path in (out, target))
    return multi_bleu(hypotheses, references)


if __name__ == "__main__":
    sys.exit(main())
