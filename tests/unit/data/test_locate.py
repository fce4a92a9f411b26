"""Where texts are looked for: as they are, in the data directory, in PELLUCID_DATA, in the cache, at a publisher's."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.data import locate as locate_module
from pellucid.data.catalogue import read_catalogue
from pellucid.data.locate import TEXT_FIELDS, resolve_paths
from pellucid.errors import DataError
from tests.unit.data.file_server import FileServer, serving


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Three folders, each with a text `x.de` and one of its own; the first is the current one."""
    folders = {name: tmp_path / name for name in ("here", "given", "environment")}
    for name, folder in folders.items():
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / f"{name}.de").touch()
    monkeypatch.chdir(folders["here"])
    monkeypatch.delenv("PELLUCID_DATA", raising=False)
    return folders


def find(places: dict[str, Path], src: str) -> str:
    environment = {"PELLUCID_DATA": str(places["environment"])}
    return resolve_paths(DataConfig(src=src, tgt=src), places["given"], environment).src


def test_local_texts_need_no_cache(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a user without HOME and without an entry in the system's list of users."""

    def nowhere(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nowhere)
    assert find(places, "sub/given.de") == str(places["given"] / "sub" / "given.de")
    with pytest.raises(DataError, match=r"^no file `sub/none\.de`; looked for"):
        find(places, "sub/none.de")


def test_each_place_is_looked_in(places: dict[str, Path]) -> None:
    assert find(places, "sub/here.de") == "sub/here.de"
    assert find(places, "sub/given.de") == str(places["given"] / "sub" / "given.de")
    assert find(places, "sub/environment.de") == str(places["environment"] / "sub" / "environment.de")
    absolute = str(places["environment"] / "sub" / "environment.de")
    assert find(places, absolute) == absolute


def test_the_nearest_place_wins(places: dict[str, Path]) -> None:
    for name, expected in (("environment", places["environment"]), ("given", places["given"]), ("here", Path())):
        (places[name] / "sub" / "x.de").touch()
        assert find(places, "sub/x.de") == str(expected / "sub" / "x.de")


def test_the_environment_is_the_processs(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_DATA", str(places["environment"]))
    found = resolve_paths(DataConfig(src="sub/environment.de"))
    assert found.src == str(places["environment"] / "sub" / "environment.de")


@pytest.mark.parametrize("field", TEXT_FIELDS[:4])
def test_a_text_that_is_nowhere_is_an_error_that_names_the_places(places: dict[str, Path], field: str) -> None:
    searched = [Path("sub/no.de"), places["given"] / "sub/no.de", places["environment"] / "sub/no.de"]
    expected = f"no file `sub/no.de`; looked for {', '.join(f'`{path}`' for path in searched)}"
    environment = {"PELLUCID_DATA": str(places["environment"])}
    with pytest.raises(DataError, match=f"^{re.escape(expected)}$") as error:
        resolve_paths(DataConfig(**{field: "sub/no.de"}), places["given"], environment)  # type: ignore[arg-type]
    assert error.value.hint == "check the path, or name the folder that holds it by `data_dir=` or PELLUCID_DATA"


def test_without_a_data_directory_only_the_path_is_named(places: dict[str, Path]) -> None:
    with pytest.raises(DataError, match=r"^no file `no\.de`; looked for `no\.de`$"):
        resolve_paths(DataConfig(src="no.de"), environment={})


def test_a_test_text_may_be_missing(places: dict[str, Path]) -> None:
    data = DataConfig(test_src="no.de", test_tgt="sub/given.de", vocab_size=77)
    found = resolve_paths(data, places["given"], {})
    assert (found.test_src, found.test_tgt) == ("no.de", str(places["given"] / "sub" / "given.de"))
    assert (found.src, found.vocab_size) == ("", 77)


BODY = b"Ein Hund.\n"
SET = """
[{name}]
title = "A Set"
publisher = "https://set.example"
terms = "for tests alone"
sources = [{{ url = "{address}/{behaviour}/{{name}}", tried = true }}]
[{name}.files]
"a.de" = {{ bytes = 10, sha256 = "{sha256}" }}
"a.en" = {{ bytes = 10, sha256 = "{sha256}" }}
"""


class Published:
    """Two data sets: `set`, whose files the server has, and `tests`, whose it has not."""

    def __init__(self, server: FileServer, places: dict[str, Path]) -> None:
        self.server = server
        self.cache = places["here"].parent / "cache"
        self.environment = {"PELLUCID_CACHE": str(self.cache)}
        server.files |= {"a.de": BODY, "a.en": BODY}

    def locate(self, **texts: object) -> DataConfig:
        return resolve_paths(DataConfig(**texts), None, self.environment, fetch=True)  # type: ignore[arg-type]


@pytest.fixture
def published(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Published]:
    monkeypatch.setenv("no_proxy", "*")
    with serving() as server:
        sets = {"set": "good", "tests": "missing"}
        sha256 = hashlib.sha256(BODY).hexdigest()
        tables = (
            SET.format(name=name, behaviour=behaviour, address=server.address, sha256=sha256)
            for name, behaviour in sets.items()
        )
        catalogue = read_catalogue("".join(tables))
        monkeypatch.setattr(locate_module, "catalogue", lambda: catalogue)
        yield Published(server, places)


def test_what_is_nowhere_is_fetched_once(published: Published, capsys: pytest.CaptureFixture[str]) -> None:
    expected = (str(published.cache / "set" / "a.de"), str(published.cache / "set" / "a.en"))
    for _ in range(2):
        data = published.locate(src="set/a.de", tgt="set/a.en")
        assert (data.src, data.tgt) == expected
        assert Path(expected[0]).read_bytes() == BODY
    assert [path for path, _ in published.server.requests] == ["/good/a.de", "/good/a.en"]
    assert capsys.readouterr().err.startswith("downloading 2 files of A Set (20 bytes)\n")


def test_a_text_at_hand_is_not_fetched(published: Published, places: dict[str, Path]) -> None:
    (places["here"] / "set").mkdir()
    (places["here"] / "set" / "a.de").write_bytes(b"my own")
    data = published.locate(src="set/a.de", tgt="set/a.en", test_src="tests/a.de")
    assert (data.src, data.tgt) == ("set/a.de", str(published.cache / "set" / "a.en"))
    assert [path for path, _ in published.server.requests] == ["/good/a.en", "/missing/a.de"]


def test_several_corpora_are_located_one_by_one(published: Published, places: dict[str, Path]) -> None:
    data = published.locate(src=("sub/here.de", "set/a.de"), tgt=("sub/here.de", "set/a.en"))
    assert data.src == ("sub/here.de", str(published.cache / "set" / "a.de"))
    assert data.tgt == ("sub/here.de", str(published.cache / "set" / "a.en"))


def test_tests_come_along_but_training_does_without(published: Published, capsys: pytest.CaptureFixture[str]) -> None:
    data = published.locate(src="set/a.de", tgt="set/a.en", test_src="tests/a.de", test_tgt="nowhere.en")
    assert (data.test_src, data.test_tgt) == ("tests/a.de", "nowhere.en")
    assert "could not download `tests/a.de`: " in (said := capsys.readouterr().err)
    assert "; training does not need it\n" in said


def test_tests_alone_are_not_fetched(published: Published) -> None:
    assert published.locate(src="sub/here.de", test_src="set/a.de").test_src == "set/a.de"
    assert published.server.requests == []


@pytest.mark.parametrize("switch", ["argument", "PELLUCID_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_nothing_is_asked_for(published: Published, switch: str) -> None:
    data = DataConfig(src="set/a.de", tgt="set/a.en")
    environment = published.environment | ({switch: "1"} if switch != "argument" else {})
    with pytest.raises(DataError) as error:
        resolve_paths(data, None, environment, fetch=switch != "argument")
    address = published.server.address
    assert str(error.value) == (
        f"no file `set/a.de`; looked for `set/a.de`, `{published.cache}/set/a.de`; not downloaded in offline mode: "
        f"`{address}/good/a.de`, `{address}/good/a.en` (20 bytes)"
    )
    assert error.value.hint == (
        "check the path, or name the folder that holds it by `data_dir=` or PELLUCID_DATA, or download it once by a "
        "training without `offline=True`, PELLUCID_OFFLINE and HF_HUB_OFFLINE"
    )
    assert published.server.requests == []
    assert not published.cache.exists()


@pytest.mark.parametrize("value", ["", "0", "false", "No"])
def test_offline_can_be_switched_off(published: Published, value: str) -> None:
    published.environment["PELLUCID_OFFLINE"] = value
    assert published.locate(src="set/a.de").src.startswith(str(published.cache))  # type: ignore[union-attr]


def test_a_text_that_nobody_publishes_stops_all(published: Published) -> None:
    with pytest.raises(DataError, match=r"^no file `set/b\.en`; looked for `set/b\.en`$"):
        published.locate(src="set/a.de", tgt="set/b.en")
    assert published.server.requests == []


def test_a_damaged_text_in_the_cache_is_not_used(published: Published, capsys: pytest.CaptureFixture[str]) -> None:
    published.locate(src="set/a.de")
    cached = published.cache / "set" / "a.de"
    cached.write_bytes(b"Ein Hase.\n")
    published.environment["PELLUCID_OFFLINE"] = "1"
    with pytest.raises(DataError, match=r"^no file `set/a\.de`"):
        published.locate(src="set/a.de")
    found, expected = (hashlib.sha256(body).hexdigest() for body in (b"Ein Hase.\n", BODY))
    complaint = f"`{cached}` is damaged: its SHA-256 is {found} instead of {expected}; it is not used\n"
    assert capsys.readouterr().err.endswith(complaint)
    del published.environment["PELLUCID_OFFLINE"]
    published.locate(src="set/a.de")
    assert cached.read_bytes() == BODY
