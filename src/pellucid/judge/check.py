"""Checks an object, or each exercise of a module of Python, and turns the learner's errors into findings."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from pellucid.errors import ConfigError, format_value
from pellucid.judge.calling import SECONDS, CallError, TimeExceeded, Undecided, describe_error, limit_time, quiet_torch
from pellucid.judge.conventions import Conventions
from pellucid.judge.exercises import EXERCISES, Exercise, find_exercise, find_parts
from pellucid.judge.findings import Finding
from pellucid.judge.mistakes import OUT_OF_TIME, RAISES, UNKNOWN


def check(obj: Any, name: str | None = None) -> list[Finding]:
    """Judges a learner's own function, class or module of the Transformer, and names its mistakes.

    The code is run with small tensors on the CPU. Each finding is right, or has the ids of the mistakes; the id
    "unknown" means that the judge knows neither that the code is right nor its mistake.

    Args:
        obj: a function, a class, an instance of nn.Module, or an imported module of Python with several exercises. The
            masks of a module fix what True means for its attentions; alone, each meaning is right.
        name: the exercise, as "attention"; by default that of the object's own name. For a module of Python: the only
            exercise to judge.

    Returns: a finding for each exercise, in the order of `pellucid.judge.exercises`.

    Raises ConfigError for an unknown `name`, and for an object whose name is no exercise.
    """
    if isinstance(obj, ModuleType):
        return list(check_parts(find_parts(vars(obj), obj.__name__), name))
    if not callable(obj):
        raise ConfigError(
            f"`obj` (`{format_value(obj)}`) must be a function, a class or a module",
            "give the part itself, not its result",
        )
    given = str(name or getattr(obj, "__name__", type(obj).__name__))
    return [_judge(find_exercise(given), obj, Conventions())]


def check_parts(
    parts: Mapping[str, Any], name: str | None = None, begin: Callable[[str], None] = lambda name: None
) -> Iterator[Finding]:
    """Yields the findings of a learner's parts by exercise, or of exercise `name` alone.

    `begin` is called with the exercise before it is judged. Raises ConfigError for an unknown `name`.
    """
    only = None if name is None else find_exercise(name).name
    conventions = Conventions()
    for exercise in EXERCISES.values():
        # Masks are judged in any case: what they mean decides how an attention must read them.
        is_wanted = only in (None, exercise.name)
        if exercise.name not in parts or not (is_wanted or exercise.name.endswith("_mask")):
            continue
        if is_wanted:
            begin(exercise.name)
        finding = _judge(exercise, parts[exercise.name], conventions)
        conventions = _learn(conventions, finding)
        if is_wanted:
            yield finding


def _learn(conventions: Conventions, finding: Finding) -> Conventions:
    """Returns the conventions with those that a finding fixes."""
    if finding.name.endswith("_mask") and not conventions.mask and finding.right:
        return replace(conventions, mask=finding.mask)
    if finding.name == "MultiHeadAttention" and finding.batch_first is not None:
        return replace(conventions, batch_first=finding.batch_first)
    return conventions


def _judge(exercise: Exercise, part: Any, conventions: Conventions) -> Finding:
    """Returns the finding; errors of the learner's code, and a time without an end, are findings, too."""
    try:
        with quiet_torch(), warnings.catch_warnings(), limit_time(SECONDS):
            warnings.simplefilter("ignore")
            return exercise.judge(part, conventions)
    except CallError as error:
        return Finding(exercise.name, False, (RAISES,), (str(error),))
    except TimeExceeded:
        return Finding(exercise.name, False, (OUT_OF_TIME,), (f"{SECONDS:g}",))
    except Undecided as error:
        return Finding(exercise.name, False, (UNKNOWN,), (f"`{error}`?",))
    except Exception as error:  # of a part that no caller expects, as a module without its constructor's super() call
        return Finding(exercise.name, False, (UNKNOWN,), (describe_error(error),))
