"""Files are whole or not there."""

import errno
import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from pellucid.weights.files import disk_trouble, flush, is_disk_failure, move_into_place, replacing, write_text


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for text in ("first", "second ü"):
        write_text(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_who_may_read_it(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write_text(tmp_path / "a.txt", "")
        assert os.umask(mask) == mask  # it was not changed
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == mode
    (tmp_path / "a.txt").chmod(0o640)
    write_text(tmp_path / "a.txt", "new")
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def write_half(path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_text("half of the n", encoding="utf-8")
        raise RuntimeError("the disk is full")


@pytest.mark.parametrize("before", ["old", None])
def test_a_failure_leaves_what_was_there(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "a.txt"
    if before is not None:
        path.write_text(before, encoding="utf-8")
    with pytest.raises(RuntimeError, match="the disk is full"):
        write_half(path)
    assert {p.name: p.read_text(encoding="utf-8") for p in tmp_path.iterdir()} == ({"a.txt": before} if before else {})


def test_until_it_is_whole_the_old_file_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old", encoding="utf-8")
    with replacing(path) as temporary:
        temporary.write_text("new", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == "old"
        assert temporary.parent == tmp_path  # the same disk, so that a rename is all that is left
    assert path.read_text(encoding="utf-8") == "new"


def test_a_file_is_on_the_disk_before_it_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened = []
    monkeypatch.setattr(os, "fsync", lambda handle: happened.append("sync"))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *paths: (happened.append("replace"), replace(*paths)))
    (tmp_path / "new").write_text("new", encoding="utf-8")
    move_into_place(tmp_path / "new", tmp_path / "a.txt")
    assert happened == ["sync", "replace", "sync"]
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS"])
def test_what_a_full_or_failing_disk_answers(name: str) -> None:
    assert is_disk_failure(OSError(getattr(errno, name), name))


@pytest.mark.parametrize("name", ["EACCES", "ENOENT", "ENOTDIR", "EINTR"])
def test_what_is_no_fault_of_the_disk(name: str) -> None:
    assert not is_disk_failure(OSError(getattr(errno, name), name))
    assert not is_disk_failure(OSError("no number"))


@pytest.mark.parametrize("folder", [".", "not/there/yet"])
def test_trouble_says_how_much_room_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    asked: list[Path] = []
    usage = SimpleNamespace(free=1_234_560_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: (asked.append(path), usage)[1])
    error = OSError(errno.ENOSPC, "No space left on device")
    assert disk_trouble(error, tmp_path / folder) == "No space left on device, 1,234.6 MB free"
    assert asked[0].resolve() == tmp_path


def test_trouble_is_told_where_the_disk_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(shutil, "disk_usage", gone)
    assert disk_trouble(OSError(errno.EIO, "Input/output error"), tmp_path) == "Input/output error"


def test_files_and_folders_can_be_flushed(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "a")
    flush(tmp_path / "a.txt")
    flush(tmp_path)
    with pytest.raises(FileNotFoundError):
        flush(tmp_path / "b.txt")
