"""A translator that starts without PyTorch: the same translations, and never a packed model of other weights."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid.engines.compiled import quick_start
from pellucid.engines.compiled.compiling import Functions
from pellucid.tasks.translator import Translator

pytestmark = pytest.mark.foreign

SCRIPT = """
import json, sys
import pellucid
folder, lines, options = json.loads(sys.argv[1])
t = pellucid.Translator.load(folder, "cpu")
found = [[(h.text, h.score) for h in one.alternatives] for one in t.translate(lines, **options)]
scores = t.score(lines, lines)
imported = "torch" in sys.modules
print(json.dumps([[found, scores], imported, t.trace(lines[0]).faithfulness < 1e-3, repr(t)]))
"""


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, functions: Functions) -> Path:
    """The cache's folder of packed models, beside the compiled functions of this machine."""
    from pellucid.data.download_cache import cache_folder

    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "compiled").symlink_to(cache_folder() / "compiled")
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "packed"


def start(folder: Path, lines: list[str], **options: Any) -> Any:
    """Translates in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([str(folder), lines, options])],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def of(translator: Translator, lines: list[str], **options: Any) -> list[Any]:
    found = [[[h.text, h.score] for h in one.alternatives] for one in translator.translate(lines, **options)]
    return [found, translator.score(lines, lines)]


def test_the_second_process_imports_no_torch_and_writes_the_same(
    finished_run: Path, other_weights: Path, tmp_path: Path, packed: Path
) -> None:
    lines = (finished_run.parent / "train.src").read_text().splitlines()[:5]
    folder = tmp_path / "model"
    shutil.copytree(finished_run, folder)
    expected = of(Translator.load(folder, "cpu"), lines, n_best=2)
    assert not packed.exists(), "this process has imported PyTorch, and the caller may change the model"
    first, second = start(folder, lines, n_best=2), start(folder, lines, n_best=2)
    assert first[0] == second[0] == expected
    assert (first[1], second[1]) == (True, False)
    assert first[2:] == second[2:]
    assert first[2]
    (file,) = packed.iterdir()

    # Other searches open the PyTorch model.
    assert start(folder, lines, min_length=4)[:2] == [of(Translator.load(folder, "cpu"), lines, min_length=4), True]

    # Other weights, and a damaged file, are packed anew.
    for source in (other_weights, finished_run):
        shutil.copy(source / "model.safetensors", folder)
        shutil.copy(source / "pellucid.json", folder)
        expected = of(Translator.load(folder, "cpu"), lines)
        assert [found[:2] for found in (start(folder, lines), start(folder, lines))] == [
            [expected, True], [expected, False],
        ]  # fmt: skip
    os.truncate(file, file.stat().st_size // 2)
    assert [found[:2] for found in (start(folder, lines), start(folder, lines))] == [
        [expected, True], [expected, False],
    ]  # fmt: skip


def test_where_it_does_not_start_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not quick_start.can_start_quickly("cpu", None), "this process has imported PyTorch"
    monkeypatch.delitem(sys.modules, "torch")
    assert quick_start.can_start_quickly("cpu", None)
    assert quick_start.can_start_quickly("cpu", "float32")
    assert not quick_start.can_start_quickly("cpu", "bfloat16")
    assert not quick_start.can_start_quickly("cuda", None)
    monkeypatch.setattr(quick_start, "version", lambda name: "2.13.0")
    monkeypatch.setattr(quick_start.os.path, "exists", lambda path: path == "/dev/nvidiactl")
    assert not quick_start.can_start_quickly("auto", None)
