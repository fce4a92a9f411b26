"""Folders of texts: what one command does, what it leaves when it is stopped, and what the next one makes of that."""

import fcntl
import gzip
import json
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from pellucid import Translator
from pellucid.data import chunks
from pellucid.errors import DataError, DecodingError
from pellucid.streams.folder_translation import BulkTranslation
from pellucid.streams.partial_output import PartialOutput
from pellucid.streams.translate_job import Translating
from pellucid.tasks.quality_flags import Flag
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.translation import Translation
from tests.processes import run_python
from tests.unit.cli.command_line import CommandLine

LINES = [" ".join("abcdefgh"[(n * k + k) % 8] for k in range(1, n % 7 + 2)) for n in range(1, 200)]
pytestmark = pytest.mark.usefixtures("unflagged")
DAMAGED = gzip.compress("\n".join(LINES).encode() * 40, mtime=0)[:300]


def command(run: Path, folder: Path, *options: object) -> list[object]:
    folders = ["--input-dir", folder / "in", "--output-dir", folder / "out"]
    return ["translate", run, *folders, "--beam-size", "1", "--device", "cpu", "--threads", "1", *options]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder with `in`: files as people have them."""
    folder = tmp_path / "in"
    (folder / "of two" / "names").mkdir(parents=True)
    (folder / "a").write_text("".join(f"{line}\n" for line in LINES[:90]), encoding="utf-8")
    (folder / "b.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in LINES[90:180]).encode()))
    (folder / "of two" / "names" / "c d").write_bytes("".join(f"{line}\r\n" for line in LINES[180:190]).encode())
    (folder / "empty").write_bytes(b"")
    (folder / "none.gz").write_bytes(b"")
    (folder / "open").write_bytes("\n".join(LINES[190:]).encode())
    (folder / ".hidden").write_bytes(b"\xff\xff")
    return tmp_path


def outputs(folder: Path) -> dict[str, bytes]:
    """All outputs, uncompressed."""
    found = [
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".") and ".pellucid" not in path.parts
    ]
    read = {path: path.read_bytes() for path in found}
    return {
        path.relative_to(folder).as_posix(): gzip.decompress(data) if path.suffix == ".gz" and data else data
        for path, data in read.items()
    }


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """When each file of a folder was written, and which it is."""
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_each_file_is_what_the_command_for_a_file_writes(
    pellucid: CommandLine, finished_run: Path, texts: Path
) -> None:
    done = pellucid(*command(finished_run, texts))
    assert (done.status, done.out, done.err) == (0, "", "6 files: 6 translated (199 lines)\n")
    found = outputs(texts / "out")
    names = ("a", "b.gz", "empty", "none.gz", "of two/names/c d", "open")
    assert tuple(sorted(found)) == names
    for name in names:
        words = ["translate", finished_run, "--input", texts / "in" / name, "--beam-size", "1", "--device", "cpu"]
        assert pellucid(*words, "--threads", "1").out.encode() == found[name]
    assert len(set(found["a"].splitlines())) > 2
    assert b"\r" not in b"".join(found.values())


def test_what_is_done_is_not_done_again(pellucid: CommandLine, finished_run: Path, texts: Path) -> None:
    pellucid(*command(finished_run, texts))
    before = stamps(texts / "out")
    with patch.object(Translator, "process_lines", side_effect=AssertionError("something was translated")):
        again = pellucid(*command(finished_run, texts))
    assert (again.status, again.err) == (
        0, f"checking existing files in `{texts / 'out'}`\n6 files: none translated, 6 done before\n"
    )  # fmt: skip
    assert stamps(texts / "out") == before


@pytest.mark.slow
def test_a_column_decides_no_lines_of_text(pellucid: CommandLine, finished_run: Path, texts: Path) -> None:
    pellucid(*command(finished_run, texts))
    before = stamps(texts / "out")
    again = pellucid(*command(finished_run, texts, "--column", "text"))
    assert again.err.endswith("6 files: none translated, 6 done before\n")
    assert stamps(texts / "out") == before


def test_a_changed_input_or_output_is_noticed(pellucid: CommandLine, finished_run: Path, texts: Path) -> None:
    pellucid(*command(finished_run, texts))
    first, before = outputs(texts / "out"), stamps(texts / "out")
    (texts / "in" / "a").write_text("a b\n", encoding="utf-8")
    (texts / "out" / "open").write_text("something\n", encoding="utf-8")
    (texts / "out" / "b.gz").unlink()
    (texts / "out" / ".pellucid" / "empty.json").write_text("{", encoding="utf-8")
    os.utime(texts / "in" / "of two" / "names" / "c d")  # whose text is the same
    again = pellucid(*command(finished_run, texts))
    assert again.err.splitlines()[1:] == [
        "1 file is translated again: their inputs have changed",
        "1 file is translated again: their outputs are missing",
        "1 file is translated again: their outputs have no record",
        "1 file is translated again: their outputs have been changed",
        "6 files: 4 translated (100 lines), 2 done before",
    ]
    found = outputs(texts / "out")
    assert {name for name in first if first[name] != found[name]} == {"a"}
    assert len(found["a"].splitlines()) == 1
    same = str(texts / "out" / "of two" / "names" / "c d")
    assert stamps(texts / "out")[same] == before[same]


@pytest.mark.slow
def test_outputs_of_another_command_are_not_replaced_unasked(
    pellucid: CommandLine, finished_run: Path, texts: Path
) -> None:
    pellucid(*command(finished_run, texts))
    before = stamps(texts / "out")
    other = pellucid(*command(finished_run, texts, "--beam-size", "2"))
    assert other.status == 2
    path = texts / "out" / "a"
    assert f"error: `{path}` is the output of another command with other `beam_size`\n\nhint: name another folder by "
    assert other.err.endswith("set `--output-dir` to another folder, or start over with `--fresh`\n")
    assert stamps(texts / "out") == before
    fresh = pellucid(*command(finished_run, texts, "--beam-size", "2", "--fresh"))
    assert fresh.status == 0
    assert "6 files are translated again: a fresh start was requested\n" in fresh.err
    record = json.loads((texts / "out" / ".pellucid" / "a.json").read_text(encoding="utf-8"))
    assert (record["command"]["beam_size"], record["lines"]) == (2, 90)


@pytest.mark.slow
def test_a_file_that_cannot_be_translated_costs_none_of_the_others(
    pellucid: CommandLine, finished_run: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("FEWEST", "MOST"):
        monkeypatch.setattr(chunks, bound, 64)
    whole = (texts / "in" / "b.gz").read_bytes()
    (texts / "in" / "b.gz").write_bytes(DAMAGED)
    (texts / "in" / "bad").write_bytes("".join(f"{line}\n" for line in LINES[:70]).encode() + b"a \xff\n")
    (texts / "in" / "lost").symlink_to("nowhere")
    os.mkfifo(texts / "in" / "pipe")
    done = pellucid(*command(finished_run, texts))
    assert done.status == 1
    told, lines = sorted(done.err.splitlines()[:4]), done.err.splitlines()
    assert told[0].startswith(f"failed: `{texts / 'in' / 'b.gz'}` is a damaged gzip file after line ")
    assert told[1].startswith(f"failed: `{texts / 'in' / 'bad'}` is not UTF-8: line 71, byte 3 is 0xff (")
    assert told[2].startswith(f"failed: cannot read `{texts / 'in' / 'lost'}`: no such file")
    assert told[3].startswith(f"failed: cannot read `{texts / 'in' / 'pipe'}`: it is not a regular file")
    assert lines[4:] == [
        "9 files: 5 translated (109 lines), 4 failed",
        "failed: `b.gz`, `bad`, `lost`, `pipe`; run the same command again to retry them",
    ]
    assert sorted(outputs(texts / "out")) == ["a", "empty", "none.gz", "of two/names/c d", "open"]

    (texts / "in" / "lost").unlink()
    (texts / "in" / "pipe").unlink()
    (texts / "in" / "b.gz").write_bytes(whole)
    mended = (texts / "in" / "bad").read_bytes().replace(b"\xff", b"b")
    (texts / "in" / "bad").write_bytes(mended)
    again = pellucid(*command(finished_run, texts))
    assert again.status == 0
    assert (
        f"resuming after line 64: `{texts / 'out' / '.pellucid' / 'bad.partial'}` has the lines before it" in again.err
    )
    assert again.err.endswith("7 files: 2 translated (97 lines), 5 done before\n")
    assert len(outputs(texts / "out")["bad"].splitlines()) == 71


@pytest.mark.slow
def test_lines_that_are_not_utf8_are_treated_as_in_a_file(
    pellucid: CommandLine, finished_run: Path, texts: Path
) -> None:
    (texts / "in" / "a").write_bytes(b"a b\nc \xff d\na\n")
    assert pellucid(*command(finished_run, texts, "--on-bad-utf8", "skip", "--json")).status == 0
    lines = outputs(texts / "out")["a"].decode().splitlines()
    assert [json.loads(line) is None for line in lines] == [False, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_is_stopped_goes_on(
    pellucid: CommandLine, finished_run: Path, texts: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    for bound in ("FEWEST", "MOST"):
        monkeypatch.setattr(chunks, bound, 64)
    pellucid(*command(finished_run, texts))
    whole = {name: (texts / "out" / name).read_bytes() for name in outputs(texts / "out")}
    (texts / "out").rename(texts / "first")
    writes, write = [0], PartialOutput.write

    def stopping(self: PartialOutput, *arguments: Any) -> None:
        writes[0] += 1
        if writes[0] == 4:
            raise stop
        write(self, *arguments)

    with patch.object(PartialOutput, "write", stopping):
        stopped = pellucid(*command(finished_run, texts))
    assert stopped.status == (130 if isinstance(stop, KeyboardInterrupt) else 1)
    assert "6 files: 1 translated (90 lines), 5 not done: run the same command again to continue\n" in stopped.err
    if isinstance(stop, OSError):
        path = texts / "out" / "b.gz"
        assert stopped.err.endswith(
            f"error: cannot write to `{path}`: No space left on device\n\nhint: free disk space, or name another "
            f"folder\n"
        )
    assert sorted(outputs(texts / "out")) == ["a"]
    done = stamps(texts / "out")[str(texts / "out" / "a")]
    again = pellucid(*command(finished_run, texts))
    assert again.status == 0
    assert f"resuming after line 64: `{texts / 'out' / '.pellucid' / 'b.gz.partial'}`" in again.err
    assert {name: (texts / "out" / name).read_bytes() for name in outputs(texts / "out")} == whole
    assert stamps(texts / "out")[str(texts / "out" / "a")] == done
    assert not [*(texts / "out").rglob("*.partial*")]


@pytest.mark.slow
def test_a_search_that_fails_is_of_its_file(pellucid: CommandLine, finished_run: Path, texts: Path) -> None:
    answer = Translator.process_lines

    def failing(self: Translator, lines: Sequence[str], place: int, **options: Any) -> Any:
        if "poison" in lines:
            raise DecodingError("the logits are not finite")
        return answer(self, lines, place, **options)

    (texts / "in" / "b").write_text("".join(f"{line}\n" for line in LINES[:64]) + "poison\n", encoding="utf-8")
    with patch.object(Translator, "process_lines", failing):
        done = pellucid(*command(finished_run, texts))
    assert done.status == 1
    assert done.err.splitlines() == [
        "failed: the logits are not finite",
        "7 files: 6 translated (199 lines), 1 failed",
        "failed: `b`; run the same command again to retry them",
    ]
    with patch.object(Translator, "process_lines", side_effect=RuntimeError("nothing works")):
        nothing = pellucid(*command(finished_run, texts, "--fresh"))
    assert (nothing.status, nothing.err.splitlines()[-3]) == (1, "error: RuntimeError: nothing works")


@pytest.mark.parametrize("error", [DataError("line 1 has a term that is too long"), DecodingError("not finite")])
def test_an_error_of_a_text_never_counts_against_the_next_file(
    pellucid: CommandLine, finished_run: Path, texts: Path, error: Exception
) -> None:
    answer = Translator.process_lines

    def failing(self: Translator, lines: Sequence[str], place: int, **options: Any) -> Any:
        if "poison" in lines:
            raise error
        return answer(self, lines, place, **options)

    for name in ("0", "1", "2", "3"):
        (texts / "in" / name).write_text("poison\n", encoding="utf-8")
    with patch.object(Translator, "process_lines", failing):
        done = pellucid(*command(finished_run, texts))
    assert done.status == 1
    assert "10 files: 6 translated (199 lines), 4 failed" in done.err


@pytest.mark.slow
def test_files_that_failed_are_tried_last(pellucid: CommandLine, finished_run: Path, texts: Path) -> None:
    """What is no error of a text ends the command after three files; the next one begins behind them."""
    answer, unlucky = Translator.process_lines, "h h h h h h h h h"

    def failing(self: Translator, lines: Sequence[str], place: int, **options: Any) -> Any:
        if unlucky in lines:
            raise RuntimeError("out of luck")
        return answer(self, lines, place, **options)

    for name in ("0", "1", "2"):
        (texts / "in" / name).write_text(f"{unlucky}\n", encoding="utf-8")
    with patch.object(Translator, "process_lines", failing):
        first = pellucid(*command(finished_run, texts))
        second = pellucid(*command(finished_run, texts))
    assert "9 files: none translated" in first.err
    assert "9 files: 6 translated (199 lines)" in second.err
    third = pellucid(*command(finished_run, texts))
    assert third.status == 0
    assert not [*(texts / "out").rglob("*.failed")]


@pytest.mark.parametrize("names", [
    ("doc", "doc.json/part"), ("doc", "doc.partial/part"), ("doc", "doc.partial"), ("x" * 250, "y"),
    ("doc", "doc.failed", "doc.json", "doc.partial.json"),
])  # fmt: skip
def test_names_that_our_own_files_could_have(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, names: Sequence[str]
) -> None:
    for name in names:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        line = f'"{LINES[5]}"' if name.endswith(".json") else LINES[5]  # the name of a document
        (tmp_path / "in" / name).write_text(f"{line}\n", encoding="utf-8")
    done = pellucid(*command(finished_run, tmp_path))
    parts = sum(name.endswith(".json") for name in names)
    told = f"{len(names)} files: {len(names)} translated ({len(names) - parts} lines"
    assert (done.status, done.err.partition(f", {parts} units" if parts else ")")[0]) == (0, told)
    (tmp_path / "in" / names[0]).unlink()
    again = pellucid(*command(finished_run, tmp_path))
    assert f"{len(names) - 1} done before\n" in again.err
    assert "without an input file" in again.err


@pytest.mark.parametrize("which", ["in/a", "out/.pellucid/a.json", "out/empty"])
def test_a_pipe_in_the_place_of_what_is_done_is_not_waited_for(
    pellucid: CommandLine, finished_run: Path, texts: Path, which: str
) -> None:
    pellucid(*command(finished_run, texts))
    (texts / which).unlink()
    os.mkfifo(texts / which)
    again = pellucid(*command(finished_run, texts))
    assert again.status == (1 if which == "in/a" else 0)
    assert "5 done before" in again.err


def test_a_link_in_the_place_of_a_half_made_output_is_not_written_through(
    pellucid: CommandLine, finished_run: Path, texts: Path
) -> None:
    (texts / "mine").write_text("mine\n", encoding="utf-8")
    (texts / "out" / ".pellucid").mkdir(parents=True)
    (texts / "out" / ".pellucid" / "a.partial").symlink_to(texts / "mine")
    done = pellucid(*command(finished_run, texts))
    assert done.status == 1
    assert "a.partial` is not a regular file" in done.err
    assert (texts / "mine").read_text(encoding="utf-8") == "mine\n"


KILLS_ITSELF = """
import os, signal, sys
from pathlib import Path
from pellucid import Translator
from pellucid.cli.main import main

answer = Translator.process_lines
marks, deaths = Path(sys.argv[1]), int(sys.argv[2])

def dying(self, lines, place, **options):
    mark = marks / str(len(list(marks.iterdir())))
    if "poison" in lines and len(list(marks.iterdir())) < deaths:
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(self, lines, place, **options)

Translator.process_lines = dying
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("deaths", [1, 100])
def test_a_worker_that_dies_is_replaced(pellucid: CommandLine, finished_run: Path, texts: Path, deaths: int) -> None:
    with (texts / "in" / "a").open("a", encoding="utf-8") as file:
        file.write("poison\n")
    (texts / "marks").mkdir()
    words = command(finished_run, texts, "--workers", "2")
    done = run_python("-c", KILLS_ITSELF, texts / "marks", deaths, *words)
    assert (
        "was killed by SIGKILL, which is what the system does where memory runs out; the other workers continue\n"
        in done.stderr
    )
    if deaths > 1:
        assert done.returncode == 1
        assert "error: worker " in done.stderr
        assert len([*(texts / "marks").iterdir()]) < 5
        return
    # How many lines were left for the others to do depends on when it died.
    assert re.fullmatch(r"6 files: 6 translated \(\d+ lines\)", done.stderr.splitlines()[-2])
    assert done.returncode == 0
    (texts / "out").rename(texts / "first")
    pellucid(*command(finished_run, texts))
    assert outputs(texts / "first") == outputs(texts / "out")


@pytest.mark.slow
def test_shares_of_several_workers_are_the_whole(pellucid: CommandLine, finished_run: Path, texts: Path) -> None:
    for number in (2, 1, 3):
        done = pellucid(*command(finished_run, texts, "--worker", f"{number}/3"))
        assert (done.status, done.err.startswith("2 files: 2 translated (")) == (0, True)
    assert pellucid(*command(finished_run, texts)).err.endswith("6 files: none translated, 6 done before\n")


def test_what_another_process_writes_is_left_to_it(pellucid: CommandLine, finished_run: Path, texts: Path) -> None:
    own = texts / "out" / ".pellucid"
    own.mkdir(parents=True)
    with (own / "a.partial").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = pellucid(*command(finished_run, texts))
    assert (done.status, done.err) == (0, "6 files: 5 translated (109 lines), 1 held by another process\n")
    assert "a" not in outputs(texts / "out")


@pytest.mark.slow
def test_an_output_without_an_input_is_told(pellucid: CommandLine, finished_run: Path, texts: Path) -> None:
    pellucid(*command(finished_run, texts))
    (texts / "in" / "open").unlink()
    again = pellucid(*command(finished_run, texts))
    assert again.err.startswith(f"note: 1 file is in `{texts / 'out'}` without an input file: `open`\n")


def test_python_does_the_same(finished_run: Path, texts: Path, pellucid: CommandLine) -> None:
    pellucid(*command(finished_run, texts))
    (texts / "out").rename(texts / "first")
    translating = Translating(model=str(finished_run), loading={"device": "cpu"}, options=SearchOptions(beam_size=1))
    bulk = BulkTranslation(translating, str(texts / "in"), str(texts / "out"))
    found = [*bulk.translate(bulk.names())]
    assert [(each.state, each.lines) for each in found] == [
        ("translated", lines) for lines in (90, 90, 0, 0, 10, 9)
    ]  # fmt: skip
    assert [each.state for each in bulk.translate(["a"])] == ["done before"]
    for path in (texts / "out").rglob("*"):
        assert path.is_dir() or path.read_bytes() == (texts / "first" / path.relative_to(texts / "out")).read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--worker", "3/2"), "`--worker 3/2` must be a number and a total, from 1/N to N/N"),
        (("--worker", "0/2"), "`--worker 0/2` must be a number and a total, from 1/N to N/N"),
        (("--worker", "1/2", "--ray", "local"), "`--worker 1/2` is for schedulers, but Ray itself distributes"),
        (("--input", "x"), "--input cannot be used with `--input-dir`"),
        (("--output", "x"), "--output cannot be used with `--input-dir`"),
        (("--workers", "2", "--engine", "ctranslate2"), "`--workers 2` is for other engines: ctranslate2 itself"),
        (("--input-dir", "nowhere"), "`nowhere` does not exist"),
        (("--n-best", "2"), "`--n-best 2` requires `--json`: plain output has one line per sentence"),
    ],
)
def test_what_does_not_go_together_is_refused(
    pellucid: CommandLine, finished_run: Path, texts: Path, options: tuple[str, ...], message: str
) -> None:
    done = pellucid(*command(finished_run, texts, *options))
    assert done.status == 2
    assert done.error.startswith(message)
    assert not (texts / "out").exists()


def test_folders_that_cannot_be_are_refused(pellucid: CommandLine, finished_run: Path, texts: Path) -> None:
    inside = pellucid(*command(finished_run, texts, "--output-dir", texts / "in" / "x"))
    assert inside.error.endswith("must not contain each other: outputs would be inputs")
    (texts / "void").mkdir()
    assert pellucid(*command(finished_run, texts, "--input-dir", texts / "void")).error.startswith("no files in")
    taken = pellucid(*command(finished_run, texts, "--output-dir", texts / "in" / "a"))
    assert taken.error == f"`{texts / 'in' / 'a'}` is a file, not a folder"
    alone = pellucid("translate", finished_run, "--input-dir", texts / "in")
    assert alone.error == "`--input-dir` requires --output-dir"
    stray = pellucid("translate", finished_run, "a", "--worker", "1/2")
    assert stray.error == "`--worker 1/2` requires --input-dir"


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_whole(finished_run: Path, texts: Path, pellucid: CommandLine) -> None:
    """By a real signal, in a process of its own."""
    stops = "import os, signal, sys\nfrom pellucid.streams.partial_output import PartialOutput\n" + (
        "write = PartialOutput.write\n"
        "def stopping(self, *arguments):\n"
        "    write(self, *arguments)\n"
        "    if self.target.name == 'b.gz':\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "PartialOutput.write = stopping\n"
        "from pellucid.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    stopped = run_python("-c", stops, *command(finished_run, texts, "--workers", "2"))
    assert stopped.returncode == 128 + signal.SIGTERM
    assert "interrupted by SIGTERM" in stopped.stderr
    assert [path.name for path in (texts / "out" / ".pellucid").glob("*.partial")] == ["b.gz.partial"]
    assert pellucid(*command(finished_run, texts)).status == 0


def test_a_report_of_all_files(
    pellucid: CommandLine, finished_run: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stand(self: Translator, lines: Sequence[str], place: int, **options: object) -> list[Translation]:
        flags = (Flag("loop", "ha ha ha"),)
        return [Translation(line, 0.0, [], flags=flags if line == LINES[6] else ()) for line in lines]

    monkeypatch.setattr(Translator, "process_lines", stand)
    report = texts / "report.json"
    done = pellucid(*command(finished_run, texts, "--report", report))
    found = json.loads(report.read_text(encoding="utf-8"))
    totals = {each["file"]: (each["lines"], each["flags"].get("loop", 0)) for each in found["files"]}
    assert sum(lines for lines, _ in totals.values()) == 199
    assert sum(loops for _, loops in totals.values()) == len(found["flagged"]) > 0
    for each in found["flagged"]:
        name, _, number = each["place"].rpartition(":")
        lines = outputs(texts / "in")[name].decode().splitlines()
        assert lines[int(number) - 1] == each["source"] == LINES[6]
    assert done.err.endswith("loop (--report FILE lists them)\n")
    refused = pellucid(*command(finished_run, texts, "--report", report, "--ray", "local"))
    assert refused.error.startswith(f"`--report {report}` cannot be combined with `--ray local`")
