"""Says what to expect of few pairs: BLEU by pairs and language, and what pieces, depth, width and dropout do to it.

    python benchmarks/little_data.py --data-dir DATA curve --jobs 2 > little_data_curve.json
    python benchmarks/little_data.py --data-dir DATA settings --jobs 2 > little_data_settings.json
    python benchmarks/little_data.py --data-dir DATA width --jobs 2 > little_data_width.json

The first pairs of Multi30k stand for a small corpus: 1,000, 5,000 and 10,000 of them, from German, French and Czech to
English; `--corpus messages --languages ko` takes what program_messages.py wrote. `curve` trains each by the rules of a
time budget for 2 million target tokens, `settings` changes one of them at a time, from German, and `width` compares
d_model 64 with 128 in as much time, which is twice the steps. Each is a file for `pellucid sweep`, which stands below
`--out` with its runs; the same command goes on after a stop. Scored is the validation text, with a beam of 5; the test
set is not read.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from report import circumstances, positive, print_json, refusals_in_words
from time_budget import pellucid, write_first

from pellucid.config import KEYS
from pellucid.config.tables import split_override, toml_line
from pellucid.data.lines import read_lines
from pellucid.planning import rules
from pellucid.text.character_counts import CharacterCounts

SIZES = {1000: (1000, 0.3, 0.3), 5000: (2000, 0.21, 0.27), 10000: (2000, 0.16, 0.21)}
"""Pairs, with the pieces that the rules of a time budget had for them, and about their dropout: of a training as long
as `--steps` is by itself, and of one of twice the steps."""
SOURCES = ("de", "fr", "cs")
MULTI30K = "multi30k"
ALWAYS: dict[str, Any] = {
    "model.norm": "pre", "train.optimizer": "muon", "train.schedule": "wsd", "train.grad_clip": 1.0,
    "train.batch_tokens": 2048, "train.learning_rate": 4e-3, "train.decode_and_evaluate": 100, "train.average": 5,
    "train.precision": "auto",
}  # fmt: skip
VARIANTS: Mapping[str, dict[str, Any]] = {
    "half-the-pieces": {"data.vocab_size": 0.5}, "twice-the-pieces": {"data.vocab_size": 2.0},
    "dropout-10": {"model.dropout": 0.1}, "dropout-40": {"model.dropout": 0.4},
    "shallow": {"model.num_encoder_layers": 2, "model.num_decoder_layers": 2},
    "deep": {"model.num_encoder_layers": 6, "model.num_decoder_layers": 4},
    "narrow": {"model.d_model": 64, "model.d_ff": 256},
    "sampled": {"data.subword_regularization": 0.1},
}  # fmt: skip
"""What is changed of a setting; a factor, where it is the number of pieces."""


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Writes the texts and the file of a sweep, runs it, prints what came of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("curve", "settings", "width"))
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder that holds the corpus")
    parser.add_argument("--corpus", default=MULTI30K, help="the folder of train.LANGUAGE.gz and val.LANGUAGE.gz")
    parser.add_argument("--pairs", type=int, nargs="+", choices=SIZES, default=[*SIZES])
    parser.add_argument("--languages", nargs="+", default=[*SOURCES], help="the sources of `curve`, else the first")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=positive, default=1200)
    parser.add_argument("--jobs", type=positive, default=1, help="trainings side by side, a thread each")
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings, as section.key=value")
    parser.add_argument("--out", type=Path, default=Path("runs/little-data"), help="texts and runs go below it")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    write_texts(options)
    file = options.out / f"{options.what}.toml"
    file.write_text(sweep_file(options), encoding="utf-8")
    pellucid("sweep", file)
    found = json.loads((options.out / options.what / "results.json").read_text(encoding="utf-8"))
    print_json(circumstances(__file__, argv) | {"sweep": found})
    return 0


def write_texts(options: argparse.Namespace) -> None:
    """Writes the first pairs of each language, of each size."""
    for language in languages_of(options):
        sides = (language, "en")
        train = [options.data_dir / options.corpus / f"train.{side}.gz" for side in sides]
        for pairs in options.pairs:
            write_first(pairs, train, [options.out / f"{pairs}.{language}-en.{side}" for side in sides])


def sweep_file(options: argparse.Namespace) -> str:
    """Returns the file of a sweep."""
    always = ALWAYS | of_steps(options.steps)
    top: dict[str, Any] = {
        "recipe": "multi30k-de-en", "out": str(options.out / options.what), "data_dir": str(options.data_dir),
        "metric": "bleu", "beam_size": 5, "seeds": tuple(options.seeds), "jobs": options.jobs,
    }  # fmt: skip
    given: dict[str, Any] = {
        f"{section}.{key}": value for section, key, value in (split_override(each, KEYS) for each in options.set)
    }
    lines = [toml_line(key, value) for key, value in top.items()]
    lines += ["", "[set]", *(toml_line(key, value) for key, value in always.items() if key not in given)]
    lines += [toml_line(key, value) for key, value in given.items()]
    for name, values in trials(options).items():
        lines += ["", f"[runs.{name}]", *(toml_line(key, value) for key, value in values.items() if key not in given)]
    return "\n".join(lines) + "\n"


def of_steps(steps: int) -> dict[str, Any]:
    """Returns the settings that follow from the number of steps."""
    return {
        "train.steps": steps, "train.warmup_steps": max(1, steps * 8 // 100),
        "train.validate_every": max(1, steps // 5), "train.save_every": max(1, steps * 3 // 100),
    }  # fmt: skip


def trials(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Returns the settings to train with, by name."""
    found: dict[str, dict[str, Any]] = {}
    for pairs in options.pairs:
        for language in languages_of(options):
            base = settings_for(options, pairs, language)
            found[f"{language}-{pairs}"] = base
            if options.what == "width":
                longer = of_steps(2 * options.steps) | {"model.dropout": SIZES[pairs][2]}
                found[f"{language}-{pairs}-narrow"] = base | VARIANTS["narrow"] | longer
            for name, changed in VARIANTS.items() if options.what == "settings" else ():
                pieces = int(base["data.vocab_size"] * changed.get("data.vocab_size", 1))
                found[f"{language}-{pairs}-{name}"] = base | changed | {"data.vocab_size": pieces}
    return found


def languages_of(options: argparse.Namespace) -> Sequence[str]:
    """Returns the languages to translate from."""
    languages: Sequence[str] = options.languages
    return languages if options.what == "curve" else languages[:1]


def settings_for(options: argparse.Namespace, pairs: int, language: str) -> dict[str, Any]:
    """Returns the texts of so many pairs, which are written, and what the rules say of them."""
    pieces, dropout, _ = SIZES[pairs]
    texts = [str(options.out / f"{pairs}.{language}-en.{side}") for side in (language, "en")]
    settings: dict[str, Any] = {
        "data.src": texts[0], "data.tgt": texts[1], "data.valid_src": f"{options.corpus}/val.{language}.gz",
        "data.valid_tgt": f"{options.corpus}/val.en.gz", "data.vocab_size": pieces, "model.dropout": dropout,
    }  # fmt: skip
    if options.corpus == MULTI30K:
        return settings
    sides = [CharacterCounts.from_lines(read_lines(text)) for text in texts]
    if rules.scripts_differ(*sides):
        sizes = [rules.vocab_size(pairs, side) for side in sides]
        settings |= {"data.joint_vocab": False, "data.vocab_size": sizes[0], "data.tgt_vocab_size": sizes[1]}
        settings["model.tie_embeddings"] = "decoder"
    return settings


if __name__ == "__main__":
    sys.exit(main())
