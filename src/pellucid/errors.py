"""What Pellucid raises.

    PellucidError
    ├── ConfigError       a setting that cannot work, an unknown key
    ├── DataError         a corpus, a text or a file of it that cannot be used
    ├── CheckpointError   a model folder or a checkpoint that cannot be read
    └── DecodingError     a search that cannot be run as asked

Each message says what is wrong, with the values, and what is allowed; `hint` says what to do.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class PellucidError(Exception):
    """The base of all errors that a user can mend. `hint` is a sentence on what to do, or empty.

    `exit_status` is what the command line exits with: 2 for a user's mistake, 1 for a failure.
    """

    exit_status = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(PellucidError):
    """A setting that cannot work."""

    exit_status = 2


class DataError(PellucidError):
    """Text or a file that cannot be used."""

    exit_status = 2


class CheckpointError(PellucidError):
    """A model folder or a checkpoint that is missing, damaged or of another kind."""


class DecodingError(PellucidError):
    """A search that cannot be run as asked."""

    exit_status = 2


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`"; did you mean `x`?"` for the known word nearest to `word`, or an empty string."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""
