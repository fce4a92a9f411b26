"""Compares two systems on the same sentences: their scores, the difference, and its statistical significance."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF

from pellucid.errors import ConfigError
from pellucid.evaluation.scores import (
    Interval,
    References,
    Summed,
    choose_tokenizer,
    compute_interval,
    reference_streams,
    score_with_bootstrap,
)
from pellucid.evaluation.tokenization import AUTO, bleu_metric

SEEDS_DIFFER_BY = 1.0
"""The approximate BLEU difference between runs of one recipe with different seeds, on a test of 1,000 sentences."""
CHUNK = 1024  # trials at a time; a multiple of 32, so that the random bits equal those of a single call


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The difference between translations A and B by one metric. Scores run from 0 to 100; COMET scores to 1."""

    a: float
    a_interval: Interval
    b: float
    b_interval: Interval
    difference: float
    """a - b."""
    difference_interval: Interval
    """By paired bootstrap. Narrower than the other two suggest: sentences that are hard for both systems cancel out."""
    p_value: float
    """The share of random exchanges of A and B, sentence by sentence, that give a difference at least as large, in
    either direction (approximate randomization); 0.05 corresponds to the 95 % interval."""
    signature: str
    """The signature of sacreBLEU or COMET, with the numbers of trials and resamples, and the seed."""

    @property
    def is_clear(self) -> bool:
        """True if p is below 0.05 and the interval of the difference excludes 0."""
        low, high = self.difference_interval
        return self.p_value < 0.05 and (low > 0 or high < 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two systems, A and B, on the same test."""

    bleu: Difference
    chrf: Difference
    sentences: int
    equal_sentences: int
    """The number of sentences that both systems translate to the same text."""
    resamples: int
    trials: int

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a JSON-serializable dict."""
        return asdict(self)

    def report(self, a: str, b: str) -> str:
        """Returns a table and a sentence for a terminal; `a` and `b` are the names of the systems."""
        rows = [_row("BLEU", self.bleu), _row("chrF", self.chrf)]
        header = f"{'':<6}{'A':<26}{'B':<26}{'A - B':<25}p"
        equal = f"{self.equal_sentences:,} of {self.sentences:,} sentences have the same translation"
        return "\n".join(
            [f"A  {a}", f"B  {b}", "", header, *rows, "", describe_comparison(self), "", equal,
             f"p from {self.trials:,} trials of approximate randomization, two-sided; 95 % intervals from "
             f"{self.resamples:,} paired bootstrap resamples",
             f"BLEU  {self.bleu.signature}", f"chrF  {self.chrf.signature}"]
        )  # fmt: skip


def compare_outputs(
    a: Sequence[str],
    b: Sequence[str],
    references: References,
    *,
    tokenize: str = AUTO,
    resamples: int = 1000,
    trials: int = 10_000,
    seed: int = 12345,
) -> Comparison:
    """Compares two lists of plain (detokenized) translations of the same sentences.

    `references` and `tokenize` are as in score_corpus. With the seed 12345, scores and p equal the results of the
    `sacrebleu --paired-ar` command, except that trials with exactly the measured difference count here; the command has
    no interval of the difference.

    Raises DataError if the lists differ in length or are empty, ConfigError for fewer than 40 resamples, no trial or
    a tokenizer that cannot be used. Sources: Riezler and Maxwell, "On Some Pitfalls in Automatic Evaluation and
    Significance Testing for MT" (2005), for the test; Koehn, "Statistical Significance Tests for Machine Translation
    Evaluation" (2004), for the intervals.
    """
    if trials < 1:
        raise ConfigError(f"`trials` ({trials}) must be at least 1")
    streams = reference_streams(a, references)
    reference_streams(b, references)
    draws = Draws(resamples, trials, seed)
    return Comparison(
        bleu=_difference(bleu_metric(choose_tokenizer(tokenize, streams)), a, b, streams, draws),
        chrf=_difference(CHRF(), a, b, streams, draws),
        sentences=len(a),
        equal_sentences=sum(x == y for x, y in zip(a, b, strict=True)),
        resamples=resamples,
        trials=trials,
    )


@dataclass(frozen=True)
class Draws:
    """The numbers of resamples and trials of a test, and the seed."""

    resamples: int
    trials: int
    seed: int


def _difference(
    metric: Metric, a: Sequence[str], b: Sequence[str], references: Sequence[Sequence[str]], draws: Draws
) -> Difference:
    # Equal seeds resample the same sentences for both systems, which makes the intervals paired.
    ours, theirs = (
        score_with_bootstrap(metric, outputs, references, draws.resamples, draws.seed) for outputs in (a, b)
    )
    difference = ours.score - theirs.score
    signature = ours.signature
    for name, value in (("ar", draws.trials), ("bs", draws.resamples), ("seed", draws.seed)):
        signature.update(name, value)
    return Difference(
        a=ours.score,
        a_interval=ours.interval,
        b=theirs.score,
        b_interval=theirs.interval,
        difference=difference,
        difference_interval=compute_interval(ours.resampled - theirs.resampled),
        p_value=randomization_p(metric, theirs.statistics, ours.statistics, draws.trials, draws.seed),
        signature=str(signature),
    )


def randomization_p(metric: Summed, a: np.ndarray, b: np.ndarray, trials: int, seed: int) -> float:
    """Returns the two-sided p of approximate randomization, from the counts of each sentence of two systems.

    Each trial exchanges the two translations of every sentence with probability 0.5; p is the share of the trials,
    the measured one included, whose scores differ by at least as much as the measured ones. If the systems do not
    differ in quality, p is below any level with the probability of that level.

    Args:
        a, b: (sentences, counts).
    """

    def distance(left: np.ndarray, right: np.ndarray) -> float:
        one, other = (metric._compute_score_from_stats(list(side)).score for side in (left, right))
        return abs(float(one) - float(other))

    measured, total = distance(a.sum(axis=0), b.sum(axis=0)), (a + b).sum(axis=0)
    generator, as_large, done = np.random.default_rng(seed), 0, 0
    while done < trials:
        heads = generator.integers(2, size=(min(CHUNK, trials - done), len(a)), dtype=bool)
        # In double precision the sums of counts are exact, and the product of matrices is fast.
        left = heads.astype(float) @ a + (~heads).astype(float) @ b  # (trials, counts)
        as_large += sum(distance(one, other) >= measured for one, other in zip(left, total - left, strict=True))
        done += len(heads)
    return (as_large + 1) / (trials + 1)


def describe_comparison(comparison: Comparison) -> str:
    """Returns a text about the comparison by BLEU, with a note if chrF prefers the other system."""
    bleu, chrf = comparison.bleu, comparison.chrf
    size = f"{abs(bleu.difference):.2f}"
    if size == "0.00":
        return "A and B have the same BLEU."
    more = "A" if bleu.difference > 0 else "B"
    chance = f"a difference as large appears by chance in {_cases(bleu.p_value)}."
    if not bleu.is_clear:
        said = f"{more} has {size} BLEU more, which may be chance: {chance}"
    else:
        is_much = abs(bleu.difference) >= SEEDS_DIFFER_BY
        lead = f"{more} is better by {size} BLEU" if is_much else f"{more} has {size} BLEU more on these sentences"
        said = (
            f"{lead}: {chance}\n"
            "This compares the two systems. It says little about two recipes: one and the same\n"
            f"recipe differs by about {SEEDS_DIFFER_BY:.0f} BLEU between seeds. Compare several seeds of each."
        )
    opposed = bleu.difference * round(chrf.difference, 2) < 0
    return f"{said} chrF contradicts BLEU." if opposed else said


def _cases(p: float) -> str:
    """Returns a text such as `3 of 100 cases`; per thousand if p is below 0.0095."""
    if p < 0.0015:
        return "at most 1 of 1,000 cases"
    return f"{round(1000 * p)} of 1,000 cases" if p < 0.0095 else f"{round(100 * p)} of 100 cases"


def _row(name: str, d: Difference) -> str:
    a, b = (f"{score:6.2f}  {bracket(ends, '6.2f')}" for score, ends in ((d.a, d.a_interval), (d.b, d.b_interval)))
    difference = f"{d.difference:+6.2f}  {bracket(d.difference_interval, '+6.2f')}"
    return f"{name:<5}{a:<26}{b:<26}{difference:<26}{d.p_value:.4f}"


def bracket(ends: Interval, form: str) -> str:
    """Returns an interval as text for a report; `form` is the Python format of its ends."""
    return f"[{ends[0]:{form}}, {ends[1]:{form}}]"
