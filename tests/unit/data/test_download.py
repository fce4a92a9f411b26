"""A file into the cache: mirrors in order, checksums, archives; nothing half there is ever taken for whole."""

import hashlib
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.data import download as module
from pellucid.data.catalogue import PublishedFile, read_catalogue
from pellucid.data.download import RetryPolicy, announce, download
from pellucid.data.download_cache import find_checksum_mismatch, read_recorded_sha256
from pellucid.errors import DataError
from tests.unit.data.file_server import FileServer, serving

BODY = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(BODY).hexdigest()
AT_ONCE = RetryPolicy(timeout=0.3, attempts=3, pause=0.0)

SET = """
[set]
title = "A Set"
publisher = "https://set.example"
terms = "for tests alone"
[set.files."{name}"]
sources = [{sources}]
{more}
"""


def catalogue_entry(server: FileServer, behaviours: str, name: str, *more: str) -> PublishedFile:
    """The file NAME, which `server` gives at an address for each of the behaviours."""
    sources = (
        f'{{ url = "{server.address}/{b}/{{name}}", tried = {str(b == "good").lower()} }}' for b in behaviours.split()
    )
    return next(iter(read_catalogue(SET.format(name=name, sources=", ".join(sources), more="\n".join(more))).values()))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("no_proxy", "*")
    with serving() as server:
        server.files["x.gz"] = BODY
        yield server


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Where x.gz belongs, in a cache that is not there yet."""
    return tmp_path / "cache" / "set" / "x.gz"


def known(server: FileServer, behaviours: str) -> PublishedFile:
    """x.gz, whose size and checksum are published."""
    return catalogue_entry(server, behaviours, "x.gz", f"bytes = {len(BODY)}", f'sha256 = "{SHA256}"')


def unknown(server: FileServer, behaviours: str) -> PublishedFile:
    """x.gz, of which nothing is published."""
    return catalogue_entry(server, behaviours, "x.gz")


def fetch(file: PublishedFile, text: Path) -> None:
    download(file, text.parents[1], AT_ONCE)


def left_over(text: Path) -> set[str]:
    """The files in the cache, but for locks."""
    return {path.name for path in text.parent.iterdir() if path.suffix != ".lock"}


def test_a_file_lies_in_its_place_with_its_checksum(server: FileServer, text: Path) -> None:
    fetch(known(server, "good"), text)
    assert text.read_bytes() == BODY
    assert left_over(text) == {"x.gz", "x.gz.sha256"}
    assert text.with_name("x.gz.sha256").read_text() == f"{SHA256}  x.gz\n"
    fetch(known(server, "good"), text)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "bad", ["missing", "wrong", "login", "short", "stalls", "mute", "busy", "nonsense", "lost", "digits"]
)
def test_a_mirror_takes_over(server: FileServer, text: Path, bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    fetch(known(server, f"{bad} good"), text)
    assert text.read_bytes() == BODY
    assert left_over(text) == {"x.gz", "x.gz.sha256"}
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"  {server.address}/{bad}/x.gz (this address has not been tried by the authors)"
    assert said[-1] == f"  {server.address}/good/x.gz"


def test_where_no_address_helps_each_reason_is_told(server: FileServer, text: Path) -> None:
    wrong = hashlib.sha256(bytes(len(BODY))).hexdigest()
    with pytest.raises(DataError) as error:
        fetch(known(server, "missing wrong login"), text)
    assert str(error.value) == (
        f"could not download `set/x.gz`: `{server.address}/missing/x.gz`: answers with status 404: no such file; "
        f"`{server.address}/wrong/x.gz`: has SHA-256 {wrong} instead of {SHA256}; the file is not used; "
        f"`{server.address}/login/x.gz`: offers 26 bytes instead of 256,000"
    )
    assert error.value.hint == f"download it to `{text}`, or pass a folder with set/x.gz as `data_dir=`"
    assert left_over(text) == set()


def test_what_to_do_about_an_address_comes_first(server: FileServer, text: Path) -> None:
    server.address = "http://no-such-host.invalid"
    with pytest.raises(DataError) as error:
        fetch(known(server, "good whole"), text)
    assert error.value.hint.startswith("check the network connection; or download it to ")


def test_what_breaks_off_is_gone_on_with(server: FileServer, text: Path) -> None:
    fetch(known(server, "flaky"), text)
    assert text.read_bytes() == BODY
    assert server.requests == [("/flaky/x.gz", ""), ("/flaky/x.gz", "bytes=128000-")]


def test_a_mirror_goes_on_with_what_another_began(server: FileServer, text: Path) -> None:
    fetch(known(server, "short good"), text)
    assert text.read_bytes() == BODY
    assert [path for path, _ in server.requests] == ["/short/x.gz"] * 3 + ["/good/x.gz"]
    assert server.requests[-1][1] == "bytes=224000-"


@pytest.mark.parametrize("publish", [known, unknown])
def test_an_interrupted_download_is_not_taken_for_whole(
    server: FileServer, text: Path, monkeypatch: pytest.MonkeyPatch, publish: type
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        text.with_name(".x.gz.partial").write_bytes(BODY[:100_000])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "download_url", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fetch(publish(server, "good"), text)
    assert left_over(text) == {".x.gz.partial"}
    fetch(publish(server, "good"), text)
    assert text.read_bytes() == BODY
    # Without a checksum nothing would tell whether the parts fit.
    assert server.requests == [("/good/x.gz", "bytes=100000-" if publish is known else "")]


def test_a_beginning_that_does_not_fit_is_thrown_away(server: FileServer, text: Path) -> None:
    text.parent.mkdir(parents=True)
    text.with_name(".x.gz.partial").write_bytes(bytes(1000))
    fetch(known(server, "good"), text)
    assert text.read_bytes() == BODY
    assert [first for _, first in server.requests] == ["bytes=1000-", ""]


def test_a_damaged_file_in_the_cache_is_fetched_again(server: FileServer, text: Path) -> None:
    text.parent.mkdir(parents=True)
    text.write_bytes(BODY[:-1])
    fetch(known(server, "good"), text)
    assert text.read_bytes() == BODY


def test_the_first_checksum_is_kept(server: FileServer, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody has published one, the same must come each time."""
    fetch(unknown(server, "good"), text)
    assert "no checksum of x.gz is published" in capsys.readouterr().err
    assert read_recorded_sha256(text) == SHA256
    text.unlink()
    with pytest.raises(DataError, match=f"has SHA-256 [0-9a-f]{{64}} instead of {SHA256}"):
        fetch(unknown(server, "wrong"), text)
    assert not text.exists()
    assert read_recorded_sha256(text) == SHA256
    fetch(unknown(server, "good"), text)
    assert "is published" not in capsys.readouterr().err
    assert text.read_bytes() == BODY


