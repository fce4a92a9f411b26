"""The benchmark of text of one language: what is known of the corpus, and a row for each system."""

import gzip
import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pellucid.cli.main import main
from tests.toy_task import SMALL, reversed_letters

pytestmark = pytest.mark.slow


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with files as Multi30k has them."""
    (tmp_path / "multi30k").mkdir()
    for name, count in (("train", 60), ("val", 8), ("test_2016_flickr", 8)):
        pairs = reversed_letters(count, seed=len(name))
        for side, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / "multi30k" / f"{name}.{side}.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


def test_the_others_are_known_by_their_english(data: Path, script: Callable[[str], ModuleType]) -> None:
    script("augmentation").write_texts(data, data / "out", 20)
    pairs = reversed_letters(60, seed=5)
    found = {name: (data / "out" / name).read_text().splitlines() for name in ("few.de", "few.en", "more.en")}
    assert list(zip(found["few.de"], found["few.en"], strict=True)) == pairs[:20]
    assert found["more.en"] == [english for _, english in pairs[20:]]


@pytest.mark.slow
def test_a_row_for_each_system(
    data: Path, script: Callable[[str], ModuleType], run_script: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(*args: object) -> str:
        with redirect_stdout(io.StringIO()) as out:
            assert main([str(arg) for arg in args]) == 0, args
        return out.getvalue()

    monkeypatch.setattr(script("augmentation"), "pellucid", command)
    settings = [part for setting in SMALL for part in ("--set", setting)]
    result, _ = run_script(
        "augmentation", "--data-dir", data, "--out", data / "out", "--pairs", 30, "--ways", "top10", "--test", *settings
    )
    assert [row["system"] for row in result["runs"]] == ["few", "top10", "all"]
    assert all(row["scores"].keys() == {"validation", "test"} for row in result["runs"])
    assert json.loads((data / "out" / "seed-1" / "top10-pairs" / "augmented.json").read_text())["counts"]["pairs"]
