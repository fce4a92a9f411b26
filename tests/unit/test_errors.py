"""The errors of users: one base, a hint, an exit status, and the nearest word."""

import errno
import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.errors import (
    MOST_SHOWN,
    MOST_SHOWN_OF_A_PATH,
    CheckpointError,
    ConfigError,
    DataError,
    DecodingError,
    PellucidError,
    did_you_mean,
    escape_message,
    format_install_command,
    format_value,
    get_hint,
)


@pytest.mark.parametrize(
    ("kind", "status"), [(ConfigError, 2), (DataError, 2), (DecodingError, 2), (CheckpointError, 1)]
)
def test_each_kind_is_caught_by_the_base_and_has_an_exit_status(kind: type[PellucidError], status: int) -> None:
    with pytest.raises(PellucidError, match="what is wrong") as caught:
        raise kind("what is wrong", "what to do")
    assert caught.value.hint == "what to do"
    assert caught.value.exit_status == status


def test_a_hint_may_be_missing() -> None:
    assert PellucidError("wrong").hint == ""


@pytest.mark.parametrize(
    ("word", "expected"),
    [("bease", "; did you mean `base`?"), ("bgi", "; did you mean `big`?"), ("transformer", ""), ("", "")],
)
def test_the_nearest_word(word: str, expected: str) -> None:
    assert did_you_mean(word, ["base", "big", "tiny"]) == expected


def test_the_known_words_may_be_the_keys_of_a_dict() -> None:
    assert did_you_mean("modle", {"model": 1, "data": 2}) == "; did you mean `model`?"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("run", "run"),
        ("번역기 모델", "번역기 모델"),
        ("C:\\runs", "C:\\runs"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("\u202eturned", "\\u202eturned"),
        ("\udcff", "\\udcff"),
        (5, "5"),
        (None, "None"),
        (["a", "\x1b"], "['a', '\\x1b']"),
        (Path("a\nb"), "a\\nb"),
    ],
)
def test_foreign_values_are_shown_with_their_escapes(value: object, expected: str) -> None:
    assert format_value(value) == expected


def test_a_number_of_thousands_of_digits_is_not_spelt_out() -> None:
    assert format_value(10**5000) == "a whole number of about 5,001 digits"
    assert format_value([10**5000]) == "a list of 1"


def test_a_long_value_loses_its_middle() -> None:
    assert format_value("a" * 80) == "a" * 80
    assert format_value("a" + "b" * 100_000 + "c") == "a" + "b" * 52 + "…" + "b" * 25 + "c"
    path = Path("/", *["folder"] * 100, "name")
    assert len(format_value(path)) == MOST_SHOWN_OF_A_PATH
    assert format_value(path).endswith("/folder/name")


@pytest.mark.slow
def test_a_value_may_be_of_any_depth_and_length() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert len(format_value(deep)) <= MOST_SHOWN
    assert len(format_value({str(i): [i] * 1000 for i in range(1000)})) == MOST_SHOWN


@pytest.mark.slow
@given(st.one_of(st.text(), st.binary(), st.lists(st.integers()), st.dictionaries(st.text(), st.floats())))
def test_whatever_is_shown_is_short_and_visible(value: object) -> None:
    assert len(format_value(value)) <= MOST_SHOWN
    assert format_value(value).isprintable()


def test_a_whole_message_is_legible_whatever_is_in_it() -> None:
    assert escape_message("a `b\x1b[31m`\n\nhint: 번역\t") == "a `b\\x1b[31m`\n\nhint: 번역\\t"
    assert escape_message(f"no `{'a' * 100_000}`, sorry") == f"no `{'a' * 158}…{'a' * 78}`,".replace("`,", "`, sorry")
    assert escape_message(f"{'a' * 300} b") == f"{'a' * 300} b"


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, 'pip install "pellucid[ct2]"'),
        (
            {"url": "file:///srv/pellucid", "dir_info": {"editable": True}},
            'pip install -e "/srv/pellucid[ct2]"',
        ),
        ({"url": "file:///srv/a%20b", "dir_info": {}}, 'pip install "/srv/a b[ct2]"'),
        (
            {"url": "file:///tmp/pellucid-1-py3-none-any.whl", "archive_info": {}},
            'pip install "pellucid[ct2] @ file:///tmp/pellucid-1-py3-none-any.whl"',
        ),
        (
            {"url": "https://example.org/pellucid", "vcs_info": {"vcs": "git"}},
            'pip install "pellucid[ct2] @ git+https://example.org/pellucid"',
        ),
        ("damaged {", 'pip install "pellucid[ct2]"'),
    ],
)
def test_an_extra_is_installed_from_where_pellucid_came(
    origin: object, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = origin if isinstance(origin, str | None) else json.dumps(origin)

    class Installed:
        def read_text(self, name: str) -> str | None:
            return text if name == "direct_url.json" else None

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed())
    assert format_install_command("ct2") == command


def test_without_metadata_an_extra_is_installed_from_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert format_install_command("hf") == 'pip install "pellucid[hf]"'


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_running_out_of_open_files_has_a_hint_of_its_own(number: int) -> None:
    lacking = DataError("cannot read `a`: Too many open files", "name another file")
    lacking.__cause__ = OSError(number, "Too many open files")
    assert get_hint(lacking) == "allow more open files, as `ulimit -n 4096` does in a shell, or lower `workers=`"
    assert get_hint(DataError("no file `a`", "check the path")) == "check the path"
    assert get_hint(OSError(errno.ENOENT, "No such file")) == ""
