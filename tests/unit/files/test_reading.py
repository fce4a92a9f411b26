"""Files of strangers: what is opened at all, how much of it is read, and what a setting may be."""

import hashlib
import json
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
    hash_file,
    make_list_kind,
    parse_json,
    parse_toml,
    read_list,
    read_settings,
    read_stored_table,
    read_text,
)


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
        (make_list_kind(make_list_kind(ID)), [[], [[]], [[1], [2, 3]]], [[1], [[-1]], {}, None]),
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
        check_kinds({"ids": "a" * 200}, {"ids": make_list_kind(ID) | NOTHING}, Path("some/x.json"))
    cut = f"{'a' * 53}…{'a' * 26}"
    told = f"`some/x.json` has `ids` = '{cut}'; it must be a list of an id of 0 to 4,194,303 or null"
    assert str(caught.value) == told
    assert caught.value.hint == "x.json is damaged, or written by hand: copy the folder again"


def test_the_digest_is_that_of_sha256sum(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc" * 100_000)
    assert hash_file(path) == hashlib.sha256(b"abc" * 100_000).hexdigest()
    path.write_bytes(b"")
    assert hash_file(path) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_key_twice_is_named() -> None:
    text = f'{{"a": 1, {", ".join(f"""{json.dumps(str(number))}: 1""" for number in range(2000))}, "a": 2}}'
    assert parse_json(text)["a"] == 2
    with pytest.raises(ValueError, match="it has `a` twice"):
        parse_json(text, no_doubles=True)


@pytest.mark.parametrize("content", [b"[1]", b"{", b"[" * 20_000, b"\xff"])
def test_what_is_no_table_says_nothing(content: bytes, tmp_path: Path) -> None:
    assert read_stored_table(tmp_path / "missing.json") == {}
    (tmp_path / "x.json").write_bytes(content)
    assert read_stored_table(tmp_path / "x.json") == {}


@pytest.mark.parametrize("content", ["{", "{}", "[1]", '["a", null]'])
def test_what_is_no_list_of_strings(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match="is damaged"):
        read_list(tmp_path / "x.json", 100)


@pytest.mark.parametrize(
    "text", ["a." * 200 + "a = 1", "[" + "a . " * 200 + "a]", f"x = {{{'a.' * 200}a = 1}}", '"a".' * 200 + "a = 1"]
)
def test_a_deep_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it has a key of more than 100 parts"):
        parse_toml(text)


def test_many_numbers_and_paths_are_no_deep_key() -> None:
    text = f"x = [{', '.join(['0.5'] * 500)}]\ny = '{'../' * 300}'\na.b.c = 1\n"
    assert parse_toml(text)["a"] == {"b": {"c": 1}}
