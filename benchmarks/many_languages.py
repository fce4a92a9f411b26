"""Claim: one model of German, French and Czech to English is no worse at any of them than a model of that one alone.

    python benchmarks/many_languages.py --data-dir DATA --steps 3000 --test > many_languages.json
    python benchmarks/many_languages.py --data-dir DATA --steps 3000 --german 3000 --test > related_languages.json

Multi30k. Each language has a model of its own, trained for `--steps`; the model of all three has their steps together.
With `--german N` German has its first N pairs alone: what corpora of other languages give a small one, whose model
stops where validation is best. Shape, rate and schedule are those of the recipe multi30k-de-en, dropout is what a time
budget has for so many epochs. Scored is BLEU of the validation text, with `--test` of the test of 2016, by the recipe's
beam; the joint model stands beside each other one by paired bootstrap. What is there already is not trained again.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from report import circumstances, positive, print_json, refusals_in_words
from time_budget import pellucid, write_first

from pellucid.planning import rules

LANGUAGES = ("de", "fr", "cs")
HELD_OUT = {"validation": "multi30k/val", "test": "multi30k/test_2016_flickr"}
TOKENS_OF_A_PAIR = 15.0
"""English tokens of a pair with the end token, about."""
TOKENS_OF_A_STEP = 1_750


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Trains the models, compares them, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder that holds multi30k/")
    parser.add_argument("--steps", type=positive, default=3000, help="of a model of one language")
    parser.add_argument("--german", type=positive, metavar="N", help="German has its first N pairs alone")
    parser.add_argument("--own-pieces", type=positive, default=8000, help="of a language's own model (%(default)s)")
    parser.add_argument("--joint-pieces", type=positive, default=16000, help="of the one model (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings, as section.key=value")
    parser.add_argument("--test", action="store_true", help="score on the test of 2016, too: once, at the end")
    parser.add_argument("--out", type=Path, default=Path("runs/many-languages"), help="the run folders go below it")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    corpora = {language: corpus_of(language, options) for language in LANGUAGES}
    asked = [language for language in LANGUAGES if language == "de" or not options.german]
    own = {language: trained({language: corpora[language]}, options) for language in asked}
    joint = trained(corpora, options)
    texts = [text for text in HELD_OUT if options.test or text != "test"]
    found = {text: {name: compared(joint, run, name, text, options) for name, run in own.items()} for text in texts}
    print_json(circumstances(__file__, argv) | {"scores": found})
    return 0


def corpus_of(language: str, options: argparse.Namespace) -> tuple[Path, Path]:
    """Returns the training text of a language and its English, written anew where it is to be smaller."""
    whole = [options.data_dir / f"multi30k/train.{side}.gz" for side in (language, "en")]
    if language != "de" or not options.german:
        return whole[0], whole[1]
    small = options.out / f"{options.german}.{language}", options.out / f"{options.german}.en"
    write_first(options.german, whole, small)
    return small


def trained(corpora: Mapping[str, tuple[Path, Path]], options: argparse.Namespace) -> Path:
    """Trains a model on the corpora of some languages, returns its run."""
    name = "-".join([*corpora, *([str(options.german)] if options.german and "de" in corpora else [])])
    run: Path = options.out / f"{name}-{options.seed}"
    steps = options.steps * len(corpora)
    pairs = sum(options.german or 29_000 if language == "de" else 29_000 for language in corpora)
    pieces = options.own_pieces if len(corpora) == 1 else options.joint_pieces
    dropout = rules.dropout(steps * TOKENS_OF_A_STEP / (pairs * TOKENS_OF_A_PAIR))
    settings = [
        f"model.dropout={dropout}", f"data.vocab_size={pieces}",
        f"train.steps={steps}", f"train.warmup_steps={rules.warmup_steps(steps)}", f"train.seed={options.seed}",
        f"train.validate_every={max(1, steps // 10)}", f"train.save_every={max(1, round(steps * rules.SAVE_EVERY))}",
    ]  # fmt: skip
    if len(corpora) > 1:
        settings.append("data.sampling_temperature=2")
    given = [part for language, sides in corpora.items() for part in sides_of(language, sides, options)]
    if len(corpora) > 1:
        given += [part for language in corpora for part in ("--src-lang", language)] + ["--tgt-lang", "en"]
    overrides = [part for each in (*settings, *options.set) for part in ("--set", each)]
    pellucid("train", "multi30k-de-en", "--data-dir", options.data_dir, *given, "--out", run, *overrides)
    return run


def sides_of(language: str, corpus: tuple[Path, Path], options: argparse.Namespace) -> list[Any]:
    """Returns the options for a language's texts, to train on and to validate on."""
    held = [options.data_dir / f"{HELD_OUT['validation']}.{side}.gz" for side in (language, "en")]
    return ["--src", corpus[0], "--tgt", corpus[1], "--valid-src", held[0], "--valid-tgt", held[1]]


def compared(joint: Path, own: Path, language: str, text: str, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the scores of the joint model and of a language's own on a text, and their difference."""
    src, ref = (options.data_dir / f"{HELD_OUT[text]}.{side}.gz" for side in (language, "en"))
    found: dict[str, Any] = json.loads(
        pellucid("evaluate", joint, "--baseline", own, "--src", src, "--ref", ref, "--src-lang", language, "--json")
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
