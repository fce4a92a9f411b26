"""BLEU and chrF of a corpus, each with its sacreBLEU signature and a 95 % confidence interval."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF

from pellucid.errors import ConfigError, DataError

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """What a corpus of translations scores. Scores and the ends of their intervals run from 0 to 100."""

    bleu: float
    """BLEU with case, the one to compare by."""
    bleu_interval: Interval
    bleu_lowercase: float
    bleu_lowercase_interval: Interval
    chrf: float
    """chrF2: character n-grams up to 6."""
    chrf_interval: Interval
    signature: str
    """How sacreBLEU computed `bleu`; scores compare only where signatures are equal."""
    signature_lowercase: str
    chrf_signature: str
    brevity_penalty: float
    """What `bleu` was multiplied by because the translations are shorter than the references; 1: they are not."""
    length_ratio: float
    """Words of the translations / words of the references."""
    sentences: int

    def to_json(self) -> dict[str, Any]:
        """The fields as json.dumps() takes them and json.loads() gives them back."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def report(self) -> str:
        """The scores as aligned lines for a terminal."""
        rows = [
            ("BLEU", self.bleu, self.bleu_interval, self.signature),
            ("BLEU lowercase", self.bleu_lowercase, self.bleu_lowercase_interval, self.signature_lowercase),
            ("chrF", self.chrf, self.chrf_interval, self.chrf_signature),
        ]
        lines = [
            f"{name:<14}  {score:6.2f} ± {(high - low) / 2:<5.2f}  [{low:6.2f}, {high:6.2f}]  {signature}"
            for name, score, (low, high), signature in rows
        ]
        sentences = "1 sentence" if self.sentences == 1 else f"{self.sentences:,} sentences"
        lengths = f"brevity penalty {self.brevity_penalty:.3f}, length ratio {self.length_ratio:.3f}"
        return "\n".join([*lines, f"{sentences}; {lengths}; 95 % bootstrap intervals"])


def score_corpus(
    hypotheses: Sequence[str], references: Sequence[str], *, resamples: int = 1000, seed: int = 12345
) -> Scores:
    """The scores of plain (detokenized) translations against one reference each.

    With the seed 12345 the intervals are those of the `sacrebleu --confidence` command. Raises DataError where the
    two sides differ in length or are empty, ConfigError for fewer than 40 resamples. Source: Koehn, "Statistical
    Significance Tests for Machine Translation Evaluation" (2004), for the bootstrap.
    """
    check_lengths(hypotheses, references)
    metrics = (BLEU(force=True), BLEU(force=True, lowercase=True), CHRF())
    cased, lowercase, chrf = (measure(metric, hypotheses, references, resamples, seed) for metric in metrics)
    return Scores(
        bleu=cased.score,
        bleu_interval=cased.interval,
        bleu_lowercase=lowercase.score,
        bleu_lowercase_interval=lowercase.interval,
        chrf=chrf.score,
        chrf_interval=chrf.interval,
        signature=str(cased.signature),
        signature_lowercase=str(lowercase.signature),
        chrf_signature=str(chrf.signature),
        brevity_penalty=cased.brevity_penalty,
        length_ratio=cased.length_ratio,
        sentences=len(hypotheses),
    )


class Measurement(NamedTuple):
    """One score of a corpus, and of the corpora drawn from it."""

    score: float
    resampled: np.ndarray
    """The score of each drawn corpus; (resamples,)."""
    signature: Signature
    brevity_penalty: float
    length_ratio: float

    @property
    def interval(self) -> Interval:
        """The 95 % confidence interval of the score."""
        return middle(self.resampled)


def measure(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str], resamples: int, seed: int
) -> Measurement:
    """The score of a corpus by one metric; with equal seeds, the same sentences are drawn from all corpora of a length.

    Raises ConfigError for fewer than 40 resamples.
    """
    if resamples < 40:
        raise ConfigError(
            f"`resamples` ({resamples}) must be at least 40: a 95 % interval leaves out 1 in 40 on each side"
        )
    statistics = np.array(metric._extract_corpus_statistics(hypotheses, [references]))  # (sentences, counts)
    score = metric._compute_score_from_stats(statistics.sum(axis=0))
    is_bleu = isinstance(score, BLEUScore)
    return Measurement(
        float(score.score),
        _bootstrap(metric, statistics, resamples, seed),
        metric.get_signature(),
        float(score.bp) if is_bleu else 1.0,
        float(score.ratio) if is_bleu else 1.0,
    )


def _bootstrap(metric: Metric, statistics: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """The scores of corpora drawn with replacement.

    sacreBLEU's own draw holds all resamples in memory (72 kB a sentence for chrF), takes its seed from the
    environment and writes both into the signature. This draws the same random numbers, one resample at a time.
    """
    generator = np.random.default_rng(seed)
    sentences = len(statistics)
    drawn = (statistics[generator.choice(sentences, size=sentences)].sum(axis=0) for _ in range(resamples))
    return np.array([metric._compute_score_from_stats(counts).score for counts in drawn])


def middle(values: np.ndarray) -> Interval:
    """The ends of the middle 95 %, without interpolation, as sacreBLEU takes them."""
    tail = len(values) // 40
    ordered = np.sort(values)
    return float(ordered[tail]), float(ordered[-tail - 1])


def check_lengths(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raises DataError where there is not one reference for each translation, or nothing at all."""
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} translations cannot be scored against {len(references)} references",
            "give one reference for each translation, in the same order",
        )
    if not hypotheses:
        raise DataError("there is nothing to score: 0 translations and 0 references")


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """`Scores.bleu` alone, without its interval: for validation within training."""
    return float(BLEU(force=True).corpus_score(hypotheses, [references]).score)
