"""`pellucid remember`, and `translate --memory` that uses what it wrote."""

import json
from pathlib import Path

import pytest

from pellucid.data.memory_file import read_memory
from tests.unit.cli.command_line import CommandLine, Outcome


def test_it_adds_corrections(pellucid: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    assert pellucid("remember", path, "a b", "c d") == Outcome(0, f"1 of 1 correction added\n{path}\n", "")
    (tmp_path / "src").write_text("a b\nx\n", encoding="utf-8")
    (tmp_path / "tgt").write_text("c d\ny\n", encoding="utf-8")
    outcome = pellucid("remember", path, "--src", tmp_path / "src", "--tgt", tmp_path / "tgt")
    assert outcome.out == f"1 of 2 corrections added\n{path}\n"
    (tmp_path / "both.tsv").write_text("e\tf\ng\th\n", encoding="utf-8")
    assert pellucid("remember", path, "--src", tmp_path / "both.tsv").out.startswith("2 of 2")
    assert read_memory(path) == [("a b", "c d"), ("x", "y"), ("e", "f"), ("g", "h")]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "one correction or a file of corrections is required"),
        (["a"], "SOURCE requires its translation"),
        (["a", "b", "--src", "x"], "SOURCE and `--src` are both given"),
        (["--src", "x.txt"], "the translations are missing: `--tgt FILE`"),
        (["a", ""], "correction 1 has no translation"),
    ],
)
def test_what_is_refused(pellucid: CommandLine, tmp_path: Path, arguments: list[str], error: str) -> None:
    outcome = pellucid("remember", tmp_path / "memory.sqlite", *arguments)
    assert (outcome.status, outcome.error) == (2, error)
    assert not (tmp_path / "memory.sqlite").exists()


@pytest.mark.slow
def test_translate_uses_it(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("rapidfuzz")
    path, lines, report = tmp_path / "memory.sqlite", tmp_path / "in", tmp_path / "report.json"
    pellucid("remember", path, "a b c", "h h h")
    lines.write_text("a b c\nd e\n", encoding="utf-8")
    given = ["translate", finished_run, "--input", lines, "--memory", path, "--device", "cpu"]
    plain = pellucid(*given, "--report", report)
    assert plain.out.splitlines()[0] == "h h h"
    assert "note: 1 of 2 lines reused from the memory, 0 translated with its terms\n" in plain.err
    table = json.loads(report.read_text(encoding="utf-8"))
    assert table["files"][0]["memory"] == {"reused": 1, "with_terms": 0}
    rows = [json.loads(line) for line in pellucid(*given, "--json", "--workers", "2").out.splitlines()]
    assert rows[0]["memory"] == [{"source": "a b c", "target": "h h h", "similarity": 1.0, "use": "whole"}]
    assert "memory" not in rows[1]
    document = tmp_path / "page.html"
    document.write_text("<p><b>a</b> b c</p>", encoding="utf-8")
    pellucid("translate", finished_run, document, "-o", tmp_path / "out.html", "--memory", path, "--device", "cpu")
    assert "h" in (tmp_path / "out.html").read_text(encoding="utf-8")
    assert (tmp_path / "out.html").read_text(encoding="utf-8").count("<b>") == 1
