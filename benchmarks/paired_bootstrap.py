"""Claim: where two systems do not differ, the interval of their difference leaves out 0 in 5 of 100 comparisons.

    python benchmarks/paired_bootstrap.py --a A.de --b B.de --ref test.de > paired.json

A and B are translations of one test. A trial draws sentences with replacement, and tosses a coin for each of them: its
two translations go to one side and the other. So the sides differ in their translations and not in their quality. Each
trial is compared by BLEU as `pellucid evaluate --against` does, with new resamples every tenth trial; counted is how
often the interval leaves out 0, and how often p is small.
"""

import argparse
import sys

import numpy as np
from report import circumstances, print_json
from sacrebleu.metrics.bleu import BLEU

from pellucid.evaluation.comparison import p_value
from pellucid.evaluation.scores import middle
from pellucid.workflow.evaluate import read_columns

RESAMPLES = 1000
LEVELS = (0.01, 0.025, 0.05)


def bleu(counts: np.ndarray) -> np.ndarray:
    """BLEU of corpora by sacreBLEU's counts: both lengths, four times right, four times all; (..., 10) -> (...)."""
    brevity_penalty = np.minimum(1, np.exp(1 - counts[..., 1] / counts[..., 0]))
    return 100 * brevity_penalty * np.exp(np.log(counts[..., 2:6] / counts[..., 6:10]).mean(axis=-1))


def main(argv: list[str] | None = None) -> int:
    """Runs the trials."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--a", "--b", "--ref"):
        parser.add_argument(name, required=True, metavar="FILE")
    parser.add_argument("--trials", type=int, default=2000)
    options = parser.parse_args(argv)
    a, b, references = read_columns([options.a, options.b, options.ref]).values()
    metric, draw, sentences = BLEU(force=True), np.random.default_rng(1), len(references)
    statistics = [np.array(metric._extract_corpus_statistics(side, [references]), float) for side in (a, b)]
    assert all(
        abs(bleu(side.sum(axis=0)) - metric.corpus_score(lines, [references]).score) < 1e-6
        for side, lines in zip(statistics, (a, b), strict=True)
    ), "these counts are too small for BLEU without smoothing"
    clear, p_values = 0, []
    for trial in range(options.trials):
        if trial % 10 == 0:  # how often each sentence is drawn; (resamples, sentences)
            weights = draw.multinomial(sentences, np.full(sentences, 1 / sentences), size=RESAMPLES).astype(float)
        drawn = draw.integers(sentences, size=sentences)
        heads = draw.integers(2, size=(sentences, 1), dtype=bool)
        first, second = (side[drawn] for side in statistics)
        left, right = np.where(heads, first, second), np.where(heads, second, first)
        differences = bleu(weights @ left) - bleu(weights @ right)
        low, high = middle(differences)
        clear += low > 0 or high < 0
        p_values.append(p_value(float(bleu(left.sum(axis=0)) - bleu(right.sum(axis=0))), differences))
    found = {"interval leaves out 0": clear / options.trials} | {
        f"p below {level}": sum(p < level for p in p_values) / options.trials for level in LEVELS
    }
    for name, part in found.items():
        print(f"{name}: {100 * part:.1f} of 100 comparisons", file=sys.stderr)
    given = sys.argv[1:] if argv is None else argv
    print_json(circumstances(__file__, given, ["sacrebleu"]) | {"trials": options.trials, "found": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
