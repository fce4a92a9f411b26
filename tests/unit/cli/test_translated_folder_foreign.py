"""Folders with Zstandard and Parquet files, and folders that Ray translates: what one process writes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.files.compression import zstd
from tests.unit.cli.command_line import CommandLine
from tests.unit.cli.test_translate_folder import LINES, command, outputs, texts

pytestmark = pytest.mark.foreign
__all__ = ["texts"]


def answers(pellucid: CommandLine, run: Path, folder: Path, lines: list[str]) -> list[str]:
    """What the command for a file writes."""
    (folder / "lines").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    words = ["--input", folder / "lines", "--beam-size", "1", "--device", "cpu", "--threads", "1"]
    return pellucid("translate", run, *words).out.splitlines()


def test_zstandard_in_and_out(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    text = "".join(f"{line}\n" for line in LINES).encode()
    # Two frames, as programs that work side by side write them.
    (tmp_path / "in" / "x.zst").write_bytes(zstd().compress(text[:1000]) + zstd().compress(text[1000:]))
    assert pellucid(*command(finished_run, tmp_path)).status == 0
    written = zstd().decompress((tmp_path / "out" / "x.zst").read_bytes()).decode()
    assert written.splitlines() == answers(pellucid, finished_run, tmp_path, LINES)

    (tmp_path / "in" / "x.zst").write_bytes(zstd().compress(text)[:-20])
    done = pellucid(*command(finished_run, tmp_path))
    assert done.status == 1
    assert f"failed: `{tmp_path / 'in' / 'x.zst'}` is a damaged Zstandard file after line " in done.err


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder with `in/x.parquet`: numbers, texts of which one is null, and names."""
    import pyarrow
    from pyarrow import parquet

    (tmp_path / "in").mkdir()
    found: list[str | None] = [*LINES]
    found[70] = None
    table = pyarrow.table({"id": range(len(LINES)), "text": found, "name": LINES[::-1]})
    parquet.write_table(table, tmp_path / "in" / "x.parquet", row_group_size=50)
    return tmp_path


def test_a_column_of_parquet(pellucid: CommandLine, finished_run: Path, tables: Path) -> None:
    from pyarrow import parquet

    which = pellucid(*command(finished_run, tables))
    assert which.status == 1
    path = tables / "in" / "x.parquet"
    assert f"failed: `{path}` has several columns of strings: `text`, `name` (select one with `--column`)" in which.err
    other = pellucid(*command(finished_run, tables, "--column", "tekst"))
    assert "no column of strings that `--column tekst` names; did you mean `text`? (its columns of" in other.err
    assert pellucid(*command(finished_run, tables, "--column", "text")).status == 0
    written = parquet.read_table(tables / "out" / "x.parquet")
    expected: list[str | None] = [*answers(pellucid, finished_run, tables, LINES)]
    expected[70] = None
    assert written.column_names == ["id", "text", "name", "translation"]
    assert written["translation"].to_pylist() == expected
    assert written.drop_columns("translation").equals(parquet.read_table(path))

    again = pellucid(*command(finished_run, tables, "--column", "text"))
    assert again.err.endswith("1 file: none translated, 1 done before\n")


def test_a_damaged_table_fails_alone(pellucid: CommandLine, finished_run: Path, tables: Path) -> None:
    data = (tables / "in" / "x.parquet").read_bytes()
    (tables / "in" / "cut.parquet").write_bytes(data[:500])
    (tables / "in" / "bent.parquet").write_bytes(data[:200] + bytes(400) + data[600:])
    done = pellucid(*command(finished_run, tables, "--column", "text"))
    assert done.status == 1
    assert f"failed: `{tables / 'in' / 'cut.parquet'}` is damaged, or not a Parquet file: " in done.err
    assert f"failed: `{tables / 'in' / 'bent.parquet'}` is damaged, or not a Parquet file: " in done.err
    assert "3 files: 1 translated (199 lines), 2 failed\n" in done.err


