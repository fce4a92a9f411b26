"""The benchmark of several languages in one model: each beside its own, and German with few pairs."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import Recipe
from tests.toy_task import SMALL

pytestmark = pytest.mark.slow


@pytest.fixture
def three(data: Path) -> Path:
    """The folder of the fixture `data` with French and Czech besides, which are the same text in other letters."""
    for path in [*(data / "multi30k").glob("*.de.gz")]:
        lines = gzip.decompress(path.read_bytes())
        for name, written in (("fr", lines.upper()), ("cs", lines.replace(b" ", b" x "))):
            (path.parent / path.name.replace(".de.", f".{name}.")).write_bytes(gzip.compress(written))
    return data


def test_one_model_stands_beside_those_of_each_language(
    three: Path, in_this_process: Callable[[str], None], run_script: Callable[..., Any]
) -> None:
    in_this_process("many_languages")
    small = [setting for setting in SMALL if not setting.startswith(("data.tokenizer", "train.steps", "train.warmup"))]
    settings = [part for each in (*small, "data.vocab_size=300") for part in ("--set", each)]
    asked = ["--data-dir", three, "--steps", 6, "--out", three / "out", "--test", *settings]
    result, _ = run_script("many_languages", *asked)
    beside = ["de", "fr", "cs"]
    assert {text: [*found] for text, found in result["scores"].items()} == {"validation": beside, "test": beside}
    for found in result["scores"]["test"].values():
        assert Path(found["a"]).name == "de-fr-cs-1"
        assert found["bleu"]["difference"] == pytest.approx(found["bleu"]["a"] - found["bleu"]["b"], abs=0.01)
    joint = Recipe.load(three / "out" / "de-fr-cs-1" / "recipe.toml")
    assert (joint.train.steps, joint.data.files("src_lang")) == (18, ("de", "fr", "cs"))
    assert len(joint.data.files("valid_src")) == 3
    sources = Path(joint.data.files("src")[0])
    text = gzip.decompress(sources.read_bytes()) if sources.suffix == ".gz" else sources.read_bytes()
    assert text.count(b"\n") == 60
