"""Lines through a translator: their order, and files that are whole or not there."""

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli.translate import translate
from pellucid.data import chunks
from pellucid.errors import ConfigError, DataError
from pellucid.tasks.translator import Translator

LINES = ["a b c", "", "d", "h g f e d c b a", "unknown a b c d e", "a b c", "  ", "b"]


def run(model: Path, input: Path, output: Path | str, **options: Any) -> None:
    fields: dict[str, Any] = {"beam_size": None if options.get("sample") else 2, "device": "cpu"} | options
    assert translate(str(model), input=str(input), output=str(output), **fields) == 0


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return tmp_path / "in"


@pytest.mark.slow
@pytest.mark.parametrize(("first", "chunk"), [(64, 2048), (1, 1), (1, 3), (3, 100)])
def test_lines_come_out_in_their_order_whatever_the_stretch(
    finished_run: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, chunk: int
) -> None:
    monkeypatch.setattr(chunks, "FEWEST", first)
    monkeypatch.setattr(chunks, "MOST", chunk)
    run(finished_run, source, tmp_path / "out")
    translator = Translator.load(finished_run, "cpu")
    expected = [translator.translate([line], beam_size=2)[0].text for line in LINES]
    assert (tmp_path / "out").read_bytes() == "".join(f"{text}\n" for text in expected).encode()
    assert expected[1] == expected[6] == ""


def test_json_has_scores_tokens_and_alternatives(finished_run: Path, source: Path, tmp_path: Path) -> None:
    run(finished_run, source, tmp_path / "out", beam_size=3, n_best=2, json=True)
    tables = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]
    translations = Translator.load(finished_run, "cpu").translate(LINES, beam_size=3, n_best=2)
    assert len(tables) == len(LINES)
    for table, translation in zip(tables, translations, strict=True):
        assert table["text"] == translation.text
        assert table["tokens"] == translation.tokens
        assert table["score"] == pytest.approx(translation.score, abs=1e-5)
        alternatives = table.get("alternatives", [table])
        assert [a["text"] for a in alternatives] == [t.text for t in translation.alternatives]
        sure = {"probability", "calibrated", "words", "flags"}
        assert set(alternatives[0]) <= {"text", "score", "tokens", *(() if "alternatives" in table else sure)}
    assert [len(table.get("alternatives", [])) for table in tables] == [2, 0, 2, 2, 2, 2, 0, 2]


def test_samples_follow_from_their_seed(finished_run: Path, source: Path, tmp_path: Path) -> None:
    outputs = []
    for seed in (1, 1, 2):
        run(finished_run, source, tmp_path / "out", sample=True, seed=seed)
        outputs.append((tmp_path / "out").read_text(encoding="utf-8"))
    assert outputs[0] == outputs[1] != outputs[2]
    assert {len(output.splitlines()) for output in outputs} == {len(LINES)}


@pytest.mark.slow
def test_a_failure_leaves_the_file_that_was_there_and_what_was_done(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for bound in ("FEWEST", "MOST"):
        monkeypatch.setattr(chunks, bound, 64)
    (tmp_path / "in").write_bytes(b"a b\n" * 100 + b"\xe4\n")
    (tmp_path / "out").write_text("from before\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 101, byte 1 is 0xe4"):
        run(finished_run, tmp_path / "in", tmp_path / "out")
    assert (tmp_path / "out").read_text(encoding="utf-8") == "from before\n"
    kept = f"kept 64 lines in `{tmp_path / 'out'}.partial`; run the same command again to resume after them\n"
    assert capsys.readouterr().err == kept
    (tmp_path / "in").write_bytes(b"a b\n" * 100 + b"a\n")  # the one bad line is mended
    run(finished_run, tmp_path / "in", tmp_path / "out")
    assert capsys.readouterr().err.startswith("resuming after line 64: ")
    run(finished_run, tmp_path / "in", tmp_path / "at once")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "at once").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["at once", "in", "out"]


def test_where_nothing_was_done_nothing_stays(finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a b\n\xe4\n")
    with pytest.raises(DataError, match="line 2, byte 1 is 0xe4"):
        run(finished_run, tmp_path / "in", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("output", ["in", "link", "hard"])
def test_the_input_is_no_output(finished_run: Path, source: Path, output: str) -> None:
    before = source.read_bytes()
    source.with_name("link").symlink_to(source)
    source.with_name("hard").hardlink_to(source)
    with pytest.raises(ConfigError, match=r"^the input is the output: `.*`$"):
        run(finished_run, source, source.with_name(output))
    assert source.read_bytes() == before
    assert len(list(source.parent.iterdir())) == 3


@pytest.mark.parametrize("as_json", [False, True])
def test_a_line_comes_out_for_each_line_whatever_its_bytes(finished_run: Path, tmp_path: Path, as_json: bool) -> None:
    (tmp_path / "in").write_bytes(b"a b c d\n\xe4 a b c\na b c d\n")
    found = {}
    for word in ("skip", "replace"):
        run(finished_run, tmp_path / "in", tmp_path / "out", on_bad_utf8=word, json=as_json)
        found[word] = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert found["skip"][1] == ("null" if as_json else "")
    assert found["replace"][1] not in ("null", "")
    assert [lines[::2] for lines in found.values()] == [found["skip"][::2]] * 2
    with pytest.raises(ConfigError, match=r"^`on_bad_utf8=skp` is unknown; did you mean `skip`\?$"):
        run(finished_run, tmp_path / "in", tmp_path / "out", on_bad_utf8="skp")


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
    [("folder", "it is a folder"), ("no/out", "no folder `.*/no`"), ("in/out", "no folder")],
)
def test_where_no_file_can_be_written_nothing_is_translated(
    finished_run: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, reason: str
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(Translator, "process_lines", lambda *_, **__: pytest.fail("it was translated"))
    with pytest.raises(DataError, match=f"^cannot write to `{re.escape(str(tmp_path / output))}`: {reason}"):
        run(finished_run, source, tmp_path / output)
    assert list((tmp_path / "folder").iterdir()) == []
