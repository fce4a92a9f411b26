"""The table of Multi30k: the scores of each run, and the mean and deviation of those that differ in the seed alone."""

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters

pytestmark = pytest.mark.slow

PAIRS = reversed_letters(30, seed=5)


@pytest.fixture
def module(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("multi30k_results")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory, with a test set in place of the real one."""
    (tmp_path / "multi30k").mkdir()
    for language, lines in zip(("de", "en"), zip(*PAIRS, strict=True), strict=True):
        path = tmp_path / "multi30k" / f"test_2016_flickr.{language}.gz"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def copy_run(run: Path, folder: Path, *changes: tuple[str, str], languages: tuple[str, str] = ("de", "en")) -> Path:
    """The run with other lines in its recipe."""
    shutil.copytree(run, folder)
    path = folder / "recipe.toml"
    text = re.sub(r'^src = ".*"', f'src = "{folder}/train.{languages[0]}.gz"', path.read_text("utf-8"), flags=re.M)
    text = re.sub(r'^tgt = ".*"', f'tgt = "{folder}/train.{languages[1]}.gz"', text, flags=re.M)
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")
    return folder


def set_length_penalty(run: Path, value: float) -> Path:
    """Writes it into pellucid.json, where it tells the translators of the runs apart."""
    config = json.loads((run / "pellucid.json").read_text("utf-8"))
    config["decode"]["length_penalty"] = value
    (run / "pellucid.json").write_text(json.dumps(config), encoding="utf-8")
    return run


def spoilt(seed: float) -> list[str]:
    """The references in capitals, with some letters wrong."""
    draw = random.Random(seed)
    return [" ".join(w if draw.random() < 0.8 else "x" for w in line.upper().split()) for _, line in PAIRS]


def translate(self: Translator, sources: list[str], beam_size: int) -> list[Translation]:
    """In place of a model that is any good."""
    assert [*sources] == [src for src, _ in PAIRS]
    return [Translation(text, 0.0, []) for text in spoilt(self.decode.length_penalty + beam_size / 100)]


def test_runs_of_one_recipe_are_a_row(
    module: ModuleType,
    finished_run: Path,
    data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Translator, "translate", translate)
    first = set_length_penalty(copy_run(finished_run, data / "first"), 1.0)
    second = set_length_penalty(copy_run(finished_run, data / "second", ("\nseed = 1\n", "\nseed = 2\n")), 2.0)
    other = copy_run(finished_run, data / "other", ("\nlabel_smoothing = 0.1\n", "\nlabel_smoothing = 0.2\n"))
    (other / "result.json").unlink()
    assert module.main([str(first), str(other), str(second), "--data-dir", str(data), "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    recipes = json.loads(out)["recipes"]
    assert [[(run["seed"], run["finished"]) for run in recipe["runs"]] for recipe in recipes] == [
        [(1, True), (2, True)],
        [(1, False)],
    ]
    assert f"{other} (not finished): BLEU " in err
    values = [scores_by_hand(penalty) for penalty in (1.0, 2.0)]
    columns = [cell.strip() for cell in next(row for row in err.splitlines() if row.startswith("| default")).split("|")]
    assert columns[2:5] == ["de-en", "2", "0.01 M"]
    for (name, one), two, cell in zip(values[0].items(), values[1].values(), columns[5:10], strict=True):
        assert [run[name] for run in recipes[0]["runs"]] == pytest.approx([one, two])
        mean, deviation = (one + two) / 2, abs(one - two) / 2**0.5
        assert recipes[0][name] == pytest.approx({"mean": mean, "standard_deviation": deviation})
        assert cell == f"{mean:.2f} ± {deviation:.2f}"
        assert recipes[1][name] == {"mean": pytest.approx(one), "standard_deviation": None}
    assert values[0]["bleu"] < values[0]["bleu_lowercase"] != values[0]["bleu_greedy"]
    assert f"| {values[0]['multi_bleu']:.2f} |" in err


def scores_by_hand(penalty: float) -> dict[str, float]:
    """The columns of the table, from sacreBLEU itself; of single letters, multi-bleu is BLEU without smoothing."""
    references = [[line for _, line in PAIRS]]
    outputs, greedy = spoilt(penalty + 0.05), spoilt(penalty + 0.01)
    plain = BLEU(lowercase=True, tokenize="none", smooth_method="none", force=True)
    return {
        "bleu": BLEU(force=True).corpus_score(outputs, references).score,
        "bleu_lowercase": BLEU(lowercase=True, force=True).corpus_score(outputs, references).score,
        "bleu_greedy": BLEU(force=True).corpus_score(greedy, references).score,
        "chrf": CHRF().corpus_score(outputs, references).score,
        "multi_bleu": plain.corpus_score(outputs, references).score,
    }
