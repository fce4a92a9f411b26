"""A toy task for the whole chain: letters to turn round, files of them, and a recipe that is small enough."""

import json
import random
from pathlib import Path
from typing import Any

from pellucid.config import Recipe

Pair = tuple[str, str]

SMALL = (
    "data.tokenizer=spaces", "model.d_model=16", "model.d_ff=32", "model.num_heads=2", "model.num_encoder_layers=1",
    "model.num_decoder_layers=1", "model.dropout=0.1", "train.steps=6", "train.warmup_steps=2",
    "train.batch_tokens=128", "train.validate_every=3", "train.decode_and_evaluate=4", "train.save_every=2",
    "train.average=2", "train.log_every=1", "decode.beam_size=2", "decode.max_length=12",
)  # fmt: skip
"""Settings on top of the recipe `default`, as --set takes them."""


def reversed_letters(count: int, seed: int = 1, longest: int = 6) -> list[Pair]:
    """Letters with spaces between them, and the same letters from the last to the first."""
    generator = random.Random(seed)
    rows = [generator.choices("abcdefgh", k=generator.randint(1, longest)) for _ in range(count)]
    return [(" ".join(row), " ".join(reversed(row))) for row in rows]


def write_pairs(folder: Path, pairs: list[Pair], name: str = "train") -> tuple[str, str]:
    """Writes the two sides and returns their paths."""
    paths = []
    for side, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
        path = folder / f"{name}.{side}"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        paths.append(str(path))
    return paths[0], paths[1]


def small_recipe(src: str, tgt: str, *settings: str) -> Recipe:
    """A recipe of a few steps for these texts; `settings` come on top."""
    return Recipe.load("default", [*SMALL, f'data.src="{src}"', f'data.tgt="{tgt}"', *settings])


def small_arguments(src: str, tgt: str, out: Path, *settings: str) -> list[str]:
    """The same as arguments of the command line."""
    options = [part for setting in (*SMALL, *settings) for part in ("--set", setting)]
    return ["train", "--src", src, "--tgt", tgt, "--out", str(out), *options]


def metrics(run: Path) -> list[dict[str, Any]]:
    """Returns what a run has logged, but for what the clock says."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    timing = ("seconds", "tokens_per_second")
    return [{key: value for key, value in json.loads(line).items() if key not in timing} for line in lines]
