"""Durations as text: 90s, 15m, 1h30m, 2d."""

import re

from pellucid.errors import ConfigError

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PART = r"(\d+(?:\.\d+)?)([dhms])"
SHORTEST = 30.0  # seconds: reading, encoding and measuring take about ten


def parse_duration(text: str) -> float:
    """Returns the seconds of `15m`, `90s`, `1h30m` or `1.5h`.

    Raises ConfigError for other text, or less than half a minute.
    """
    written = text.strip().lower().replace(" ", "")
    if not re.fullmatch(f"(?:{_PART})+", written):
        raise ConfigError(f"`{text}` is not a duration", "write 90s, 15m, 1h30m or 2d")
    seconds = sum(float(number) * UNITS[unit] for number, unit in re.findall(_PART, written))
    if seconds < SHORTEST:
        raise ConfigError(
            f"a budget of {format_duration(seconds)} is too short: reading, encoding and measuring take some seconds",
            f"give at least {SHORTEST:.0f}s",
        )
    return seconds


def format_duration(seconds: float) -> str:
    """Returns 90 as `1m30s`, 5400 as `1h30m`: parse_duration() reads it back, to the second."""
    left, said = round(seconds), ""
    for unit, size in UNITS.items():
        count, left = divmod(left, size)
        said += f"{count}{unit}" if count else ""
    return said or "0s"
