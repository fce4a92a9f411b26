"""Tables to configurations and back: unknown keys, types, what TOML cannot say, and `--set`."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pellucid.config.tables import (
    check_at_least,
    check_fields,
    check_probabilities,
    from_table,
    list_shipped_recipes,
    read_tables,
    split_override,
    to_table,
    toml_line,
)
from pellucid.errors import ConfigError

KEYS = {"model": ["width", "size"], "train": ["steps", "size"], "": ["name"]}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One field of each type that a configuration has."""

    count: int = 1
    rate: float = 0.5
    flag: bool = False
    name: str = "x"
    limit: int | None = None
    peak: float | None = None
    kind: Literal["one", "two"] = "one"

    def __post_init__(self) -> None:
        check_fields(self)


def test_a_table_becomes_a_configuration_and_back() -> None:
    table = {"count": 3, "rate": 0.25, "flag": True, "name": "y", "limit": 7, "peak": 1.5, "kind": "two"}
    assert from_table(Settings, table, "[x]") == Settings(**table)
    assert to_table(from_table(Settings, table, "[x]")) == table
    assert list(to_table(Settings())) == list(table)


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ({"rate": 1}, "rate", 1.0),
        ({"peak": 2}, "peak", 2.0),
        ({"peak": "none"}, "peak", None),
        ({"limit": "none"}, "limit", None),
        ({"limit": 5}, "limit", 5),
        ({"name": "none"}, "name", "none"),
    ],
)
def test_what_toml_cannot_say(table: dict[str, Any], field: str, value: Any) -> None:
    found = getattr(from_table(Settings, table, "[x]"), field)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ({"cuont": 3}, r"unknown key `cuont` in \[x\]; did you mean `count`\?", "keys: count, rate, flag, name, "),
        ({"zzzzzz": 3}, r"unknown key `zzzzzz` in \[x\]$", "keys: count"),
        ({"count": 1.0}, r"`count` must be a whole number, not 1\.0", ""),
        ({"count": True}, r"`count` must be a whole number, not True", ""),
        ({"count": "7"}, r"`count` must be a whole number, not '7'", ""),
        ({"count": "none"}, r"`count` must be a whole number, not 'none'", ""),
        ({"rate": "fast"}, r"`rate` must be a number, not 'fast'", ""),
        ({"rate": True}, r"`rate` must be a number, not True", ""),
        ({"rate": float("inf")}, r"`rate` \(inf\) must be finite", ""),
        ({"peak": float("nan")}, r"`peak` \(nan\) must be finite", ""),
        ({"flag": 1}, r"`flag` must be true or false, not 1", ""),
        ({"name": 5}, r"`name` must be a string, not 5", ""),
        ({"name": None}, r"`name` must be a string, not None", ""),
        ({"limit": 1.5}, r'`limit` must be a whole number or "none", not 1\.5', ""),
        ({"peak": [1]}, r'`peak` must be a number or "none", not \[1\]', ""),
        ({"kind": "tow"}, r'unknown `kind` "tow"; did you mean `two`\?', 'choose one of "one", "two"'),
        ({"kind": 3}, r'unknown `kind` "3"$', 'choose one of "one", "two"'),
        ({"kind": ["one"]}, "unknown `kind`", 'choose one of "one", "two"'),
    ],
)
def test_keys_and_values_that_cannot_be(table: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        from_table(Settings, table, "[x]")
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize("table", ["tiny", 5, [1]])
def test_what_is_no_table(table: Any) -> None:
    with pytest.raises(ConfigError, match=r"\[x\] must be a table of keys, not "):
        from_table(Settings, table, "[x]")


def test_bounds() -> None:
    check_at_least(Settings(count=0, limit=None), ("count", "limit"), 0)
    with pytest.raises(ConfigError, match=r"`count` \(-1\) must be at least 0"):
        check_at_least(Settings(count=-1), ("limit", "count"), 0)
    check_probabilities(Settings(rate=0.0), ("rate",))
    for rate in (-0.1, 1.0):
        with pytest.raises(ConfigError, match=rf"`rate` \({rate}\) must be at least 0 and below 1"):
            check_probabilities(Settings(rate=rate), ("rate",))


@pytest.mark.slow
@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
)
@example("\x7f\x00\n\u2028")
def test_a_line_of_toml_reads_back(value: str | bool | int | float) -> None:
    found = tomllib.loads(toml_line("key", value) + "\n")["key"]
    assert found == value
    assert type(found) is type(value)


