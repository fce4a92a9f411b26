"""Writes the files of the shell that a wheel installs, from the command line's parser: a man page and completions.

python packaging/shell_files.py
"""

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path

from pellucid.cli.commands import GROUPS, load_command
from pellucid.cli.completion import places, script

FOLDER = Path(__file__).parent
HEAD = """.TH PELLUCID 1 "" "pellucid" "User commands"
.SH NAME
pellucid \\- train, run and inspect Transformers
.SH SYNOPSIS
.B pellucid
.I VERB
.RI [ ARGUMENT ...]
.SH DESCRIPTION
Data goes to standard output, everything else to standard error.
.B pellucid
.I VERB
.B \\-\\-help
prints the options of a verb with their defaults.
"""
TAIL = """.SH EXIT STATUS
0; 2 for a user's mistake; 1 for a failure; 129, 130 and 143 after SIGHUP, SIGINT and SIGTERM.
"""


def man_page() -> str:
    """Returns the man page: the verbs by group, each with its arguments, options and examples."""
    parts = [HEAD]
    for group, verbs in GROUPS.items():
        parts.append(f".SH {_escape(group.upper())}\n")
        for verb, summary in verbs.items():
            command = load_command(verb)
            parts.append(f".SS pellucid {_escape(verb)}\n{_escape(summary[:1].upper() + summary[1:])}.\n")
            for place in places(command):
                metavar = f"[{place.metavar}" if place.metavar.count("]") > place.metavar.count("[") else place.metavar
                name = ", ".join(place.names) if place.names else metavar
                value = f" {place.metavar}" if place.names and place.metavar else ""
                parts.append(f".TP\n.B {_escape(name + value)}\n{_escape(place.help)}\n")
            for example in re.findall(r"example: (.*)", inspect.getdoc(command) or ""):
                parts.append(f".PP\nExample: {_escape(example)}\n")
    return "".join([*parts, TAIL])


def zsh_file() -> str:
    """Returns the completion of zsh as a file of its search path, whose first call defines the function."""
    return script("zsh").rstrip("\n") + '\n[[ ${funcstack[1]} != _pellucid ]] || _pellucid "$@"\n'


FILES: dict[str, Callable[[], str]] = {
    "pellucid.1": man_page,
    "completions/pellucid": lambda: script("bash").rstrip("\n") + "\n",
    "completions/_pellucid": zsh_file,
    "completions/pellucid.fish": lambda: script("fish").rstrip("\n") + "\n",
}


def _escape(text: str) -> str:
    """Returns a line of roff: backslashes and hyphens stand for themselves, and no line begins a request."""
    line = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line.startswith((".", "'")) else line


def main() -> int:
    """Writes the files."""
    for name, make in FILES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8", newline="\n")
        print(FOLDER / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
