"""Noisy-channel reranking of n-best lists by several models, with weights tuned on held-out text.

After Yee, Dauphin and Auli (EMNLP 2019) and Ng et al. (WMT 2019), for a source x and an output y:

    log p(y | x) / |y| + reverse * log p(x | y) / |x| + lm * log p(y) / |y| + length * |y| / |x|

Each log-probability is a mean over the tokens of the model that computes it.
"""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError
from pellucid.evaluation.tokenization import bleu_metric, tokenizer_for

Floats = npt.NDArray[np.float64]

FEATURES = ("direct", "reverse", "lm", "length")
"""The columns of the features of a hypothesis, in the order of the sum above."""
STEPS: dict[str, tuple[float, ...]] = {
    "reverse": (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0),
    "lm": (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0),
    "length": (0.0, 0.1, -0.1, 0.3, -0.3, 0.6, -0.6, 1.0, -1.0),
}
"""The weights that are tried; of equally good ones the first is chosen."""


@dataclass(frozen=True)
class RerankingWeights:
    """The weights of the sum; the weight of the direct model is 1."""

    reverse: float = 0.0
    lm: float = 0.0
    length: float = 0.0

    def totals(self, features: Floats) -> Floats:
        """Returns the weighted sum of each hypothesis: (n, 4) -> (n,)."""
        found: Floats = features @ np.array([1.0, self.reverse, self.lm, self.length])
        return found


@dataclass(frozen=True)
class Fit:
    """The weights with the highest BLEU on held-out text, and their BLEU."""

    factors: RerankingWeights
    lines: int
    bleu: float
    """The BLEU of the hypotheses that the weights choose."""
    bleu_before: float
    """The BLEU of the search's best hypotheses."""
    bleu_crossed: float
    """The cross-validated BLEU, each half reranked with the weights of the other half: an estimate for new text."""
    bleu_possible: float
    """The oracle BLEU, of the hypothesis of each line most similar to its reference: an approximate upper bound."""

    def to_json(self) -> dict[str, float | int]:
        """Returns the figures as a JSON-serializable dict."""
        table = asdict(self)
        return {**table.pop("factors"), **table}


def fit_factors(
    features: Sequence[Floats], texts: Sequence[Sequence[str]], references: Sequence[str], parts: Sequence[str]
) -> Fit:
    """Returns the weights whose chosen hypotheses have the highest BLEU; of equally good ones the smallest.

    Args:
        features: for each line (n, 4), one row per hypothesis, the search's best first.
        texts: the hypotheses of each line.
        parts: the weights to tune; the others stay 0.

    Raises DataError for fewer than two lines.
    """
    if len(references) < 2:
        raise DataError(f"{len(references)} lines are too few to fit the factors", "use some hundred lines")
    metric = bleu_metric(tokenizer_for(references))
    counts = [len(of_line) for of_line in texts]
    flat = [text for of_line in texts for text in of_line]
    repeated = [reference for reference, count in zip(references, counts, strict=True) for _ in range(count)]
    statistics = np.array(metric._extract_corpus_statistics(flat, [repeated]))  # (hypotheses, counts)
    starts = np.concatenate([[0], np.cumsum(counts)])[:-1]

    def bleu(chosen: npt.NDArray[np.int64]) -> float:
        return float(metric._compute_score_from_stats(statistics[chosen].sum(axis=0)).score)

    def choose_by(factors: RerankingWeights, lines: Sequence[int]) -> npt.NDArray[np.int64]:
        return np.array([starts[i] + int(factors.totals(features[i]).argmax()) for i in lines], dtype=np.int64)

    tried = [
        RerankingWeights(**dict(zip(parts, values, strict=True)))
        for values in itertools.product(*(STEPS[part] for part in parts))
    ]
    widest = max(counts)
    table = np.full((len(counts), widest, len(FEATURES)), -np.inf)
    for row, of_line in zip(table, features, strict=True):
        row[: len(of_line)] = of_line
        row[len(of_line) :, 1:] = 0.0

    def best_on(lines: npt.NDArray[np.int64]) -> RerankingWeights:
        scored = []
        for number, factors in enumerate(tried):
            places = starts[lines] + factors.totals(table[lines]).argmax(axis=1)
            size = abs(factors.reverse) + abs(factors.lm) + abs(factors.length)
            scored.append((-round(bleu(places), 6), size, number))
        return tried[min(scored)[2]]

    every = np.arange(len(counts))
    halves = every[::2], every[1::2]
    crossed = np.concatenate(
        [choose_by(best_on(other), list(half)) for half, other in (halves, halves[::-1])]
    )  # fmt: skip
    alike = [
        start + max(range(count), key=lambda i, s=start: _sentence_bleu(statistics[s + i]))  # type: ignore[misc]
        for start, count in zip(starts, counts, strict=True)
    ]
    factors = best_on(every)
    return Fit(
        factors=factors,
        lines=len(counts),
        bleu=round(bleu(choose_by(factors, list(every))), 2),
        bleu_before=round(bleu(starts), 2),
        bleu_crossed=round(bleu(crossed), 2),
        bleu_possible=round(bleu(np.array(alike)), 2),
    )


def _sentence_bleu(counts: npt.NDArray[np.int64]) -> float:
    """Returns the smoothed BLEU of one sentence: add-one counts for n-grams of two or more words (Lin and Och 2004)."""
    length, reference, *rest = (float(count) for count in counts)
    order = len(rest) // 2
    logs = [
        np.log((right + (n > 0)) / (total + (n > 0))) if right + (n > 0) else -9.0
        for n, (right, total) in enumerate(zip(rest[:order], rest[order:], strict=True))
    ]
    return float(np.mean(logs) + min(0.0, 1 - reference / max(length, 1.0)))
