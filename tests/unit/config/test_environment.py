"""The switches of the environment: each word for on and off, and the same for texts and models."""

import pytest

from pellucid.config.environment import OFFLINE_SWITCHES, is_offline
from pellucid.errors import ConfigError


@pytest.mark.parametrize("name", OFFLINE_SWITCHES)
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1", True), ("true", True), ("TRUE", True), ("yes", True), ("On", True), (" 1 ", True),
        ("0", False), ("false", False), ("False", False), ("no", False), ("off", False), ("", False),
    ],
)  # fmt: skip
def test_each_switch_takes_the_same_words(name: str, value: str, expected: bool) -> None:
    other = next(switch for switch in OFFLINE_SWITCHES if switch != name)
    assert is_offline({name: value}) is expected
    assert is_offline({name: value, other: "0"}) is expected
    assert is_offline({name: value, other: "1"})


def test_without_switches_connections_are_allowed() -> None:
    assert not is_offline({})


def test_this_process_is_asked_where_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OFFLINE_SWITCHES:
        monkeypatch.delenv(name, raising=False)
    assert not is_offline()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert is_offline()


@pytest.mark.parametrize("name", OFFLINE_SWITCHES)
def test_another_word_is_refused_rather_than_guessed(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^`{name}` \('maybe'\) is neither on nor off$") as caught:
        is_offline({name: "maybe"})
    assert caught.value.hint == "set it to one of 1, true, yes, on for on, or of 0, false, no, off for off"
