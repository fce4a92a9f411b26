"""Finds the verb of `pellucid VERB ...`, runs it, and turns an error into a message and an exit status."""

import errno
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pellucid.cli.commands import GROUPS, OLD_VERBS, VERBS, load_command
from pellucid.cli.ranks import end_with_launcher
from pellucid.cli.standard_streams import StandardOutputError, lose_standard_output, standard_streams
from pellucid.cli.stop_signals import StopRequested, stop_signals
from pellucid.errors import PellucidError, did_you_mean, escape_message, format_value, get_hint
from pellucid.terminal import log_line
from pellucid.training.interrupts import TrainingInterrupted

STARTED = time.perf_counter()
"""The approximate start time of the process; a time budget counts from it."""

COMMAND: list[str] = []
"""The arguments of the command, for a command that starts itself in other processes."""

UNEXPECTED_HINT = "run the command again with --debug to see the traceback"
"""The hint of an error that is not a PellucidError."""

USAGE = """usage: pellucid VERB [OPTIONS]

{verbs}

Options and examples of a verb: pellucid VERB --help
Data goes to standard output, messages go to standard error.
Exit status: 0; 2 for a mistake, 1 for a failure; 130, 143, 129 after Ctrl-C, SIGTERM, SIGHUP.
--version prints the version. --debug with a verb shows tracebacks of errors.
--completion SHELL prints a completion script for bash, zsh or fish.

example: pellucid train --src train.de --tgt train.en --out run
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status.

    0; 2 for a user's mistake; 1 for a failure; 130, 143 and 129 after SIGINT, SIGTERM and SIGHUP.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    COMMAND[:] = args
    with standard_streams(), stop_signals():
        return _run_to_the_end(args)


def _run_to_the_end(args: list[str]) -> int:
    """Runs a command and reports the error or signal that ended it."""
    debug, args = "--debug" in args, [arg for arg in args if arg != "--debug"]
    complain = partial(_complain, args[0] if args else "")
    try:
        if args[:1] == ["train"]:
            end_with_launcher()
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _say(f"warning: {message}", *args[:1])
            status = _dispatch(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has closed the pipe
        lose_standard_output()
        return 0
    except StandardOutputError as error:
        lose_standard_output()
        return complain(f"cannot write to standard output: {error.strerror}", "free disk space, or write elsewhere", 1)
    except KeyboardInterrupt:
        log_line("interrupted by SIGINT; run the same command again to redo unsaved work")
        return 128 + signal.SIGINT
    except (TrainingInterrupted, StopRequested) as stop:
        log_line(stop)
        return 128 + stop.signal
    except PellucidError as error:
        if debug:
            raise
        return complain(str(error), get_hint(error), error.exit_status)
    except Exception as error:
        if debug:
            raise
        return complain(*_describe_exception(error))


MISTAKES = frozenset(
    getattr(errno, name)
    for name in ("ENOENT", "ENOTDIR", "EISDIR", "EEXIST", "EACCES", "EPERM", "ENAMETOOLONG", "ELOOP", "EINVAL", "ENXIO")
    if hasattr(errno, name)
)
"""The system's errors for a mistyped or forbidden path, which are the user's mistakes; all others are failures."""


def _describe_exception(error: Exception) -> tuple[str, str, int]:
    """Returns a message, a hint and an exit status for an exception that no other code has described."""
    if isinstance(error, OSError) and isinstance(error.filename, str | bytes):
        path = os.fsdecode(error.filename)
        status = 2 if error.errno in MISTAKES else 1
        hint = get_hint(error) or "check the path and its permissions"
        return f"cannot use `{format_value(Path(path))}`: {error.strerror}", hint, status
    if isinstance(error, OSError) and (hint := get_hint(error)):
        return "too many files are open for the limit of this process", hint, 1
    if _is_out_of_memory(error):
        detail = f": {format_value(str(error).partition(chr(10))[0])}" if str(error) else ""
        return f"out of memory{detail}", "use a smaller batch, beam or model, or another device", 1
    return f"{type(error).__name__}: {error}", UNEXPECTED_HINT, 1


def _is_out_of_memory(error: Exception) -> bool:
    # The dynamic loader maps an imported library into memory, and reports a lack of memory in its own words.
    if isinstance(error, ImportError) and re.search("failed to map|cannot allocate memory", str(error), re.IGNORECASE):
        return True
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    from pellucid.training.failures import is_out_of_memory

    return is_out_of_memory(error)


def _dispatch(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        from pellucid.terminal import wrap_text

        width = max(map(len, VERBS)) + 1
        groups = [
            "\n".join([f"{group}:", *(f"  {verb:<{width}} {text}" for verb, text in verbs.items())])
            for group, verbs in GROUPS.items()
        ]
        print(wrap_text(USAGE.format(verbs="\n\n".join(groups)), width + 3), end="")
        return 0 if args else 2
    if args[0] == "--version":
        from importlib.metadata import version

        print(f"pellucid {version('pellucid')}")
        return 0
    if args[0] == "--completion":
        from pellucid.cli.completion import script

        print(script(args[1] if args[1:] else ""), end="")
        return 0
    if args[0] not in VERBS:
        renamed = OLD_VERBS.get(args[0])
        meant = f"; did you mean `{renamed}`?" if renamed else did_you_mean(args[0], VERBS)
        unknown = f"unknown verb `{format_value(args[0])}`{meant}"
        return _complain("", unknown, f"verbs: {', '.join(VERBS)}", 2)
    return _run(args[0], args[1:])


def _run(verb: str, args: list[str]) -> int:
    from pellucid.cli.arguments import read_arguments

    try:
        run = read_arguments(verb, load_command(verb), args)
    except SystemExit:  # the parser has printed the help
        return 0
    return run()


def _complain(verb: str, message: str, hint: str, status: int) -> int:
    _say(f"error: {message}" + (f"\n\nhint: {hint}" if hint else ""), verb)
    return status


def _say(message: str, verb: str = "") -> None:
    """Prints a message on standard error, with parameters replaced by the options of the verb."""
    if verb in VERBS:
        from pellucid.cli.arguments import rename_parameters

        message = rename_parameters(message, load_command(verb))
    log_line(escape_message(message))
