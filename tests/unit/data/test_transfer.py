"""One file from one address: whole, in parts, and each way in which it can fail, in words."""

import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from pellucid.data import transfer as module
from pellucid.data.transfer import TransferError, download_url
from pellucid.errors import DataError
from tests.unit.data.file_server import WRONG, FileServer, serving

BODY = bytes(range(256)) * 1000
TIMEOUT = 0.3


@pytest.fixture(autouse=True)
def _without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as server:
        server.files["x.gz"] = BODY
        yield server


def fetch(server: FileServer, behaviour: str, partial: Path, size: int | None = None) -> list[tuple[int, int | None]]:
    """Fetches x.gz; returns what was reported on the way."""
    steps: list[tuple[int, int | None]] = []
    url = f"{server.address}/{behaviour}/x.gz"
    download_url(url, partial, lambda done, total: steps.append((done, total)), size=size, timeout=TIMEOUT)
    return steps


def failure(server: FileServer, behaviour: str, partial: Path, size: int | None = None) -> TransferError:
    with pytest.raises(TransferError) as error:
        fetch(server, behaviour, partial, size)
    return error.value


@pytest.mark.parametrize("behaviour", ["good", "whole", "moved", "unmeasured"])
@pytest.mark.parametrize("size", [len(BODY), None])
def test_a_file_comes(server: FileServer, tmp_path: Path, behaviour: str, size: int | None) -> None:
    steps = fetch(server, behaviour, tmp_path / "x", size)
    assert (tmp_path / "x").read_bytes() == BODY
    assert steps[-1] == (len(BODY), None if behaviour == "unmeasured" else len(BODY))
    assert len(steps) == 4  # 64 KiB each
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_only_the_rest_is_asked_for(server: FileServer, tmp_path: Path) -> None:
    partial = tmp_path / "x"
    partial.write_bytes(BODY[:1000])
    assert fetch(server, "good", partial, len(BODY))[0][0] > 1000
    assert server.requests == [("/good/x.gz", "bytes=1000-")]
    assert partial.read_bytes() == BODY


def test_a_server_that_gives_no_parts_gives_the_whole(server: FileServer, tmp_path: Path) -> None:
    partial = tmp_path / "x"
    partial.write_bytes(WRONG)
    fetch(server, "whole", partial)
    assert partial.read_bytes() == BODY


