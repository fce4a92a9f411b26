"""Every wait has a limit, and every file of a folder a budget: `waits.py` and `files/` have them, and nothing goes
around these modules.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "pellucid"

WITHOUT_LIMIT = {"wait", "join", "recv", "acquire", "communicate", "result", "readline", "waitpid", "getch"}
"""Methods that wait without end where they are given no limit."""
PROGRAMS = {"run", "call", "check_call", "check_output"}
"""Functions of `subprocess` that wait for a program."""

WAITS = {
    "waits.py": "it has the limits",
    "training/ranks.py: arrived.wait": "the operation is over then, and `wait` raises its error",
    "workers.py: connection.recv": "of the parent: limit_connection() has given it a limit; of a worker: it waits for "
    "its parent, and dies with it",
    "engines/ctranslate2.py: result.result": "threads of this process compute it",
    "engines/compiled/engine.py: queue": "threads of this process compute it",
    "engines/compiled/plain_search.py: queue": "threads of this process compute it",
    "data/dataset_cache.py: queue": "threads of this process read files",
    "serve/service.py: queue": "threads of this process compute it",
    "serve/work_queue.py: queue": "the thread of the queue computes it",
    "serve/work_queue.py: job.future.result": "the thread of the queue computes it, or the request is cancelled",
    "serve/work_queue.py: self._changed.wait": "clients of the server send requests, who may take any time",
    "serve/work_queue.py: self._thread.join": "it computes one batch",
    "streams/background_reader.py: self._changed.wait": "a person or a program writes to the pipe, who may take any "
    "time",
}
READS = {
    "files/formats.py": "the first bytes of a file",
    "files/compression.py": "a file that the command has written itself",
    "files/reading.py": "it has the limits",
    "data": "texts, which data/lines.py and data/containers.py limit; and records in the folders of our own corpora",
    "documents/archive.py": "members, which it limits in number, bytes and ratio",
    "synthetic_data": "records in the folders of our own corpora",
    "model_checks/resume.py": "runs that the command has made itself",
    "conversion/pages.py": "a page that the command has made itself, and the answers of its worker",
    "conversion/proof.py": "a file of the package",
    "judge/file.py": "the answers of its child",
    "conversion/convert.py": "a card, which is a regular file",
    "benchmark/machine.py": "files of the system",
    "waits.py": "files of the system",
    "serve/fields.py": "a body of a request, which it limits",
    "serve/languages.py": "a file of the package",
    "serve/models.py": "a file of the system",
    "serve/store.py": "entries that the server has written itself",
    "streams": "texts, which LineSource and ColumnSource limit; and our own half-made files",
    "errors.py": "a record of the installed package",
    "config/tables.py": "recipes, which a user names or writes",
    "sweep/file.py": "the file of a sweep, which a user names",
    "sweep/subprocesses.py": "logs that the command has written itself",
    "cli": "files of the package, and of a user",
    "views/script.py": "files of the package",
    "views/words.py": "a file of the package",
    "views/model_page.py": "files that the command has written itself",
    "text/language_codes.py": "a file of the package",
    "text/tokenizers.py": "files that the command has written itself",
    "text/tokenizer_training.py": "a file that the command has written itself",
    "tracing/trace.py": "a trace, which a user names: it is as large as its tensors",
    "training/log.py": "the log of the run that goes on",
    "training/state.py": "a checkpoint, whose files have digests",
    "training/trackers.py": "a record of the run that goes on",
    "run/folder.py": "the run that goes on, compared with its checkpoint",
    "run/lock.py": "the lock of the run that goes on",
    "weights/tutorials/files.py": "members of an archive, which weights/pickles.py limits",
    "weights/hugging_face/files.py": "the first bytes of weights",
}


Nodes = Sequence[ast.Call | ast.Import | ast.ImportFrom]


def nodes_of(source: str) -> Nodes:
    """The calls and imports in a module's source."""
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call | ast.Import | ast.ImportFrom)]


