"""A translator is calibrated on held-out text, and keeps what it learnt with its weights."""

from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.errors import DataError
from pellucid.evaluation.calibration import calibration_in, hash_weights
from pellucid.tasks.fit_calibration import calibrate
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters

PAIRS = reversed_letters(60, seed=9)
SOURCES, REFERENCES = [s for s, _ in PAIRS], [t for _, t in PAIRS]


@pytest.mark.slow
def test_a_calibration_is_saved_with_its_model(translator: Translator, finished_run: Path, tmp_path: Path) -> None:
    found = calibrate(translator, SOURCES, REFERENCES, hash_weights(finished_run))
    assert (found.lines, found.words) == (60, sum(len(t.tokens) for t in translator.translate(SOURCES)))
    assert 0 < found.right < 1
    blank = calibrate(translator, [*SOURCES, "\u200b"], [*REFERENCES, "a"], hash_weights(finished_run))
    assert blank.log_probability == found.log_probability, "of a line without tokens nothing is usual"
    translator.calibration = found
    try:
        translator.save(tmp_path / "saved")
        (sure,) = translator.translate(["a b c"], confidence=True)
    finally:
        translator.calibration = None
    assert calibration_in(tmp_path / "saved") == replace(found, weights=hash_weights(tmp_path / "saved"))
    (again,) = Translator.load(tmp_path / "saved", "cpu").translate(["a b c"], confidence=True)
    assert sure.confidence is not None
    assert again.confidence is not None
    assert sure.confidence.calibrated
    assert again.confidence.to_json() == sure.confidence.to_json()
    translator.save(tmp_path / "saved")
    assert calibration_in(tmp_path / "saved") is None, "another model's calibration does not stay"


def test_sides_of_different_length_are_refused(translator: Translator) -> None:
    with pytest.raises(DataError, match="2 sources and 1 references: each source needs one reference"):
        calibrate(translator, ["a", "b"], ["a"], "")
