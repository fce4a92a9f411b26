"""The file of a sweep: what it plans, and what is refused with its line."""

from pathlib import Path
from unittest.mock import patch

import pytest

from pellucid.errors import ConfigError
from pellucid.sweep import file
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


def test_settings_by_the_names_of_earlier_versions_keep_their_folders(tmp_path: Path) -> None:
    text = (
        '[set]\ndata.joint = false\n[grid]\ntrain.schedule = ["stable", "linear"]\ntrain.embedding_scale = [0.5, 1.0]\n'
    )
    found = read(tmp_path, text)
    assert found.trials[0].name == "schedule=stable,embedding_scale=0.5/seed-1"
    first = found.trials[0].recipe
    assert (first.train.schedule, first.train.embedding_init_scale, first.data.joint_vocab) == ("wsd", 0.5, False)
    with pytest.raises(ConfigError, match=r"line 7: `data.joint` and `data.joint_vocab` are the same setting"):
        read(tmp_path, "[set]\ndata.joint = false\ndata.joint_vocab = false\n")
    with pytest.raises(ConfigError, match=r"line 8: `data.joint_vocab` is in both"):
        read(tmp_path, "[set]\ndata.joint = false\n[grid]\ndata.joint_vocab = [true, false]\n")


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
        ("[set]\ntrain.seed = 5\n", r"line 6: `train.seed` is in \[set\]"),
        ("[grid]\n\n[grid.trian]\nsteps = [5]\n", r"line 8: unknown setting `trian.steps`; did you mean `train`\?"),
        ("[grid]\ntrain.steps = 5\n", "line 6: `train.steps` must be a list of values to try, not 5"),
        ('[grid]\ntrain.steps = ["many"]\n', "line 6: `steps` must be a whole number, not 'many'"),
        ('[runs.a]\n"train.steps" = "many"\n', "line 6: `steps` must be a whole number, not 'many'"),
        ("[runs.a]\n[grid]\n", r"line 5: \[grid\] and \[runs\] are in the same file"),
        ("[screen]\ntrain.steps = [1, 2]\n", "line 5: unknown key `screen`"),
        ("[runs.'a/b']\n", "line 5: `a/b` cannot be its folder"),
        ("[grid]\ntrain.learning_rate = [1979-05-27]\n", r"line 6: `train.learning_rate` .* has a date or a time"),
        ("[set]\ntrain.learning_rate = 07:32:00\n", r"line 6: `train.learning_rate` .* has a date or a time"),
        ("threads = 99999999999999\n", r"line 5: `threads` \(99999999999999\) must be at most 10,000"),
        ("beam_size = 99999999999999\n", r"line 5: `beam_size` \(99999999999999\) must be at most 10,000"),
        (f"[grid]\ntrain.steps = {[*range(1, 20_000)]}\n", "plans 19999 runs, more than 10,000"),
        (f"seeds = {[*range(20_000)]}\n", "plans 20000 runs, more than 10,000"),
        (f"{'a.' * 200}a = 1\n", "is not valid TOML: it has a key of more than 100 parts"),
        (f"x = {'[' * 20_000}\n", "is not valid TOML: it is nested too deep"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_a_file_that_names_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no `out` for its runs"):
        read(tmp_path, "", head='recipe = "dates"\n')


def test_the_runs_of_a_grid_are_counted_before_they_are_listed(tmp_path: Path) -> None:
    keys = ("steps", "warmup_steps", "validate_every", "save_every", "average", "log_every", "patience", "accumulate")
    text = "[grid]\n" + "".join(f"train.{key} = {[*range(1, 100)]}\n" for key in keys)
    with (
        patch.object(file, "product", side_effect=AssertionError("listed")),
        pytest.raises(ConfigError, match="plans 9227446944279201 runs, more than 10,000"),
    ):
        read(tmp_path, text)
