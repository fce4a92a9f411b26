"""Traces of other people's models, without their library: an error that says what to install."""

import sys

import pytest

from pellucid.errors import ConfigError, format_install_command
from pellucid.tracing.hugging_face import trace_hugging_face


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match="this requires transformers 5 or newer, which is not installed") as caught:
        trace_hugging_face(object(), object(), "text")
    assert format_install_command("verify") in str(caught.value.hint)
