"""Tables of tab-separated values: which rows are pairs, and what is said of the others."""

import gzip
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.data.doctor import iter_corpus_checks
from pellucid.data.parallel import ParallelText, describe_texts
from pellucid.data.prepare import open_corpus
from pellucid.errors import DataError

ROWS = [f"Ein Hund läuft {number}\tA dog runs {number}" for number in range(40)]


def read(path: Path, lines: list[str], columns: tuple[int, int] = (1, 2)) -> tuple[list[object], list[tuple[str, int]]]:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found: list[tuple[str, int]] = []

    def note(fault: str, path: str, line: int, detail: str, of: str = "lines") -> None:
        found.append((fault, line))

    return list(ParallelText(str(path), "", tsv_columns=columns).pairs("error", note)), found


def test_rows_with_another_number_of_cells_are_no_pairs(tmp_path: Path) -> None:
    lines = [*ROWS[:5], "Ein\tHund\tA dog", *ROWS[5:], "a\tb\t"]
    pairs, account = read(tmp_path / "x.tsv", lines)
    assert account == [("columns", 6), ("columns", 42)]
    assert [number for number, pair in enumerate(pairs, start=1) if pair == ("", "")] == [6, 42]
    assert pairs[6] == tuple(ROWS[5].split("\t"))


def test_rows_of_an_irregular_table_are_kept_and_said(tmp_path: Path) -> None:
    pairs, account = read(tmp_path / "x.tsv", ["a\tb\tc\td", "e\tf\tg\th", "i\tj\tk"])
    assert pairs == [("a", "b"), ("e", "f"), ("i", "j")]
    assert account == [("others", 0), ("others", 0), ("columns", 3)]


@pytest.mark.parametrize(
    ("first", "is_heading"),
    [
        ("source\ttarget", True), ("German\tEnglish", True), ("de\ten-US", True), ('"Sentence"\t"Label"', True),
        ("독일어\t영어", True), ("it\tit", False), ("Hund\tdog", False), ("so\tda", False),
    ],
)  # fmt: skip
def test_a_line_of_headings_is_no_pair(tmp_path: Path, first: str, is_heading: bool) -> None:
    pairs, account = read(tmp_path / "x.tsv", [first, *ROWS])
    assert account == [("heading", 1)] * is_heading
    assert (pairs[0] == ("", "")) is is_heading
    assert read(tmp_path / "x.tsv", [first, "no\tnein", "so\tthus"])[1][:1] == (
        [("heading", 1)] if is_heading and not first.startswith("de") else []
    ), "words of two letters may be words"


def test_cells_that_a_spreadsheet_has_quoted_are_said(tmp_path: Path) -> None:
    quoted = [f'"{line}"'.replace("\t", '"\t"') for line in ROWS]
    assert read(tmp_path / "x.tsv", quoted)[1] == [("quoted", number) for number in range(1, 41)]
    mixed = [*ROWS, '"Er sagt ""so"""\the says so', '"Hallo"\t"Hello"']
    assert read(tmp_path / "x.tsv", mixed)[1] == [("quoted", 41)], "speech in quotation marks is text"


def test_columns_that_are_not_read_are_said_and_a_gzip_file_is_looked_at(tmp_path: Path) -> None:
    lines = [f"{number}\t{line}\t0.5" for number, line in enumerate(ROWS)]
    pairs, account = read(tmp_path / "x.tsv", lines, (2, 3))
    assert (len(pairs), account) == (40, [("others", 0), ("others", 0)])
    (tmp_path / "y.tsv.gz").write_bytes(gzip.compress("\n".join(["de\ten", *ROWS]).encode()))
    assert next(ParallelText(str(tmp_path / "y.tsv.gz"), "").pairs("error")) == ("", "")


def test_line_ends_of_old_systems_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_bytes("\r".join(ROWS).encode())
    with pytest.raises(DataError, match=r"ends its lines with CR alone, as old Macintosh programs do$") as raised:
        list(ParallelText(str(tmp_path / "x.tsv"), "").pairs("error"))
    assert "`tr '\\r' '\\n' < " in raised.value.hint


def test_doctor_prints_the_account_and_training_says_it(tmp_path: Path) -> None:
    read(tmp_path / "x.tsv", ["source\ttarget", *ROWS, "a\tb\tc"])
    data = DataConfig(src=str(tmp_path / "x.tsv"), valid_size=2)
    texts = [check.text for check in iter_corpus_checks(data)]
    place = f"`{tmp_path / 'x.tsv'}`"
    heading = rf"a line of headings: 1 row, left out; first in line 1 of {place}: `source\ttarget`"
    columns = (
        f"rows with another number of columns: 1 row; first in line 42 of {place}: 3, where nearly all rows have 2: "
        "left out"
    )
    assert {heading, columns} <= set(texts)
    report = open_corpus(data).report()
    assert heading in report
    assert columns in report


def test_too_few_pairs_have_their_cause(tmp_path: Path) -> None:
    path = tmp_path / "x.tmx"
    unit = '<tu><tuv xml:lang="de">Hund</tuv><tuv xml:lang="en">dog</tuv></tu>'
    path.write_text(f'<tmx><header srclang="de"/><body>{unit * 5}</body></tmx>', encoding="utf-8")
    with pytest.raises(DataError, match=r"no usable pair .*whose texts have no <seg>: 10 texts, read as empty;"):
        open_corpus(DataConfig(src=str(path)))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.po", b'msgid ""\nmsgstr ""\n', "is a gettext catalogue, not lines of text"),
        ("x.srt", b"1\n00:00:01,000 --> 00:00:03,000\nHund\n", "is a file of subtitles (SubRip), not lines of text"),
        ("x.docx", b"PK\x03\x04", "is a Word document, not lines of text"),
        ("x.de", b"%PDF-1.4\n", "is a PDF document, not lines of text"),
        ("x.csv", b"a,b\n", "is a table of comma-separated values, not lines of text"),
        ("x.de.bz2", b"BZh91AY&SY", "is a file compressed by bzip2, not lines of text"),
        ("x.xml", b'<?xml version="1.0"?><tmx version="1.4">', "is a translation memory (TMX)"),
    ],
)
@pytest.mark.parametrize("tgt", ["", "y.en"])
def test_a_document_is_no_corpus(tmp_path: Path, name: str, content: bytes, message: str, tgt: str) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "y.en").write_text("a\n", encoding="utf-8")
    data = DataConfig(src=str(tmp_path / name), tgt=str(tmp_path / tgt) if tgt else "")
    with pytest.raises(DataError) as raised:
        list(iter_corpus_checks(data))
    assert str(raised.value) == f"`{tmp_path / name}` {message}"
    assert raised.value.hint


def test_many_files_are_named_by_their_number() -> None:
    texts = [ParallelText(f"p/{number}.de", f"p/{number}.en") for number in range(300)]
    assert describe_texts(texts) == "600 files (`p/0.de` and `p/0.en` ...)"
    assert describe_texts(texts[:2]) == "`p/0.de` and `p/0.en` and `p/1.de` and `p/1.en`"
