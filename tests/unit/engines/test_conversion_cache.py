"""A conversion is kept as long as the model is the same. What is kept here is made up."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pellucid.engines.conversion_cache import SEAL, get_cached_conversion
from pellucid.errors import ConfigError

ENGINE = "numpy"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "pellucid.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"first")
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "user"))
    return folder


class Conversion:
    """Writes a file that holds the weights, and counts how often."""

    def __init__(self, model: Path, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.model, self.meanwhile, self.times = model, meanwhile, 0

    def __call__(self, place: Path) -> None:
        self.times += 1
        (place / "model").mkdir()
        (place / "model" / "model.bin").write_bytes((self.model / "model.safetensors").read_bytes())
        self.meanwhile()

    def kept(self, dtype: str = "int8") -> Path:
        return get_cached_conversion(self.model, ENGINE, dtype, self)


def test_it_is_made_once_and_said(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conversion = Conversion(model)
    first = conversion.kept()
    assert capsys.readouterr() == (
        "",
        f"converting the model for numpy (int8); the conversion is cached in `{model}/cache`\n",
    )
    assert (conversion.kept(), conversion.times) == (first, 1)
    assert capsys.readouterr().err == ""
    assert first.parent == model / "cache"
    assert (first / "model" / "model.bin").read_bytes() == b"first"


def test_other_weights_other_settings_and_other_types_are_converted_anew(model: Path) -> None:
    conversion = Conversion(model)
    first, other_type = conversion.kept(), conversion.kept("float32")
    (model / "model.safetensors").write_bytes(b"second")
    second = conversion.kept()
    assert (second / "model" / "model.bin").read_bytes() == b"second"
    assert not first.exists(), "what has been superseded stays"
    assert other_type.exists(), "a conversion of another type went"
    (model / "pellucid.json").write_text('{"decode": {}}', encoding="utf-8")
    conversion.kept()
    assert conversion.times == 4


@pytest.mark.parametrize("damage", ["changed", "shortened", "removed", "added", "unsealed", "half a seal"])
def test_a_damaged_one_is_made_anew(model: Path, damage: str) -> None:
    conversion = Conversion(model)
    kept = conversion.kept()
    weights, seal = kept / "model" / "model.bin", kept / SEAL
    if damage in ("changed", "shortened"):
        weights.write_bytes({"changed": b"fIrst", "shortened": b"fir"}[damage])
    elif damage == "added":
        (kept / "model" / "more").write_bytes(b"")
    elif damage == "half a seal":
        seal.write_text(seal.read_text(encoding="utf-8")[:20], encoding="utf-8")
    else:
        (weights if damage == "removed" else seal).unlink()
    assert conversion.kept() == kept
    assert conversion.times == 2
    assert weights.read_bytes() == b"first"
    assert sorted(path.name for path in (kept / "model").iterdir()) == ["model.bin"]


def test_one_that_was_stopped_halfway_is_not_used(model: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Conversion(model, stop).kept()
    assert not any((model / "cache").iterdir())
    conversion = Conversion(model)
    conversion.kept()
    assert conversion.times == 1


def test_of_two_at_once_both_have_it(model: Path) -> None:
    second = Conversion(model)
    found: list[Path] = []
    first = Conversion(model, lambda: found.append(second.kept()))  # which begins later and ends earlier
    assert [first.kept()] == found
    assert (first.times, second.times) == (1, 1)
    assert [path.name for path in (model / "cache").iterdir()] == [found[0].name]


def test_weights_that_change_meanwhile_are_converted_again(model: Path) -> None:
    weights = iter([b"second", b"third"])

    def train() -> None:
        if new := next(weights, b""):
            (model / "model.safetensors").write_bytes(new)

    conversion = Conversion(model, train)
    assert (conversion.kept() / "model" / "model.bin").read_bytes() == b"third"
    assert conversion.times == 3


def test_where_the_folder_cannot_be_written_the_users_cache_holds_it(model: Path, tmp_path: Path) -> None:
    (model / "cache").write_bytes(b"no folder")
    conversion = Conversion(model)
    first = conversion.kept()
    assert first.is_relative_to(tmp_path / "user" / "engines")
    assert (conversion.kept(), conversion.times) == (first, 1)
    os.symlink(model, tmp_path / "link")
    conversion.model = tmp_path / "link"
    assert (conversion.kept(), conversion.times) == (first, 1)


def test_where_nothing_can_be_written_it_is_said(model: Path, tmp_path: Path) -> None:
    for place in (model / "cache", tmp_path / "user"):
        place.write_bytes(b"no folder")
    with pytest.raises(
        ConfigError,
        match=r"no folder to cache the conversion of the model in: `.*cache` \(File exists\), `.*user.*` \(Not",
    ) as error:
        Conversion(model).kept()
    assert "PELLUCID_CACHE" in error.value.hint
    assert 'engine="torch"' in error.value.hint


def test_a_pipe_in_it_is_not_waited_for(model: Path) -> None:
    conversion = Conversion(model)
    os.mkfifo(conversion.kept() / "model" / "pipe")
    assert (conversion.kept() / SEAL).is_file()


def test_an_engine_that_is_not_installed(model: Path) -> None:
    with pytest.raises(ConfigError, match="CTranslate2 is not installed") as error:
        get_cached_conversion(model, "no-such-engine", "int8", Conversion(model))
    assert "[ct2]" in error.value.hint


@pytest.mark.parametrize("kind", ["pipe", "link to a device", "link to a file", "link to a folder"])
def test_what_is_no_regular_file_is_not_opened_by_an_engine(model: Path, kind: str) -> None:
    """The seal agrees: it lists the other files alone, as one who wrote it by hand would have it."""
    conversion = Conversion(model)
    kept = conversion.kept()
    weights, seal = kept / "model" / "model.bin", kept / SEAL
    weights.unlink()
    seal.write_text(json.dumps({"format": "pellucid-kept/1", "files": {}}), encoding="utf-8")
    if kind == "pipe":
        os.mkfifo(weights)
    else:
        weights.symlink_to({"device": "/dev/zero", "file": "/etc/hostname", "folder": model}[kind.split()[-1]])
    assert conversion.kept() == kept
    assert conversion.times == 2
    assert not weights.is_symlink()
    assert weights.read_bytes() == b"first"


def test_a_cache_that_is_a_link_is_neither_read_nor_written(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    precious = other / f"{ENGINE}-int8-precious"
    precious.mkdir(parents=True)
    (precious / "data").write_bytes(b"mine")
    (model / "cache").symlink_to(other)
    assert Conversion(model).kept().is_relative_to(tmp_path / "user")
    assert [path.name for path in other.iterdir()] == [precious.name]


def test_only_conversions_of_ours_are_removed(model: Path, tmp_path: Path) -> None:
    conversion = Conversion(model)
    first = conversion.kept()
    others = [model / "cache" / f"{ENGINE}-int8-{name}" for name in ("notes", "link")]
    others[0].mkdir()
    others[1].symlink_to(tmp_path)
    (model / "model.safetensors").write_bytes(b"second")
    conversion.kept()
    assert not first.exists()
    assert all(path.exists() for path in others)


def test_a_link_in_the_place_of_the_conversion_is_replaced(model: Path, tmp_path: Path) -> None:
    conversion = Conversion(model)
    kept = conversion.kept()
    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere")
    assert conversion.kept() == kept
    assert not kept.is_symlink()
    assert (tmp_path / "elsewhere" / SEAL).is_file()
