"""Confidence calibration: fits the probability that a word is right to the model's probabilities, on held-out text."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pellucid.errors import CheckpointError, DataError
from pellucid.files.reading import NUMBER, TEXT, WHOLE, Kind, check_kinds, hash_file, make_list_kind, read_settings
from pellucid.files.writing import write_json
from pellucid.weights.folder import CALIBRATION, WEIGHTS

Floats = npt.NDArray[np.float64]

FORMAT = "pellucid-calibration/1"
FEATURES = ("word", "line", "before", "behind")
"""The features of a word: the log-odds of the product of its pieces' probabilities, the mean log-probability of the
line's tokens, and the log-odds of the token before the word and of the token after it."""
BINS = 15
"""The number of bins of equal width, as in Guo et al. (2017)."""
UNUSUAL = 0.005
"""The share of held-out pairs outside each bound of the usual range."""
LEAST_WORDS = 100
_LEAST = 1e-6  # the smallest distance of a probability from 0 and 1
_RIDGE, _ROUNDS = 1e-3, 100


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The calibration of a model's probabilities, and the usual ranges of a pair's measures, from held-out text."""

    weights: str
    """The SHA-256 of the weights file that the calibration was fitted on."""
    coefficients: tuple[float, ...]
    """The intercept, and a coefficient for each of `FEATURES` (Platt 1999, with several features)."""
    lines: int
    words: int
    right: float
    """The share of words that are aligned to an equal word of the reference."""
    error: float
    """The expected calibration error on held-out lines, by two-fold cross-fitting; 0 to 1."""
    error_before: float
    """The expected calibration error of the model's own probabilities."""
    log_probability: float
    """The mean log-probability per token that all but a few references reach."""
    length_ratio: tuple[float, float]
    """The bounds of `length_ratio` for all but a few references."""
    copied: float
    """The share of words copied from the source that all but a few references do not exceed."""
    numbers_kept: float
    """The share of references with the numbers of their source, among pairs with a number; 1 if there is none."""

    def probabilities(self, features: Floats) -> Floats:
        """Returns the probability that each word is right, from its features (N, 4)."""
        return _logistic(np.asarray(self.coefficients), features)

    def save(self, folder: Path) -> None:
        """Writes the calibration into a model folder, and replaces an earlier one."""
        write_json(folder / CALIBRATION, {"format": FORMAT, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """Reads the calibration in a model folder; returns None if there is none.

        Raises CheckpointError if the file is damaged or of another version.
        """
        path = folder / CALIBRATION
        if not path.exists():
            return None
        table = read_settings(path)
        hint = "remove it, and calibrate the model again"
        if table.get("format") != FORMAT:
            raise CheckpointError(f"`{path}` has format {str(table.get('format'))[:40]!r}, not {FORMAT!r}", hint)
        names = [field.name for field in fields(cls)]
        if missing := [name for name in names if name not in table]:
            raise CheckpointError(f"`{path}` is damaged: it has no `{missing[0]}`", hint)
        check_kinds(table, _KINDS, path)
        for name, count in {"coefficients": len(FEATURES) + 1, "length_ratio": 2}.items():
            if len(table[name]) != count:
                raise CheckpointError(f"`{path}` is damaged: `{name}` must be {count} numbers", hint)
        values: dict[str, Any] = {name: tuple(v) if isinstance(v := table[name], list) else v for name in names}
        return cls(**values)


_SHARE = Kind("a number from 0 to 1", lambda value: NUMBER.fits(value) and 0 <= value <= 1)
_KINDS: Mapping[str, Kind] = {
    "weights": TEXT, "coefficients": make_list_kind(NUMBER), "lines": WHOLE, "words": WHOLE, "right": _SHARE,
    "error": _SHARE, "error_before": _SHARE, "log_probability": NUMBER, "length_ratio": make_list_kind(NUMBER),
    "copied": _SHARE, "numbers_kept": _SHARE,
}  # fmt: skip


def log_odds(log_probability: float) -> float:
    """Returns log(p / (1 - p)) of a log-probability, with p clamped away from 0 and 1."""
    p = min(max(math.exp(log_probability), _LEAST), 1 - _LEAST)
    return math.log(p / (1 - p))


def words_right(hypothesis: Sequence[str], reference: Sequence[str]) -> list[bool]:
    """Returns for each word of a translation whether the reference has it, by the alignment with the fewest edits.

    The alignment is that of TER (Snover et al. 2006) without shifts: a word at another position counts as wrong.
    """
    from sacrebleu.metrics.lib_ter import (  # a slow import, needed only for calibration
        BeamEditDistance,
        trace_to_alignment,
    )

    _, trace = BeamEditDistance(list(reference))(list(hypothesis))
    _, wrong, _ = trace_to_alignment(trace)  # the trace edits the translation into the reference
    return [not mark for mark in wrong]


def fit_coefficients(features: Floats, right: npt.NDArray[np.bool_]) -> tuple[float, ...]:
    """Returns the intercept and the coefficients of logistic regression, by Newton's method with a small ridge.

    Raises DataError for fewer than `LEAST_WORDS` words, or if all words are right or all are wrong.
    """
    if len(right) < LEAST_WORDS or right.all() or not right.any():
        raise DataError(
            f"{len(right):,} words, of which {int(right.sum()):,} are correct, are too few for a calibration: it "
            f"requires at least {LEAST_WORDS} words, both correct and wrong ones",
            "use more held-out lines",
        )
    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
    scaled = np.column_stack([np.ones(len(features)), (features - mean) / scale])
    beta = np.zeros(scaled.shape[1])
    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-np.clip(scaled @ beta, -30, 30)))
        gradient = scaled.T @ (right - p) - _RIDGE * beta
        hessian = scaled.T @ (scaled * (p * (1 - p))[:, None]) + _RIDGE * np.eye(len(beta))
        step = np.linalg.solve(hessian, gradient)
        beta = beta + step
        if np.abs(step).max() < 1e-10:
            break
    slopes = beta[1:] / scale
    return (float(beta[0] - slopes @ mean), *map(float, slopes))