def modules() -> dict[str, Nodes]:
    """Returns the calls and imports of each module by its path in the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): nodes_of(path.read_text(encoding="utf-8")) for path in paths}


def waiting(nodes: Nodes) -> Iterator[str]:
    """The calls that wait without a limit."""
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, keywords = node.func.attr, {keyword.arg for keyword in node.keywords}
        if name not in WITHOUT_LIMIT | PROGRAMS | {"flock", "urlopen", "open"}:
            continue
        called = ast.unparse(node.func)
        if name == "waitpid" or (name in WITHOUT_LIMIT and not node.args and not keywords & {"timeout", "timeout_s"}):
            yield called
        if name in PROGRAMS and called.startswith("subprocess.") and "timeout" not in keywords:
            yield called
        if name == "flock" and "LOCK_NB" not in ast.unparse(node):
            yield called
        if (name == "urlopen" or called == "opener.open") and "timeout" not in keywords:
            yield called
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "rendezvous":
            if not any(keyword.arg == "timeout" for keyword in node.keywords):
                yield "rendezvous"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
            if {"queue", "Queue", "SimpleQueue", "concurrent.futures"} & set(names):
                yield "queue"


def reading(nodes: Nodes) -> Iterator[str]:
    """The calls that open a file, or read a table, past the modules that limit them."""
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name not in ("loads", "load", "read_text", "read_bytes", "open") and not isinstance(node.func, ast.Name):
            continue
        called = ast.unparse(node.func)
        if called in ("json.loads", "json.load", "tomllib.loads", "tomllib.load", "open") or (
            isinstance(node.func, ast.Attribute) and (
                (node.func.attr == "read_text" and not called.startswith("metadata."))
                or node.func.attr == "read_bytes"
                or (node.func.attr == "open" and not _writes(node) and called != "os.open")
            )
        ):  # fmt: skip
            yield called


def _writes(node: ast.Call) -> bool:
    """Tells whether a file is opened to be written."""
    modes = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return any(mode[:1] in ("w", "a", "x") for mode in modes)


def allowed(path: str, known: dict[str, str], call: str = "") -> set[str]:
    """The exceptions that hold for a call in a module: of the module, of its folder, of this call."""
    return {path, path.split("/")[0], f"{path}: {call}"} & set(known)


def test_nothing_goes_around_the_limits() -> None:
    nodes_by_path = modules()
    for calls, known in ((waiting, WAITS), (reading, READS)):
        found, used = [], set[str]()
        for path, nodes in nodes_by_path.items():
            for call in calls(nodes):
                if not (reasons := allowed(path, known, call)):
                    found.append(f"src/pellucid/{path}: {call}")
                used |= reasons
        assert not found, "these go around waits.py, or files/budget.py and files/reading.py"
        assert used == set(known), "these exceptions are not needed any more"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("process.wait()", 1), ("process.wait(3)", 0), ("thread.join()", 1), ("', '.join(names)", 0),
        ("subprocess.run(['x'])", 1), ("subprocess.run(['x'], timeout=3)", 0), ("import queue", 1),
        ("fcntl.flock(file, fcntl.LOCK_EX)", 1), ("fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)", 0),
        ("opener.open(request)", 1), ("os.waitpid(3, 0)", 1),
        ("rendezvous('env://')", 1), ("rendezvous('env://', timeout=limit)", 0),
    ],
)  # fmt: skip
def test_what_waits_without_a_limit_is_found(source: str, count: int) -> None:
    assert len(list(waiting(nodes_of(source)))) == count


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("json.loads(text)", 1), ("(folder / 'config.json').read_text(encoding='utf-8')", 1), ("path.open('rb')", 1),
        ("path.open('wb')", 0), ("read_text(path, 3)", 0), ("json.dumps(table)", 0), ("open(path)", 1),
    ],
)  # fmt: skip
def test_what_reads_past_a_budget_is_found(source: str, count: int) -> None:
    assert len(list(reading(nodes_of(source)))) == count
