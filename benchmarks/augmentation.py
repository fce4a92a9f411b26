"""Claim: with few pairs, text of one language brings a good part of what its hidden translations would.

    python benchmarks/augmentation.py --data-dir DATA --pairs 5000 --budget 15m > augmentation.json

Of Multi30k the first pairs are known; of the others their English alone. Trained from German to English, by one recipe:
on the known pairs; on these and what a model of them, from English to German, writes for the English of the others, in
each way of `--ways`; with `--writers N` also on what N such models write, each for all of it; with `--taught` also on
what a model writes that was itself trained on the pairs and on what those wrote together (self-training, He et al.
2020), `--taught noise` from English with noise; on all pairs. All are scored on the validation text, with `--test` on
the test of 2016, and those that write by their German of the validation text. The share of a way is
(way - few) / (all - few), by BLEU of the validation text.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from report import circumstances, positive, print_json, refusals_in_words
from time_budget import pellucid

from pellucid.data.lines import read_pairs
from pellucid.planning.duration import parse_duration

WAYS: dict[str, tuple[str, ...]] = {
    "beam": (), "noise": ("--noise",), "sample": ("--sample",), "top10": ("--sample", "--top-k", "10"),
    "copies": ("--add-copies",), "untagged": ("--tag", ""),
}  # fmt: skip
HELD_OUT = {"validation": "multi30k/val", "test": "multi30k/test_2016_flickr"}


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Trains each system for each seed, scores it, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder that holds multi30k/")
    parser.add_argument("--pairs", type=positive, default=5000, help="pairs that are known")
    parser.add_argument("--budget", help="of each training, as for `pellucid train`; without it the recipe's steps")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["beam", "noise"])
    parser.add_argument("--writers", type=positive, default=1, help="models that write, by seeds of their own")
    parser.add_argument(
        "--taught", nargs="?", const="plain", choices=["plain", "noise"], help="a writer learns from what others wrote"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings, as section.key=value")
    parser.add_argument("--test", action="store_true", help="score on the test of 2016, too: once, at the end")
    parser.add_argument("--out", type=Path, default=Path("runs/augmentation"), help="all folders go below it")
    options = parser.parse_args(argv)
    if options.budget:
        parse_duration(options.budget)  # before anything is written
    write_texts(options.data_dir, options.out, options.pairs)
    runs = [row for seed in options.seeds for row in rows_of(seed, options)]
    print_json(circumstances(__file__, argv) | {"pairs": options.pairs, "runs": runs})
    return 0


def write_texts(data: Path, out: Path, pairs: int) -> None:
    """Writes the pairs that are known, and the English of the others."""
    out.mkdir(parents=True, exist_ok=True)
    both = read_pairs(data / "multi30k/train.de.gz", data / "multi30k/train.en.gz")
    known = list(islice(both, pairs))
    (out / "few.de").write_text("".join(f"{german}\n" for german, _ in known), encoding="utf-8")
    (out / "few.en").write_text("".join(f"{english}\n" for _, english in known), encoding="utf-8")
    (out / "more.en").write_text("".join(f"{english}\n" for _, english in both), encoding="utf-8")


def rows_of(seed: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Trains all systems with a seed; returns a row for each."""
    out, data = options.out, options.data_dir
    folder = out / f"seed-{seed}"
    each = [part for setting in (*options.set, f"train.seed={seed}") for part in ("--set", setting)]
    each += ["--budget", options.budget] if options.budget else []

    def few(source: str, target: str) -> list[object]:
        held = data / HELD_OUT["validation"]
        given: list[object] = ["--data-dir", data, "--src", out / f"few.{source}", "--tgt", out / f"few.{target}"]
        return [*given, "--valid-src", f"{held}.{source}.gz", "--valid-tgt", f"{held}.{target}.gz"]

    recipe, real = "multi30k-de-en", few("de", "en")
    pellucid("train", recipe, *real, "--out", folder / "few", *each)
    pellucid("train", recipe, "--data-dir", data, "--out", folder / "all", *each)
    writers = [folder / f"reverse-{number}" for number in range(1, options.writers + 1)]
    for number, writer in enumerate(writers):
        own = ("--set", f"train.seed={seed + 100 * number}")
        pellucid("train", "multi30k-en-de", *few("en", "de"), "--out", writer, *each, *own)
    authors = {"": writers[:1]} | ({f"-by-{options.writers}": writers} if options.writers > 1 else {})
    if options.taught:
        taught, wrote = folder / "reverse-taught", folder / "taught-pairs"
        how: list[object] = ["--direction", "forward", "--input", out / "more.en", "--out", wrote]
        how += ["--ensemble", *writers[1:]] if writers[1:] else []
        how += ["--noise"] if options.taught == "noise" else []
        pellucid("augment", writers[0], *how, "--recipe", "multi30k-en-de", *few("en", "de"))
        pellucid("train", *mixed([wrote]), "--out", taught, *each)
        authors["-taught"] = [taught]
    systems = ["few"]
    for way in options.ways:
        for name, those in authors.items():
            pairs = [folder / f"{way}-pairs{author.name.removeprefix('reverse')}" for author in those]
            for author, written in zip(those, pairs, strict=True):
                more = ("--direction", "back", "--input", out / "more.en", "--out", written)
                pellucid("augment", author, *more, "--recipe", recipe, *real, *WAYS[way])
            systems.append(f"{way}{name}")
            pellucid("train", *mixed(pairs), "--out", folder / systems[-1], *each)
    names = HELD_OUT if options.test else {"validation": HELD_OUT["validation"]}
    rows: list[dict[str, Any]] = []
    for system in (*systems, "all"):
        scores = {name: scored(folder / system, data / place) for name, place in names.items()}
        rows.append({"seed": seed, "system": system, "scores": scores})
    few_bleu, most = (rows[place]["scores"]["validation"]["bleu"] for place in (0, -1))
    for row in rows:
        gained, all_bring = row["scores"]["validation"]["bleu"] - few_bleu, most - few_bleu
        row["share"] = round(gained / all_bring, 3) if all_bring else None
    place = data / HELD_OUT["validation"]
    for author in dict.fromkeys(chain(*authors.values())):
        found = scored(author, place, source="en", reference="de")
        rows.append({"seed": seed, "system": author.name, "scores": {"validation": found}, "share": None})
    for row in rows:
        print(f"seed {seed}, {row['system']}: {row['scores']['validation']['bleu']:.2f}", file=sys.stderr)
    return rows


def mixed(pairs: Sequence[Path]) -> list[object]:
    """Returns what a training on the real pairs and on each of the written ones is asked with.

    Real and written pairs weigh alike, as `pellucid augment` has it, real ones ten times at most.
    """
    recipe = pairs[0] / "recipe.toml"
    data = tomllib.loads(recipe.read_text(encoding="utf-8"))["data"]
    corpora = [(data["src"][0], data["tgt"][0]), *((each / "train.src", each / "train.tgt") for each in pairs)]
    weights = [min(10.0, data["corpus_weights"][0] * len(pairs)), *(1.0 for _ in pairs)]
    texts = [word for src, tgt in corpora for word in ("--src", src, "--tgt", tgt)]
    return [recipe, *texts, "--set", f"data.corpus_weights={weights}"]


def scored(run: Path, place: Path, source: str = "de", reference: str = "en") -> dict[str, Any]:
    """The scores of a run on a text."""
    found = pellucid("evaluate", run, "--src", f"{place}.{source}.gz", "--ref", f"{place}.{reference}.gz", "--json")
    scores: dict[str, Any] = json.loads(found)
    return scores


if __name__ == "__main__":
    sys.exit(main())
