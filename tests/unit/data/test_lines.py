"""Lines of files: what ends one, what is read, and what is said of a file that cannot be."""

import gzip
import io
import os
import re
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.data.lines import describe_bad_byte, hash_path, read_lines, read_lines_lenient, read_pairs, read_raw_lines
from pellucid.errors import DataError

Writer = Callable[[str, bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    def written(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return written


NAMES = pytest.mark.parametrize("name", ["x.txt", "x.gz"])


@NAMES
@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\n\nb\n\n", ["a", "", "b", ""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\nb\r", ["a", "b"]),
        (b"a\rb\r\r\n", ["a\rb\r"]),
        (b" a \t\n", [" a \t"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", [""]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode(), ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"]),
        ("안녕\n🙂\n".encode(), ["안녕", "🙂"]),
        (b"a\0b\n", ["a\0b"]),
    ],
)
def test_what_ends_a_line(write: Writer, name: str, data: bytes, lines: list[str]) -> None:
    assert list(read_lines(write(name, data))) == lines


@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"))))
def test_any_lines_come_back(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "x"
    for end in ("\n", "\r\n"):
        path.write_bytes("".join(line + end for line in lines).encode())
        assert list(read_lines(path)) == lines


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(gzip.compress(b"a\n") + gzip.compress(b"b\n"))
    (tmp_path / "y.gz").write_bytes(b"plain\n")
    assert list(read_lines(tmp_path / "x.txt")) == ["a", "b"], "and may have several members"
    assert list(read_lines(str(tmp_path / "y.gz"))) == ["plain"]


@NAMES
@pytest.mark.parametrize(
    ("data", "place", "advice"),
    [
        (b"a\nb\xe4\n", "line 2, byte 2 is 0xe4", "could be cp1252 (Western European); choose the encoding"),
        (b"a\xff\xfea\0", "line 1, byte 2 is 0xff", "the file is damaged or not text; "),
        (b"x\n" * 1234 + b"\xed\xa0\x80\n", "line 1,235, byte 1 is 0xed", "the file is damaged or not text; "),
        ("안녕".encode("cp949"), "line 1, byte 1 is 0xbe", "could be cp949 (Korean); choose"),
        ("für".encode("latin-1"), "line 1, byte 2 is 0xfc", "(Western European)"),
    ],
)
def test_what_is_not_utf_8_is_named_by_file_line_and_byte(
    write: Writer, name: str, data: bytes, place: str, advice: str
) -> None:
    path = write(name, data)
    with pytest.raises(DataError, match=f"^{re.escape(f'`{path}` is not UTF-8: {place}')}$") as error:
        list(read_lines(path))
    assert advice in error.value.hint
    assert "latin1" not in error.value.hint, "which reads anything, and makes nonsense of most of it"
    assert "`on_bad_utf8=`" in error.value.hint


@NAMES
@pytest.mark.parametrize(
    ("encoding", "name_of_it"),
    [("utf-16", "UTF-16"), ("utf-16-be", "UTF-16BE"), ("utf-16-le", "UTF-16LE"), ("utf-32", "UTF-32")],
)
def test_other_encodings_are_named(write: Writer, name: str, encoding: str, name_of_it: str) -> None:
    path = write(name, "Ein Hund läuft.\nEin Mann schläft.\n".encode(encoding))
    with pytest.raises(DataError, match=f"^{re.escape(f'`{path}` is {name_of_it}, not UTF-8')}$") as error:
        list(read_lines(path))
    assert f"`iconv -f {name_of_it.lower()} -t utf-8 < {path} > {path}.utf8`" in error.value.hint


def test_a_mark_of_utf_16_is_known_without_latin_letters(write: Writer) -> None:
    path = write("x", "안녕하세요\n".encode("utf-16-le"))
    with pytest.raises(DataError, match="is not UTF-8: line 1, byte"):
        list(read_lines(path))
    with pytest.raises(DataError, match="is UTF-16, not UTF-8"):
        list(read_lines(write("y", b"\xfe\xff" + "안녕하세요\n".encode("utf-16-be"))))


def test_bad_lines_may_be_replaced_or_left_out(write: Writer) -> None:
    path, told = write("x", b"a\nb\xe4c\xff\n\xffd\n"), list[tuple[int, str]]()
    lines = read_lines_lenient(path, "replace", lambda number, error: told.append((number, describe_bad_byte(error))))
    assert list(lines) == ["a", "b\ufffdc\ufffd", "\ufffdd"]
    assert told == [(2, "byte 2 is 0xe4"), (3, "byte 1 is 0xff")]
    assert list(read_lines_lenient(path, "skip", lambda *_: None)) == ["a", None, None]
    with pytest.raises(DataError, match="line 2, byte 2 is 0xe4"):
        list(read_lines_lenient(path, "error", lambda *_: None))


def test_lines_before_a_bad_one_are_given(write: Writer) -> None:
    lines = read_lines(write("x", b"a\n\xff\n"))
    assert next(lines) == "a"
    with pytest.raises(DataError):
        next(lines)


def test_a_truncated_gzip_file(write: Writer) -> None:
    path = write("x.gz", b"".join(b"line %d\n" % i for i in range(1000)))
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DataError, match=r"`.*x\.gz` is a damaged gzip file after line [\d,]+: ") as error:
        list(read_lines(path))
    assert error.value.hint == "download it again"


