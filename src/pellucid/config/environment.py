"""Reads the environment variables that switch off connections."""

import os
from collections.abc import Mapping

from pellucid.errors import ConfigError, format_quoted

OFFLINE_SWITCHES = ("PELLUCID_OFFLINE", "HF_HUB_OFFLINE")
"""Each of these variables forbids all connections: to the publishers of texts and to the model hub."""
ON, OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def is_offline(environment: Mapping[str, str] | None = None) -> bool:
    """Returns True if one of the variables forbids connections; `environment` None: this process's environment.

    Raises ConfigError for a value that means neither on nor off.
    """
    given = os.environ if environment is None else environment
    values = {name: given.get(name, "").strip().lower() for name in OFFLINE_SWITCHES}
    for name, value in values.items():
        if value not in ON + OFF:
            allowed = f"one of {', '.join(ON)} for on, or of {', '.join(filter(None, OFF))} for off"
            raise ConfigError(f"`{name}` ({format_quoted(given[name])}) is neither on nor off", f"set it to {allowed}")
    return any(value in ON for value in values.values())
