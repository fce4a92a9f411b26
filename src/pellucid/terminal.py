"""Wraps text to the width of the terminal: lines between words, and commands so that they can be pasted."""

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
    """Returns the width of the terminal in characters; 80 if it is unknown."""
    return max(NARROWEST, shutil.get_terminal_size().columns)


def should_wrap(stream: TextIO | None = None) -> bool:
    """Returns True if lines for this stream (default: stdout) are wrapped: only for a terminal, not a file or pipe."""
    return (sys.stdout if stream is None else stream).isatty()


def wrap_text(text: str, indent: int = 2) -> str:
    """Returns a text wrapped to the width of the terminal; continuation lines are indented by `indent`."""
    return "\n".join(line for whole in text.split("\n") for line in _broken(whole, columns(), indent))


def log_line(text: object) -> None:
    """Prints a message on standard error, wrapped if it is a terminal."""
    print(wrap_text(str(text)) if should_wrap(sys.stderr) else text, file=sys.stderr, flush=True)


def show(text: object, indent: int = 2) -> None:
    """Prints a result on standard output; for a terminal wrapped, with continuation lines indented by `indent`."""
    print(wrap_text(str(text), indent) if should_wrap() else text)


def wrap_help(docstring: str) -> str:
    """Returns a command's docstring as help text: paragraphs filled, examples wrapped with shell continuations."""
    paragraphs = re.split(r"\n\s*\n", textwrap.dedent(docstring).strip())
    return "\n\n".join(_paragraph(paragraph) for paragraph in paragraphs)


def _paragraph(paragraph: str) -> str:
    lines = [line.strip() for line in paragraph.splitlines()]
    if not lines[0].startswith(COMMAND):
        return textwrap.fill(" ".join(lines), columns(), break_long_words=False, break_on_hyphens=False)
    return "\n".join(_pasteable(line) for line in lines)


def _pasteable(example: str) -> str:
    """Returns a command on several lines, each but the last ending in a backslash, the shell's continuation."""
    found = [""]
    for word in _SHELL_WORD.findall(example):
        longer = f"{found[-1]} {word}".lstrip() if len(found) == 1 else f"{found[-1]} {word}"
        if len(longer) > columns() - 2 and found[-1].strip():
            found.append(" " * (len(COMMAND) + 1) + word)
        else:
            found[-1] = longer
    return " \\\n".join(found)


def _broken(line: str, width: int, indent: int) -> list[str]:
    if len(line) <= width or PYTHON in line:  # line breaks that the terminal inserts are not pasted
        return [line]
    hanging = " " * min(indent, MOST_INDENT)
    return textwrap.wrap(line, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)
