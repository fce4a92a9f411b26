"""The benchmark of minimum Bayes risk: its choice by BLEU against the sum written out, and a run of it in small."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from sacrebleu.metrics.bleu import BLEU

from tests.toy_task import reversed_letters, write_pairs
from tests.unit.benchmarks.conftest import Ran

pytestmark = pytest.mark.slow


def test_the_one_most_like_all_by_bleu(script: Callable[[str], ModuleType]) -> None:
    texts = ["a dog runs on the grass", "the dog runs on the grass", "two cats", "a dog runs on the grass now"]
    metric = BLEU(effective_order=True)
    means = [sum(metric.sentence_score(one, [other]).score for other in texts) for one in texts]
    assert script("consensus").most_like_all_by_bleu(texts, metric) == texts[means.index(max(means))] == texts[0]
    assert script("consensus").most_like_all_by_bleu(["same"] * 3, metric) == "same"


def test_in_small(run_script: Callable[..., Ran], finished_run: Path, tmp_path: Path) -> None:
    src, ref = write_pairs(tmp_path, reversed_letters(9, seed=9), "valid")
    table, lines = run_script("consensus", finished_run, "--src", src, "--ref", ref, "--draws", "3", "--device", "cpu")
    assert table["lines"] == 9
    assert [*table["scores"]] == ["beam of 5", "draws by chrF", "draws by BLEU"]
    assert [line.partition(":")[0] for line in lines] == [*table["scores"]]
