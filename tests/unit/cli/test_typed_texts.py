"""A text that is typed on the command line and names a file, and files that hold no lines of text."""

import io
import sys
import zipfile
from pathlib import Path

import pytest

from pellucid.errors import DataError
from pellucid.streams.source import LineSource, check_is_text
from tests.unit.cli.command_line import CommandLine

WAY = "; to translate the name itself, use standard input"


@pytest.mark.parametrize(
    "command",
    [
        ("translate", "RUN", "TEXT"),
        ("inspect", "RUN", "TEXT", "-o", "x.svg"),
        ("inspect", "RUN", "a b", "--target", "TEXT", "-o", "x.svg"),
        ("info", "RUN", "--shapes", "TEXT"),
        ("info", "RUN", "--shapes", "a b", "--target", "TEXT"),
    ],
)
def test_the_name_of_a_file_is_no_text(
    command: tuple[str, ...], pellucid: CommandLine, finished_run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "notes"
    file.write_text("a b\n", encoding="utf-8")
    outcome = pellucid(*({"RUN": finished_run, "TEXT": file}.get(word, word) for word in command))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error == f"the text `{file}` is the name of a file"
    if command[0] == "translate":
        assert f"hint: `--input FILE` reads the lines of a file{WAY}" in " ".join(outcome.err.split())


def test_names_of_files_that_are_not_there_and_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "word" / "of").mkdir(parents=True)
    for text, said in {
        "notes.txt": "looks like the name of a file, but no such file exists",
        "docs/letter.docx": "looks like the name of a file, but no such file exists",
        "corpus.de.gz": "looks like the name of a file, but no such file exists",
        "word/of": "is the name of a folder",
    }.items():
        with pytest.raises(DataError, match=f"^the text `{text}` {said}$"):
            check_is_text(text)
    for text in ("word", "Open notes.txt", "3.5", "a.b", "", "e.g.", "x" * 70_000, "a\0b", "notes.txt\nand more"):
        check_is_text(text)


@pytest.mark.parametrize("head", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0\0", b"GIF89a", b"RIFF....WEBPVP8 "])
def test_an_image_is_no_text(head: bytes, tmp_path: Path) -> None:
    file = tmp_path / "picture"
    file.write_bytes(head + bytes(20))
    with pytest.raises(DataError, match="is an image, but the input must be lines of plain text"):
        LineSource(str(file))


def zipped(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(name, "<x/>")
    return file.getvalue()


DOCUMENTS = {
    "letter.docx": (zipped("word/document.xml"), "a Word document"),
    "film.srt": (b"1\n00:00:01,000 --> 00:00:04,000\nEin Hund.\n", "a file of subtitles (SubRip)"),
    "page.html": (b"<p>Ein Hund.</p>\n", "an HTML page"),
    "app.po": (b'msgid "a"\nmsgstr ""\n', "a gettext catalogue"),
    "note.md": (b"# Ein Hund\n", "a Markdown document"),
    "memory": (b'<?xml version="1.0"?>\n<tmx version="1.4">\n', "a translation memory (TMX)"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_refused_by_name(name: str, tmp_path: Path) -> None:
    content, what = DOCUMENTS[name]
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(DataError) as caught:
        LineSource(str(file))
    assert str(caught.value) == f"`{file}` is {what}, but the input must be lines of plain text"
    assert ("`cat FILE | ...`" in caught.value.hint) == (not content.startswith(b"PK"))
    assert "a translator takes it as a document" in caught.value.hint
    with pytest.raises(DataError, match="but the input must be lines of plain text"):
        check_is_text(str(file))


def test_standard_input_is_looked_at_where_it_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "film").write_bytes(DOCUMENTS["film.srt"][0])
    with (tmp_path / "film").open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        with pytest.raises(DataError, match=r"^standard input is a file of subtitles \(SubRip\), but the input must"):
            LineSource("-")


def test_a_file_in_a_folder_that_is_no_text_fails_by_name_and_the_others_are_translated(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    content, what = DOCUMENTS["memory"]
    (tmp_path / "in" / "memory").write_bytes(content)
    (tmp_path / "in" / "notes.txt").write_text("a b\n", encoding="utf-8")
    folders = ("--input-dir", tmp_path / "in", "--output-dir", tmp_path / "out")
    outcome = pellucid("translate", finished_run, *folders, "--device", "cpu")
    assert outcome.status == 1
    found = tmp_path / "in" / "memory"
    assert f"failed: `{found}` is {what}, but the input must be lines of plain text" in outcome.err
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_file()] == ["notes.txt"]
