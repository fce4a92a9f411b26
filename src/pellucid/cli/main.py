"""Finds the verb of `pellucid VERB ...`, runs it, and turns what goes wrong into a sentence and an exit status."""

import errno
import os
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pellucid.cli.standard_streams import StandardOutputError, lose_standard_output, standard_streams
from pellucid.cli.stop_signals import Stopped, stop_signals
from pellucid.cli.verbs import VERBS, command_of
from pellucid.errors import PellucidError, did_you_mean, legible, shown
from pellucid.training.interrupts import Interrupted

STARTED = time.perf_counter()
"""About when the process began, from which a time budget counts."""

COMMAND: list[str] = []
"""The words of the command, for one that starts itself in other processes."""

USAGE = """usage: pellucid VERB [OPTIONS]

{verbs}

Each verb has help with an example: pellucid VERB --help
Data goes to standard output, everything else to standard error. --debug shows tracebacks; --version the version;
--completion bash, zsh or fish a script by which the shell completes verbs, options and their values.
Exit status: 0; 2 for a mistake, 1 for a failure; 130, 143, 129 after Ctrl-C, SIGTERM and SIGHUP.

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
    """Runs a command and says what ended it."""
    debug, args = "--debug" in args, [arg for arg in args if arg != "--debug"]
    complain = partial(_complain, args[0] if args else "")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _say(f"warning: {message}", *args[:1])
            status = _dispatch(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has had enough
        lose_standard_output()
        return 0
    except StandardOutputError as error:
        lose_standard_output()
        return complain(f"cannot write to standard output: {error.strerror}", "make room, or write elsewhere", 1)
    except KeyboardInterrupt:
        print("stopped by SIGINT; the same command does again what was not saved", file=sys.stderr)
        return 128 + signal.SIGINT
    except (Interrupted, Stopped) as stop:
        print(stop, file=sys.stderr)
        return 128 + stop.signal
    except PellucidError as error:
        if debug:
            raise
        return complain(str(error), error.hint, error.exit_status)
    except Exception as error:
        if debug:
            raise
        return complain(*_in_words(error))


MISTAKES = frozenset(
    getattr(errno, name)
    for name in ("ENOENT", "ENOTDIR", "EISDIR", "EEXIST", "EACCES", "EPERM", "ENAMETOOLONG", "ELOOP", "EINVAL", "ENXIO")
    if hasattr(errno, name)
)
"""The system's answers to a path that was mistyped, or may not be used; all others are failures."""


def _in_words(error: Exception) -> tuple[str, str, int]:
    """Returns a sentence, a hint and an exit status for what nobody on the way had a better word for."""
    if isinstance(error, OSError) and isinstance(error.filename, str | bytes):
        path = os.fsdecode(error.filename)
        status = 2 if error.errno in MISTAKES else 1
        return f"cannot use `{shown(Path(path))}`: {error.strerror}", "check the path, and who may use it", status
    if _is_out_of_memory(error):
        said = f": {shown(str(error).partition(chr(10))[0])}" if str(error) else ""
        return f"out of memory{said}", "lower the batch or the beam, take a smaller model, or another device", 1
    return f"{type(error).__name__}: {error}", "run it again with --debug to see where", 1


def _is_out_of_memory(error: Exception) -> bool:
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    from pellucid.training.failures import is_out_of_memory

    return is_out_of_memory(error)


def _dispatch(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        from pellucid.cli.terminal import fitted

        print(fitted(USAGE.format(verbs="\n".join(f"  {verb:<10} {text}" for verb, text in VERBS.items())), 13), end="")
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
        unknown = f"unknown verb `{shown(args[0])}`{did_you_mean(args[0], VERBS)}"
        return _complain("", unknown, f"verbs: {', '.join(VERBS)}", 2)
    return _run(args[0], args[1:])


def _run(verb: str, args: list[str]) -> int:
    from pellucid.cli.arguments import read_arguments

    try:
        run = read_arguments(verb, command_of(verb), args)
    except SystemExit:  # its help has been shown
        return 0
    return run()


def _complain(verb: str, message: str, hint: str, status: int) -> int:
    _say(f"error: {message}" + (f"\n\nhint: {hint}" if hint else ""), verb)
    return status


def _say(message: str, verb: str = "") -> None:
    """Prints a message on standard error, in the options of the verb that it is about."""
    from pellucid.cli.terminal import fitted, is_fitted

    if verb in VERBS:
        from pellucid.cli.arguments import as_options

        message = as_options(message, command_of(verb))
    text = legible(message)
    print(fitted(text) if is_fitted(sys.stderr) else text, file=sys.stderr)
