"""The files of a test set: their lines side by side, or a word on what does not go together."""

from pathlib import Path

import pytest

from pellucid.errors import ConfigError, DataError
from pellucid.evaluation.held_out import HeldOutFiles, read_columns, recipe_test


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some files of lines."""
    texts = {"src": "a\nb\n", "ref": "A\nB\n", "short": "A\n", "empty": "", "both.tsv": "a\tA\nb\tB\n"}
    for name, lines in texts.items():
        (tmp_path / name).write_text(lines, encoding="utf-8")
    return tmp_path


def test_the_lines_stand_by_the_files_paths(folder: Path) -> None:
    src, ref, both = (str(folder / name) for name in ("src", "ref", "both.tsv"))
    assert HeldOutFiles(src, (ref,)).read() == {ref: ["A", "B"], src: ["a", "b"]}
    one = HeldOutFiles(both)
    assert one.is_one_file
    assert one.read([ref]) == {"": ["A", "B"], both: ["a", "b"], ref: ["A", "B"]}
    assert not HeldOutFiles(src, (ref,)).is_one_file
    assert str(HeldOutFiles(src, (ref,))) == f"`{src}` and `{ref}`"


def test_what_does_not_go_together(folder: Path) -> None:
    src, short, empty = (str(folder / name) for name in ("src", "short", "empty"))
    with pytest.raises(DataError, match=r"the same number of lines, but `.*src` has 2 and `.*short` 1$"):
        read_columns([src, short])
    with pytest.raises(DataError, match=r"^`.*empty` is empty$"):
        read_columns([empty])
    with pytest.raises(DataError, match=r"can be only one of the files$"):
        read_columns(["-", "-"])
    with pytest.raises(ConfigError, match=r"both.tsv` holds both sides, but `.*src` is also given as references"):
        HeldOutFiles(str(folder / "both.tsv"), (src,)).read()
    with pytest.raises(ConfigError, match=r"is not one: it has no recipe\.toml") as caught:
        recipe_test([src])
    assert caught.value.hint == "name the test files with `src=` and `ref=`"
