"""A run that cuts its sentences anew, or joins some, resumes to the same bytes, in another process and in mid-epoch."""

import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from pellucid.cli.main import main
from tests.processes import run_python
from tests.properties.test_resume import STOPPED
from tests.toy_task import SMALL, metrics, write_pairs
from tests.unit.text.subword_models import CORPUS

pytestmark = pytest.mark.slow  # tests/properties/test_resume.py has one resume for the quick tests

LINES = CORPUS[7:107]
PAIRS = [(line, " ".join(reversed(line.split()))) for line in LINES]
SETTINGS = (
    "data.vocab_size=500", "data.valid_size=10", "train.steps=6", "train.accumulate=2", "train.save_every=6",
    "train.batch_tokens=500", "data.corpus_weights=[1, 2.5]",
)  # fmt: skip
WAYS = {
    "bpe": ("data.tokenizer=bpe", "data.subword_regularization=0.3"),
    "unigram": ("data.tokenizer=unigram", "data.subword_regularization=0.8"),
    "joined pairs": ("data.tokenizer=bpe", "data.concatenate=0.5"),
    "both": ("data.tokenizer=bpe", "data.subword_regularization=0.3", "data.concatenate=0.5"),
}


def command(folder: Path, *settings: str) -> list[str]:
    """A training on two corpora, one of which is drawn two and a half times an epoch."""
    folder.mkdir(exist_ok=True)
    first, second = write_pairs(folder, PAIRS[:60], "first"), write_pairs(folder, PAIRS[60:], "second")
    corpora = [f'data.{side}=["{a}", "{b}"]' for side, a, b in zip(("src", "tgt"), first, second, strict=True)]
    options = [part for value in (*SMALL, *SETTINGS, *corpora, *settings) for part in ("--set", value)]
    return ["train", "--out", str(folder / "run"), *options, "--device", "cpu"]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run without an interruption of each way, made when it is first asked for."""

    @cache
    def trained(kind: str) -> Path:
        folder = tmp_path_factory.mktemp("unbroken")
        assert main(command(folder, *WAYS.get(kind, WAYS["bpe"][:1]))) == 0
        return folder / "run"

    return trained


@pytest.mark.parametrize(
    "kind", ["bpe", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("unigram", "joined pairs", "both"))]
)
def test_stopped_in_another_process_it_ends_in_the_same_bytes(
    unbroken: Callable[[str], Path], kind: str, tmp_path: Path
) -> None:
    broken = command(tmp_path, *WAYS[kind])
    stopped = run_python("-c", STOPPED, 2, int(signal.SIGINT), *broken)
    assert stopped.returncode == 130, stopped.stderr
    assert main(broken) == 0
    expected = unbroken(kind)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (expected / "model.safetensors").read_bytes()
    assert metrics(tmp_path / "run") == metrics(expected)


def test_both_are_what_was_trained_with(unbroken: Callable[[str], Path]) -> None:
    """Else the test above would pass without them."""
    found = {kind: metrics(unbroken(kind))[0] for kind in ("neither", "bpe", "joined pairs", "both")}
    assert found["bpe"]["loss"] != found["neither"]["loss"]
    assert found["joined pairs"]["loss"] != found["neither"]["loss"]
    assert found["both"]["loss"] != found["bpe"]["loss"]
