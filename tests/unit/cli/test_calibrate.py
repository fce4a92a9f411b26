"""`pellucid calibrate`: what it writes is what `translate` and `score` go by."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.tasks import fit_calibration
from pellucid.weights.folder import CALIBRATION
from tests.toy_task import reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine


@pytest.fixture
def model(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of the finished run's model."""
    return Path(shutil.copytree(finished_run, tmp_path / "model", ignore=shutil.ignore_patterns("checkpoints")))


@pytest.mark.slow
def test_translate_and_score_go_by_it(pellucid: CommandLine, model: Path, tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(60, seed=9), "valid")
    before = json.loads(pellucid("translate", model, "a b c", "--json").out)
    assert before["calibrated"] is False
    outcome = pellucid("calibrate", model, "--src", src, "--tgt", tgt)
    assert (outcome.status, outcome.err) == (0, "")
    table = json.loads((model / CALIBRATION).read_text(encoding="utf-8"))
    first, second, third = outcome.out.splitlines()
    assert first == f"{table['words']:,} words of 60 lines, {table['right']:.1%} of them as in the reference"
    assert second.startswith(f"calibration error {table['error']:.3f}, before {table['error_before']:.3f} (15 bins")
    assert third == str(model / CALIBRATION)
    after = json.loads(pellucid("translate", model, "a b c", "--json").out)
    assert after["calibrated"] is True
    assert [word["word"] for word in after["words"]] == [word["word"] for word in before["words"]]
    assert [word["probability"] for word in after["words"]] != [word["probability"] for word in before["words"]]
    (tmp_path / "s").write_text("a b c d e\n\n", encoding="utf-8")
    (tmp_path / "t").write_text("e e e e e e e\nb\n", encoding="utf-8")
    rows = [
        json.loads(line)
        for line in pellucid(
            "score", model, "--src", tmp_path / "s", "--tgt", tmp_path / "t", "--json"
        ).out.splitlines()
    ]
    assert {"flag": "loop", "evidence": '"e" 7 times in a row'} in rows[0]["flags"]
    assert rows[1]["flags"] == [{"flag": "empty", "evidence": "the source has no text"}]
    again = pellucid("calibrate", model, "--src", src, "--ref", tgt, "--json")
    found = json.loads(again.out)
    assert {"format": table["format"], **found} == table, "the same text gives the same calibration"


@pytest.mark.parametrize(("error", "is_told"), [(0.04, False), (0.06, True)])
def test_it_tells_where_the_models_own_probabilities_were_nearer(
    error: float, is_told: bool, pellucid: CommandLine, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = fit_calibration.calibrate
    monkeypatch.setattr(fit_calibration, "calibrate", lambda *all_: replace(fit(*all_), error=error, error_before=0.05))
    src, tgt = write_pairs(tmp_path, reversed_letters(60, seed=9), "valid")
    said = pellucid("calibrate", model, "--src", src, "--tgt", tgt).err
    path = model / CALIBRATION
    note = f"note: the calibration error was smaller before; remove {path} to undo the fit\n"
    assert said == (note if is_told else "")


@pytest.mark.filterwarnings("default")  # as for a user
def test_weights_that_changed_are_not_calibrated(pellucid: CommandLine, model: Path, tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(60, seed=9), "valid")
    pellucid("calibrate", model, "--src", src, "--tgt", tgt)
    table = json.loads((model / CALIBRATION).read_text(encoding="utf-8")) | {"weights": "0" * 64}
    (model / CALIBRATION).write_text(json.dumps(table), encoding="utf-8")
    outcome = pellucid("translate", model, "a b c", "--json")
    assert outcome.err.startswith(f"warning: `{model / CALIBRATION}` was fitted with other weights, and is ignored")
    assert json.loads(outcome.out)["calibrated"] is False


def test_mistakes_are_told(pellucid: CommandLine, model: Path, tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(3, seed=9), "few")
    few = pellucid("calibrate", model, "--src", src, "--tgt", tgt)
    assert few.status == 2
    assert "are too few for a calibration: it requires at least 100 words, both correct and wrong ones" in few.error
    none = pellucid("calibrate", model, "--src", src)
    assert (none.status, none.error) == (2, "the translations are missing: `--tgt FILE`")
    both = pellucid("calibrate", model, "--src", src, "--tgt", tgt, "--ref", tgt)
    assert (both.status, both.error) == (2, "`--ref` and `--tgt` are the same option, and both are given")
    gone = pellucid("calibrate", model, "--src", tmp_path / "nothing", "--tgt", tgt)
    assert gone.status == 2
    assert "nothing" in gone.error
    (model / CALIBRATION).write_text("{", encoding="utf-8")
    damaged = pellucid("translate", model, "a b c", "--json")
    assert damaged.status == 1
    assert damaged.error.startswith(f"`{model / CALIBRATION}` is damaged: ")
