"""The record of a Hugging Face folder: each file is read once, within its budget, and nothing outside of the folder."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.errors import CheckpointError
from pellucid.files import budget, reading
from pellucid.text import foreign_files
from pellucid.text.foreign_files import ForeignFiles
from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers, tokenizer_files
from pellucid.text.template import read_template
from tests.parity.foreign_tokenizers import folders


@pytest.mark.parametrize(
    "make",
    [folders.marian, folders.m2m_100, folders.t5, folders.llama, lambda f: folders.fairseq(f, "m2m_100", "Nllb")],
)
def test_each_file_is_read_once(make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, opened = ForeignFiles(make(tmp_path)), Counter[str]()
    open_regular = budget.open_regular

    def counted(path: Path, *arguments: Any) -> Any:
        opened[path.name] += 1
        return open_regular(path, *arguments)

    monkeypatch.setattr(budget, "open_regular", counted)
    tokenizers = load_hugging_face_tokenizers(files)
    assert tokenizers is not None
    read_template(files, tokenizers.source, {})
    tokenizer_files(files)
    assert {"config.json", "tokenizer_config.json"} <= set(opened)
    assert set(opened.values()) == {1}


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    files = ForeignFiles(tmp_path)
    assert (files.config, files.settings, files.special_tokens, files.names) == ({}, {}, {}, frozenset())
    with pytest.raises(CheckpointError, match=r"^cannot read `.*vocab\.json`: No such file"):
        files.read("vocab.json")


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json"])
@pytest.mark.parametrize("fault", ["link", "large", "folder"])
def test_the_limits_of_a_file(name: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_SETTINGS_BYTES", 9)
    monkeypatch.setattr(foreign_files, "MOST_TOKENIZER_BYTES", 9)
    (folder := tmp_path / "model").mkdir()
    files, path = ForeignFiles(folder), folder / name
    if fault == "link":
        (tmp_path / "secret").write_text("{}", encoding="utf-8")
        path.symlink_to(tmp_path / "secret")
    elif fault == "large":
        path.write_text('{"a": "b"}', encoding="utf-8")
    else:
        path.mkdir()
    reasons = {
        "link": "is a link out of its folder",
        "large": "has 10 bytes; at most 9 are read",
        "folder": "is a folder",
    }
    if fault == "folder" and name != "vocab.json":
        assert files.table(name) == {}
        return
    with pytest.raises(CheckpointError, match=reasons[fault]):
        files.read(name) if name == "vocab.json" else (files.config, files.settings, files.special_tokens)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    os.mkfifo(tmp_path / "vocab.json")
    assert ForeignFiles(tmp_path).config == {}
    with pytest.raises(CheckpointError, match="it is a pipe, not a file"):
        ForeignFiles(tmp_path).read("vocab.json")
