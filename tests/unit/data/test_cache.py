"""Where the cache is, and how a file of it is found to be damaged."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from pellucid.data.cache import cache_folder, damage, record_sha256, recorded_sha256
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
    assert damage(path) == ""
    assert recorded_sha256(path) == one
    path.write_bytes(b"two")
    assert damage(path) == f"`{path}` is not what it was: its SHA-256 is {two}, but should be {one}"
    assert recorded_sha256(path) == one


def test_what_is_published_counts_more_than_what_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"one")
    one, two = (hashlib.sha256(body).hexdigest() for body in (b"one", b"two"))
    record_sha256(path, one)
    assert f"but should be {two}" in damage(path, two)
    record_sha256(path, two)
    assert damage(path, one) == ""


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum on this machine")
def test_sha256sum_can_check_it(tmp_path: Path) -> None:
    path = tmp_path / "x y.gz"
    path.write_bytes(b"one")
    assert damage(path) == ""
    done = subprocess.run(
        ["sha256sum", "-c", "x y.gz.sha256"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "x y.gz: OK\n")


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nowhere)
    with pytest.raises(ConfigError, match="there is no home directory for a cache") as caught:
        cache_folder({})
    assert caught.value.hint == "name a folder by PELLUCID_CACHE"
