"""The benchmark of text of one language: what is known of the corpus, and a row for each system."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.toy_task import SMALL, reversed_letters

pytestmark = pytest.mark.slow


def test_the_others_are_known_by_their_english(data: Path, script: Callable[[str], ModuleType]) -> None:
    script("augmentation").write_texts(data, data / "out", 20)
    pairs = reversed_letters(60, seed=5)
    found = {name: (data / "out" / name).read_text().splitlines() for name in ("few.de", "few.en", "more.en")}
    assert list(zip(found["few.de"], found["few.en"], strict=True)) == pairs[:20]
    assert found["more.en"] == [english for _, english in pairs[20:]]


@pytest.mark.slow
def test_a_row_for_each_system(
    data: Path, in_this_process: Callable[[str], None], run_script: Callable[..., Any]
) -> None:
    in_this_process("augmentation")
    settings = [part for setting in SMALL for part in ("--set", setting)]
    result, _ = run_script(
        "augmentation", "--data-dir", data, "--out", data / "out", "--pairs", 30, "--ways", "top10", "--test", *settings
    )
    assert [row["system"] for row in result["runs"]] == ["few", "top10", "all"]
    assert all(row["scores"].keys() == {"validation", "test"} for row in result["runs"])
    assert json.loads((data / "out" / "seed-1" / "top10-pairs" / "augmented.json").read_text())["counts"]["pairs"]
