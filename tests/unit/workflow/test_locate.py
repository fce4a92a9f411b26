"""Where texts are looked for: as they are, in the data directory, in PELLUCID_DATA."""

import re
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.errors import DataError
from pellucid.workflow.locate import TEXT_FIELDS, locate


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
    return locate(DataConfig(src=src, tgt=src), places["given"], environment).src


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
    found = locate(DataConfig(src="sub/environment.de"))
    assert found.src == str(places["environment"] / "sub" / "environment.de")


@pytest.mark.parametrize("field", TEXT_FIELDS[:4])
def test_a_text_that_is_nowhere_is_an_error_that_names_the_places(places: dict[str, Path], field: str) -> None:
    searched = [Path("sub/no.de"), places["given"] / "sub/no.de", places["environment"] / "sub/no.de"]
    expected = f"no file `sub/no.de`; looked for {', '.join(f'`{path}`' for path in searched)}"
    environment = {"PELLUCID_DATA": str(places["environment"])}
    with pytest.raises(DataError, match=f"^{re.escape(expected)}$") as error:
        locate(DataConfig(**{field: "sub/no.de"}), places["given"], environment)  # type: ignore[arg-type]
    assert error.value.hint == "name the folder that holds it by --data-dir or PELLUCID_DATA"


def test_without_a_data_directory_only_the_path_is_named(places: dict[str, Path]) -> None:
    with pytest.raises(DataError, match=r"^no file `no\.de`; looked for `no\.de`$"):
        locate(DataConfig(src="no.de"), environment={})


def test_a_test_text_may_be_missing(places: dict[str, Path]) -> None:
    data = DataConfig(test_src="no.de", test_tgt="sub/given.de", vocab_size=77)
    found = locate(data, places["given"], {})
    assert (found.test_src, found.test_tgt) == ("no.de", str(places["given"] / "sub" / "given.de"))
    assert (found.src, found.vocab_size) == ("", 77)
