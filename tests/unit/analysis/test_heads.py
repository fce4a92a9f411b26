"""`pellucid.ablate`: what each head is worth, of a folder or of a model that is open."""

import re
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.analysis.ablation import Head, disable_heads
from pellucid.analysis.heads import read_run_texts
from pellucid.config import TASKS, Recipe
from pellucid.errors import ConfigError, DataError
from pellucid.run.folder import RunFolder
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters

PAIRS = reversed_letters(12, seed=9)
SOURCES, TARGETS = ([pair[side] for pair in PAIRS] for side in (0, 1))


@pytest.mark.slow
def test_the_change_is_that_of_the_scores_with_a_head_switched_off(translator: Translator) -> None:
    told: list[Head] = []
    found = pellucid.ablate(translator, SOURCES, TARGETS, log_line=told.append)
    assert sorted(found.changes) == sorted(told)
    assert set(found.baseline) == {"loss", "bleu"}
    assert found.sentences == len(PAIRS)
    worst = found.rank_heads("loss")[0]
    tokens = sum(len(target.split()) + 1 for target in TARGETS)
    with disable_heads(translator.model, worst):
        without = -sum(translator.score(SOURCES, TARGETS)) / tokens
    assert found.changes[worst]["loss"].score == pytest.approx(without, rel=1e-5)
    assert found.changes[worst]["loss"].change > 0


def test_a_folder_is_opened_and_its_own_texts_are_taken(translator: Translator, finished_run: Path) -> None:
    by_folder = pellucid.ablate(finished_run, SOURCES, TARGETS, metric="loss", device="cpu")
    assert by_folder == pellucid.ablate(translator, SOURCES, TARGETS, metric="loss")
    own = pellucid.ablate(str(finished_run), metric="loss", sentences=5, device="cpu")
    assert own.sentences == 5
    assert set(own.baseline) == {"loss"}


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"sentences": 1}, ConfigError, "`sentences=1` must be at least 2"),
        ({"targets": None}, ConfigError, "the translations of the texts are not given"),
        ({"sources": None}, ConfigError, "`targets=` are given without `sources=`"),
        ({"sources": None, "targets": None}, ConfigError, "no text is given, and only a run folder has texts"),
        ({"targets": ["a"]}, DataError, "`sources=` has 12 texts and `targets=` 1"),
        ({"sources": [""], "targets": ["a"]}, DataError, "no text to score"),
        ({"metric": "accuracy"}, ConfigError, "`metric=accuracy` cannot be measured for this model"),
    ],
)
def test_what_cannot_be_measured(
    translator: Translator, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        pellucid.ablate(translator, **{"sources": SOURCES, "targets": TARGETS} | given)


def test_texts_that_a_script_handed_over_are_not_in_the_folder(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").begin(Recipe())
    said = f"the texts of the run `{tmp_path / 'run'}` were passed in memory"
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}$") as error:
        read_run_texts(tmp_path / "run", TASKS["translate"])
    assert error.value.hint.startswith("give texts as")