@pytest.mark.parametrize("damaged", [slice(10, 20), slice(-8, -4)], ids=["data", "checksum"])
def test_a_damaged_gzip_file(write: Writer, damaged: slice) -> None:
    path = write("x.gz", os.urandom(50).hex().encode() + b"\n")
    data = bytearray(path.read_bytes())
    data[damaged] = bytes(255 - byte for byte in data[damaged])
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"`.*x\.gz` is a damaged gzip file after line "):
        list(read_lines(path))


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(f'`{tmp_path}` is a folder, not a text file')}$"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize("read", [lambda path: list(read_lines(path)), hash_path])
def test_a_missing_file(tmp_path: Path, read: Callable[[Path], object]) -> None:
    missing = tmp_path / "x"
    with pytest.raises(DataError, match=f"^{re.escape(f'no file `{missing}`')}$") as error:
        read(missing)
    assert "check the path" in error.value.hint


@pytest.mark.parametrize("data", [b"a\nb\n", gzip.compress(b"a\nb\n")], ids=["plain", "gzip"])
def test_a_pipe_is_read_once_from_its_start(tmp_path: Path, data: bytes) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[data], daemon=True)
    writer.start()
    assert list(read_lines(tmp_path / "pipe")) == ["a", "b"]
    writer.join()


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1\n2\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa\r\n\xe4\n")))
    lines = read_pairs("-", tmp_path / "x")
    assert next(lines) == ("a", "1")
    with pytest.raises(DataError, match=r"^standard input is not UTF-8: line 2, byte 1 is 0xe4$"):
        next(lines)


def test_pairs_stand_side_by_side(write: Writer) -> None:
    pairs = read_pairs(write("a", b"1\n\n3"), write("b.gz", b"x\ny\nz\n"))
    assert list(pairs) == [("1", "x"), ("", "y"), ("3", "z")]


@pytest.mark.parametrize("names", [("a", "b.gz"), ("b.gz", "a")])
@pytest.mark.parametrize("counts", [(3, 1200), (1200, 3), (0, 1), (1, 0)])
def test_unequal_files_are_named_with_their_counts(
    write: Writer, names: tuple[str, str], counts: tuple[int, int]
) -> None:
    src, tgt = (write(name, b"x\n" * count) for name, count in zip(names, counts, strict=True))
    (few, short), (many, long) = sorted(zip(counts, (src, tgt), strict=True))
    expected = (
        f"`{src}` and `{tgt}` must have the same number of lines, but `{short}` has {few:,} and `{long}` {many:,}"
    )
    with pytest.raises(DataError, match=f"^{re.escape(expected)}$") as error:
        list(read_pairs(src, tgt))
    assert "line n of one file" in error.value.hint


def test_empty_files_are_an_error(write: Writer) -> None:
    src, tgt = write("a", b""), write("b", b"")
    with pytest.raises(DataError, match=f"^{re.escape(f'`{src}` and `{tgt}` are empty')}$"):
        list(read_pairs(src, tgt))


def test_the_fingerprint_of_a_folder_is_of_its_files(tmp_path: Path) -> None:
    def folder(name: str, **files: str) -> str:
        (tmp_path / name / "in").mkdir(parents=True)
        for file, text in files.items():
            (tmp_path / name / "in" / file).write_text(text)
        return hash_path(tmp_path / name)

    found = folder("one", a="x", b="y")
    assert folder("same", b="y", a="x") == found
    assert found not in (folder("text", a="x", b="z"), folder("name", a="x", c="y"), folder("fewer", a="x"))


def test_the_fingerprint_is_of_the_bytes(write: Writer) -> None:
    assert hash_path(write("a", b"x\n")) == hash_path(write("b", b"x\n"))
    assert hash_path(write("c", b"x")) != hash_path(write("a", b"x\n"))


def test_a_line_that_is_no_line_ends_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\n" + b"b" * 100 + b"\nc")
    with (tmp_path / "a").open("rb") as file:
        assert [len(line) for line in read_raw_lines(file, "a", 101)] == [1, 100, 1]
    with (tmp_path / "a").open("rb") as file:
        lines = read_raw_lines(file, "a", 50)
        assert next(lines) == b"a"
        with pytest.raises(DataError, match=r"^`a`: line 2 has more than 50 bytes$"):
            next(lines)


def test_a_bomb_is_not_unpacked_into_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a" * 10_000_000))
    tracemalloc.start()
    with (tmp_path / "a.gz").open("rb") as file, pytest.raises(DataError, match="more than 1,000,000 bytes"):
        list(read_raw_lines(file, "a.gz", 1_000_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
