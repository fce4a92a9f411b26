"""A run that cuts its sentences anew, or joins some, resumes to the same bytes, in another process and in mid-epoch."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.cli.main import main
from tests.properties.test_resume import STOPPED
from tests.toy_task import SMALL, metrics, write_pairs
from tests.unit.text.subword_models import CORPUS

LINES = CORPUS[7:107]
PAIRS = [(line, " ".join(reversed(line.split()))) for line in LINES]
SETTINGS = (
    "data.vocab_size=500", "data.valid_size=10", "train.steps=6", "train.accumulate=2", "train.save_every=6",
    "train.batch_tokens=500", "data.weights=[1, 2.5]",
)  # fmt: skip
WAYS = {
    "bpe": ("data.tokenizer=bpe", "data.subword_sampling=0.3"),
    "unigram": ("data.tokenizer=unigram", "data.subword_sampling=0.8"),
    "joined pairs": ("data.tokenizer=bpe", "data.concatenate=0.5"),
    "both": ("data.tokenizer=bpe", "data.subword_sampling=0.3", "data.concatenate=0.5"),
}


def command(folder: Path, *settings: str) -> list[str]:
    """A training on two corpora, one of which is drawn two and a half times an epoch."""
    folder.mkdir(exist_ok=True)
    first, second = write_pairs(folder, PAIRS[:60], "first"), write_pairs(folder, PAIRS[60:], "second")
    corpora = [f'data.{side}=["{a}", "{b}"]' for side, a, b in zip(("src", "tgt"), first, second, strict=True)]
    options = [part for value in (*SMALL, *SETTINGS, *corpora, *settings) for part in ("--set", value)]
    return ["train", "--out", str(folder / "run"), *options, "--device", "cpu"]


@pytest.mark.parametrize(
    "kind", ["bpe", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("unigram", "joined pairs", "both"))]
)
def test_stopped_in_another_process_it_ends_in_the_same_bytes(kind: str, tmp_path: Path) -> None:
    assert main(command(tmp_path / "unbroken", *WAYS[kind])) == 0
    broken = command(tmp_path / "broken", *WAYS[kind])
    stopped = subprocess.run(
        [sys.executable, "-c", STOPPED, "2", str(int(signal.SIGINT)), *broken],
        env=os.environ | {"PYTHONHASHSEED": "5"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert stopped.returncode == 130, stopped.stderr
    assert main(broken) == 0
    weights = [(tmp_path / name / "run" / "model.safetensors").read_bytes() for name in ("broken", "unbroken")]
    assert weights[0] == weights[1]
    assert metrics(tmp_path / "broken" / "run") == metrics(tmp_path / "unbroken" / "run")


def test_both_are_what_was_trained_with(tmp_path: Path) -> None:
    """Else the test above would pass without them."""
    found = {}
    for kind, settings in {"neither": ("data.tokenizer=bpe",), **WAYS}.items():
        if kind != "unigram":
            assert main(command(tmp_path / kind, *settings)) == 0
            found[kind] = metrics(tmp_path / kind / "run")[0]
    assert found["bpe"]["tokens"] > 1.2 * found["neither"]["tokens"]
    assert found["joined pairs"]["loss"] != found["neither"]["loss"]
    assert found["both"]["loss"] != found["bpe"]["loss"]
