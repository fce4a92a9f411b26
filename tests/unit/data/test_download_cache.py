"""Where the cache is, and how a file of it is found to be damaged."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from pellucid.data.download_cache import cache_folder, find_checksum_mismatch, read_recorded_sha256, record_sha256
from pellucid.errors import ConfigError


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"PELLUCID_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own"),
        ({"PELLUCID_CACHE": "~/own"}, "/home-folder/own"),
        ({"PELLUCID_CACHE": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/pellucid"),
        ({"XDG_CACHE_HOME": "relative"}, "/home-folder/.cache/pellucid"),
        ({}, "/home-folder/.cache/pellucid"),
    ],
)
def test_the_cache_is_where_the_environment_says(
    environment: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home-folder")
    assert cache_folder(environment) == Path(folder)


def test_a_change_is_found(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"one")
    one, two = (hashlib.sha256(body).hexdigest() for body in (b"one", b"two"))
    assert find_checksum_mismatch(path) == ""
    assert read_recorded_sha256(path) == one
    path.write_bytes(b"two")
    assert find_checksum_mismatch(path) == f"`{path}` is damaged: its SHA-256 is {two} instead of {one}"
    assert read_recorded_sha256(path) == one


def test_what_is_published_counts_more_than_what_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"one")
    one, two = (hashlib.sha256(body).hexdigest() for body in (b"one", b"two"))
    record_sha256(path, one)
    assert f"instead of {two}" in find_checksum_mismatch(path, two)
    record_sha256(path, two)
    assert find_checksum_mismatch(path, one) == ""


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum on this machine")
def test_sha256sum_can_check_it(tmp_path: Path) -> None:
    path = tmp_path / "x y.gz"
    path.write_bytes(b"one")
    assert find_checksum_mismatch(path) == ""
    done = subprocess.run(
        ["sha256sum", "-c", "x y.gz.sha256"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "x y.gz: OK\n")


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nowhere)
    with pytest.raises(ConfigError, match="no home directory for the cache") as caught:
        cache_folder({})
    assert caught.value.hint == "set PELLUCID_CACHE to a folder"