def archive(**members: bytes) -> bytes:
    """A .tgz with these files, and a link of each kind besides."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name in ("a/link", "a/x.en"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
        for name, body in members.items():
            info = tarfile.TarInfo(f"a/{name.replace('_', '.')}")
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return stream.getvalue()


MEMBERS = ['members."x.en" = "a/x.en"', 'members."x.de" = "a/x.sgm"']
SGM = b'<refset>\n<doc>\n<p>\n<seg id="1"> Ein  Hund. </seg>\n<seg id="2">Zwei &amp; drei.</seg>\n</p>\n</doc>\n'


@pytest.fixture
def texts(server: FileServer, text: Path) -> tuple[Path, Path]:
    """Where the two texts of an archive belong, which the server has."""
    server.files["x.tgz"] = archive(x_en=b"A dog.\nTwo & three.\n", other=b"not wanted", x_sgm=SGM)
    server.files["lacks.tgz"] = archive(x_en=b"A dog.\n")
    return text.with_name("x.en"), text.with_name("x.de")


def packed(server: FileServer, behaviours: str, name: str = "x.tgz", sha256: str = "") -> PublishedFile:
    return catalogue_entry(server, behaviours, name, f'sha256 = "{sha256}"', *MEMBERS)


def test_an_archive_is_unpacked_and_not_kept(server: FileServer, text: Path, texts: tuple[Path, Path]) -> None:
    fetch(packed(server, "good"), text)
    assert [path.read_text() for path in texts] == ["A dog.\nTwo & three.\n", "Ein Hund.\nZwei &amp; drei.\n"]
    records = {f"{name}.sha256" for name in ("x.en", "x.de", "x.tgz")}
    assert left_over(text) == {"x.en", "x.de", *records}
    fetch(packed(server, "good"), text)
    assert len(server.requests) == 1
    texts[1].write_text("Ein Hund.")
    assert find_checksum_mismatch(texts[1]).startswith(f"`{texts[1]}` is damaged: its SHA-256 is ")
    fetch(packed(server, "good"), text)
    assert (len(server.requests), find_checksum_mismatch(texts[1])) == (2, "")


@pytest.mark.parametrize("name", ["x.tgz", "lacks.tgz"])
def test_what_is_no_such_archive_is_not_taken(
    server: FileServer, text: Path, texts: tuple[Path, Path], name: str
) -> None:
    """Nor is the checksum of a page that came in its place kept."""
    reason = {
        "x.tgz": "is an incomplete archive (",
        "lacks.tgz": "is an archive without `a/x.sgm`; the file is not used",
    }[name]
    with pytest.raises(DataError, match=re.escape(reason)):
        fetch(packed(server, "login" if name == "x.tgz" else "good", name), text)
    assert not texts[1].exists()
    assert not read_recorded_sha256(text.with_name(name))


@pytest.mark.parametrize("end", [0.3, 0.9])
def test_half_an_archive_is_not_taken(server: FileServer, text: Path, texts: tuple[Path, Path], end: float) -> None:
    server.files["half.tgz"] = server.files["x.tgz"][: int(end * len(server.files["x.tgz"]))]
    with pytest.raises(DataError, match="is an incomplete archive"):
        fetch(packed(server, "good", "half.tgz"), text)
    assert not texts[1].exists()


def test_an_archive_fetched_by_hand(server: FileServer, text: Path, texts: tuple[Path, Path]) -> None:
    body, own = server.files["x.tgz"], text.with_name("x.tgz")
    text.parent.mkdir(parents=True)
    own.write_bytes(bytes(len(body)))
    sha256 = hashlib.sha256(body).hexdigest()
    with pytest.raises(
        DataError, match=f"^`{own}` differs from the published file: has SHA-256 .* instead of {sha256}"
    ) as error:
        fetch(packed(server, "good", sha256=sha256), text)
    assert error.value.hint == "remove or replace it"
    own.write_bytes(body)
    fetch(packed(server, "good", sha256=sha256), text)
    assert all(path.is_file() for path in (*texts, own))
    assert server.requests == []


def test_a_cache_that_cannot_be_written(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(DataError, match=f"^cannot write `{tmp_path}/cache/set`: ") as error:
        fetch(known(server, "good"), tmp_path / "cache" / "set" / "x.gz")
    assert error.value.hint == "set PELLUCID_CACHE to another cache folder"


FETCH = """
import sys
from pathlib import Path
from pellucid.data.catalogue import read_catalogue
from pellucid.data.download import download
download(next(iter(read_catalogue(sys.argv[1]).values())), Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_two_processes_fetch_once(server: FileServer, text: Path) -> None:
    source = f'{{ url = "{server.address}/gated/{{name}}", tried = true }}'
    toml = SET.format(name="x.gz", sources=source, more=f'sha256 = "{SHA256}"')
    command = [sys.executable, "-c", FETCH, toml, str(text.parents[1])]
    with subprocess.Popen(command) as first:
        assert server.asked.wait(30)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as second:
            assert second.stderr is not None
            assert second.stderr.readline() == "  waiting for another process that is downloading x.gz\n"
            server.gate.set()
            assert (first.wait(30), second.wait(30)) == (0, 0)
    assert text.read_bytes() == BODY
    assert len(server.requests) == 1


def test_what_is_to_come_is_announced(server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    announce([known(server, "good"), packed(server, "good")], tmp_path)
    assert capsys.readouterr().err == (
        "downloading 2 files of A Set (256.0 kB and 1 file of unknown size)\n"
        "  from   https://set.example\n  terms  for tests alone\n"
        f"  to     {tmp_path / 'set'}\n"
    )
    announce([known(server, "good")], tmp_path)
    assert capsys.readouterr().err.startswith("downloading `x.gz` of A Set (256.0 kB)")
