"""Each way to train learns what the plain one does: reversing digits, through the command line."""

from pathlib import Path

import pytest

from tests.learning.test_toy_tasks import SETTINGS, numbers, reverse, right_share

pytestmark = pytest.mark.slow

WAYS = {
    "bfloat16": ("train.precision=bfloat16",),
    "moving average": ("train.ema_decay=0.98", "train.average=1"),
    "R-Drop": ("train.r_drop=1", "model.dropout=0.05"),
    "best checkpoints": ("train.average_strategy=best", "train.validate_every=50"),
}


@pytest.mark.parametrize("way", WAYS)
def test_digits_are_reversed(tmp_path: Path, way: str) -> None:
    pairs = [(text, reverse(text)) for text in numbers(" ")]
    assert right_share(tmp_path, pairs, (*SETTINGS, "data.tokenizer=spaces", *WAYS[way])) > 0.95
