"""Claim: the recipe of a time budget reaches 36 and 39 BLEU (Multi30k, German to English) in at most 0.6 of the time.

    python benchmarks/speedrun.py train --data-dir DATA --attempt muon --steps 1600 --seed 1
    python benchmarks/speedrun.py train --data-dir DATA --attempt muon --change source-words --steps 1600 --seed 1
    python benchmarks/speedrun.py table > speedrun.json

`train` takes one attempt of speedrun.toml to the end of its steps, in a run folder of its own, with what is not a
setting changed by `--change`, and writes down what it came to: greedy BLEU and loss of all 1,014 validation lines for
the model that is kept, and the seconds of its steps, validations and checkpoints left out, by the clock and of the
processor. `table` puts all attempts below a folder side by side, and says from how many steps on each reaches a score,
and how long that takes: between two lengths in proportion to the logarithm of the steps. A run is as long as it is
planned to be, since its rate falls at the end; so an attempt is trained at two lengths or more. The test set decides
nothing and is not read.
"""

import argparse
import json
import math
import statistics
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from changes import CHANGES, Change
from report import circumstances, positive, print_json, refusals_in_words

import pellucid
from pellucid.errors import ConfigError
from pellucid.planning import rules
from pellucid.training import loop

RECIPE = "multi30k-de-en"
ATTEMPTS = Path(__file__).with_suffix(".toml")
GOALS = (36.0, 39.0)
DROPOUTS = ((4.0, 0.1), (10.0, 0.15), (20.0, 0.2), (40.0, 0.25), (80.0, 0.3))
"""Dropout by epochs, as the budget that attempts are compared with had it."""
SHAPE, EPOCH = 1, 482_675
"""The shape among `rules.SHAPES`; the target tokens of an epoch."""
FILLED = 0.853
"""The part of a batch's tokens that are the target's, padding left out."""


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Trains an attempt, or prints all of them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("train", "table"))
    parser.add_argument("--data-dir", type=Path, help="the folder that holds multi30k/")
    parser.add_argument("--attempt", default="adam", help="a name in speedrun.toml")
    parser.add_argument("--change", choices=CHANGES, help="what is changed of the run beside settings")
    parser.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="settings that win over the attempt's"
    )
    parser.add_argument("--steps", type=positive, default=1600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("runs/speedrun"), help="the run folders go below it")
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    found = {"run": train(options)} if options.verb == "train" else {"attempts": table(options.out)}
    print_json(circumstances(__file__, argv) | found)
    return 0


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Trains one attempt to its end, and writes what it came to into `attempt.json` of its run folder."""
    attempts = tomllib.loads(ATTEMPTS.read_text(encoding="utf-8"))["attempts"]
    if options.attempt not in attempts:
        raise ConfigError(f"no attempt is named `{options.attempt}`", f"speedrun.toml has {', '.join(attempts)}")
    name = "-".join(filter(None, (options.attempt, options.change)))
    folder = options.out / f"{name}-{options.steps}-{options.seed}"
    own = [*attempts[options.attempt], *options.set]
    settings = [*planned(options.steps, own), *own, f"train.seed={options.seed}"]
    change = CHANGES[options.change] if options.change else Change()
    run = pellucid.Run(RECIPE, folder, parts=change.parts, overrides=settings, data_dir=options.data_dir, device="cpu")
    change.prepare(run)
    watch = Watch()
    run.on_step(lambda event: watch.stepped())
    run.on_validation(lambda event: watch.paused())
    run.on_checkpoint(lambda event: watch.paused())
    with patch.object(loop, "batch_order", change.order):
        result = run.train()
    found = {
        "attempt": name, "settings": own, "steps": result.steps, "seed": options.seed,
        "threads": options.threads, "tokens": result.tokens, "valid_bleu": result.valid_bleu,
        "valid_loss": result.valid_loss, "kept": result.kept, "precision": run.recipe.train.precision,
    } | watch.means()  # fmt: skip
    (folder / "attempt.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{folder.name}: BLEU {result.valid_bleu:.2f}, loss {result.valid_loss:.4f}", file=sys.stderr)
    return found


def planned(steps: int, own: Sequence[str]) -> list[str]:
    """Returns the settings that a time budget had for so many steps before the attempts."""
    shape = rules.SHAPES[SHAPE]
    given = dict(each.split("=", 1) for each in own)
    batch = int(given.get("train.batch_tokens", rules.batch_tokens(shape["d_model"], 900)))
    epochs, dropouts = zip(*DROPOUTS, strict=True)
    dropout = round(float(np.interp(steps * batch * FILLED / EPOCH, epochs, dropouts)), 2)
    settings = {f"model.{name}": value for name, value in shape.items()} | {
        "model.norm": '"pre"', "model.dropout": dropout, "data.vocab_size": 4000,
        # As the recipe was when these were run; an attempt says what it changes.
        "model.embedding_norm": "false", "model.qk_norm": "false", "model.cross_query_norm": "true",
        "train.muon_learning_rate": 0.01, "train.embedding_scale": 1.0, "train.optimizer": '"adam"',
        "train.schedule": '"stable"', "train.grad_clip": 1.0, "train.batch_tokens": batch, "train.steps": steps,
        "train.learning_rate": rules.learning_rate(shape["d_model"]), "train.warmup_steps": rules.warmup_steps(steps),
        "train.validate_every": max(1, steps // 5), "train.validate_decode": 100, "train.average": rules.AVERAGE,
        "train.save_every": max(1, round(steps * rules.SAVE_EVERY)), "train.precision": '"auto"',
    }  # fmt: skip
    if "train.init_from" in given:  # whose tokenizer it goes on with
        del settings["data.vocab_size"]
    return [f"{name}={value}" for name, value in settings.items()]


class Watch:
    """Takes the time of steps, without what a run does between them."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._clock: list[float] = []
        self._processor: list[float] = []

    def stepped(self) -> None:
        """Counts the time since the step before, where nothing else came between."""
        now = time.perf_counter(), time.process_time()
        if self._before is not None:
            self._clock.append(now[0] - self._before[0])
            self._processor.append(now[1] - self._before[1])
        self._before = now

    def paused(self) -> None:
        """Leaves out the time until the next step."""
        self._before = None

    def means(self) -> dict[str, float]:
        """Returns the mean seconds of a step; none of a run with a pause behind each."""
        if not self._clock:
            return {}
        clock, processor = statistics.fmean(self._clock), statistics.fmean(self._processor)
        return {"seconds_a_step": round(clock, 5), "processor_seconds_a_step": round(processor, 5)}