def test_what_is_there_is_not_asked_for(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(BODY)
    assert fetch(server, "good", tmp_path / "x", len(BODY)) == []
    assert server.requests == []


def test_more_than_the_file_has_is_thrown_away(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(BODY + WRONG)
    fetch(server, "good", tmp_path / "x", len(BODY))
    assert (tmp_path / "x").read_bytes() == BODY


@pytest.mark.parametrize(
    ("behaviour", "reason", "is_passing"),
    [
        ("missing", "answers with status 404: no such file", False),
        ("forbidden", "answers with status 403: access denied", False),
        ("busy", "answers with status 503: Service Unavailable", True),
        ("short", "broke off after 128,000 of 256,000 bytes", True),
        ("chunked", "broke off after 128,000 bytes", True),
        ("stalls", "stopped sending after 128,000 bytes", True),
        ("mute", f"did not answer within {TIMEOUT} s", True),
        ("nonsense", "cannot be reached: 220 this is a mail server", True),
        ("spells", f"did not answer within {TIMEOUT} s", True),
        ("elsewhere", "redirects to `ftp://localhost:1/x`, which is neither http nor https", False),
        ("digits", f"announces `{'9' * 53}…{'9' * 26}` bytes, which is not a length", False),
    ],
)
def test_a_failure_is_told(server: FileServer, tmp_path: Path, behaviour: str, reason: str, is_passing: bool) -> None:
    error = failure(server, behaviour, tmp_path / "x")
    assert (str(error).strip(), error.is_passing) == (reason, is_passing)


def test_what_had_come_is_kept(server: FileServer, tmp_path: Path) -> None:
    failure(server, "stalls", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == BODY[: len(BODY) // 2]


def test_a_server_that_drips_is_given_up(server: FileServer, tmp_path: Path) -> None:
    error = failure(server, "drips", tmp_path / "x")
    assert re.fullmatch(r"sends \d+ bytes in \d+ s; the minimum is 1,024 bytes per second", str(error))
    assert error.is_passing


def test_an_address_that_is_none_is_told(server: FileServer, tmp_path: Path) -> None:
    error = failure(server, "lost", tmp_path / "x")
    assert str(error).startswith("sends an invalid answer: ")
    assert not error.is_passing


def test_a_chunk_of_less_than_nothing(server: FileServer, tmp_path: Path) -> None:
    assert str(failure(server, "negative", tmp_path / "x")).startswith("broke off after ")


def test_the_text_of_a_redirection_is_not_waited_for(server: FileServer, tmp_path: Path) -> None:
    fetch(server, "boundless", tmp_path / "x", len(BODY))
    assert (tmp_path / "x").read_bytes() == BODY


def test_a_circle_of_addresses_is_told(server: FileServer, tmp_path: Path) -> None:
    assert "status 302" in str(failure(server, "circle", tmp_path / "x"))


def test_another_size_is_not_read(server: FileServer, tmp_path: Path) -> None:
    error = failure(server, "login", tmp_path / "x", len(BODY))
    assert (str(error), error.is_passing) == ("offers 26 bytes instead of 256,000", False)
    assert not (tmp_path / "x").exists()


def test_another_part_is_not_taken(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(BODY[:1000])
    assert "another part" in str(failure(server, "shifted", tmp_path / "x", len(BODY)))
    assert (tmp_path / "x").read_bytes() == BODY[:1000]


@pytest.mark.parametrize("size", [len(BODY), None])
def test_what_does_not_end_is_cut_off(
    server: FileServer, tmp_path: Path, size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 300_000)
    expected = f"sends more than {size or 300_000:,} bytes"
    assert str(failure(server, "endless", tmp_path / "x", size)) == expected
    assert (tmp_path / "x").stat().st_size <= (size or 300_000)


def test_a_host_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TransferError, match=r"^the host `no-such-host\.invalid` was not found$") as error:
        download_url("https://no-such-host.invalid/x", tmp_path / "x", lambda *_: None, timeout=5)
    assert error.value.hint == "check the network connection"
    with serving() as server:
        gone = server.address
    with pytest.raises(TransferError, match=r"^the host `localhost` refuses the connection$"):
        download_url(f"{gone}/good/x.gz", tmp_path / "x", lambda *_: None)


def test_a_full_disk_is_told(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = tmp_path / "x"
    full.symlink_to("/dev/full")
    with pytest.raises(DataError, match=rf"^cannot write `{full}`: no space left$") as error:
        fetch(server, "good", full)
    assert error.value.hint == "free disk space, or set PELLUCID_CACHE to another cache folder"
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 250_000}))
    (tmp_path / "y").write_bytes(BODY[:1000])
    with pytest.raises(DataError, match=rf"^`{tmp_path}` has 250.0 kB free, but 255.0 kB are still to be downloaded$"):
        fetch(server, "good", tmp_path / "y")


AUTHORITY = trustme.CA()


def certificate(*hosts: str, until: datetime | None = None, authority: trustme.CA = AUTHORITY) -> ssl.SSLContext:
    """What a server shows that AUTHORITY vouches for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    start = datetime(2020, 1, 1, tzinfo=UTC)
    authority.issue_cert(*hosts, not_before=start, not_after=until).configure_cert(context)
    return context


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine trusts AUTHORITY, and nobody else."""
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))


@pytest.mark.usefixtures("trusted")
def test_a_good_certificate() -> None:
    with serving(certificate("localhost")) as server:
        server.files["x.gz"] = BODY
        partial = Path(ssl.get_default_verify_paths().cafile or "").with_name("x")
        fetch(server, "moved", partial)
        assert partial.read_bytes() == BODY
        assert str(failure(server, "unencrypted", partial)) == (
            "redirects to `http://localhost:1/good/x.gz`, which is not encrypted"
        )


BAD_CERTIFICATES = {
    "expired": (("localhost",), datetime(2021, 1, 1, tzinfo=UTC), AUTHORITY, "certificate has expired", "clock"),
    "another name": (("example.org",), None, AUTHORITY, "Hostname mismatch", "another name"),
    "unknown issuer": (("localhost",), None, trustme.CA(), "unable to get local issuer certificate", "SSL_CERT_FILE"),
}


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("case", BAD_CERTIFICATES)
def test_a_bad_certificate(tmp_path: Path, case: str) -> None:
    hosts, until, authority, reason, hint = BAD_CERTIFICATES[case]
    with serving(certificate(*hosts, until=until, authority=authority)) as server:
        server.files["x.gz"] = BODY
        error = failure(server, "good", tmp_path / "x")
        assert str(error).startswith(f"has a certificate that cannot be trusted: {reason}")
        assert hint in error.hint
        assert not error.is_passing
        assert server.requests == []
    assert not (tmp_path / "x").exists()
