"""The errors of users: one base, a hint, an exit status, and the nearest word."""

import pytest

from pellucid.errors import CheckpointError, ConfigError, DataError, DecodingError, PellucidError, did_you_mean


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
