"""A run folder: whose it is, whether it may be gone on with, and what of it may be removed."""

import errno
import itertools
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import Recipe
from pellucid.errors import ConfigError, PellucidError
from pellucid.files.writing import write_text
from pellucid.run.folder import RunFolder, RunResult, open_checkpoints, read_stored_recipe
from pellucid.run.lock import HOLDER, LOCK
from pellucid.run.run import train
from tests.toy_task import reversed_letters, small_recipe, write_pairs

RECIPE = Recipe.load("default", ["data.src=a", "data.tgt=b", "train.steps=500"])
OTHER = Recipe.load("default", ["data.src=a", "data.tgt=b", "train.steps=600"])
RESULT = RunResult("elsewhere", steps=5, tokens=99, seconds=1.5, best_step=4, valid_loss=0.5, valid_bleu=None)
WRITTEN = (
    "config.json", "README.md", "metrics.jsonl", "tokenizer.model", "source.json", "target.json", "model.safetensors",
    "checkpoints/step-00000010/state.json", "checkpoints/step-00000020.partial/state.json", "data/train/index.json",
    "data/valid.partial/source.ids", "tensorboard/events.1", ".model.safetensors.ab12_xyz", ".recipe.toml.abcd1234",
)  # fmt: skip
FOREIGN = ("notes.txt", "source.de", "tokenizer.txt", "data/raw.de", "checkpoints/best/model.safetensors", ".git/HEAD")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run that has begun."""
    folder = RunFolder(tmp_path / "run")
    assert folder.check(RECIPE, fresh=False) is False
    assert not folder.path.exists(), "looking changes nothing"
    folder.begin(RECIPE)
    return folder


def put(run: RunFolder, *names: str) -> None:
    for name in names:
        (run.path / name).parent.mkdir(parents=True, exist_ok=True)
        (run.path / name).write_text("x", encoding="utf-8")


def files(run: RunFolder) -> set[str]:
    return {str(path.relative_to(run.path)) for path in run.path.rglob("*") if path.is_file()}


def test_a_run_of_an_earlier_version_is_gone_on_with(run: RunFolder) -> None:
    path = run.path / "recipe.toml"
    put(run, "checkpoints/step-00000010/state.json")
    path.write_text(RECIPE.to_toml(old_names=True), encoding="utf-8")
    assert "\njoint = true\n" in path.read_text(encoding="utf-8")
    assert run.check(RECIPE, fresh=False)
    assert read_stored_recipe(run.path) == RECIPE
    other = replace(RECIPE, data=replace(RECIPE.data, joint_vocab=False))
    with pytest.raises(ConfigError, match=r"has `data.joint_vocab = true`, this command `data.joint_vocab = false`"):
        run.check(other, fresh=False)
    path.write_text(path.read_text(encoding="utf-8").replace("\njoint = true", "\njoint = true\njoint_vocab = true"))
    with pytest.raises(ConfigError, match=r"`data.joint_vocab` is given twice"):
        read_stored_recipe(run.path)


def test_a_begun_run_is_gone_on_with(run: RunFolder) -> None:
    assert files(run) == {"recipe.toml"}
    assert run.check(RECIPE, fresh=False)
    assert read_stored_recipe(run.path) == RECIPE
    assert run.result is None


@pytest.mark.parametrize("trained", ["model.safetensors", "checkpoints/step-00000010/state.json"])
@pytest.mark.parametrize(
    ("override", "before", "now"),
    [
        ("train.steps=600", "train.steps = 500", "train.steps = 600"),
        ("model.norm=post", 'model.norm = "pre"', 'model.norm = "post"'),
        ("decode.max_length=9", 'decode.max_length = "none"', "decode.max_length = 9"),
        ("data.lowercase=true", "data.lowercase = false", "data.lowercase = true"),
    ],
)
def test_a_trained_run_with_other_settings_is_not(
    run: RunFolder, trained: str, override: str, before: str, now: str
) -> None:
    put(run, trained)
    other = Recipe.load("default", ["data.src=a", "data.tgt=b", "train.steps=500", override])
    expected = f"the run in `{run.path}` has `{before}`, this command `{now}`"
    with pytest.raises(ConfigError, match=f"^{re.escape(expected)}$") as error:
        run.check(other, fresh=False)
    assert "`fresh=True`" in error.value.hint
    assert run.check(RECIPE, fresh=False)


def test_a_name_and_a_description_may_change(run: RunFolder) -> None:
    put(run, "model.safetensors")
    assert run.check(replace(RECIPE, name="x", description="y"), fresh=False)


def test_where_nothing_is_trained_other_settings_begin_anew(run: RunFolder) -> None:
    put(run, "data/train/index.json")
    assert run.check(OTHER, fresh=False) is False
    run.begin(OTHER)
    assert files(run) == {"recipe.toml"}
    assert read_stored_recipe(run.path) == OTHER


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    for fresh in (False, True):
        with pytest.raises(ConfigError, match=r"^`.*x` is a file, not a folder for a run$"):
            RunFolder(tmp_path / "x").check(RECIPE, fresh)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", ["notes.txt", "model.safetensors", "config.json", "folder/x"])
def test_a_folder_of_something_else_is_refused(tmp_path: Path, name: str, fresh: bool) -> None:
    run = RunFolder(tmp_path / "run")
    put(run, name)
    with pytest.raises(
        ConfigError, match=f"^{re.escape(f'`{run.path}`')} is not empty and is not a run folder$"
    ) as error:
        run.check(RECIPE, fresh)
    assert error.value.hint == "choose another `out=`"
    assert files(run) == {name}


@pytest.mark.parametrize("names", [(), (".DS_Store", ".recipe.toml.abcd1234")])
def test_an_empty_folder_is_as_good_as_none(tmp_path: Path, names: tuple[str, ...]) -> None:
    run = RunFolder(tmp_path)
    put(run, *names)
    assert run.check(RECIPE, fresh=False) is False
    run.begin(RECIPE)
    assert run.check(RECIPE, fresh=False)


def test_fresh_removes_what_a_run_writes_and_nothing_else(run: RunFolder) -> None:
    put(run, *WRITTEN, *FOREIGN)
    run.finish(RESULT)
    assert run.check(OTHER, fresh=True) is False
    assert len(files(run)) == len(WRITTEN) + len(FOREIGN) + 2, "looking changes nothing"
    run.begin(OTHER)
    assert files(run) == {"recipe.toml", *FOREIGN}
    assert read_stored_recipe(run.path) == OTHER
    assert run.check(OTHER, fresh=False)


def test_fresh_leaves_no_empty_folders(run: RunFolder) -> None:
    put(run, *WRITTEN)
    run.begin(RECIPE)
    assert [path.name for path in run.path.iterdir()] == ["recipe.toml"]


def test_fresh_works_over_a_recipe_that_cannot_be_read(run: RunFolder) -> None:
    (run.path / "recipe.toml").write_text("no toml", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"recipe\.toml` is not valid TOML"):
        run.check(RECIPE, fresh=False)
    assert run.check(RECIPE, fresh=True) is False


def test_a_finished_run_says_so(run: RunFolder) -> None:
    run.finish(RESULT)
    assert run.result == replace(RESULT, folder=str(run.path), already_finished=True)
    assert "elsewhere" not in (run.path / "result.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"steps": 5, "new": 1}', "null"])
def test_a_result_that_is_damaged_is_none(run: RunFolder, text: str) -> None:
    run.finish(RESULT)
    (run.path / "result.json").write_text(text, encoding="utf-8")
    assert run.result is None


@pytest.mark.slow
def test_a_second_training_is_refused_at_once(tmp_path: Path) -> None:
    recipe = small_recipe(*write_pairs(tmp_path, reversed_letters(60)))
    run = RunFolder(tmp_path / "run")
    with run.lock():
        with pytest.raises(ConfigError, match=r"^another process .* is training in `"):
            train(recipe, run.path, quiet=True)
        assert files(run) == {LOCK, HOLDER}
    assert train(recipe, run.path, quiet=True).steps == 6
    assert not files(run) & {LOCK, HOLDER}


@pytest.mark.parametrize(
    "error", [PermissionError(errno.EACCES, "Permission denied"), NotADirectoryError(errno.ENOTDIR, "Not a directory")]
)
def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    run = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)
        with pytest.raises(ConfigError, match=f"^cannot write to `{run.path}`: {error.strerror}$"), run.lock():
            pass
    with pytest.raises(type(error)), run.lock():  # of what happens while it is held nothing is said
        raise error
    assert not run.path.exists()


def test_a_folder_that_was_made_for_the_lock_alone_goes(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    run = RunFolder(tmp_path / "there" / "new" / "run")
    with run.lock():
        assert run.path.is_dir()
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]
    assert list((tmp_path / "there").iterdir()) == []
    with run.lock():
        run.begin(RECIPE)
    assert files(run) == {"recipe.toml"}


def test_who_holds_the_lock_sweeps(run: RunFolder) -> None:
    put(run, *WRITTEN, *FOREIGN)
    (run.path / ".tokenizers.x1y2z3_4").mkdir()
    gone = {".model.safetensors.ab12_xyz", ".recipe.toml.abcd1234", *(name for name in WRITTEN if ".partial/" in name)}
    left_over = files(run) - gone
    with run.lock():
        assert files(run) - {LOCK, HOLDER} == left_over
        assert not (run.path / ".tokenizers.x1y2z3_4").exists()
        put(run, "data/train.partial/source.ids")
    assert files(run) == left_over


def test_a_run_that_is_half_removed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at any moment of --fresh: what is left of the earlier run is not gone on with."""
    for count in itertools.count(1):
        run = RunFolder(tmp_path / str(count))
        run.begin(RECIPE)
        put(run, *WRITTEN, *FOREIGN)
        run.finish(RESULT)
        with monkeypatch.context() as patch, suppress(Killed):
            die_at(count, patch)
            run.begin(RECIPE)
            break
        assert run.check(RECIPE, fresh=False) is (count == 1), f"killed at operation {count}"
        assert files(run) >= {"recipe.toml", *FOREIGN}
        run.begin(RECIPE)
        assert files(run) == {"recipe.toml", *FOREIGN}
    assert count > len(WRITTEN)
    assert files(run) == {"recipe.toml", *FOREIGN}
    assert run.check(RECIPE, fresh=False)


