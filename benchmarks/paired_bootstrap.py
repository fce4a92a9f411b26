"""Claim: where two systems do not differ, p of approximate randomization is below 0.05 in 5 of 100 comparisons.

    python benchmarks/paired_bootstrap.py --a A.de --b B.de --ref test.de > paired.json

A and B are translations of one test. A trial draws sentences with replacement, and tosses a coin for each of them: its
two translations go to one side and the other. So the sides differ in their translations and not in their quality. Each
trial is compared by BLEU as `pellucid evaluate --baseline` does, with new exchanges and resamples every tenth trial;
counted is how often p is small, and how often the interval of the difference leaves out 0. Beside them stands the p of
`sacrebleu --paired-bs`, which sacreBLEU estimates from the bootstrap. Each part has its 95 % interval (Wilson).
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from report import circumstances, positive, print_json, refusals_in_words
from sacrebleu.metrics.bleu import BLEU

from pellucid.evaluation.held_out import read_columns
from pellucid.evaluation.label_scores import wilson_interval
from pellucid.evaluation.scores import compute_interval

RESAMPLES = EXCHANGES = 1000
LEVELS = (0.01, 0.025, 0.05, 0.1)
TESTS = ("approximate randomization: p", "paired bootstrap: p")


def bleu(counts: np.ndarray) -> np.ndarray:
    """BLEU of corpora by sacreBLEU's counts: both lengths, four times right, four times all; (..., 10) -> (...)."""
    brevity_penalty = np.minimum(1, np.exp(1 - counts[..., 1] / counts[..., 0]))
    return 100 * brevity_penalty * np.exp(np.log(counts[..., 2:6] / counts[..., 6:10]).mean(axis=-1))


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Runs the trials."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--a", "--b", "--ref"):
        parser.add_argument(name, required=True, metavar="FILE")
    parser.add_argument("--trials", type=positive, default=2000)
    options = parser.parse_args(argv)
    a, b, references = read_columns([options.a, options.b, options.ref]).values()
    metric, draw, sentences = BLEU(force=True), np.random.default_rng(1), len(references)
    statistics = [np.array(metric._extract_corpus_statistics(side, [references]), float) for side in (a, b)]
    assert all(
        abs(bleu(side.sum(axis=0)) - metric.corpus_score(lines, [references]).score) < 1e-6
        for side, lines in zip(statistics, (a, b), strict=True)
    ), "these counts are too small for BLEU without smoothing"
    found = {"interval leaves out 0": 0} | {f"{name} below {level}": 0 for name in TESTS for level in LEVELS}
    for trial in range(options.trials):
        if trial % 10 == 0:  # how often each sentence is drawn, and whether it is exchanged; (resamples, sentences)
            weights = draw.multinomial(sentences, np.full(sentences, 1 / sentences), size=RESAMPLES).astype(float)
            exchanged = draw.integers(2, size=(EXCHANGES, sentences)).astype(float)
        drawn = draw.integers(sentences, size=sentences)
        heads = draw.integers(2, size=(sentences, 1), dtype=bool)
        first, second = (side[drawn] for side in statistics)
        left, right = np.where(heads, first, second), np.where(heads, second, first)
        difference = float(bleu(left.sum(axis=0)) - bleu(right.sum(axis=0)))
        differences = bleu(weights @ left) - bleu(weights @ right)
        low, high = compute_interval(differences)
        found["interval leaves out 0"] += low > 0 or high < 0
        p_values = exchange_p(left, right, exchanged, difference), bootstrap_p(difference, differences)
        for name, p in zip(TESTS, p_values, strict=True):
            for level in LEVELS:
                found[f"{name} below {level}"] += p < level
    parts = {name: told(count, options.trials) for name, count in found.items()}
    for name, part in parts.items():
        low, high = part["interval"]
        print(f"{name}: {part['of 100']:.1f} of 100 comparisons ({low:.1f} to {high:.1f})", file=sys.stderr)
    print_json(circumstances(__file__, argv, ["sacrebleu"]) | {"trials": options.trials, "found": parts})
    return 0


def exchange_p(left: np.ndarray, right: np.ndarray, exchanged: np.ndarray, difference: float) -> float:
    """The p of approximate randomization, as randomization_p() has it, for many trials at a time."""
    one = exchanged @ right + (1 - exchanged) @ left
    sizes = np.abs(bleu(one) - bleu(left.sum(axis=0) + right.sum(axis=0) - one))
    # The same counts by another way of summing may round to another last digit.
    return (int(np.sum(sizes >= abs(difference) - 1e-9)) + 1) / (len(sizes) + 1)


def bootstrap_p(difference: float, drawn: np.ndarray) -> float:
    """What sacreBLEU's --paired-bs prints: how often a drawn difference, signs aside, is as far above their mean."""
    sizes = np.abs(drawn)
    return (int(np.sum(sizes - sizes.mean() > abs(difference))) + 1) / (len(drawn) + 1)


def told(count: int, trials: int) -> dict[str, Any]:
    """A part in percent, with its interval."""
    return {"of 100": 100 * count / trials, "interval": [round(end, 2) for end in wilson_interval(count, trials)]}


if __name__ == "__main__":
    sys.exit(main())
