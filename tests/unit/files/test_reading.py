"""Files of strangers: what is opened at all, how much of it is read, and what a setting may be."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from pellucid.errors import CheckpointError
from pellucid.files.reading import (
    ID,
    NOTHING,
    NUMBER,
    SWITCH,
    TEXT,
    WHOLE,
    Kind,
    check_kinds,
    list_of,
    read_bytes,
    read_settings,
    read_text,
    sha256_of,
)


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


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5000, b"{}x"])
def test_settings_that_are_damaged(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"x\.json` is damaged: "):
        read_settings(tmp_path / "x.json")


def test_text_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"a\xff")
    with pytest.raises(CheckpointError, match=r"x\.txt` is damaged: 'utf-8' codec can't decode byte 0xff"):
        read_text(tmp_path / "x.txt", 9)


@pytest.mark.parametrize(
    ("kind", "fitting", "others"),
    [
        (WHOLE, [0, -5, 2**62], [True, 1.0, "1", None, 2**63, 10**30]),
        (NUMBER, [0, 1.5], [True, float("nan"), float("inf"), "1", 10**400]),
        (ID, [0, 2**22 - 1], [-1, 2**22, True, 1.0, None]),
        (SWITCH, [True, False], [0, 1, None, "true"]),
        (TEXT | NOTHING, ["", None], [0, [], {}]),
        (list_of(list_of(ID)), [[], [[]], [[1], [2, 3]]], [[1], [[-1]], {}, None]),
    ],
)
def test_what_a_setting_may_be(kind: Kind, fitting: list[Any], others: list[Any]) -> None:
    for value in fitting:
        check_kinds({"x": value}, {"x": kind, "left out": kind}, Path("x.json"))
    for value in others:
        with pytest.raises(CheckpointError, match=r"`x\.json` has `x` = .*; it must be"):
            check_kinds({"x": value}, {"x": kind}, Path("x.json"))


def test_the_value_and_what_is_allowed_are_told() -> None:
    with pytest.raises(CheckpointError) as caught:
        check_kinds({"ids": "a" * 200}, {"ids": list_of(ID) | NOTHING}, Path("some/x.json"))
    cut = f"{'a' * 53}…{'a' * 26}"
    told = f"`some/x.json` has `ids` = '{cut}'; it must be a list of an id of 0 to 4,194,303 or null"
    assert str(caught.value) == told
    assert caught.value.hint == "x.json is damaged, or written by hand: copy the folder again"


def test_the_digest_is_that_of_sha256sum(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc" * 100_000)
    assert sha256_of(path) == hashlib.sha256(b"abc" * 100_000).hexdigest()
    path.write_bytes(b"")
    assert sha256_of(path) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
