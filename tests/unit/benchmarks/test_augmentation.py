"""Runs the benchmark of text of one language: a row for each system."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.toy_task import SMALL

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_a_row_for_each_system(
    data: Path, in_this_process: Callable[[str], None], run_script: Callable[..., Any]
) -> None:
    in_this_process("augmentation")
    enough = ("train.steps=40", "train.validate_every=40", "train.save_every=20")  # to write what is no loop
    settings = [part for setting in (*SMALL, *enough) for part in ("--set", setting)]
    more = ("--ways", "top10", "--writers", 2, "--taught", "--test")
    result, _ = run_script("augmentation", "--data-dir", data, "--out", data / "out", "--pairs", 30, *more, *settings)
    assert [row["system"] for row in result["runs"] if "test" in row["scores"]] == [
        "few", "top10", "top10-by-2", "top10-taught", "all",
    ]  # fmt: skip
    assert [row["system"] for row in result["runs"][5:]] == ["reverse-1", "reverse-2", "reverse-taught"]
    runs = data / "out" / "seed-1"
    assert json.loads((runs / "top10-pairs-1" / "augmented.json").read_text())["counts"]["pairs"]
    texts = [(runs / f"top10-pairs-{number}" / "train.src").read_text() for number in (1, 2)]
    assert texts[0] != texts[1], "two models wrote"
    corpora = json.loads((runs / "reverse-taught" / "corpus.json").read_text())["texts"]
    assert [Path(each["src"]).parent.name for each in corpora] == ["out", "taught-pairs"]
    corpora = json.loads((runs / "top10-by-2" / "corpus.json").read_text())["texts"]
    assert [Path(each["src"]).parent.name for each in corpora] == ["out", "top10-pairs-1", "top10-pairs-2"]
