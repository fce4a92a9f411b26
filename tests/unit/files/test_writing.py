"""Files are whole or not there."""

import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from pellucid.errors import DataError
from pellucid.files import writing
from pellucid.files.writing import (
    atomic_path,
    check_writable,
    convert_write_errors,
    describe_disk_error,
    fsync,
    is_disk_failure,
    is_replaceable,
    open_output_file,
    replace_atomically,
    replace_folder,
    temporary_folder,
    workspace,
    write_output,
    write_text,
)


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
    with atomic_path(path) as temporary:
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
    with atomic_path(path) as temporary:
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
    replace_atomically(tmp_path / "new", tmp_path / "a.txt")
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
    assert describe_disk_error(error, tmp_path / folder) == "No space left on device, 1,234.6 MB free"
    assert asked[0].resolve() == tmp_path


def test_a_disk_without_inodes_is_not_said_to_be_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_files=40, f_favail=0))
    error = OSError(errno.ENOSPC, "No space left on device")
    answer = "No space left on device: no inode is free for another file (`df -i`)"
    assert describe_disk_error(error, tmp_path / "not" / "there") == answer
    with pytest.raises(DataError, match=f"^cannot write to `.*`: {re.escape(answer)}$"), convert_write_errors(tmp_path):
        raise error


def test_trouble_is_told_where_the_disk_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(shutil, "disk_usage", gone)
    assert describe_disk_error(OSError(errno.EIO, "Input/output error"), tmp_path) == "Input/output error"


@pytest.mark.parametrize("before", ["nothing", "folder", "empty folder", "link"])
def test_a_folder_is_replaced(tmp_path: Path, before: str) -> None:
    new, place, elsewhere = tmp_path / "new", tmp_path / "place", tmp_path / "elsewhere"
    for folder in (new, elsewhere, *([place] if "folder" in before else [])):
        folder.mkdir()
    (new / "a").write_text("new")
    (elsewhere / "a").write_text("mine")
    if before == "folder":
        (place / "a").write_text("old")
        (place / "b").write_text("old")
    elif before == "link":
        place.symlink_to(elsewhere)
    replace_folder(new, place)
    assert not new.exists()
    assert not place.is_symlink()
    assert {path.name: path.read_text() for path in place.iterdir()} == {"a": "new"}
    assert (elsewhere / "a").read_text() == "mine"


def test_of_two_processes_the_faster_one_s_folder_stays(tmp_path: Path) -> None:
    for name in ("new", "place"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    replace_folder(tmp_path / "new", tmp_path / "place", keep=lambda folder: (folder / "a").is_file())
    assert (tmp_path / "place" / "a").read_text() == "place"


def test_a_failing_disk_costs_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("new", "place"):
        (tmp_path / name).mkdir()

    def full(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="Input/output"):
        replace_folder(tmp_path / "new", tmp_path / "place")
    assert (tmp_path / "place").is_dir()


def test_a_folder_does_not_take_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "place").write_text("mine")
    with pytest.raises(NotADirectoryError):
        replace_folder(tmp_path / "new", tmp_path / "place")
    assert (tmp_path / "place").read_text() == "mine"


def test_files_and_folders_can_be_flushed(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "a")
    fsync(tmp_path / "a.txt")
    fsync(tmp_path)
    with pytest.raises(FileNotFoundError):
        fsync(tmp_path / "b.txt")


def make_device(path: Path) -> None:
    """A copy of /dev/null, or, for who may not make one, a link to nowhere but a pipe."""
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))


def may_make_devices(folder: Path) -> bool:
    """Whether a device can be made and opened there, as root may."""
    try:
        make_device(folder / "tried")
        (folder / "tried").write_bytes(b"x")
    except OSError:
        return False
    finally:
        (folder / "tried").unlink(missing_ok=True)
    return True


