"""Scores by COMET, a neural metric (Rei et al. 2020), read from the output of its `comet-score` program."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from pellucid.errors import DataError, format_value
from pellucid.evaluation.comparison import Difference, bracket, randomization_p
from pellucid.evaluation.scores import Interval, bootstrap, compute_interval
from pellucid.files.budget import read_bytes
from pellucid.files.reading import parse_json

MOST_BYTES = 2**28
"""The most bytes of a file of scores, which also holds sources, translations and references."""
SIGNATURE = "comet-score"
"""The signature of the scores: the file does not name the model and the version of COMET."""
_GRID = 2.0**30
"""Scores are rounded to multiples of 1 / _GRID, finer than a network's precision, so that sums are exact in any order.
Thus random exchanges with exactly the measured difference are counted, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CometScore:
    """The COMET score of a corpus: the mean over its lines. Most models give 0 to 1; 1 is the best."""

    score: float
    interval: Interval
    """The 95 % bootstrap interval."""
    lines: tuple[float, ...]
    signature: str
    """The program that computed the scores."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict that survives a round trip through JSON unchanged."""
        return asdict(self) | {"interval": list(self.interval), "lines": list(self.lines)}

    def report(self) -> str:
        """Returns the score as a line for a terminal."""
        low, high = self.interval
        return (
            f"COMET           {self.score:6.4f} ± {(high - low) / 2:.4f}  [{low:6.4f}, {high:6.4f}]  {self.signature}"
        )


@dataclass(frozen=True)
class CometFile:
    """Holds the scores of each system in a file that `comet-score --to_json` wrote."""

    path: Path
    systems: Mapping[tuple[str, ...], Sequence[float]]
    """The scores of each system, by its translations, since file paths differ between machines."""

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Reads a file of scores. Raises DataError if it is missing, too large or damaged, or has no scores."""
        hint = "name the file that `comet-score` wrote with its option `to_json`"
        try:
            table = parse_json(read_bytes(Path(path).resolve(), MOST_BYTES, DataError, hint))
            found = {
                tuple(_strip(row["mt"]) for row in rows): [float(row["COMET"]) for row in rows]
                for rows in table.values()
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"`{format_value(Path(path))}` has no scores of COMET: {format_value(str(error))}", hint
            ) from error
        if not all(map(math.isfinite, chain.from_iterable(found.values()))):
            raise DataError(f"`{format_value(Path(path))}` has a score that is not a finite number", hint)
        return cls(Path(path), found)

    def find(self, outputs: Sequence[str], system: str) -> Sequence[float]:
        """Returns the score of each translation. Raises DataError if the file has none of these translations."""
        lines = tuple(map(_strip, outputs))
        if lines not in self.systems:
            counts = ", ".join(f"{len(each):,}" for each in self.systems) or "no"
            raise DataError(
                f"`{format_value(self.path)}` has no scores of the {len(lines):,} translations by "
                f"`{format_value(system)}`; it has scores of {counts} translations",
                "score the same file of translations as here; for a model, write its translations to a file first",
            )
        return self.systems[lines]


def _strip(line: object) -> str:
    """Returns a translation as `comet-score` reads it: without white space at both ends."""
    if not isinstance(line, str):
        raise TypeError(f"a translation is {format_value(line)}, not a string")
    return line.strip()


class _Mean(NamedTuple):
    """The mean of the lines' scores, from the sums of _count_scores()."""

    score: float = 0.0

    def _compute_score_from_stats(self, stats: Sequence[float]) -> "_Mean":
        return _Mean(float(stats[0]) / _GRID / float(stats[1]))


def _count_scores(lines: Sequence[float]) -> np.ndarray:
    """Returns the rounded score and a count of 1 for each line; (lines, 2)."""
    return np.stack([np.rint(np.asarray(lines, dtype=float) * _GRID), np.ones(len(lines))], axis=1)


def comet_score(
    lines: Sequence[float], signature: str = SIGNATURE, *, resamples: int = 1000, seed: int = 12345
) -> CometScore:
    """Returns the score of a corpus from the scores of its lines, with a bootstrap interval as for the other scores.

    Source: Koehn, "Statistical Significance Tests for Machine Translation Evaluation" (2004), for the bootstrap.
    """
    counted = _count_scores(lines)
    return CometScore(
        score=_Mean()._compute_score_from_stats(counted.sum(axis=0)).score,
        interval=compute_interval(bootstrap(_Mean(), counted, resamples, seed)),
        lines=tuple(lines),
        signature=signature,
    )


def compare_comet(
    a: Sequence[float],
    b: Sequence[float],
    signature: str = SIGNATURE,
    *,
    resamples: int = 1000,
    trials: int = 10_000,
    seed: int = 12345,
) -> Difference:
    """Returns the difference between two systems from the scores of their lines, tested as in compare_outputs().

    Sources: see compare_outputs().
    """
    counted = [_count_scores(lines) for lines in (a, b)]
    scores = [_Mean()._compute_score_from_stats(counts.sum(axis=0)).score for counts in counted]
    sampled = [bootstrap(_Mean(), counts, resamples, seed) for counts in counted]
    return Difference(
        a=scores[0],
        a_interval=compute_interval(sampled[0]),
        b=scores[1],
        b_interval=compute_interval(sampled[1]),
        difference=scores[0] - scores[1],
        difference_interval=compute_interval(sampled[0] - sampled[1]),
        p_value=randomization_p(_Mean(), counted[1], counted[0], trials, seed),
        signature=f"{signature}|ar:{trials}|bs:{resamples}|seed:{seed}",
    )


def difference_report(d: Difference) -> str:
    """Returns a table of a comparison by COMET for a terminal."""
    a, b = (f"{score:6.4f}  {bracket(ends, '6.4f')}" for score, ends in ((d.a, d.a_interval), (d.b, d.b_interval)))
    difference = f"{d.difference:+6.4f}  {bracket(d.difference_interval, '+6.4f')}"
    header = f"{'':<7}{'A':<26}{'B':<26}{'A - B':<28}p"
    return f"{header}\nCOMET  {a:<26}{b:<26}{difference:<28}{d.p_value:.4f}\nCOMET  {d.signature}"
