"""The errors that Pellucid raises, and how their messages are worded.

    PellucidError
    ├── ConfigError       a setting that cannot work, an unknown key
    ├── DataError         a corpus, a text or a file of it that cannot be used
    ├── CheckpointError   a model folder or a checkpoint that cannot be read
    └── DecodingError     a search that cannot be run as asked

A message says what is wrong, with the values, and what is allowed; `hint` says what to do. A value that comes from
outside goes through shown() first. A parameter stands as Python writes it in a call, in backticks: `out=`,
`fresh=True`, `layer=3` (argument() writes the last). The command line finds these forms in a message, and only these,
and puts its own options in their place: `--out`, `--fresh`, `--layer 3`. A setting stands by its key: `train.steps`.
"""

import math
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import PurePath
from reprlib import Repr

MOST_SHOWN = 80
"""Characters of a foreign value in a message: enough to know it again, too few to bury the sentence around it."""
MOST_SHOWN_OF_A_PATH = 240
"""The most characters shown of a path: one needs both ends, and honest ones are longer than other values."""

PYTHON = "from Python: "
"""Stands before a line of Python in a hint, to be pasted as it is, for what the command line cannot be given."""


class PellucidError(Exception):
    """Is the base of all errors that a user can mend; itself where none of them fits, as for a loss that is not finite.

    `hint` is a sentence on what to do, or empty. `exit_status` is what the command line exits with: 2 for a user's
    mistake, 1 for a failure. Each class has one; an error that is the exception of its class is given its own.
    """

    exit_status: int = 1

    def __init__(self, message: str, hint: str = "", exit_status: int | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if exit_status is not None:
            self.exit_status = exit_status


class ConfigError(PellucidError):
    """Is raised for a setting that cannot work, an unknown key, verb or option, and a folder that is taken."""

    exit_status = 2


class DataError(PellucidError):
    """Is raised for a text or a file that is missing, not UTF-8, too long, or not as long as its other side."""

    exit_status = 2


class CheckpointError(PellucidError):
    """Is raised for a model folder or a checkpoint that is damaged or of another format; 2 where there is none."""


class DecodingError(PellucidError):
    """Is raised for a search that cannot be run as asked, and a model that gives no numbers."""

    exit_status = 2


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns `"; did you mean `x`?"` for the known word nearest to `word`, or an empty string."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def shown(value: object) -> str:
    """Returns a value from outside as a message may echo it: at most 80 characters, of a Path 240, all of them visible.

    A string stands as it is, without quotes; what would move the cursor, colour the terminal or turn the reading
    direction stands as its escape. Anything else stands as Python writes it. What is too long loses its middle.
    """
    most = MOST_SHOWN_OF_A_PATH if isinstance(value, PurePath) else MOST_SHOWN
    text = str(value) if isinstance(value, str | PurePath) else _described(value)
    # Cut before and after: escapes are longer than what they stand for, and a value may have gigabytes.
    visible = "".join(_visible(character) for character in _cut(text, most))
    return _cut(visible, most)


def argument(name: str, value: object) -> str:
    """Returns a parameter with its value as a call has them, for a message: `layer=3`, `to="onnx"`."""
    text = f'"{shown(value)}"' if isinstance(value, str | PurePath) else shown(value)
    return f"`{name}={text}`"


def quoted(value: object) -> str:
    """Returns the same with a string in quotes, where it matters that it is one: `'7'` is not a number."""
    return f"'{shown(value)}'" if isinstance(value, str) else shown(value)


def legible(message: str) -> str:
    """Returns a whole message as a terminal may be given it, whatever values have come into it without shown().

    Escapes are visible, lines stay lines, and a word of thousands of characters loses its middle.
    """
    visible = "".join(c if c == "\n" else _visible(c) for c in message)
    return re.sub(rf"\S{{{2 * MOST_SHOWN_OF_A_PATH},}}", lambda word: _cut(word[0], MOST_SHOWN_OF_A_PATH), visible)


def _cut(text: str, most: int) -> str:
    tail = most // 3
    return text if len(text) <= most else f"{text[: most - tail - 1]}…{text[-tail:]}"


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _described(value: object) -> str:
    """Returns a value as Python writes it, of a large one the beginning, however deep or long it is."""
    if (
        isinstance(value, int) and value.bit_length() > 8 * MOST_SHOWN
    ):  # Python refuses to spell out thousands of digits
        return f"a whole number of about {math.ceil(value.bit_length() * math.log10(2)):,} digits"
    brief = Repr()
    brief.maxlist = brief.maxtuple = brief.maxset = brief.maxfrozenset = brief.maxdict = MOST_SHOWN // 3
    brief.maxstring = brief.maxother = brief.maxlong = MOST_SHOWN
    try:
        return brief.repr(value)
    except ValueError:  # such a number within a list
        return f"a {type(value).__name__} of {len(value)}" if isinstance(value, list | tuple | dict) else "a value"


def install(extra: str) -> str:
    """Returns the command that installs an extra from where Pellucid came: an index, a checkout, a file, elsewhere."""
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
