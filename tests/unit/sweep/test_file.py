"""The file of a sweep: what it plans, and what is refused with its line."""

from pathlib import Path

import pytest

from pellucid.errors import ConfigError
from pellucid.sweep.file import Sweep, read_sweep

HEAD = 'recipe = "dates"\nout = "o"\nsrc = "a"\ntgt = "b"\n'


def read(tmp_path: Path, text: str, head: str = HEAD) -> Sweep:
    path = tmp_path / "s.toml"
    path.write_text(head + text, encoding="utf-8")
    return read_sweep(path)


def test_a_grid_is_every_combination_with_every_seed(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "seeds = [3, 4]\n[set]\ntrain.steps = 7\n"
        '[grid]\nmodel.norm = ["pre", "post"]\n"train.grad_clip" = [0.0, 1.0]\n',
    )
    assert [trial.name for trial in found.trials][:3] == [
        "norm=pre,grad_clip=0.0/seed-3",
        "norm=pre,grad_clip=0.0/seed-4",
        "norm=pre,grad_clip=1.0/seed-3",
    ]
    assert len(found.trials) == 8
    last = found.trials[-1].recipe
    assert (last.model.norm, last.train.grad_clip, last.train.seed, last.train.steps) == ("post", 1.0, 4, 7)
    assert (last.data.src, last.data.tgt) == ("a", "b")
    assert (found.metric, found.jobs, found.threads) == ("bleu", 1, 1)


def test_a_screening_is_eight_runs_of_two_levels(tmp_path: Path) -> None:
    two = "[screen]\nmodel.dropout = [0.1, 0.3]\ntrain.label_smoothing = [0.0, 0.1]\n"
    assert len(read(tmp_path, f"{two}train.grad_clip = [0.0, 1.0]\n").settings) == 8
    found = read(tmp_path, two)
    assert len({tuple(setting.values.values()) for setting in found.settings}) == len(found.settings) == 4
    assert found.settings[0].values == {"model.dropout": 0.1, "train.label_smoothing": 0.0}
    assert found.factors["model.dropout"] == (0.1, 0.3)


def test_named_runs_stand_in_their_order(tmp_path: Path) -> None:
    found = read(tmp_path, "[runs.plain]\n[runs.clipped]\ntrain.grad_clip = 1.0\n")
    assert [trial.name for trial in found.trials] == ["plain/seed-1", "clipped/seed-1"]


def test_a_grid_of_values_that_need_each_other_is_refused_as_a_whole(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run `d_model=98`: `d_model` \(98\) must be divisible by `num_heads` \(4\)"):
        read(tmp_path, "[grid]\nmodel.d_model = [96, 98]\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sed = [1]\n", r"line 5: unknown key `sed`; did you mean `seeds`\?"),
        ("seeds = [1, 1]\n", r"line 5: `seeds` \(\[1, 1\]\) names a seed twice"),
        ("seeds = []\n", r"line 5: `seeds` must be a list of whole numbers, not \[\]"),
        ("threads = 0\n", r"line 5: `threads` \(0\) must be at least 1"),
        ('metric = "blue"\n', r"line 5: unknown metric `blue`; did you mean `bleu`\?"),
        ('metric = "accuracy"\n', "line 5: `accuracy` is not a metric of"),
        ("[set]\ntrain.stepz = 5\n", r"line 6: unknown setting `train.stepz`; did you mean `steps`\?"),
        ("[set]\ntrain.seed = 5\n", r"line 6: `train.seed` stands in \[set\]"),
        ("[grid]\n\n[grid.trian]\nsteps = [5]\n", r"line 8: unknown setting `trian.steps`; did you mean `train`\?"),
        ("[grid]\ntrain.steps = 5\n", "line 6: `train.steps` must be a list of values to try, not 5"),
        ('[grid]\ntrain.steps = ["many"]\n', "line 6: `steps` must be a whole number, not 'many'"),
        ('[runs.a]\n"train.steps" = "many"\n', "line 6: `steps` must be a whole number, not 'many'"),
        ("[runs.a]\n[grid]\n", r"line 5: \[grid\] and \[runs\] stand in one file"),
        ("[screen]\ntrain.steps = [1, 2, 3]\n", r"line 6: `train.steps` \(\[1, 2, 3\]\) needs two levels, not 3"),
        ("[runs.'a/b']\n", "line 5: `a/b` cannot be its folder"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_a_file_that_names_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not say where its runs go"):
        read(tmp_path, "", head='recipe = "dates"\n')
