"""Checks a file of Python in a process of its own: whatever the file does, the judge has time and place to say so.

The child runs the file, judges its parts, and writes a JSON object per line. Output of the learner's code goes to
standard error. A child that is silent for too long is killed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from pellucid.errors import ConfigError, DataError, format_value
from pellucid.judge.findings import Finding
from pellucid.judge.mistakes import OUT_OF_TIME, RAISES
from pellucid.waits import end, read_line

SECONDS_TO_RUN = 120.0
"""The most seconds until the file has run, with the imports of its libraries."""
SECONDS_TO_JUDGE = 40.0
"""The most seconds of one exercise, beyond which the time limit within the child did not help."""
PROGRAM = "from pellucid.judge.file import answer; answer()"


def check_file(file: Path, only: str | None = None) -> Iterator[Finding]:
    """Yields the findings of a file of Python, in the order of the exercises, or that of exercise `only`.

    The file is run. An error in it is a finding that has the file's name.

    Raises DataError for a file that is missing or not of Python, and ConfigError for an unknown `only`, and for a file
    without an exercise.
    """
    if not file.is_file():
        raise DataError(f"the file `{format_value(file)}` is missing", "name a file of Python, as in `attention.py`")
    if file.suffix != ".py":
        raise DataError(
            f"`{format_value(file)}` must be a file of Python, with a name that ends in `.py`",
            "save a notebook as a script, in Jupyter by File, Save and Export, Executable Script",
        )
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file.resolve()), only or ""],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, encoding="utf-8",
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield from _read(process, process.stdout, file.name)
    finally:
        process.kill()
        end(process)
        if process.stdout is not None:
            process.stdout.close()


def _read(process: "subprocess.Popen[str]", answers: IO[str], name: str) -> Iterator[Finding]:
    current, seconds = name, SECONDS_TO_RUN
    while line := read_line(process, answers, seconds):
        answer: dict[str, Any] = json.loads(line)
        if "refused" in answer:
            raise ConfigError(answer["refused"], answer["hint"])
        if "done" in answer:
            return
        if "begin" in answer:
            current, seconds = answer["begin"], SECONDS_TO_JUDGE
        else:
            finding = answer["finding"]
            yield Finding(**{**finding, "mistakes": tuple(finding["mistakes"]), "details": tuple(finding["details"])})
    end(process)
    if process.returncode is not None and process.returncode >= 0:
        detail = f"SystemExit: Python ended with status {process.returncode}"
        yield Finding(current, False, (RAISES,), (detail,))
    elif process.returncode == -9:
        yield Finding(current, False, (OUT_OF_TIME,), (f"{seconds:g}",))
    else:
        yield Finding(current, False, (RAISES,), (f"a crash of Python (signal {-(process.returncode or 0)})",))


def answer() -> None:
    """Runs the file that the arguments name, judges it, and writes the answers: the program of the child."""
    path, only = Path(sys.argv[1]), sys.argv[2] or None
    # Whatever the learner's code prints goes to standard error.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)

        def write(**words: Any) -> None:
            print(json.dumps(words), file=answers, flush=True)

        for finding in _judge(path, only, write):
            write(finding=asdict(finding))
        write(done=True)


def _judge(path: Path, only: str | None, write: Any) -> Iterator[Finding]:
    import torch

    from pellucid.judge.calling import CallError, run
    from pellucid.judge.check import check_parts
    from pellucid.judge.exercises import EXERCISES, find_exercise, find_parts

    torch.set_num_threads(1)
    try:
        name = find_exercise(only).name if only else None
        module = run(_load, path)
    except ConfigError as error:
        write(refused=str(error), hint=error.hint)
        return
    except CallError as error:
        yield Finding(path.name, False, (RAISES,), (str(error),))
        return
    parts = find_parts(vars(module), module.__name__)
    missing = [] if parts else list(EXERCISES)
    missing = [name] if name is not None and name not in parts else missing
    if missing:
        write(
            refused=f"`{format_value(path)}` does not define {' or '.join(missing)}",
            hint="define a function or class of this name",
        )
        return
    yield from check_parts(parts, name, lambda exercise: write(begin=exercise))


def _load(path: Path) -> Any:
    """Runs a file as a module and returns it; its constants are in double precision, as the judge's inputs are."""
    from importlib.util import module_from_spec, spec_from_file_location

    import torch

    sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    for name, value in list(vars(module).items()):
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            setattr(module, name, value.detach().double())
    return module
