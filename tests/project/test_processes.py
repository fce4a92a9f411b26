"""What `tests/processes.py` starts does what Python would do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import FORKS, python, run_python

pytestmark = pytest.mark.slow

PROGRAMS = {
    "output": "import sys; print(sys.argv[1:]); print('안녕', file=sys.stderr)",
    "standard input": "print(repr(open(0).read()))",
    "folder and environment": "import os; print(os.getcwd(), os.environ['MINE'], 'PWD' in os.environ)",
    "a status": "import sys; sys.exit(3)",
    "a sentence as status": "raise SystemExit('no')",
    "a signal": "import os; os.kill(os.getpid(), 9)",
    "an interruption": "import os\ntry:\n    os.kill(os.getpid(), 2)\nexcept KeyboardInterrupt:\n    print(1)",
    "the end": "import atexit, threading\natexit.register(print, 2)\nthreading.Thread(target=print).start()",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_process_ends_as_python_does(name: str, tmp_path: Path) -> None:
    words = ["-c", PROGRAMS[name], "one", "two words"]
    environment = {key: value for key, value in os.environ.items() if key != "PWD"} | {"MINE": "x", "PYTHONUTF8": "1"}
    expected = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment, input="", capture_output=True, text=True, check=False
    )
    forked = run_python(*words, cwd=tmp_path, env=environment)
    assert (forked.returncode, forked.stdout, forked.stderr) == (expected.returncode, expected.stdout, expected.stderr)


def test_modules_files_and_errors(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import sys\nprint(__name__, sys.argv[1:], sys.path[0])\n1 / 0\n", encoding="utf-8"
    )
    for words in (["-m", "mine", "x"], ["mine.py", "x"]):
        done = run_python(*words, cwd=tmp_path)
        assert done.returncode == 1
        assert done.stdout == f"__main__ ['x'] {tmp_path}\n"
        assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.slow
def test_the_program_in_place_of_python_passes_everything_on(tmp_path: Path) -> None:
    code = "import sys; print(sys.stdin.readline(), end='', flush=True); print(sys.stdin.read()); sys.exit(7)"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([python(), "-c", code], cwd=tmp_path, text=True, **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write("a\n")
        process.stdin.flush()
        assert process.stdout.readline() == "a\n"
        assert process.communicate("b") == ("b\n", None)
    assert process.returncode == 7
    waiting = "import time; print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen([python(), "-c", waiting], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait() == (128 + 15 if FORKS else -15)  # the program in place of Python ends as shells tell it
