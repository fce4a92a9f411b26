"""The frontier from a teacher to its students: what is told of each, beside the first, and the picture."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

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


def test_several_models_as_one_teacher(
    run_script: Callable[..., Ran], models: list[Path], texts: tuple[Path, Path]
) -> None:
    (src, ref), (first, second, student) = texts, models
    options = ["--quick", "--rounds", 1, "--beams", 2]
    table, _ = run_script("frontier", first, student, "--ensemble", second, "--src", src, "--ref", ref, *options)
    told, *rows = table["cases"]
    assert (told["model"], told["engine"]) == ("teacher + equal", "pellucid float32")
    assert told["bytes"] == sum((folder / "model.safetensors").stat().st_size for folder in (first, second))
    assert [(row["model"], row["engine"], "p_value" in row) for row in rows] == [
        ("other", "pellucid float32", True), *([("other", "ctranslate2 int8", False)] * (len(rows) - 1)),
    ]  # fmt: skip
    assert rows[0]["share_of_bytes"] == pytest.approx(0.5, abs=0.01)


def test_another_engine_stands_beside(
    script: Callable[[str], ModuleType],
    run_script: Callable[..., Ran],
    models: list[Path],
    texts: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where Translator.load takes an engine, each model is opened in it, too, and compared within it."""
    load, asked = Translator.load, list[dict[str, Any]]()

    def with_engine(folder: Path, device: str, dtype: str, engine: str = "torch") -> Translator:
        asked.append({"engine": engine, "dtype": dtype})
        return load(folder, device, "float32")

    module = script("frontier")
    monkeypatch.setattr(Translator, "load", with_engine)
    monkeypatch.setattr(module, "find_spec", lambda _: object())
    monkeypatch.setattr(module, "bytes_of", lambda folder, engine: 100 if "int8" in engine else 400)
    monkeypatch.setattr(module, "matrix_peak", lambda: 1e11)
    circumstances = script("report").circumstances  # which looks up the version of what need not be installed
    monkeypatch.setattr(module, "circumstances", lambda script, argv, _: circumstances(script, argv))
    table, _ = run_script(
        "frontier", *models[:2], "--src", texts[0], "--ref", texts[1], "--quick", "--rounds", 1, "--beams", 1
    )
    assert {"engine": "ctranslate2", "dtype": "int8"} in asked
    rows = {(row["engine"], row["model"]): row for row in table["cases"]}
    assert len(rows) == 4
    assert "p_value" not in rows["ctranslate2 int8", "teacher"]
    assert rows["ctranslate2 int8", "equal"]["share_of_bytes"] == 1.0
    assert rows["ctranslate2 int8", "equal"]["bytes"] == 100


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--picture", "x.pdf"], "`x.pdf` is neither .svg nor .png"),
        (["--ref", "REF"], "has 27 lines, `"),
        (["TEACHER"], "is named twice"),
    ],
)
def test_what_cannot_be_measured(
    script: Callable[[str], ModuleType],
    models: list[Path],
    texts: tuple[Path, Path],
    lines_file: Callable[..., Path],
    options: list[str],
    error: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stands_for = {"REF": str(lines_file("short", "2021-05-03")), "TEACHER": str(models[0])}
    given = [str(models[0]), *(stands_for.get(option, option) for option in options)]
    with pytest.raises(SystemExit) as exit_:
        script("frontier").main(["--src", str(texts[0]), "--ref", str(texts[1]), *given])
    assert exit_.value.code == 2
    assert error in capsys.readouterr().err