def test_a_device_is_written_through(tmp_path: Path) -> None:
    device = tmp_path / "null"
    if may_make_devices(tmp_path):
        make_device(device)
    else:
        device.symlink_to("/dev/full")  # nobody else can replace the real one, and it cannot be lost
    before = device.stat()
    if device.is_symlink():
        with pytest.raises(DataError, match="No space left on device"):
            write_output(device, "text")
    else:
        write_output(device, "text")
    after = device.stat()
    assert (after.st_mode, after.st_rdev, after.st_ino) == (before.st_mode, before.st_rdev, before.st_ino)
    assert not is_replaceable(device)
    assert [path.name for path in tmp_path.iterdir()] == ["null"]


def test_a_pipe_gets_what_is_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()), daemon=True)
    reader.start()
    write_output(tmp_path / "pipe", "ä")
    reader.join(30)
    assert read == ["ä".encode()]
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("old", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "file")
    write_output(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "file").read_bytes() == b"new"
    assert len(list((tmp_path / "folder").iterdir())) == 1


def test_a_failure_within_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old", encoding="utf-8")
    with pytest.raises(ZeroDivisionError), open_output_file(tmp_path / "a") as file:
        file.write(b"new" * (1 // 0))
    assert (tmp_path / "a").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder", "it is a folder"),
        ("none/a", "no folder `.*/none`"),
        ("a" * 300, "File name too long"),
        ("loop", "its links form a cycle|Too many levels of symbolic links"),
        ("loop/a", "its links form a cycle|Too many levels of symbolic links|no folder"),
        ("a\0b", "a file name has no NUL character"),
    ],
)
def test_where_nothing_can_be_written_it_is_said_beforehand(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for check in (check_writable, is_replaceable, lambda path: write_output(path, "a")):
        with pytest.raises(DataError, match=f"^cannot write to `.*`: ({reason})$") as caught:
            check(tmp_path / name)
        assert (caught.value.exit_status, "\0" in str(caught.value)) == (2, False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "loop"]


def test_a_name_may_be_as_long_as_names_are(tmp_path: Path) -> None:
    for name in ("a" * 255, "가" * 85):
        write_output(tmp_path / name, "a")
        assert (tmp_path / name).read_text(encoding="utf-8") == "a"


def test_a_full_disk_is_a_failure_and_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DataError, match=r"^cannot write to `.*/a`: No space left on device$") as caught:
        write_output(tmp_path / "a", "a")
    assert caught.value.exit_status == 1


def test_what_goes_wrong_with_another_file_is_not_said_of_this_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="input"), open_output_file(tmp_path / "a"):
        (tmp_path / "input").read_bytes()


KILLED = """
import sys, time
from pathlib import Path
from pellucid.files.writing import atomic_path, temporary_folder
with temporary_folder(Path(sys.argv[1])) as folder, atomic_path(Path(sys.argv[1])) as file:
    (folder / "weights").write_bytes(b"half")
    file.write_bytes(b"half")
    print("ready", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_process_leaves_goes_at_the_next_attempt(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path / "out"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        (tmp_path / ".out.backup").touch()
        (tmp_path / ".out.0123456789abcdef.tmp2").touch()
        bystanders = {".out.backup", ".out.0123456789abcdef.tmp2"}
        write_output(tmp_path / "out", "mine")
        assert len({path.name for path in tmp_path.iterdir()} - bystanders - {"out"}) == 2, "it is still at work"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with temporary_folder(tmp_path / "out") as folder:
        assert {path.name for path in tmp_path.iterdir()} == bystanders | {"out", folder.name}
    assert {path.name for path in tmp_path.iterdir()} == bystanders | {"out"}


def test_many_threads_write_one_file(tmp_path: Path) -> None:
    contents = [bytes([number]) * 10_000 for number in range(16)]
    threads = [threading.Thread(target=write_output, args=(tmp_path / "a", content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "a").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_mask_of_the_process_is_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("other threads would make files by it"))
    write_output(tmp_path / "a", "a")


def test_a_full_folder_for_temporary_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left on device") as raised, workspace():
        raise full
    assert raised.value is full, "this disk has room: another one is full"
    monkeypatch.setattr(writing, "FULL", 1 << 62)
    message = rf"^temporary files cannot be written to `{tmp_path}`: No space left"
    with pytest.raises(DataError, match=message) as said, workspace():
        raise full
    assert "TMPDIR" in said.value.hint
    assert not any(tmp_path.iterdir())
