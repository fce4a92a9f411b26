"""The cache of compiled functions: one folder per state of all that they depend on, filled by one process."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pellucid.data.download_cache import ENVIRONMENT
from pellucid.engines.compiled import compiling
from pellucid.engines.compiled.compiling import Functions

foreign = pytest.mark.foreign
DIGEST = "0123"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """The folders for which functions are compiled; nothing is, and numba is not called."""
    folders: list[Path | None] = []

    def note(folder: Path | None) -> Any:
        folders.append(folder)
        return Functions(*[print] * 5, 8, 16)

    monkeypatch.setattr(compiling, "_functions", None)
    monkeypatch.setattr(compiling, "_compile", note)
    monkeypatch.setattr(compiling, "compute_digest", lambda: DIGEST)
    monkeypatch.setattr(compiling, "find_missing", lambda: "")
    return folders


def test_it_is_said_once_and_kept(
    compiled: list[Path | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    folder = tmp_path / "compiled" / DIGEST
    assert not compiling.has_compiled_before()
    compiling.get_functions()
    assert compiling.has_compiled_before()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"compiling the search for this processor, once: {compiling.DURATION}; it is kept in `{folder}`\n"
    )
    compiling.get_functions()
    monkeypatch.setattr(compiling, "_functions", None)  # another process
    compiling.get_functions()
    assert compiled == [folder, folder], "compiled, then loaded"
    assert capsys.readouterr().err == ""


def test_an_interrupted_compilation_is_finished_by_the_next_process(
    compiled: list[Path | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))

    def interrupt(folder: Path) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compiling, "_compile", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compiling.get_functions()
    assert not compiling.has_compiled_before()
    compiling.get_functions()
    assert len(compiled) == 1
    assert capsys.readouterr().err.count("once") == 2


def test_without_a_folder_it_is_compiled_in_memory(
    compiled: list[Path | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "file"))  # root may write everywhere, but not below a file
    compiling.get_functions()
    compiling.get_functions()
    assert compiled == [None]
    assert capsys.readouterr().err == (
        f"compiling the search for this process alone, {compiling.DURATION}: "
        f"`{tmp_path / 'file' / 'compiled' / DIGEST}` cannot be written: Not a directory; {ENVIRONMENT} names another "
        "folder\n"
    )


def test_threads_compile_once(compiled: list[Path | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    threads = [threading.Thread(target=compiling.get_functions) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(compiled) == 1


def test_few_folders_are_kept(compiled: list[Path | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    for number in range(6):
        (tmp_path / "compiled" / f"old{number}").mkdir(parents=True)
        os.utime(tmp_path / "compiled" / f"old{number}", (number, number))
    compiling.get_functions()
    assert {path.name for path in (tmp_path / "compiled").iterdir()} == {DIGEST, "old3", "old4", "old5"}


@foreign
def test_the_digest_follows_sources_versions_and_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import numba

    from pellucid.engines.compiled import vectors

    source = tmp_path / compiling.SOURCES[0]
    for name in compiling.SOURCES:
        (tmp_path / name).write_text("a = 1")
        os.utime(tmp_path / name, (1, 1))
    monkeypatch.setattr(compiling, "__file__", str(source))
    found = [compiling.compute_digest(), compiling.compute_digest()]
    assert found[0] == found[1]
    source.write_text("a = 2")
    os.utime(source, (1, 1))
    found.append(compiling.compute_digest())
    os.utime(source, (2, 2))
    found.append(compiling.compute_digest())
    monkeypatch.setattr(numba, "__version__", "0.0.0")
    found.append(compiling.compute_digest())
    monkeypatch.setattr(numba.config, "CPU_NAME", "haswell")
    found.append(compiling.compute_digest())
    monkeypatch.setattr(vectors, "TILE", vectors.TILE * 2)
    found.append(compiling.compute_digest())
    assert len(set(found)) == len(found) - 1


@foreign
@pytest.mark.parametrize(
    ("features", "architecture", "cpu_name", "expected"),
    [
        ({"avx512f": True, "avx2": True, "fma": True}, "x86_64", None, (16, 64)),
        ({"avx512f": True, "avx2": True, "fma": True}, "x86_64", "haswell", (8, 16)),
        ({"avx2": True, "fma": True}, "x86_64", None, (8, 16)),
        ({"avx2": True}, "x86_64", None, (0, 0)),
        ({}, "riscv64", None, (0, 0)),
        ({}, "aarch64", None, (4, 16)),
        ({}, "arm64", None, (4, 16)),
    ],
)
def test_the_tile_follows_the_processor(
    features: dict[str, bool], architecture: str, cpu_name: str | None, expected: tuple[int, int]
) -> None:
    from pellucid.engines.compiled.vectors import choose_lanes

    assert choose_lanes(features, architecture, cpu_name) == expected


USE = """
from pellucid.engines.compiled.engine import CompiledEngine
from pellucid.config import DecodeConfig
from tests.unit.decoding.models import random_model
print(CompiledEngine(random_model(0, sharpness=3.0)).search_all([[3, 4]], DecodeConfig(beam_size=2), None, None))
"""


@foreign
@pytest.mark.slow
@pytest.mark.parametrize("first", ["torch", "numba"])
def test_either_may_be_imported_first(functions: Functions, first: str) -> None:
    """Another process finds the functions in the cache, and compiles nothing."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {first}\n{USE}"], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    from pellucid.config import DecodeConfig
    from pellucid.engines.compiled.engine import CompiledEngine
    from tests.unit.decoding.models import random_model

    engine = CompiledEngine(random_model(0, sharpness=3.0), functions)
    assert done.stdout == f"{engine.search_all([[3, 4]], DecodeConfig(beam_size=2), None, None)}\n"
