"""What all tasks ask of their texts."""

from collections.abc import Sequence

from pellucid.errors import ConfigError, DataError, shown


def listed(texts: Sequence[str]) -> list[str]:
    """A list of lines. Raises DataError for a single text, whose characters would pass for lines."""
    if isinstance(texts, str):
        raise DataError(f"a list of lines is wanted, not one text of {len(texts):,} characters", "write [text]")
    return list(texts)


def check_batch_tokens(batch_tokens: int | None) -> None:
    """Raises ConfigError for a number of tokens at a time that is none; None is the model's own."""
    if batch_tokens is not None and batch_tokens < 1:
        raise ConfigError(f"`batch_tokens` ({shown(batch_tokens)}) must be at least 1")
