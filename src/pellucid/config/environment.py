"""Reads the switches that a user sets in the environment rather than in a recipe."""

import os
from collections.abc import Mapping

from pellucid.errors import ConfigError, quoted

OFFLINE_SWITCHES = ("PELLUCID_OFFLINE", "HF_HUB_OFFLINE")
"""Each forbids every connection: to the publishers of texts and to the hub of models alike."""
ON, OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def is_offline(environment: Mapping[str, str] | None = None) -> bool:
    """Tells whether one of the switches forbids connections; None: those of this process.

    Raises ConfigError for a value that is neither on nor off, since either guess could be the wrong one.
    """
    given = os.environ if environment is None else environment
    values = {name: given.get(name, "").strip().lower() for name in OFFLINE_SWITCHES}
    for name, value in values.items():
        if value not in ON + OFF:
            allowed = f"one of {', '.join(ON)} for on, or of {', '.join(filter(None, OFF))} for off"
            raise ConfigError(f"`{name}` ({quoted(given[name])}) is neither on nor off", f"set it to {allowed}")
    return any(value in ON for value in values.values())
