"""Lines through a translator: their order, and files that are whole or not there."""

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from pellucid.decoding.sampling import SamplingConfig
from pellucid.errors import DataError
from pellucid.tasks.translator import Translator
from pellucid.workflow import streams
from pellucid.workflow.translate import SearchOptions, translate_stream

LINES = ["a b c", "", "d", "h g f e d c b a", "unknown words", "a b c", "  ", "b"]


def run(model: Path, input: Path, output: Path | str, **options: Any) -> None:
    fields = {"search": SearchOptions(beam_size=2), "sampling": None, "as_json": False, "device": "cpu", "dtype": None}
    translate_stream(str(model), str(input), str(output), **fields | options)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return tmp_path / "in"


@pytest.mark.parametrize(("first", "stretch"), [(64, 2048), (1, 1), (1, 3), (3, 100)])
def test_lines_come_out_in_their_order_whatever_the_stretch(
    finished_run: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, stretch: int
) -> None:
    monkeypatch.setattr(streams, "FIRST_STRETCH", first)
    monkeypatch.setattr(streams, "STRETCH", stretch)
    run(finished_run, source, tmp_path / "out")
    translator = Translator.load(finished_run, "cpu")
    expected = [translator.translate([line], beam_size=2)[0].text for line in LINES]
    assert (tmp_path / "out").read_bytes() == "".join(f"{text}\n" for text in expected).encode()
    assert expected[1] == expected[6] == ""


def test_json_has_scores_tokens_and_alternatives(finished_run: Path, source: Path, tmp_path: Path) -> None:
    run(finished_run, source, tmp_path / "out", search=SearchOptions(beam_size=3, n_best=2), as_json=True)
    tables = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]
    translations = Translator.load(finished_run, "cpu").translate(LINES, beam_size=3, n_best=2)
    assert len(tables) == len(LINES)
    for table, translation in zip(tables, translations, strict=True):
        assert table["text"] == translation.text
        assert table["tokens"] == translation.tokens
        assert table["score"] == pytest.approx(translation.score, abs=1e-5)
        alternatives = table.get("alternatives", [table])
        assert [a["text"] for a in alternatives] == [t.text for t in translation.alternatives]
        assert set(alternatives[0]) <= {"text", "score", "tokens"}
    assert [len(table.get("alternatives", [])) for table in tables] == [2, 0, 2, 2, 2, 2, 0, 2]


def test_samples_follow_from_their_seed(finished_run: Path, source: Path, tmp_path: Path) -> None:
    outputs = []
    for seed in (1, 1, 2):
        run(finished_run, source, tmp_path / "out", sampling=SamplingConfig(seed=seed))
        outputs.append((tmp_path / "out").read_text(encoding="utf-8"))
    assert outputs[0] == outputs[1] != outputs[2]
    assert {len(output.splitlines()) for output in outputs} == {len(LINES)}


def test_a_failure_leaves_the_file_that_was_there(finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a b\n" * 100 + b"\xe4\n")
    (tmp_path / "out").write_text("from before\n", encoding="utf-8")
    for output in ("out", "new"):
        with pytest.raises(DataError, match="line 101, byte 1 is 0xe4"):
            run(finished_run, tmp_path / "in", tmp_path / output)
    assert (tmp_path / "out").read_text(encoding="utf-8") == "from before\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_the_input_may_be_the_output(finished_run: Path, source: Path) -> None:
    run(finished_run, source, source)
    assert len(source.read_text(encoding="utf-8").splitlines()) == len(LINES)


def test_a_link_stays_a_link(finished_run: Path, source: Path, tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    run(finished_run, source, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len((tmp_path / "target").read_text(encoding="utf-8").splitlines()) == len(LINES)


def test_a_pipe_is_written_to_and_not_replaced(finished_run: Path, source: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()), daemon=True)
    reader.start()
    run(finished_run, source, tmp_path / "pipe")
    reader.join()
    assert read[0].count(b"\n") == len(LINES)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("output", "reason"),
    [("folder", "it is a folder"), ("no/out", "there is no folder `.*/no`"), ("in/out", "there is no")],
)
def test_where_no_file_can_be_written_nothing_is_translated(
    finished_run: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, reason: str
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(Translator, "translate", lambda *_, **__: pytest.fail("it was translated"))
    with pytest.raises(DataError, match=f"^cannot write to `{re.escape(str(tmp_path / output))}`: {reason}"):
        run(finished_run, source, tmp_path / output)
    assert list((tmp_path / "folder").iterdir()) == []
