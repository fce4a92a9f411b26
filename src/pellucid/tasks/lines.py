"""What all tasks ask of their texts."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from pellucid.errors import ConfigError, DataError, shown

T = TypeVar("T")


def listed(texts: Sequence[str]) -> list[str]:
    """Returns a list of lines. Raises DataError for a single text, whose characters would pass for lines, and for what
    holds anything else than texts."""
    found = several(texts)
    for number, text in enumerate(found, start=1):
        if not isinstance(text, str):
            raise DataError(
                f"line {number} is no text but {'None' if text is None else f'of type {type(text).__name__}'}",
                "give a list of str; an empty line is ''",
            )
    return found


def several(texts: Sequence[T]) -> list[T]:
    """Returns a list of what may be texts. Raises DataError for a single text, or what is no list."""
    if isinstance(texts, str):
        raise DataError(f"a list of lines is wanted, not one text of {len(texts):,} characters", "write [text]")
    if not isinstance(texts, Iterable):
        raise DataError(
            f"a list of lines is wanted, not {'None' if texts is None else type(texts).__name__}", "write [text]"
        )
    return list(texts)


def check_batch_tokens(batch_tokens: int | None) -> None:
    """Raises ConfigError for a number of tokens at a time that is none; None is the model's own."""
    if batch_tokens is not None and batch_tokens < 1:
        raise ConfigError(f"`batch_tokens` ({shown(batch_tokens)}) must be at least 1")
