"""The budget of a stranger's file: its kind, its place, and its bytes."""

import os
from pathlib import Path

import pytest

from pellucid.errors import CheckpointError, DataError
from pellucid.files.budget import open_regular, read_bytes, resolve_inside


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1234")
    assert read_bytes(tmp_path / "x", 4) == b"1234"
    with pytest.raises(CheckpointError, match=r"`.*x` has 4 bytes; at most 3 are read"):
        read_bytes(tmp_path / "x", 3)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    with pytest.raises(CheckpointError, match=r"cannot read `.*x`: it is a pipe, not a file"):
        read_bytes(tmp_path / "x", 4)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere", "No such file or directory"),
        ("", "it is a folder, not a file"),
        ("/dev/zero", "it is a device, not a file"),
        ("loop", "Too many levels of symbolic links"),
        ("x" * 300, "File name too long"),
        ("a\0b", "embedded null byte"),
    ],
)
def test_what_is_no_file(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(CheckpointError, match=rf"(?s)cannot read `.*`: {reason}"):
        read_bytes(tmp_path / name, 4)


def test_the_error_is_the_one_of_the_reader(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1234")
    with pytest.raises(DataError, match=r"has 4 bytes; at most 3 are read") as raised:
        read_bytes(tmp_path / "x", 3, DataError, "download it")
    assert raised.value.hint == "download it again"
    with pytest.raises(DataError, match=r"^cannot read `.*none`: No such file or directory$"):
        open_regular(tmp_path / "none", DataError)


@pytest.mark.parametrize("name", ["inside/x", "link", "inside/../inside/x", "new"])
def test_a_name_within_the_folder_is_resolved(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    (tmp_path / "folder" / "link").symlink_to("inside/x")
    place = tmp_path.resolve() / "folder" / ("new" if name == "new" else "inside/x")
    assert resolve_inside(tmp_path / "folder", name) == place


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "out/x", "circle", "a\0b", "sub/out/x"])
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    for link in ("out", "sub/out"):
        (tmp_path / "folder" / link).symlink_to(tmp_path)
    (tmp_path / "folder" / "circle").symlink_to("circle")
    with pytest.raises(CheckpointError, match=r"is outside of its folder, at|cannot read `"):
        resolve_inside(tmp_path / "folder", name)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder, other = tmp_path / "model", tmp_path / "secret"
    folder.mkdir()
    other.write_text("{}", encoding="utf-8")
    (folder / "config.json").symlink_to(other)
    with pytest.raises(CheckpointError, match=r"config.json` is a link out of its folder, to `.*secret`"):
        read_bytes(folder / "config.json", 100)
    (folder / "inside.json").write_text("[]", encoding="utf-8")
    (folder / "link.json").symlink_to("inside.json")
    assert read_bytes(folder / "link.json", 100) == b"[]"


def test_a_link_into_the_hubs_cache_is_followed(tmp_path: Path) -> None:
    model = tmp_path / "models--org--name"
    (model / "blobs").mkdir(parents=True)
    (model / "snapshots" / "1").mkdir(parents=True)
    (model / "blobs" / "ab").write_text("{}", encoding="utf-8")
    (model / "snapshots" / "1" / "config.json").symlink_to("../../blobs/ab")
    assert read_bytes(model / "snapshots" / "1" / "config.json", 100) == b"{}"
