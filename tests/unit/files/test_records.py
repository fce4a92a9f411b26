"""A record is found again if it is whole and of its format; what differs from it, and has changed since, is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.files import records
from pellucid.files.reading import COUNT, TABLE
from pellucid.files.records import RecordFormat, find_changed_keys, find_damaged, hash_file, is_whole, note_stamps

FORMAT = RecordFormat("pellucid-x/2", {"request": TABLE, "lines": COUNT}, earlier=("pellucid-x/1",), most_bytes=1000)
TABLE_OF_IT: dict[str, Any] = {"format": "pellucid-x/2", "request": {"a": 1}, "lines": 3, "more": "é"}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = FORMAT.write(tmp_path / "x.json", request={"a": 1}, lines=3, more="é")
    assert written == FORMAT.read(tmp_path / "x.json") == TABLE_OF_IT
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize(
    ("changes", "is_read"),
    [
        ({}, True), ({"format": "pellucid-x/1"}, True), ({"format": "pellucid-x/3"}, False), ({"format": []}, False),
        ({"request": []}, False), ({"lines": -1}, False), ({"lines": True}, False), ({"lines": None}, False),
        ({"more": "x" * 1000}, False),
    ],
)  # fmt: skip
def test_a_record_of_another_format_is_none(tmp_path: Path, changes: dict[str, Any], is_read: bool) -> None:
    (tmp_path / "x.json").write_text(json.dumps(TABLE_OF_IT | changes), encoding="utf-8")
    assert (FORMAT.read(tmp_path / "x.json") is not None) is is_read


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 900, '{"format": "pellucid-x/2", "request": {}}', "\xff"])
def test_a_damaged_record_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_bytes(text.encode("latin-1"))
    assert FORMAT.read(tmp_path / "x.json") is None
    assert FORMAT.read(tmp_path / "y.json") is None
    assert FORMAT.read(tmp_path) is None


def test_what_differs_is_named_in_the_order_of_the_new_request() -> None:
    assert find_changed_keys({"gone": 1, "b": 1, "a": 1, "same": [1]}, {"a": 2, "same": [1], "b": 2, "new": 3}) == [
        "a", "b", "new", "gone",
    ]  # fmt: skip
    assert find_changed_keys({"a": None}, {}) == find_changed_keys({}, {"a": None}) == []


@pytest.fixture
def digests(tmp_path: Path) -> dict[str, str]:
    for name in "ab":
        (tmp_path / name).write_text(name)
    return {name: hash_file(tmp_path / name) for name in "ab"}


def test_the_first_damaged_file_is_found(tmp_path: Path, digests: dict[str, str]) -> None:
    assert find_damaged(tmp_path, digests) is None
    (tmp_path / "b").write_text("c")
    assert find_damaged(tmp_path, digests) == "b"
    (tmp_path / "a").unlink()
    assert find_damaged(tmp_path, digests) == "a"
    (tmp_path / "a").mkdir()
    assert find_damaged(tmp_path, digests) == "a"


def test_files_are_read_again_where_size_or_time_differ(
    tmp_path: Path, digests: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps, read = tmp_path / "stamps.json", list[str]()
    find = records.find_damaged
    monkeypatch.setattr(records, "find_damaged", lambda *a: (read.append("all"), find(*a))[1])
    monkeypatch.setattr(records, "JUST_NOW", 60.0)
    assert is_whole(tmp_path, digests, stamps)
    assert not stamps.exists(), "files of a moment ago may change once more"
    monkeypatch.setattr(records, "JUST_NOW", -60.0)
    for _ in range(2):
        assert is_whole(tmp_path, digests, stamps)
    assert len(read) == 2
    (tmp_path / "a").write_text("longer")
    assert not is_whole(tmp_path, digests, stamps)
    assert not is_whole(tmp_path, {"missing": ""}, stamps)
    for text in ("{", "[]", '{"a": 3}', '{"a": [[1, 2], "x"]}'):
        (tmp_path / "a").write_text("a")
        stamps.write_text(text)
        assert is_whole(tmp_path, digests, stamps)
    note_stamps(tmp_path, digests, tmp_path / "no folder" / "stamps.json")  # a folder that cannot be written
