"""A task of which there are few pairs is learnt from text of one language, through the command line."""

from pathlib import Path

import pytest

from pellucid.cli.main import main
from pellucid.tasks.translator import Translator
from tests.learning.test_toy_tasks import HELD_OUT, SETTINGS, numbers, reverse, right_share
from tests.toy_task import Pair, write_pairs

pytestmark = pytest.mark.slow
FEW = 60


def share(run: Path, pairs: list[Pair]) -> float:
    """The share of held-out lines that a run translates right; no tag stands before them."""
    found = Translator.load(run, "cpu").translate([source for source, _ in pairs[:HELD_OUT]])
    return sum(each.text == target for each, (_, target) in zip(found, pairs[:HELD_OUT], strict=True)) / HELD_OUT


def test_digits_are_reversed(tmp_path: Path) -> None:
    """To reverse is its own other way, so that a model of it writes the sources."""
    pairs = [(text, reverse(text)) for text in numbers(" ")]
    settings = (*SETTINGS, "data.tokenizer=spaces")
    other_way = right_share(tmp_path, pairs, settings)
    (tmp_path / "mono").write_text("".join(f"{target}\n" for _, target in pairs[HELD_OUT + FEW :]))
    few = write_pairs(tmp_path, pairs[HELD_OUT : HELD_OUT + FEW], "few")
    valid = write_pairs(tmp_path, pairs[-50:], "valid")
    texts = ["--src", few[0], "--tgt", few[1], "--valid-src", valid[0], "--valid-tgt", valid[1]]
    made = ["augment", str(tmp_path / "run"), "--input", str(tmp_path / "mono"), "--out", str(tmp_path / "c"), *texts]
    assert main([*made, "--keep-copies", "--drop-flagged", "mismatch", "--device", "cpu"]) == 0
    recipe = str(tmp_path / "c" / "recipe.toml")
    assert main(["train", recipe, "--out", str(tmp_path / "s"), "--device", "cpu"]) == 0
    options = [part for setting in settings for part in ("--set", setting)]
    assert main(["train", *texts, "--out", str(tmp_path / "alone"), "--device", "cpu", *options]) == 0
    assert share(tmp_path / "alone", pairs) < 0.6
    assert share(tmp_path / "s", pairs) > 0.9 * other_way > 0.85