def cross_fitted(features: Floats, right: npt.NDArray[np.bool_], lines: npt.NDArray[np.int64]) -> Floats:
    """Returns the probability of each word, by the coefficients fitted on the half of the lines without it."""
    found = np.empty(len(right))
    for half in (0, 1):
        held_out = lines % 2 == half
        coefficients = fit_coefficients(features[~held_out], right[~held_out])
        found[held_out] = _logistic(np.asarray(coefficients), features[held_out])
    return found


def calibration_error(probabilities: Floats, right: npt.NDArray[Any], *, equal_mass: bool = False) -> float:
    """Returns the expected calibration error (Guo et al. 2017, equation 3), 0 to 1.

    It is the mean distance between probability and accuracy over bins of equal width, weighted by bin size; with
    `equal_mass`, over bins of equal size (Nixon et al. 2019). `right` may also be shares.
    """
    places = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    if equal_mass:
        places[np.argsort(probabilities, kind="stable")] = np.arange(len(probabilities)) * BINS // len(probabilities)
    gaps = np.bincount(places, weights=probabilities - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(probabilities))


def area_under_curve(positive: Sequence[float] | Floats, negative: Sequence[float] | Floats) -> float:
    """Returns the area under the ROC curve: how often a positive has the larger value; ties count half."""
    ordered = np.sort(np.asarray(negative, dtype=np.float64))
    below = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
    return float(below.mean() / 2 / len(ordered))


def _logistic(coefficients: Floats, features: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-np.clip(coefficients[0] + features @ coefficients[1:], -30, 30)))
    return found


def hash_weights(folder: str | Path) -> str:
    """Returns the SHA-256 of a model folder's weights, to which a calibration belongs.

    Raises CheckpointError if the folder has no weights file.
    """
    path = Path(folder) / WEIGHTS
    if not path.is_file():
        raise CheckpointError(f"`{folder}` has no {WEIGHTS}, so it cannot be calibrated", "convert the model first")
    return hash_file(path)


def calibration_in(folder: str | Path) -> Calibration | None:
    """Returns the calibration in a model folder, or None if there is none or it was fitted on other weights.

    Warns in the latter case. Raises CheckpointError if the file is damaged.
    """
    found = Calibration.load(Path(folder))
    if found is not None and found.weights != hash_weights(folder):
        warnings.warn(
            f"`{Path(folder) / CALIBRATION}` was fitted with other weights, and is ignored: calibrate the model again",
            stacklevel=3,
        )
        return None
    return found


def save_calibration(calibration: Calibration | None, folder: str | Path) -> None:
    """Saves a calibration with the hash of the weights in `folder`; None removes the folder's calibration."""
    if calibration is None:
        (Path(folder) / CALIBRATION).unlink(missing_ok=True)
    else:
        replace(calibration, weights=hash_weights(folder)).save(Path(folder))
