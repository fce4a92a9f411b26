"""Text as wide as a terminal: lines are broken between words, and a command so that it can be pasted."""

import re
import shutil
import sys
import textwrap
from typing import TextIO

from pellucid.errors import PYTHON

NARROWEST = 40
MOST_INDENT = 24
COMMAND = "example: "
_SHELL_WORD = re.compile(r'(?:"[^"]*"|[^\s"])+')


def columns() -> int:
    """Returns how wide the terminal is; 80 where nothing says so."""
    return max(NARROWEST, shutil.get_terminal_size().columns)


def is_fitted(stream: TextIO | None = None) -> bool:
    """Tells whether lines for this stream (None: stdout) are broken, as they are not for a file or a program."""
    return (sys.stdout if stream is None else stream).isatty()


def fitted(text: str, indent: int = 2) -> str:
    """Each line of a text broken between words to the width of the terminal; what goes on is indented by `indent`."""
    return "\n".join(line for whole in text.split("\n") for line in _broken(whole, columns(), indent))


def fitted_help(docstring: str) -> str:
    """A verb's docstring for its help: paragraphs filled to the width, examples broken as a shell goes on."""
    paragraphs = re.split(r"\n\s*\n", textwrap.dedent(docstring).strip())
    return "\n\n".join(_paragraph(paragraph) for paragraph in paragraphs)


def _paragraph(paragraph: str) -> str:
    lines = [line.strip() for line in paragraph.splitlines()]
    if not lines[0].startswith(COMMAND):
        return textwrap.fill(" ".join(lines), columns(), break_long_words=False, break_on_hyphens=False)
    return "\n".join(_pasteable(line) for line in lines)


def _pasteable(example: str) -> str:
    """A command over several lines, each but the last with the backslash by which a shell goes on."""
    found = [""]
    for word in _SHELL_WORD.findall(example):
        longer = f"{found[-1]} {word}".lstrip() if len(found) == 1 else f"{found[-1]} {word}"
        if len(longer) > columns() - 2 and found[-1].strip():
            found.append(" " * (len(COMMAND) + 1) + word)
        else:
            found[-1] = longer
    return " \\\n".join(found)


def _broken(line: str, width: int, indent: int) -> list[str]:
    if len(line) <= width or PYTHON in line:  # a terminal's own breaks are not pasted
        return [line]
    hanging = " " * min(indent, MOST_INDENT)
    return textwrap.wrap(line, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)