def table(folder: Path) -> list[dict[str, Any]]:
    """Returns, for each attempt and its settings, the runs by length, and from how many steps on they reach each goal.

    Raises ConfigError where none has ended.
    """
    runs: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.rglob("attempt.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        runs[run["attempt"], *run["settings"]].append(run)
    if not runs:
        raise ConfigError(f"no attempt has ended below `{folder}`", "train some first")
    return [{"attempt": name, "runs": found} | summary(found) for (name, *_), found in runs.items()]


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns means over seeds by length, and the steps and the time to each goal."""
    scores, losses = defaultdict(list), defaultdict(list)
    for run in runs:
        scores[run["steps"]].append(run["valid_bleu"])
        losses[run["steps"]].append(run["valid_loss"])
    lengths = sorted(scores)
    means = [statistics.fmean(scores[steps]) for steps in lengths]
    timed = [run["processor_seconds_a_step"] for run in runs if "processor_seconds_a_step" in run]
    a_step = statistics.median(timed) if timed else None
    goals = {f"{goal:g}": steps_to(goal, lengths, means) for goal in GOALS}
    return {
        "lengths": [
            {"steps": steps, "seeds": len(scores[steps]), "bleu": round(mean, 2),
             "deviation": round(statistics.stdev(scores[steps]), 2) if len(scores[steps]) > 1 else None,
             "loss": round(statistics.fmean(losses[steps]), 4)}
            for steps, mean in zip(lengths, means, strict=True)
        ],
        "steps_to": goals,
        "processor_minutes_to": {
            goal: round(steps * a_step / 60, 2) if steps and a_step else None for goal, steps in goals.items()
        },
    }  # fmt: skip


def steps_to(goal: float, lengths: Sequence[int], scores: Sequence[float]) -> int | None:
    """Returns the steps of a run that would end at a score; None where no two lengths lie around it."""
    points = list(zip(lengths, scores, strict=True))
    for (fewer, below), (more, above) in pairwise(points):
        if below <= goal <= above:
            share = (goal - below) / (above - below)
            return round(math.exp(math.log(fewer) + share * (math.log(more) - math.log(fewer))))
    return None


if __name__ == "__main__":
    sys.exit(main())
