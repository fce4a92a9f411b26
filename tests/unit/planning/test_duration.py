"""Lengths of time as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.errors import ConfigError
from pellucid.planning.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("1h30m", 5400), ("1.5h", 5400), ("2d", 172_800), (" 1H 30M ", 5400), ("30s", 30)],
)
def test_a_length_of_time_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "m", "15 minutes", "-5m", "1e3s", "5m-", "m5", "nan", "5,5m"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_duration(text)
    assert str(caught.value) == f"`{text}` is not a duration"
    assert caught.value.hint == "write 90s, 15m, 1h30m or 2d"


@pytest.mark.parametrize(("text", "said"), [("29s", "29s"), ("0s", "0s"), ("0.4m", "24s")])
def test_a_budget_that_measuring_would_use_up_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"^a budget of {said} is too short: ") as caught:
        parse_duration(text)
    assert caught.value.hint == "give at least 30s"


@given(st.integers(30, 10**7))
def test_what_is_said_is_read_back(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds
