"""The file of corrections: what is added, what is read again, what is refused, and what a kill leaves."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pellucid.data.memory_file import identify_memory, read_memory, remember_pairs
from pellucid.errors import DataError

TMX = """<?xml version="1.0"?><tmx version="1.4"><header srclang="de"/><body>
<tu><tuv xml:lang="de"><seg>Ein Hund.</seg></tuv><tuv xml:lang="en-US"><seg>A dog.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Nur deutsch.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Ein Hund.</seg></tuv><tuv xml:lang="en-US"><seg>One dog.</seg></tuv></tu></body></tmx>"""
WRITER = """
import sys
from pellucid.data.memory_file import remember_pairs
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(count):
    remember_pairs(path, [(f"{name} {number} {half}", f"{number} {half}") for half in ("a", "b")])
    print(number, flush=True)
"""


def start_writer(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_the_last_translation_of_a_source_is_added(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    assert remember_pairs(path, [("a", "b"), ("c", "d"), ("a", "b ")]) == 2
    assert remember_pairs(path, [("a", "b"), ("c", "d")]) == 0
    assert remember_pairs(path, [("a", "e")]) == 1
    assert read_memory(path) == [("a", "b"), ("c", "d"), ("a", "e")]


def test_a_model_folder_has_its_memory(tmp_path: Path) -> None:
    assert remember_pairs(tmp_path, [("a", "b")]) == 1
    assert read_memory(tmp_path) == read_memory(tmp_path / "memory.sqlite") == [("a", "b")]


def test_units_of_other_languages_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    remember_pairs(path, [("a", "b")], ("de", "en"))
    remember_pairs(path, [("a", "c")], ("de", "fr"))
    remember_pairs(path, [("a", "d")])
    assert [target for _, target in read_memory(path, ("de", "fr"))] == ["c", "d"]
    assert [target for _, target in read_memory(path, ("", "en"))] == ["b", "d"]
    assert len(read_memory(path)) == 3


def test_tmx_is_read(tmp_path: Path) -> None:
    path = tmp_path / "memory.tmx"
    path.write_text(TMX, encoding="utf-8")
    pairs = [("Ein Hund.", "A dog."), ("Ein Hund.", "One dog.")]
    assert read_memory(path) == read_memory(path, ("de", "en")) == pairs
    assert read_memory(path, ("en", "de")) == [(target, source) for source, target in pairs]


def test_a_change_is_seen_even_if_the_size_stays(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    remember_pairs(path, [("a", "b")])
    before, times = identify_memory(path), path.stat()
    remember_pairs(path, [("a", "c")])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    assert identify_memory(path) != before


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="correction 2 has no translation"):
        remember_pairs(tmp_path / "m.sqlite", [("a", "b"), ("c", " ")])
    assert not (tmp_path / "m.sqlite").exists()
    text = tmp_path / "text.tmx"
    text.write_text(TMX, encoding="utf-8")
    with pytest.raises(DataError, match=r"text\.tmx` is no file of corrections"):
        remember_pairs(text, [("a", "b")])
    assert text.read_text(encoding="utf-8") == TMX
    (tmp_path / "plain.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"plain\.txt` is no translation memory"):
        read_memory(tmp_path / "plain.txt")
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE units (a)")
    for call in (lambda: remember_pairs(other, [("a", "b")]), lambda: read_memory(other)):
        with pytest.raises(DataError, match="is a database of another program"):
            call()
    broken = tmp_path / "broken.sqlite"
    remember_pairs(broken, [(f"{n}", "b" * 99) for n in range(200)])
    broken.write_bytes(broken.read_bytes()[:6000])
    with pytest.raises(DataError, match=r"broken\.sqlite` could not be read"):
        read_memory(broken)


@pytest.mark.slow
def test_two_processes_add_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    writers = [start_writer(path, name, 40) for name in ("one", "two")]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    sources = {source for source, _ in read_memory(path)}
    assert sources == {f"{name} {n} {half}" for name in ("one", "two") for n in range(40) for half in ("a", "b")}


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_that_it_has_reported(tmp_path: Path) -> None:
    """Each of 20 writers is killed at another moment; what it reported is there, and each call as a whole."""
    path = tmp_path / "memory.sqlite"
    reported = set[str]()
    for trial in range(20):
        with start_writer(path, f"{trial}", 1_000) as writer:
            assert writer.stdout is not None
            first = writer.stdout.readline()  # it has begun to write
            time.sleep(0.003 * trial)
            writer.send_signal(signal.SIGKILL)
            last = [first, *writer.communicate(timeout=60)[0].splitlines(keepends=True)][-1]
        complete = int(last) + (last.endswith("\n") - 1)
        reported |= {f"{trial} {n} {half}" for n in range(complete + 1) for half in ("a", "b")}
    found = [source for source, _ in read_memory(path)]
    assert reported <= set(found)
    assert len(found) == len(set(found)) <= len(reported) + 2 * 20
    assert {source.removesuffix(" a") for source in found if source.endswith("a")} == {
        source.removesuffix(" b") for source in found if source.endswith("b")
    }
    assert remember_pairs(path, [("x", "y")]) == 1
