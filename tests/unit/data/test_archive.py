"""Texts out of archives: those that are named, where they are wanted, and nothing else."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

from pellucid.data import archive
from pellucid.data.archive import ArchiveError, unpack
from pellucid.data.download_cache import read_recorded_sha256
from pellucid.errors import DataError
from pellucid.files.reading import hash_file

SGM = """<?xml version="1.0" encoding="UTF-8"?>
<srcset setid="newstest" srclang="any">
<doc docid="1">
<hl>
<seg id="1">Zwei  Worte, \tein Tabulator &amp; ein &lt;Zeichen&gt;</seg>
</hl>
<p>
<seg id="2"> Ränder und »Quotes« </seg>
<seg id="3"></seg>
</p>
</doc>
</srcset>
"""


def write_archive(path: Path, members: dict[str, bytes], **options: Any) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            for option, value in options.items():
                setattr(info, option, value)
            tar.addfile(info, io.BytesIO(body))


def test_segments_are_those_that_sacrebleu_reads(tmp_path: Path) -> None:
    (tmp_path / "x.sgm").write_text(SGM, encoding="utf-8")
    reader = FakeSGMLDataset("x")
    reader._convert_format(str(tmp_path / "x.sgm"), str(tmp_path / "expected"))
    write_archive(tmp_path / "x.tgz", {"x.sgm": SGM.encode()})
    unpack(tmp_path / "x.tgz", {tmp_path / "x": "x.sgm"})
    assert (tmp_path / "x").read_bytes() == (tmp_path / "expected").read_bytes()
    assert (tmp_path / "x").read_bytes().count(b"\n") == 3


def test_names_in_the_archive_decide_nothing(tmp_path: Path) -> None:
    """Neither where something is written, nor with which rights, nor what else is."""
    folder = tmp_path / "texts"
    folder.mkdir()
    names = ["../outside", "/outside", str(tmp_path / "absolute"), "in/x"]
    write_archive(tmp_path / "x.tgz", dict.fromkeys(names, b"text"), mode=0o4777)
    unpack(tmp_path / "x.tgz", {folder / "mine": "../outside", folder / "yours": "in/x"})
    assert sorted(path.name for path in folder.iterdir()) == ["mine", "mine.sha256", "yours", "yours.sha256"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts", "x.tgz"]
    assert (folder / "mine").stat().st_mode & 0o7111 == 0
    assert read_recorded_sha256(folder / "mine") == hash_file(folder / "mine")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_what_is_no_file_is_not_taken_for_one(tmp_path: Path, kind: bytes) -> None:
    write_archive(tmp_path / "x.tgz", {"x": b""}, type=kind, linkname="/etc/passwd")
    with pytest.raises(ArchiveError, match=r"^an archive without `x`$"):
        unpack(tmp_path / "x.tgz", {tmp_path / "x": "x"})
    assert not (tmp_path / "x").exists()


def test_a_member_that_cannot_be_written(tmp_path: Path) -> None:
    write_archive(tmp_path / "x.tgz", {"x": b"text"})
    (tmp_path / ".x.partial").symlink_to("/dev/full")
    with pytest.raises(DataError, match=rf"^cannot write `{tmp_path}/x`: no space left$"):
        unpack(tmp_path / "x.tgz", {tmp_path / "x": "x"})


def test_an_archive_is_not_unpacked_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_UNPACKED", 100_000)
    write_archive(tmp_path / "x.tgz", {"other": bytes(60_000), "x": bytes(60_000)})
    with pytest.raises(ArchiveError, match="an archive of more than 100,000 bytes, unpacked"):
        unpack(tmp_path / "x.tgz", {tmp_path / "x": "x"})
    assert not (tmp_path / "x").exists()


def test_a_name_as_long_as_a_book(tmp_path: Path) -> None:
    """It would be read into memory, whatever its length."""
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2**33
    (tmp_path / "x.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(
        ArchiveError, match="an archive that has a name of 8,589,934,592 bytes; at most 65,536 are read"
    ):
        unpack(tmp_path / "x.tar", {tmp_path / "x": "x"})


def test_a_line_without_end_is_no_segment(tmp_path: Path) -> None:
    line = b"<seg>" + b"a" * archive.MOST_LINE + b"</seg>\n"
    write_archive(tmp_path / "x.tgz", {"x.sgm": line + b"<seg>b</seg>\n"})
    unpack(tmp_path / "x.tgz", {tmp_path / "x": "x.sgm"})
    assert (tmp_path / "x").read_bytes() == b"b\n"