def test_none_is_a_word() -> None:
    assert toml_line("key", None) == 'key = "none"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.steps=100", ("train", "steps", 100)),
        ("train.steps = 100", ("train", "steps", 100)),
        ("train.steps=1_000", ("train", "steps", 1000)),
        ("train.rate=3e-4", ("train", "rate", 3e-4)),
        ("train.rate=1", ("train", "rate", 1)),
        ("model.norm=pre", ("model", "norm", "pre")),
        ('model.norm="pre"', ("model", "norm", "pre")),
        ("model.bias=false", ("model", "bias", False)),
        ("model.bias=False", ("model", "bias", "False")),
        ("model.pad_id=none", ("model", "pad_id", "none")),
        ("train.src=a b.txt", ("train", "src", "a b.txt")),
        ("train.src=/data/x=1.txt", ("train", "src", "/data/x=1.txt")),
        ("train.src=", ("train", "src", "")),
        ('train.src="5"', ("train", "src", "5")),
        ("name=my run", ("", "name", "my run")),
    ],
)
def test_overrides(text: str, expected: tuple[str, str, Any]) -> None:
    found = split_override(text, KEYS)
    assert found == expected
    assert type(found[2]) is type(expected[2])


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("train.steps", '`overrides=["train.steps"]` has no value', "write `section.key=value`, as in train.steps=500"),
        (
            "trian.steps=5",
            'unknown section `trian` in `overrides=["trian.steps=5"]`; did you mean `train`?',
            "sections: model, ",
        ),
        ("a.b.c=5", 'unknown section `a.b` in `overrides=["a.b.c=5"]`', "sections: model, train"),
        ("steps=5", '`overrides=["steps=5"]` names no section', "write `train.steps=5`"),
        ("size=5", '`overrides=["size=5"]` names no section', "write `model.size=5` or `train.size=5`"),
        ("zzz=5", '`overrides=["zzz=5"]` names no section', "write section.key=value; the sections are model, train"),
        ("=5", '`overrides=["=5"]` names no section', "write section.key=value"),
    ],
)
def test_overrides_that_cannot_be(text: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        split_override(text, KEYS)
    assert str(caught.value) == message
    assert caught.value.hint.startswith(hint)


def test_a_toml_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('name = "für mich"\n[train]\nsteps = 5\n', encoding="utf-8")
    assert read_tables(path) == read_tables(str(path)) == {"name": "für mich", "train": {"steps": 5}}


@pytest.mark.parametrize("content", [b"steps = = 5", b'name = "\xff"', b"[a]\n[a]\n"])
def test_a_file_that_is_no_toml(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"broken\.toml` is not valid TOML: "):
        read_tables(path)


def test_a_recipe_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = {"tiny-copy": tmp_path / "tiny-copy.toml"}
    monkeypatch.setattr("pellucid.config.tables.list_shipped_recipes", lambda: shipped)
    message = "no recipe `tiny-cpoy`: neither a TOML file nor a shipped recipe; did you mean `tiny-copy`?"
    with pytest.raises(ConfigError) as caught:
        read_tables("tiny-cpoy")
    assert str(caught.value) == message
    assert caught.value.hint == "shipped recipes: tiny-copy"
    with pytest.raises(ConfigError, match="no recipe"):
        read_tables(tmp_path)  # a folder


def test_a_shipped_recipe_is_read_by_its_name() -> None:
    for name, path in list_shipped_recipes().items():
        assert read_tables(name) == read_tables(path)
        assert path.stem == name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = " + "[" * 100_000, "is not valid TOML: it is nested too deep"),
        ("a = " + "9" * 5000, "is not valid TOML: Exceeds the limit "),
    ],
)
def test_a_file_that_python_cannot_take(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"^`{path}` {message}") as caught:
        read_tables(path)
    assert len(str(caught.value)) < 400


def test_an_override_that_python_cannot_take_is_a_string() -> None:
    for value in ("[" * 100_000, "9" * 5000):
        assert split_override(f"train.steps={value}", {"train": ["steps"]}) == ("train", "steps", value)