class Killed(BaseException):
    pass


def die_at(number: int, patch: pytest.MonkeyPatch) -> None:
    """Has the operation of that number, of those that change a folder, not happen."""
    left = [number]

    def dying(act: Callable[..., object]) -> Callable[..., object]:
        def called(*args: Any, **kwargs: Any) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return act(*args, **kwargs)

        return called

    for name in ("unlink", "touch", "rmdir"):
        patch.setattr(Path, name, dying(getattr(Path, name)))
    patch.setattr(shutil, "rmtree", dying(shutil.rmtree))
    patch.setattr("pellucid.run.folder.write_text", dying(write_text))


@pytest.mark.parametrize(("steps", "last", "where"), [
    ((), "there is no checkpoint yet", "from the start"),
    ((10, 1200), "the last good checkpoint is step 1,200", "after that step"),
])  # fmt: skip
def test_a_full_disk_in_words(run: RunFolder, steps: tuple[int, ...], last: str, where: str) -> None:
    put(run, *(f"checkpoints/step-{step:08d}/optimizer.safetensors" for step in steps))
    error = run.make_disk_full_error(OSError(errno.ENOSPC, "No space left on device"))
    pattern = (
        rf"the run in `{re.escape(str(run.path))}` cannot be written: No space left on device, [\d,.]+ MB free; {last}"
    )
    assert re.fullmatch(pattern, str(error))
    assert error.hint == (
        f"free space on that disk and run the same command again: it resumes {where} and ends with the same weights"
    )
    assert error.exit_status == 1


def test_the_checkpoints_of_a_recipe(tmp_path: Path) -> None:
    recipe = Recipe.load("default", ["train.save_every=7", "train.average=3"])
    found = open_checkpoints(tmp_path, recipe)
    assert (found.folder, found.save_every, found.average) == (tmp_path / "checkpoints", 7, 3)
    assert found.last_step == recipe.train.steps
    assert open_checkpoints(tmp_path, recipe, average=2).average == 2


def test_a_folder_without_a_run_has_no_recipe(tmp_path: Path) -> None:
    with pytest.raises(PellucidError, match=f"^{re.escape(f'`{tmp_path}`')} holds no run: no recipe.toml in it$"):
        read_stored_recipe(tmp_path)


def test_the_same_text_may_lie_elsewhere(run: RunFolder) -> None:
    (run.path / "model.safetensors").write_bytes(b"")
    moved = replace(RECIPE, data=replace(RECIPE.data, src="elsewhere/a"))
    assert run.check(moved, fresh=False) is True
