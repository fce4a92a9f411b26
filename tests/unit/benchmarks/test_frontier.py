"""The frontier from a teacher to its students: what is told of each, beside the first, and the picture."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pellucid.data.dates import split_dates
from pellucid.evaluation.comparison import compare_outputs
from pellucid.tasks.translator import Translator
from tests.unit.benchmarks.conftest import Ran

pytestmark = pytest.mark.slow


@pytest.fixture
def models(translator_folder: Path, tmp_path: Path) -> list[Path]:
    """A teacher, the same again, and one with other weights."""
    for name in ("teacher", "equal"):
        shutil.copytree(translator_folder, tmp_path / name)
    other = Translator.load(translator_folder, "cpu")
    other.model.output_projection.weight.data.neg_()
    other.save(tmp_path / "other")
    return [tmp_path / name for name in ("teacher", "equal", "other")]


@pytest.fixture
def texts(lines_file: Callable[..., Path]) -> tuple[Path, Path]:
    pairs, _ = split_dates(30, seed=1, held_out=3)
    return lines_file("src", *(src for src, _ in pairs)), lines_file("ref", *(ref for _, ref in pairs))


@pytest.mark.slow
def test_frontier(run_script: Callable[..., Ran], models: list[Path], texts: tuple[Path, Path], tmp_path: Path) -> None:
    src, ref = texts
    picture = tmp_path / "frontier.svg"
    options = ["--quick", "--rounds", 2, "--beams", 2, 1, "--picture", picture]
    table, lines = run_script("frontier", *models, "--src", src, "--ref", ref, *options)
    rows = [row for row in table["cases"] if row["engine"] == "pellucid float32"]
    assert [(row["model"], row["beam_size"]) for row in rows] == [
        (name, beam) for name in ("teacher", "equal", "other") for beam in (2, 1)
    ]
    for row in rows:
        assert len(row["seconds"]) == 2
        assert row["sentences_per_second"]["min"] > 0
        assert row["bleu_interval"][0] <= row["bleu"] + 1e-9
        assert row["bytes"] == (tmp_path / row["model"] / "model.safetensors").stat().st_size
    assert "p_value" not in rows[0], "the teacher is what others are compared with"
    for row in rows[2:4]:
        assert (row["bleu_difference"], row["p_value"], row["share_of_bytes"]) == (0.0, 1.0, 1.0)
    for row, teacher in zip(rows[2:], rows[:2] * 2, strict=True):
        ratios = sorted(a / b for a, b in zip(teacher["seconds"], row["seconds"], strict=True))
        assert [row["times_as_fast"]["min"], row["times_as_fast"]["max"]] == pytest.approx(ratios, rel=1e-3)
    sources, references = (path.read_text(encoding="utf-8").splitlines() for path in texts)
    outputs = [
        [t.text for t in Translator.load(f, "cpu").translate(sources, beam_size=2)] for f in (models[2], models[0])
    ]
    expected = compare_outputs(*outputs, references, resamples=100, trials=100).bleu
    assert rows[4]["bleu_difference"] == pytest.approx(expected.difference)
    assert tuple(rows[4]["bleu_difference_interval"]) == pytest.approx(expected.difference_interval)
    assert any(line.startswith("| other | pellucid float32 | 1 |") for line in lines)
    drawn = picture.read_text(encoding="utf-8")
    assert all(text in drawn for text in ("beam of 2", "greedy", "sentences a second", "megabytes", "teacher"))
