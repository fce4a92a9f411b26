"""Methods of attribution against known links: what counts as right, IBM model 1, and the script to its end."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from pellucid.tasks.translator import Translator
from tests.unit.benchmarks.conftest import Ran
from tests.unit.benchmarks.test_multi30k_results import copy_run

pytestmark = pytest.mark.slow

METHODS = [
    "best head", "attention, mean", "rollout", "occlusion", "gradient x input", "gradient x input, absolute",
    "integrated gradients", "integrated gradients, absolute", "direct attribution",
]  # fmt: skip


@pytest.fixture
def module(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("attribution_methods")


def test_model_1_learns_which_words_go_together(module: ModuleType) -> None:
    """The example of Brown et al.'s many readers: each word is seen with another beside it."""
    german = ["das Haus", "das Buch", "ein Buch"]
    english = ["the house", "the book", "a book"]
    links = module.Links(*([module.words(line) for line in side] for side in (german, english)), rounds=30)
    assert links.of(["ein", "haus"], ["a", "house"]) == {(0, 0), (1, 1)}
    assert links.of(["buch", "das"], ["the", "book"]) == {(0, 1), (1, 0)}
    assert links.of(["katze"], ["cat"]) == set(), "nobody has seen them"


def test_model_1_gives_probabilities_that_its_rounds_improve(module: ModuleType) -> None:
    source = [["a", "b"], ["a", "c"], ["b", "c", "a"]]
    target = [["x", "y"], ["x", "z"], ["y", "z", "x"]]
    likelihoods = []
    for rounds in (1, 2, 4, 8):
        table = module.probabilities(source, target, rounds)
        for word in ("", "a", "b", "c"):
            assert sum(p for (given, _), p in table.items() if given == word) == pytest.approx(1)
        pairs = zip(source, target, strict=True)
        logs = [np.log(sum(table[given, made] for given in ["", *s]) / (len(s) + 1)) for s, t in pairs for made in t]
        likelihoods.append(sum(logs))
    assert likelihoods == sorted(likelihoods), "EM never makes the texts less likely"
    assert max(table, key=lambda pair: table[pair] * (pair[0] == "b")) == ("b", "y")


def test_words_are_lower_cased_and_marks_stand_alone(module: ModuleType) -> None:
    assert module.words("Ein Hund, 2 Männer.") == ["ein", "hund", ",", "2", "männer", "."]


def test_an_answer_is_the_largest_and_units_without_a_link_do_not_count(module: ModuleType) -> None:
    case = module.Case(None, [[0], [1], [2]], [[0], [1]], [{0}, set(), {0, 1}])
    values = np.array([[0.1, 0.9], [0.5, 0.5], [0.2, 0.8]])
    assert module.hits(case, values) == (1, 2)


def test_places_are_summed_where_read_and_averaged_where_written(module: ModuleType) -> None:
    values = np.arange(12.0).reshape(4, 3) - 5
    case = module.Case(None, [[0], [1, 2]], [[0], [1, 2]], [])
    assert module.merged(case, values).tolist() == [[-5.0, -7.0], [-0.5, 2.0]]
    assert module.merged(case, values, absolute=True).tolist() == [[5.0, 7.0], [1.5, 3.0]]
    assert module.merged(case, values, later=1).tolist() == [[-2.0, -1.0], [2.5, 8.0]], "the step that reads them"


def test_each_method_says_something_of_each_unit(module: ModuleType, translator_folder: Path) -> None:
    translator = Translator.load(translator_folder, "cpu")
    (case,) = module.dates(translator, 1)
    assert [len(right) for right in case.right][4] == 0, "a hyphen comes from nowhere"
    for values in {**module.methods_of(translator, case), **module.heads_of(case)}.values():
        assert values.shape == (10, len(case.units))
        assert np.isfinite(values).all()


def test_attribution_methods(
    run_script: Callable[..., Ran], translator_folder: Path, finished_run: Path, data_dir: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(translator_folder, tmp_path / "run")
    shutil.copy(copy_run(finished_run, tmp_path / "other") / "recipe.toml", run)
    where = ["--dates", translator_folder, "--multi30k", run, "--data-dir", data_dir]
    table, lines = run_script("attribution_methods", *where, "--sentences", 6)
    assert [(found["task"], found["choosing"], found["scoring"]) for found in table["found"]] == [
        ("dates", 3, 3),
        ("multi30k", 3, 3),
    ]
    for found in table["found"]:
        assert [*found["methods"]] == METHODS
        assert found["best_head"].endswith(("writes", "reads"))
        for row in found["methods"].values():
            assert 0 <= row["low"] <= row["right"] <= row["high"] <= 1
        assert len({row["of"] for row in found["methods"].values()}) == 1
    assert table["found"][0]["methods"]["occlusion"]["of"] == 3 * 8, "eight digits a date"
    assert len(lines) == 2 * (1 + len(METHODS) + 1)


def test_without_a_model_or_a_second_sentence_it_says_so(
    module: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, message in (([], "there is no model"), (["--dates", "x", "--sentences", "1"], "1 is too few")):
        with pytest.raises(SystemExit) as exit_:
            module.main(arguments)
        assert exit_.value.code == 2
        assert message in capsys.readouterr().err
