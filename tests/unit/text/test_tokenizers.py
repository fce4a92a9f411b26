"""The tokenizers of a model folder: what is saved comes back, what was changed is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.errors import CheckpointError, format_value
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizer_training import TOKENIZER_KINDS, train_tokenizer
from pellucid.text.tokenizers import TokenizerPair

LINES = ["the dog runs", "ein Hund läuft ▁"]


def train(kind: str) -> Tokenizer:
    return train_tokenizer(kind, LINES, normalize="none")


def saved(folder: Path, source: str = "bpe", target: str | None = None) -> tuple[TokenizerPair, dict[str, Any]]:
    first = train(source)
    tokenizers = TokenizerPair(first, train(target) if target else first)
    table = json.loads(json.dumps(tokenizers.save(folder)))
    return tokenizers, table


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_a_joint_tokenizer_comes_back(kind: str, tmp_path: Path) -> None:
    tokenizers, table = saved(tmp_path, kind)
    loaded = TokenizerPair.load(tmp_path, table)
    assert loaded.joint
    assert loaded.source is loaded.target
    assert (loaded.source.kind, loaded.source.size) == (kind, tokenizers.source.size)
    assert [loaded.source.encode(line) for line in LINES] == [tokenizers.source.encode(line) for line in LINES]
    assert [path.name for path in tmp_path.iterdir()] == list(table["files"].values())
    assert (table["kind"], table["joint"]) == (kind, True)


@pytest.mark.parametrize(("source", "target"), [("bpe", "bpe"), ("words", "characters"), ("unigram", "bytes")])
def test_two_tokenizers_come_back(source: str, target: str, tmp_path: Path) -> None:
    tokenizers, table = saved(tmp_path, source, target)
    loaded = TokenizerPair.load(tmp_path, table)
    assert not loaded.joint
    assert (loaded.source.kind, loaded.target.kind) == (source, target)
    assert loaded.source.encode(LINES[0]) == tokenizers.source.encode(LINES[0])
    assert loaded.target.encode(LINES[0]) == tokenizers.target.encode(LINES[0])
    assert {path.stem for path in tmp_path.iterdir()} == {"source", "target"}


def test_a_foreign_model_stays_foreign(tmp_path: Path) -> None:
    tokenizer = train(str(train("bpe").save(tmp_path / "own")))
    table = TokenizerPair(tokenizer, tokenizer).save(tmp_path)
    loaded = TokenizerPair.load(tmp_path, table)
    assert loaded.source.kind == "sentencepiece"
    assert loaded.source.encode("▁") == tokenizer.encode("▁") != train("bpe").encode("▁")


def test_equal_tokenizers_give_equal_files_and_tables(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    first, second = saved(tmp_path / "a")[1], saved(tmp_path / "b")[1]
    assert first == second
    assert (tmp_path / "a/tokenizer.model").read_bytes() == (tmp_path / "b/tokenizer.model").read_bytes()


def test_a_missing_file(tmp_path: Path) -> None:
    _, table = saved(tmp_path)
    (tmp_path / "tokenizer.model").unlink()
    with pytest.raises(CheckpointError, match=r"cannot read `.*tokenizer\.model`: No such file") as caught:
        TokenizerPair.load(tmp_path, table)
    assert caught.value.hint == "copy the whole folder"


@pytest.mark.parametrize("kind", ["bpe", "words"])
@pytest.mark.parametrize("cut", [1, 16, 500, 10**9])
def test_a_truncated_file(kind: str, cut: int, tmp_path: Path) -> None:
    _, table = saved(tmp_path, kind)
    path = tmp_path / table["files"]["tokenizer"]
    data = path.read_bytes()[:-cut]
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=rf"\({len(data)} bytes\) is not the file that was saved with the model"):
        TokenizerPair.load(tmp_path, table)


@pytest.mark.parametrize("name", ["../x.model", "/etc/x", "a/b", "a\\b", "C:x", "..", ".", "", "x\0"])
def test_a_file_outside_the_folder(name: str, tmp_path: Path) -> None:
    _, table = saved(tmp_path)
    table["files"]["tokenizer"] = name
    with pytest.raises(CheckpointError, match="must be in the model's folder") as caught:
        TokenizerPair.load(tmp_path, table)
    assert f"`{format_value(name)}`" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "bped"}, "unknown kind of tokenizer `bped`"),
        ({"kind": None}, "unknown kind of tokenizer `None`"),
        ({"files": {}}, "the tokenizer's table has no `files.tokenizer`"),
        ({"files": "tokenizer.model"}, "the tokenizer's table has no `files.tokenizer`"),
        ({"files": {"tokenizer": 3}}, "the tokenizer's table has no `files.tokenizer`"),
        ({"sha256": {}}, "the tokenizer's table has no `sha256.tokenizer`"),
        ({"joint": False}, "the tokenizer's table has no `files.source`"),
        ({"kind": "words"}, "is not a vocabulary"),
    ],
)
def test_a_malformed_table(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    _, table = saved(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        TokenizerPair.load(tmp_path, {**table, **change})


def test_a_vocabulary_under_its_old_name_opens(tmp_path: Path) -> None:
    tokenizers, table = saved(tmp_path, "words")
    assert table["files"] == {"tokenizer": "vocabulary.json"}
    (tmp_path / "vocabulary.json").rename(tmp_path / "tokenizer.json")
    loaded = TokenizerPair.load(tmp_path, table | {"files": {"tokenizer": "tokenizer.json"}})
    assert loaded.source.encode(LINES[0]) == tokenizers.source.encode(LINES[0])
