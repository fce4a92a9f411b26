"""The stores of documents and glossaries, and the file of keys."""

import time
from pathlib import Path

import pytest

from pellucid.errors import ConfigError, DataError
from pellucid.serve.errors import RequestError
from pellucid.serve.keys import Keys, read_keys
from pellucid.serve.limits import ServerLimits
from pellucid.serve.store import Store, has_key
from tests.processes import run_python

DYING = """
import os, sys
from pathlib import Path
from pellucid.serve.store import Store
print(Store(Path(sys.argv[1]), "documents", 2, 60.0).worker, flush=True)
os.kill(os.getpid(), 9)
"""


def test_two_stores_of_one_folder_share_their_entries(tmp_path: Path) -> None:
    one, other = (Store(tmp_path / "shared", "documents", 2, 60.0) for _ in range(2))
    name = one.add({"key": "k", "state": "queued"})
    found = other.get(name)
    assert found is not None
    assert has_key(found, "k")
    assert not has_key(found, "ü")
    other.put_result(name, b"done")
    assert one.get_result(name) == b"done"
    other.add({})
    with pytest.raises(RequestError) as refused:
        one.add({})
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "60"})
    assert one.remove(name)
    assert other.get(name) is None
    assert not other.remove(name)
    assert (tmp_path / "shared" / "documents").stat().st_mode & 0o077 == 0


def test_entries_end_by_age(tmp_path: Path) -> None:
    now = [1000.0]
    store = Store(tmp_path, "documents", 1, 60.0, clock=lambda: now[0])
    name = store.add({})
    now[0] += 61
    assert store.get(name) is None
    assert store.get_result(name) is None
    now[0] += 1e10
    assert store.add({}) != name, "the old one is removed"


def test_a_store_knows_whether_the_process_of_another_has_ended(tmp_path: Path) -> None:
    now = [time.time()]
    one, other = (Store(tmp_path, "documents", 2, 60.0, clock=lambda: now[0]) for _ in range(2))
    assert one.worker == one.worker != other.worker
    now[0] += 1e6
    other.sweep()
    assert not other.has_ended(one.worker), "a lock does not age"
    assert not one.has_ended(one.worker)
    killed = run_python("-c", DYING, tmp_path).stdout.strip()
    assert len(killed) == 32
    assert one.has_ended(killed)
    one.close()
    assert other.has_ended(one.worker)
    assert not other.has_ended(""), "of a file system without locks"


@pytest.mark.parametrize("name", ["", "../x", "0" * 31, "0" * 33, "0" * 32 + "\0", "A" * 32, "a/" * 16])
def test_a_name_of_a_client_is_never_a_path(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path, "documents", 1, 60.0)
    assert store.get(name) is None
    assert store.get_result(name) is None
    assert not store.remove(name)


def test_a_temporary_store_is_removed() -> None:
    store = Store(None, "documents", 1, 60.0)
    assert store.folder.is_dir()
    store.close()
    assert not store.folder.exists()


def test_keys_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys"
    path.write_bytes("\ufeff# staff\r\n  one \r\n\r\nzwölf\n".encode())
    path.chmod(0o600)
    keys = Keys(read_keys(path))
    assert [keys.has(key) for key in ("one", "zwölf", "# staff", "", "on", "\ud800")] == [True, True, *[False] * 4]
    assert not capsys.readouterr().err
    path.chmod(0o644)
    read_keys(path)
    assert "warning: others than its owner can read" in capsys.readouterr().err
    assert not Keys()


@pytest.mark.parametrize(("content", "message"), [(b"# none\n", "has no key"), (b"\xff\xfe\xfd", "is not UTF-8")])
def test_a_file_without_keys(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "keys").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_keys(tmp_path / "keys")
    with pytest.raises(DataError):
        read_keys(tmp_path / "missing")


def test_limits_are_above_zero() -> None:
    with pytest.raises(ConfigError, match="`characters=0` must be a number above 0"):
        ServerLimits(characters=0)
