"""What all tasks ask of their texts."""

from collections.abc import Sequence

from pellucid.errors import DataError


def listed(texts: Sequence[str]) -> list[str]:
    """A list of lines. Raises DataError for a single text, whose characters would pass for lines."""
    if isinstance(texts, str):
        raise DataError(f"a list of lines is wanted, not one text of {len(texts):,} characters", "write [text]")
    return list(texts)
