"""Small tasks that must be learnt, through the command line: the one test that sees the whole chain."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pellucid.cli.main import main
from tests.toy_task import Pair, write_pairs

SETTINGS = (
    "model.d_model=32", "model.d_ff=64", "model.num_heads=4", "model.num_encoder_layers=1",
    "model.num_decoder_layers=2", "model.dropout=0.0", "train.learning_rate=1e-2", "train.warmup_steps=50",
    "train.batch_tokens=512", "train.label_smoothing=0.0", "train.validate_every=1000",
    "train.steps=350", "train.save_every=50", "train.average=3",
)  # fmt: skip
HELD_OUT = 100


def numbers(separator: str) -> list[str]:
    """Different strings of two to five digits, in random order."""
    generator = random.Random(3)
    rows = {separator.join(generator.choices("01234567", k=generator.randint(2, 5))) for _ in range(2500)}
    return generator.sample(sorted(rows), len(rows))


def reverse(text: str) -> str:
    return text[::-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "separator", "tokenizer"),
    [
        pytest.param(str, "", "characters", id="copy"),
        pytest.param(reverse, " ", "spaces", id="reverse"),
    ],
)
def test_a_toy_task_is_learnt(tmp_path: Path, task: Callable[[str], str], separator: str, tokenizer: str) -> None:
    pairs = [(text, task(text)) for text in numbers(separator)]
    assert right_share(tmp_path, pairs, (*SETTINGS, f"data.tokenizer={tokenizer}")) > 0.95


def right_share(tmp_path: Path, pairs: list[Pair], settings: tuple[str, ...]) -> float:
    """Trains and translates by the real command; the share of held-out lines that come out right."""
    src, tgt = write_pairs(tmp_path, pairs[HELD_OUT:])
    test_src, _ = write_pairs(tmp_path, pairs[:HELD_OUT], "test")
    options = [part for setting in settings for part in ("--set", setting)]
    run, out = str(tmp_path / "run"), tmp_path / "out"
    assert main(["train", "--src", src, "--tgt", tgt, "--out", run, "--device", "cpu", *options]) == 0
    assert main(["translate", run, "--input", test_src, "--output", str(out), "--device", "cpu"]) == 0
    found = out.read_text(encoding="utf-8").splitlines()
    return sum(text == target for text, (_, target) in zip(found, pairs[:HELD_OUT], strict=True)) / HELD_OUT
