"""`pellucid.verify_resume`: a recipe in small, killed at random and gone on with, against the undisturbed training."""

import gzip
from pathlib import Path

import pytest

import pellucid
from pellucid.model_checks import resume
from pellucid.model_checks.resume import make_small_recipe, verify_resume
from tests.toy_task import reversed_letters, small_recipe, write_pairs
from tests.unit.cli.command_line import CommandLine


def test_a_recipe_in_small_keeps_what_it_computes_with(tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(5000))
    with gzip.open(f"{src}.gz", "wt", encoding="utf-8") as packed:
        packed.write(Path(src).read_text(encoding="utf-8"))
    settings = ("train.steps=50000", "train.warmup_steps=4000", "train.batch_tokens=25000", "train.save_every=1000",
                "train.keep_every=2000", "train.average=8", "train.ema_decay=0.9", "data.max_length=100")  # fmt: skip
    recipe = small_recipe(f"{src}.gz", tgt, *settings)
    (tmp_path / "cut").mkdir()
    small = make_small_recipe(recipe, tmp_path / "cut")
    assert (small.model, small.decode) == (recipe.model, recipe.decode)
    train = small.train
    assert (train.steps, train.warmup_steps, train.batch_tokens, train.save_every) == (12, 6, 1024, 2)
    assert (train.keep_every, train.average, train.ema_decay, train.seed) == (0, 3, 0.9, recipe.train.seed)
    for path, whole in ((small.data.src, src), (small.data.tgt, tgt)):
        lines = Path(str(path)).read_text(encoding="utf-8").splitlines()
        assert lines == Path(whole).read_text(encoding="utf-8").splitlines()[:2000]


@pytest.mark.slow
def test_a_recipe_of_ones_own_resumes_exactly(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(300))
    (tmp_path / "mine.toml").write_text(small_recipe(src, tgt).to_toml(), encoding="utf-8")
    setting = ("--set", "train.ema_decay=0.9")
    outcome = CommandLine(capsys)("doctor", "--verify-resume", tmp_path / "mine.toml", *setting, "--num-kills", "2")
    assert outcome.status == 0, outcome.out
    assert outcome.out.startswith("ok   resume: killed 2 times (after steps ")
    assert "the weights equal the ones of the training without interruption, byte for byte: " in outcome.out
    assert outcome.err.splitlines()[0] == "training a small model without interruption"
    assert [line.partition(":")[0] for line in outcome.err.splitlines()[1:]] == ["kill 1 of 2", "kill 2 of 2"]


FORGETFUL = """
import sys, pellucid, torch
recipe, out, device = sys.argv[1:]
run = pellucid.Run(recipe, out, device=device)
kept = {"steps": 0}

class Growing(torch.nn.Module):  # what it counts is saved nowhere
    def forward(self, model, batch):
        kept["steps"] += 1
        losses = pellucid.CrossEntropy()(model, batch)
        return pellucid.Losses(losses.minimised * kept["steps"], losses.reported)

run.loss = Growing()
run.train()
"""


@pytest.mark.slow
def test_a_training_that_keeps_something_outside_of_its_state_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "TRAIN", FORGETFUL)
    recipe = small_recipe(*write_pairs(tmp_path, reversed_letters(300)), "train.steps=12")
    (tmp_path / "mine.toml").write_text(recipe.to_toml(), encoding="utf-8")
    monkeypatch.setattr(resume._Trial, "_moment", lambda *_: (6, 0.0))  # behind a checkpoint
    (check,) = verify_resume(tmp_path / "mine.toml", num_kills=1)
    assert check.level == "BAD"
    assert " weights differ, by at most " in check.text
    assert check.advice == "state of a hook, a loss or a part outside of the model is not saved"


def test_a_training_that_fails_by_itself_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "TRAIN", "raise SystemExit('no such thing')")
    recipe = small_recipe(*write_pairs(tmp_path, reversed_letters(30)))
    (tmp_path / "mine.toml").write_text(recipe.to_toml(), encoding="utf-8")
    (check,) = verify_resume(tmp_path / "mine.toml")
    assert (check.level, check.advice) == ("BAD", "no such thing")
    assert check.text == "resume: the training without interruption failed with status 1"


def test_time_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "TRAIN", "import time; time.sleep(60)")
    recipe = small_recipe(*write_pairs(tmp_path, reversed_letters(30)))
    (tmp_path / "mine.toml").write_text(recipe.to_toml(), encoding="utf-8")
    with pytest.raises(pellucid.DecodingError, match=r"^the training runs take longer than 0\.001 minutes"):
        verify_resume(tmp_path / "mine.toml", max_minutes=0.001)
