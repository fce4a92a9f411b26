"""Python in processes of their own, without each one's seconds for importing torch.

The first call starts a server, which imports what Pellucid needs and then forks a process for each call: one that has
its own files, folder, environment and signals, and that dies alone. It is what `subprocess.run([sys.executable, ...])`
would start, but for what was settled when the server started: the seed of hashes, the encoding and the buffering of the
standard streams, and modules that are loaded already. Where these matter, a test starts Python itself; on other
systems than Linux, and with several threads, all do.
"""

import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
# A Mac forks as well, but not what its libraries have started; and what is forked adds up in one thread.
FORKS = sys.platform == "linux" and os.environ.get("OMP_NUM_THREADS") == "1"
PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def fork(run: Callable[[], int | None]) -> int:
    """Forks a process that runs `run` and ends with its status, or 1 after an exception; returns the process's id.

    The process never returns into the caller's frames, where it would be a second test runner.
    """
    child = os.fork()
    if not child:
        status = 1
        try:
            status = run() or 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def run_python(
    *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """Runs `python ARGUMENTS` (`-c CODE`, `-m MODULE` or a file, and what follows) with empty standard input.

    Returns what `subprocess.run` does: a status, negative for a signal, and what was said on both streams.
    """
    words = [str(argument) for argument in arguments]
    environment = dict(os.environ if env is None else env)
    if not FORKS:
        return subprocess.run(
            [sys.executable, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            cwd=cwd, env=environment, timeout=timeout,
        )  # fmt: skip
    with contextlib.ExitStack() as stack:
        none = stack.enter_context(open(os.devnull, "rb"))
        out, err = (stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(2))
        call = stack.enter_context(contextlib.closing(_Call(_server(), words, cwd or Path.cwd(), environment)))
        status = call.begin([none.fileno(), out.fileno(), err.fileno()], timeout)
        texts = [stream.read() for stream in (out, err) if not stream.seek(0)]
    return subprocess.CompletedProcess(words, status, *texts)


def python() -> str:
    """Returns a program to start in place of Python: a small one, which passes on all that is its own to the server."""
    return str(Path(_server()).with_name("python")) if FORKS else sys.executable


class _Call:
    """One process that the server starts."""

    def __init__(self, server: str, words: list[str], cwd: Path, environment: Mapping[str, str]) -> None:
        self.asked = json.dumps({"words": words, "cwd": str(cwd), "env": dict(environment)}).encode()
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(server)
        self.pid = 0
        self.early: list[int] = []
        """Signals that came before the process's number."""

    def begin(self, streams: list[int], timeout: float | None = None) -> int:
        """Starts the process with those streams, waits for its end and returns its status."""
        self.connection.settimeout(timeout)
        socket.send_fds(self.connection, [len(self.asked).to_bytes(8, "big")], streams)
        self.connection.sendall(self.asked)
        answers = self.connection.makefile("r", encoding="ascii")
        self.pid = int(answers.readline())
        for number in self.early:
            self.send(number)
        try:
            return int(answers.readline())
        except TimeoutError:
            self.send(signal.SIGKILL)
            raise

    def send(self, number: int, *_: object) -> None:
        """Sends the process a signal."""
        if self.pid:
            os.kill(self.pid, number)
        else:
            self.early.append(number)

    def close(self) -> None:
        self.connection.close()


@functools.cache
def _server() -> str:
    """Starts the server of this process, which ends with it; returns its socket."""
    folder = tempfile.TemporaryDirectory(prefix="pellucid-")  # a socket's path may be a hundred letters long
    path = os.path.join(folder.name, "socket")
    client = Path(folder.name, "python")
    client.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{__file__}" call "{path}" "$@"\n', encoding="utf-8")
    client.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["PYTHONHASHSEED"] = "5"  # not this process's: nothing may follow from the order of a set
    process = subprocess.Popen(
        [sys.executable, __file__, "serve", path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"

    def end() -> None:
        process.communicate()  # closes its standard input, which ends it
        folder.cleanup()

    atexit.register(end)
    return path


def serve(path: str) -> None:
    """Forks a process for each call on the socket, until standard input is closed."""
    import select

    import torch

    import pellucid.cli.convert
    import pellucid.cli.evaluate
    import pellucid.cli.inspect
    import pellucid.cli.train
    import pellucid.cli.translate
    import pellucid.run.run
    from pellucid.cli.arguments import read_arguments
    from pellucid.text.normalization_rules import set_normalizer
    from tests import disk

    disk.without_waiting()
    torch.optim.SGD([torch.zeros(1)])  # imports half of torch
    read_arguments("train", pellucid.cli.train.train, ["default", "--out", "run"])  # and this what reads a command line
    set_normalizer(b"", "nfc")  # makes rules that are the same for each tokenizer
    gc.collect()
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listening.accept()
        if not os.fork():
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(connection)
            os._exit(0)
        connection.close()


def _answer(connection: socket.socket) -> None:
    """Starts the process that is asked for, says its number and, at its end, its status."""
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as said:
        asked = json.loads(said.read(int.from_bytes(size, "big")))
    child = os.fork()
    if not child:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os._exit(_ended(asked))
    for stream in streams:
        os.close(stream)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(f"{child}\n".encode())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(f"{status}\n".encode())


def _ended(asked: dict[str, object]) -> int:
    """Does in this process what Python would do with those words; returns its status."""
    status: object = 0
    try:
        _become(asked)
    except SystemExit as error:
        status = error.code
        if not isinstance(status, int | None):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    import threading

    threading._shutdown()  # type: ignore[attr-defined]  # as Python ends: threads, what is registered, streams
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return int(status or 0)  # type: ignore[call-overload]


def _become(asked: dict[str, object]) -> None:
    words, environment = asked["words"], asked["env"]
    assert isinstance(words, list)
    assert isinstance(environment, dict)
    sys.modules["pellucid.cli.train"].STARTED = time.perf_counter()  # type: ignore[attr-defined]  # not the server
    os.chdir(str(asked["cwd"]))
    os.environ.clear()
    os.environ.update(environment)
    named = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:0] = [path for path in named if path not in sys.path]
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, "")
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = words
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
        runpy.run_path(words[0], run_name="__main__")


def call(server: str, words: list[str]) -> int:
    """Runs `python WORDS` with the streams, folder, environment and signals of this process; returns its status."""
    with contextlib.closing(_Call(server, words, Path.cwd(), os.environ)) as asked:
        for number in PASSED_ON:
            signal.signal(number, asked.send)
        status = asked.begin([0, 1, 2])
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    verb, where, *rest = sys.argv[1:]
    if verb == "serve":
        sys.path[0] = str(ROOT)  # in place of this file's folder
        serve(where)
    else:
        sys.exit(call(where, rest))