def test_a_cluster_that_is_not_there_is_told(
    pellucid: CommandLine, finished_run: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)  # by the cluster of another test in this process
    done = pellucid(*command(finished_run, texts, "--ray", "127.0.0.1:9"))
    assert (done.status, done.err.count("error: no Ray cluster answers: `--ray 127.0.0.1:9`: ")) == (2, 1)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A cluster of Ray on this machine."""
    import ray

    for attempt in range(3):
        try:
            ray.init(
                "local", num_cpus=2, include_dashboard=False, log_to_driver=False,
                runtime_env={
                    "env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
                },
            )  # fmt: skip
            break
        except Exception as error:  # on a machine with much other work the cluster is not up within Ray's 30 s
            if "timed out during startup" not in str(error) or attempt == 2:
                raise
            ray.shutdown()
    yield ray
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_ray_writes_the_same_though_an_actor_is_killed(
    ray: Any, pellucid: CommandLine, finished_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(12):
        lines = LINES[number:] * 20
        (tmp_path / "in" / f"{number:02}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "in" / "bad").write_bytes(b"\xff\n")
    assert pellucid(*command(finished_run, tmp_path)).status == 1
    (tmp_path / "out").rename(tmp_path / "one")
    (tmp_path / "in" / "bad").unlink()
    killer = subprocess.Popen([sys.executable, "-c", KILLS_AN_ACTOR, str(tmp_path / "out" / ".pellucid")])
    done = pellucid(*command(finished_run, tmp_path, "--workers", "2", "--ray", "auto"))
    assert done.status == 0, done.err
    assert killer.wait(timeout=10) == 0, "no actor was found with an open output"
    assert "12 files: " in done.err
    assert outputs(tmp_path / "out") == outputs(tmp_path / "one")
    again = pellucid(*command(finished_run, tmp_path, "--ray", "auto"))
    assert again.err.splitlines()[-1] == "12 files: none translated, 12 done before"


@pytest.mark.filterwarnings("ignore")
def test_ray_translates_the_documents_of_a_folder(
    ray: Any, pellucid: CommandLine, finished_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "in" / "po").mkdir(parents=True)
    (tmp_path / "in" / "page.html").write_text("<html lang=de><title>a b</title><p>b <b>a</b> c</html>", "utf-8")
    (tmp_path / "in" / "po" / "x.po").write_text('msgid ""\nmsgstr ""\n\nmsgid "a b"\nmsgstr ""\n', "utf-8")
    (tmp_path / "in" / "lines").write_text("a b\nb c\n", encoding="utf-8")
    (tmp_path / "in" / "cut.docx").write_bytes(b"PK\3\4")
    one = pellucid(*command(finished_run, tmp_path, "--tgt-lang", "en"))
    assert (one.status, "cut.docx` is a damaged archive" in one.err) == (1, True), one.err
    (tmp_path / "out").rename(tmp_path / "one")
    by_ray = pellucid(*command(finished_run, tmp_path, "--tgt-lang", "en", "--ray", "auto"))
    assert (by_ray.status, "cut.docx` is a damaged archive" in by_ray.err) == (1, True), by_ray.err
    assert set(by_ray.err.splitlines()[-2:]) <= set(one.err.splitlines())  # notes on texts follow there
    assert outputs(tmp_path / "out") == outputs(tmp_path / "one")
    assert sorted(outputs(tmp_path / "out")) == ["lines", "page.html", "po/x.po"]
    again = pellucid(*command(finished_run, tmp_path, "--tgt-lang", "en"))
    assert "4 files: none translated, 3 done before, 1 failed" in again.err


KILLS_AN_ACTOR = """
import os, signal, sys, time
from pathlib import Path

parent = os.getppid()
while os.getppid() == parent:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            handles = [os.readlink(each) for each in (process / "fd").iterdir()]
        except OSError:
            continue
        if any(each.startswith(sys.argv[1]) and each.endswith(".partial") for each in handles):
            os.kill(int(process.name), signal.SIGKILL)
            sys.exit(0)
    time.sleep(0.01)
"""
"""Kills the first process that has a half-made output open, however late the actors start; ends with its parent."""
