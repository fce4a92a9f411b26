"""A student learns a task from a teacher's translations alone, of text that has none, through the command line."""

from pathlib import Path

import pytest

from pellucid.cli.main import main
from pellucid.tasks.translator import Translator
from tests.learning.test_toy_tasks import HELD_OUT, SETTINGS, numbers, reverse, right_share

pytestmark = pytest.mark.slow


def test_digits_are_reversed(tmp_path: Path) -> None:
    pairs = [(text, reverse(text)) for text in numbers(" ")]
    teacher = right_share(tmp_path, pairs, (*SETTINGS, "data.tokenizer=spaces"))
    student = ["model.num_encoder_layers=2", "model.num_decoder_layers=1", "model.d_model=24", "model.d_ff=48"]
    options = [part for setting in (*SETTINGS, *student, "train.steps=500") for part in ("--set", setting)]
    command = ["distill", str(tmp_path / "run"), "--src", str(tmp_path / "train.src"), "--out", str(tmp_path / "s")]
    assert main([*command, "--keep-copies", "--device", "cpu", *options]) == 0
    translator = Translator.load(tmp_path / "s", "cpu")
    config = translator.model.config
    assert (config.num_encoder_layers, config.num_decoder_layers, config.d_model) == (2, 1, 24)
    found = translator.translate([source for source, _ in pairs[:HELD_OUT]])
    right = sum(each.text == target for each, (_, target) in zip(found, pairs[:HELD_OUT], strict=True)) / HELD_OUT
    assert right > 0.9 * teacher > 0.85
