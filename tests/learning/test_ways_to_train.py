"""Each way to train learns what the plain one does: reversing digits, through the command line."""

from pathlib import Path

import pytest

from pellucid.cli.main import main
from tests.learning.test_toy_tasks import HELD_OUT, SETTINGS, numbers, reverse
from tests.toy_task import write_pairs

pytestmark = pytest.mark.slow

WAYS = {
    "bfloat16": ("train.precision=bfloat16",),
    "moving average": ("train.ema_decay=0.98", "train.average=1"),
    "R-Drop": ("train.r_drop=1", "model.dropout=0.05"),
    "best checkpoints": ("train.average_of=best", "train.validate_every=50"),
}


@pytest.mark.parametrize("way", WAYS)
def test_digits_are_reversed(tmp_path: Path, way: str) -> None:
    pairs = [(text, reverse(text)) for text in numbers(" ")]
    src, tgt = write_pairs(tmp_path, pairs[HELD_OUT:])
    test_src, _ = write_pairs(tmp_path, pairs[:HELD_OUT], "test")
    settings = (*SETTINGS, "data.tokenizer=spaces", *WAYS[way])
    options = [part for setting in settings for part in ("--set", setting)]
    run, out = str(tmp_path / "run"), tmp_path / "out"
    assert main(["train", "--src", src, "--tgt", tgt, "--out", run, "--device", "cpu", *options]) == 0
    assert main(["translate", run, "--input", test_src, "--output", str(out), "--device", "cpu"]) == 0
    found = out.read_text(encoding="utf-8").splitlines()
    right = sum(text == target for text, (_, target) in zip(found, pairs[:HELD_OUT], strict=True))
    assert right > 0.95 * HELD_OUT
