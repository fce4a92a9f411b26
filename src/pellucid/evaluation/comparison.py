"""Two systems on the same sentences: their scores, the difference, and how easily chance alone would make it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from pellucid.evaluation.scores import Interval, check_lengths, measure, middle


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What separates the translations A from the translations B by one metric. Scores run from 0 to 100."""

    a: float
    a_interval: Interval
    b: float
    b_interval: Interval
    difference: float
    """a - b."""
    difference_interval: Interval
    """Narrower than the other two suggest: what is hard for both in a drawn corpus cancels out."""
    p_value: float
    """How often an advantage at least as large would appear by chance, as sacreBLEU estimates it; a test of one side,
    so that 0.025 belongs to the 95 % interval."""
    signature: str
    """sacreBLEU's, with the number of resamples and the seed."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        low, high = self.difference_interval
        return low > 0 or high < 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two systems, A and B, on the same test."""

    bleu: Difference
    chrf: Difference
    sentences: int
    equal_sentences: int
    """Sentences that both translate to the same text."""
    resamples: int

    def to_json(self) -> dict[str, Any]:
        """The fields as json.dumps() takes them."""
        return asdict(self)

    def report(self, a: str, b: str) -> str:
        """A table and a sentence for a terminal; `a` and `b` are what the systems are called."""
        rows = [_row("BLEU", self.bleu), _row("chrF", self.chrf)]
        header = f"{'':<6}{'A':<26}{'B':<26}{'A - B':<25}p"
        equal = f"{self.equal_sentences:,} of {self.sentences:,} sentences are translated to the same text"
        return "\n".join(
            [f"A  {a}", f"B  {b}", "", header, *rows, "", in_words(self), "", equal,
             f"95 % intervals and p from {self.resamples:,} paired bootstrap resamples",
             f"BLEU  {self.bleu.signature}", f"chrF  {self.chrf.signature}"]
        )  # fmt: skip


def compare_outputs(
    a: Sequence[str], b: Sequence[str], references: Sequence[str], *, resamples: int = 1000, seed: int = 12345
) -> Comparison:
    """Compares two lists of plain (detokenized) translations of the same sentences by paired bootstrap resampling.

    With the seed 12345 scores, intervals and p are those of the `sacrebleu --paired-bs` command, which has no interval
    of the difference. Raises DataError where the lists differ in length or are empty, ConfigError for fewer than 40
    resamples. Source: Koehn, "Statistical Significance Tests for Machine Translation Evaluation" (2004).
    """
    for outputs in (a, b):
        check_lengths(outputs, references)
    return Comparison(
        bleu=_difference(BLEU(force=True), a, b, references, resamples, seed),
        chrf=_difference(CHRF(), a, b, references, resamples, seed),
        sentences=len(references),
        equal_sentences=sum(x == y for x, y in zip(a, b, strict=True)),
        resamples=resamples,
    )


def _difference(
    metric: Metric, a: Sequence[str], b: Sequence[str], references: Sequence[str], resamples: int, seed: int
) -> Difference:
    # Equal seeds draw the same sentences from both: that is what makes the test paired.
    ours, theirs = (measure(metric, outputs, references, resamples, seed) for outputs in (a, b))
    difference, drawn = ours.score - theirs.score, ours.resampled - theirs.resampled
    signature = ours.signature
    signature.update("bs", resamples)
    signature.update("seed", seed)
    return Difference(
        a=ours.score,
        a_interval=ours.interval,
        b=theirs.score,
        b_interval=theirs.interval,
        difference=difference,
        difference_interval=middle(drawn),
        p_value=p_value(difference, drawn),
        signature=str(signature),
    )


def p_value(difference: float, drawn: np.ndarray) -> float:
    """How often a drawn difference is as far above the mean drawn difference as the measured one is above 0.

    sacreBLEU's estimate, in which differences count without their sign: where all have the same sign, that leaves
    those on one side of their mean (benchmarks/paired_bootstrap.py). It differs for two systems that never differ,
    which sacreBLEU calls significant.
    """
    sizes = np.abs(drawn)
    if not sizes.any():
        return 1.0
    above = int(np.sum(sizes - sizes.mean() > abs(difference)))
    return (above + 1) / (len(drawn) + 1)


def in_words(comparison: Comparison) -> str:
    """The comparison by BLEU as a sentence; where chrF points the other way, a second one says so."""
    bleu, chrf = comparison.bleu, comparison.chrf
    size = f"{abs(bleu.difference):.2f}"
    if size == "0.00":
        return "A and B have the same BLEU."
    better = "A" if bleu.difference > 0 else "B"
    chance = f"an advantage as large would appear by chance in {_cases(bleu.p_value)}."
    if bleu.is_clear:
        sentence = f"{better} is better by {size} BLEU: {chance}"
    else:
        sentence = f"{better} has {size} BLEU more, which may be chance: {chance}"
    opposed = bleu.difference * round(chrf.difference, 2) < 0
    return f"{sentence} chrF points the other way." if opposed else sentence


def _cases(p: float) -> str:
    """`3 of 100 cases`; per thousand where it is that rare."""
    if p < 0.0015:
        return "at most 1 of 1,000 cases"
    return f"{round(1000 * p)} of 1,000 cases" if p < 0.0095 else f"{round(100 * p)} of 100 cases"


def _row(name: str, d: Difference) -> str:
    a, b = (f"{score:6.2f}  {_bracket(ends, '6.2f')}" for score, ends in ((d.a, d.a_interval), (d.b, d.b_interval)))
    difference = f"{d.difference:+6.2f}  {_bracket(d.difference_interval, '+6.2f')}"
    return f"{name:<5}{a:<26}{b:<26}{difference:<26}{d.p_value:.3f}"


def _bracket(ends: Interval, form: str) -> str:
    return f"[{ends[0]:{form}}, {ends[1]:{form}}]"
