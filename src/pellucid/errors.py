"""The errors that Pellucid raises, and the format of their messages.

    PellucidError
    ├── ConfigError       a setting that cannot work, an unknown key
    ├── DataError         a corpus, a text or a file that cannot be used
    ├── CheckpointError   a model folder or a checkpoint that cannot be read
    └── DecodingError     a search that cannot be run as requested

A message says what is wrong, with the values, and what is allowed; `hint` says what to do. Untrusted values pass
through format_value() first. Parameters are written as in a Python call, in backticks: `out=`, `fresh=True`, `layer=3`
(the last by format_argument()). The command line replaces exactly these forms in a message by its options: `--out`,
`--fresh`, `--layer 3`. Settings are written as their key: `train.steps`.
"""

import errno
import math
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import PurePath
from reprlib import Repr

MOST_SHOWN = 80
"""Characters of an untrusted value in a message: enough to recognize it, too few to hide the message."""
MOST_SHOWN_OF_A_PATH = 240
"""The most characters shown of a path: both ends matter, and ordinary paths are longer than other values."""

MOST_LISTED = 10
"""The most values of a list in a message."""

PYTHON = "from Python: "
"""Precedes a line of Python in a hint, to be pasted as it is, for a remedy without a command-line option."""


class PellucidError(Exception):
    """Is the base of all errors that a user can fix; raised if no other class fits, as for a non-finite loss.

    `hint` is a sentence on what to do, or empty. `exit_status` is the exit status of the command line: 2 for a user's
    mistake, 1 for a failure. Each class has a default, which an instance can override.
    """

    exit_status: int = 1

    def __init__(self, message: str, hint: str = "", exit_status: int | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if exit_status is not None:
            self.exit_status = exit_status


class ConfigError(PellucidError):
    """Is raised for an invalid setting, an unknown key, verb or option, and a folder that is in use or not empty."""

    exit_status = 2


class DataError(PellucidError):
    """Is raised for a text or file that is missing, not UTF-8, too long, or differs in length from its other side."""

    exit_status = 2


class CheckpointError(PellucidError):
    """Is raised for a model folder or a checkpoint that is damaged, of another format, or missing (then 2)."""


class DecodingError(PellucidError):
    """Is raised for a search that cannot be run as requested, and a model whose outputs are not finite numbers."""

    exit_status = 2


def get_hint(error: BaseException) -> str:
    """Returns the hint of an error; if too many files are open, the hint says how to allow more."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE):
            return "allow more open files, as `ulimit -n 4096` does in a shell, or lower `workers=`"
        cause = cause.__cause__
    return error.hint if isinstance(error, PellucidError) else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns `"; did you mean `x`?"` for the known word nearest to `word`, or an empty string."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def format_value(value: object) -> str:
    """Returns an untrusted value as printable text for a message: at most 80 characters, 240 for a Path.

    A string is shown without quotes; characters that would move the cursor, color the terminal or reverse the reading
    direction are shown as escapes. Any other value is shown as its repr. Text that is too long loses its middle.
    """
    most = MOST_SHOWN_OF_A_PATH if isinstance(value, PurePath) else MOST_SHOWN
    text = str(value) if isinstance(value, str | PurePath) else _describe_value(value)
    # Cut before and after: escapes are longer than their characters, and a value may have gigabytes.
    visible = "".join(_visible(character) for character in _shorten(text, most))
    return _shorten(visible, most)


def format_argument(name: str, value: object) -> str:
    """Returns a parameter with its value as in a Python call, for a message: `layer=3`, `to="onnx"`."""
    text = f'"{format_value(value)}"' if isinstance(value, str | PurePath) else format_value(value)
    return f"`{name}={text}`"


def format_quoted(value: object) -> str:
    """Returns format_value() of a value, with quotes if it is a string: `'7'` is not a number."""
    return f"'{format_value(value)}'" if isinstance(value, str) else format_value(value)


def format_list(values: Iterable[object], most: int = MOST_LISTED) -> str:
    """Returns untrusted values as a list for a message, in backticks: the first `most`, and the number of others."""
    names = list(values)
    few = ", ".join(f"`{format_value(name)}`" for name in names[:most])
    return few if len(names) <= most else f"{few} and {len(names) - most:,} more"


def escape_message(message: str) -> str:
    """Returns a message that is safe to print, even if it contains values that did not pass through format_value().

    Control characters become visible escapes, line breaks stay, and a word of thousands of characters loses its middle.
    """
    visible = "".join(c if c == "\n" else _visible(c) for c in message)
    return re.sub(rf"\S{{{2 * MOST_SHOWN_OF_A_PATH},}}", lambda word: _shorten(word[0], MOST_SHOWN_OF_A_PATH), visible)


def _shorten(text: str, most: int) -> str:
    tail = most // 3
    return text if len(text) <= most else f"{text[: most - tail - 1]}…{text[-tail:]}"


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _describe_value(value: object) -> str:
    """Returns the repr of a value, truncated if it is large, however deep or long it is."""
    if isinstance(value, int) and value.bit_length() > 8 * MOST_SHOWN:  # Python refuses to convert thousands of digits
        return f"a whole number of about {math.ceil(value.bit_length() * math.log10(2)):,} digits"
    brief = Repr()
    brief.maxlist = brief.maxtuple = brief.maxset = brief.maxfrozenset = brief.maxdict = MOST_SHOWN // 3
    brief.maxstring = brief.maxother = brief.maxlong = MOST_SHOWN
    try:
        return brief.repr(value)
    except ValueError:  # a container with such a number
        return f"a {type(value).__name__} of {len(value)}" if isinstance(value, list | tuple | dict) else "a value"


def format_install_command(extra: str) -> str:
    """Returns the command that installs an extra from the source of this installation: index, checkout, file or URL."""
    import json
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        origin = json.loads(metadata.distribution("pellucid").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        origin = {}
    url = str(origin.get("url", ""))
    if "dir_info" in origin and url.startswith("file://"):
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f'pip install {editable}"{url2pathname(urlsplit(url).path)}[{extra}]"'
    if "vcs_info" in origin:
        return f'pip install "pellucid[{extra}] @ {origin["vcs_info"].get("vcs", "git")}+{url}"'
    return f'pip install "pellucid[{extra}] @ {url}"' if url else f'pip install "pellucid[{extra}]"'
