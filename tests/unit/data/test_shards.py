"""Shards: what was encoded comes back, from disk when it is whole and of the same text, else anew."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from pellucid.data import shards
from pellucid.data.shards import EncodedCorpus, LineEncoderPair, load_or_encode, read_stored_fingerprint
from pellucid.errors import DataError
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.vocabulary import Vocabulary

Pair = tuple[str, str]
PAIRS = [("a b c", "b"), ("c", "a a a"), ("b b", "c c")]
TOKENIZER = Vocabulary("spaces", ("a", "b", "c"))  # ids 4, 5, 6
TOKENIZERS = TokenizerPair(TOKENIZER, TOKENIZER)


class Large:
    """A tokenizer of numbers, with a vocabulary of a given size."""

    def __init__(self, size: int) -> None:
        self.size = size

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        return [[int(word) for word in line.split()] for line in lines]


def unread() -> Iterator[Pair]:
    raise AssertionError("the pairs were read again")
    yield


def write(folder: Path, pairs: Sequence[Pair] = PAIRS, fingerprint: str = "text 1") -> EncodedCorpus:
    return load_or_encode(folder / "train", iter(pairs), TOKENIZERS, 3, fingerprint)


def read(folder: Path, fingerprint: str = "text 1") -> EncodedCorpus:
    return load_or_encode(folder / "train", unread(), TOKENIZERS, 3, fingerprint)


def texts(shard: EncodedCorpus) -> list[Pair]:
    ids = zip(shard.source, shard.target, strict=True)
    return [(TOKENIZER.decode(s.tolist()), TOKENIZER.decode(t.tolist())) for s, t in ids]


def test_a_shard_knows_what_its_lines_are_like(tmp_path: Path) -> None:
    pairs = [*PAIRS, ("", "b"), ("a b c a", "b")]  # of which two are left out
    expected = TrainingTextStats(
        source_length=3, source_longest=3, target_length=3, target_longest=3, source_script="Latin",
        target_script="Latin", sentence_ends=0.0, several_sentences=0.0,
    )  # fmt: skip
    assert write(tmp_path, pairs).text == read(tmp_path).text == expected
    index = tmp_path / "train" / "index.json"
    table = json.loads(index.read_text(encoding="utf-8"))
    del table["text"]  # as an earlier version wrote it
    index.write_text(json.dumps(table), encoding="utf-8")
    assert read(tmp_path).text is None


def test_a_round_trip(tmp_path: Path) -> None:
    shard = write(tmp_path)
    assert texts(shard) == PAIRS
    assert len(shard) == len(shard.source) == 3
    assert shard.source.lengths.tolist() == [3, 1, 2]
    assert shard.target.lengths.tolist() == [1, 3, 2]
    assert (shard.empty, shard.too_long) == (0, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train"]


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_chunks_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(shards, "CHUNK", chunk)
    assert texts(write(tmp_path)) == PAIRS


def test_the_same_text_is_not_read_again(tmp_path: Path) -> None:
    write(tmp_path)
    assert texts(read(tmp_path)) == PAIRS
    assert read_stored_fingerprint(tmp_path / "train") == "text 1"


def test_another_text_is(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(AssertionError, match="read again"):
        read(tmp_path, "text 2")
    assert texts(write(tmp_path, PAIRS[:1], "text 2")) == PAIRS[:1]
    assert read_stored_fingerprint(tmp_path / "train") == "text 2"


FILES = ["source.ids", "target.ids", "source.offsets", "target.offsets"]


@pytest.mark.parametrize("how", ["missing", "cut off", "one bit"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_written_anew(tmp_path: Path, name: str, how: str) -> None:
    write(tmp_path)
    path = tmp_path / "train" / name
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(data[:-2] if how == "cut off" else bytes([data[0] ^ 1]) + data[1:])
    with pytest.raises(AssertionError, match="read again"):
        read(tmp_path)
    assert texts(write(tmp_path)) == PAIRS
    assert texts(read(tmp_path)) == PAIRS


@pytest.mark.parametrize("index", ["", '{"format": "pellucid-sh', "[]", "{}", '{"format": "pellucid-shard/0"}', "\xff"])
def test_a_damaged_index_is_written_anew(tmp_path: Path, index: str) -> None:
    write(tmp_path)
    (tmp_path / "train" / "index.json").write_bytes(index.encode("latin-1"))
    assert read_stored_fingerprint(tmp_path / "train") is None
    assert texts(write(tmp_path)) == PAIRS
    assert texts(read(tmp_path)) == PAIRS


@pytest.mark.parametrize("key", ["sha256", "dtype", "empty", "too_long"])
def test_an_index_that_lacks_something_is_written_anew(tmp_path: Path, key: str) -> None:
    write(tmp_path)
    path = tmp_path / "train" / "index.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({k: v for k, v in index.items() if k != key}), encoding="utf-8")
    assert texts(write(tmp_path)) == PAIRS
    assert json.loads(path.read_text(encoding="utf-8")) == index


@pytest.mark.parametrize("key", ["empty", "too_long", "first_too_long", "left_out"])
@pytest.mark.parametrize("value", ["x", [[1]], 1.5, {"a": 1}])
def test_an_index_of_something_else_is_written_anew(tmp_path: Path, key: str, value: object) -> None:
    write(tmp_path)
    path = tmp_path / "train" / "index.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(index | {key: value}), encoding="utf-8")
    assert texts(write(tmp_path)) == PAIRS
    assert json.loads(path.read_text(encoding="utf-8")) == index


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("dtype", [[], None, "", "uint32", "float64", "x" * 9, {"a": 1}, 1 << 70])
def test_an_index_of_another_type_of_ids_is_written_anew(tmp_path: Path, side: str, dtype: object) -> None:
    write(tmp_path)
    path = tmp_path / "train" / "index.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(index | {"dtype": index["dtype"] | {side: dtype}}), encoding="utf-8")
    assert texts(write(tmp_path)) == PAIRS
    assert json.loads(path.read_text(encoding="utf-8")) == index


def test_a_half_written_folder_is_no_shard(tmp_path: Path) -> None:
    def killed() -> Iterator[Pair]:
        yield PAIRS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_or_encode(tmp_path / "train", killed(), TOKENIZERS, 3, "text 1")
    assert read_stored_fingerprint(tmp_path / "train") is None
    assert texts(write(tmp_path)) == PAIRS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train"]


@pytest.mark.parametrize(
    ("size", "dtype"), [(10, np.uint16), (1 << 16, np.uint16), ((1 << 16) + 1, np.uint32), (300_000, np.uint32)]
)
def test_ids_take_the_room_they_need(tmp_path: Path, size: int, dtype: type) -> None:
    tokenizers = LineEncoderPair(Large(size), Large(10))
    shard = load_or_encode(tmp_path / "train", [(f"{size - 1} 4", "9")], tokenizers, 3, "x")
    assert shard.source[0].tolist() == [size - 1, 4]
    assert shard.target[0].tolist() == [9]
    assert (shard.source.ids.dtype, shard.target.ids.dtype) == (dtype, np.uint16)


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    long, empty = ("a a a a", "b"), ("", "b")
    pairs = [long, PAIRS[0], empty, long[::-1], empty[::-1], ("", ""), (long[0], ""), PAIRS[1]]
    for shard in (write(tmp_path, pairs), read(tmp_path)):
        assert texts(shard) == PAIRS[:2]
        assert (shard.empty, shard.too_long) == (4, 2)


@pytest.mark.parametrize(
    ("pairs", "counts"),
    [
        ([("", "a")] * 1200 + [("a", "b b b b")], "1,200 had an empty side, 1 had more than 3 tokens"),
        ([], "0 had an empty side, 0 had more than 3 tokens"),
    ],
)
def test_nothing_left_is_an_error_that_leaves_nothing(tmp_path: Path, pairs: list[Pair], counts: str) -> None:
    with pytest.raises(DataError, match=f"^the text has no usable pair of sentences: {counts}$") as error:
        write(tmp_path, pairs)
    assert "data.max_length" in error.value.hint
    assert list(tmp_path.iterdir()) == []


def test_nothing_left_leaves_the_shard_from_before(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(DataError):
        write(tmp_path, [("", "")], "text 2")
    assert texts(read(tmp_path)) == PAIRS


def test_the_index_says_what_the_shard_holds(tmp_path: Path) -> None:
    write(tmp_path, [*PAIRS, ("", "a")])
    index = json.loads((tmp_path / "train" / "index.json").read_text(encoding="utf-8"))
    assert (index["sentences"], index["empty"], index["too_long"]) == (3, 1, 0)
    assert sorted(index["sha256"]) == sorted(FILES)


ODD = [("a b", "c"), ("b \u2028 a", "c 한국어"), ("a \0 \ud83d", "a"), ("b", "c \U0001f44d")]


def with_texts(folder: Path, pairs: Sequence[Pair] = ODD, cut: bool = False) -> EncodedCorpus:
    return load_or_encode(folder / "train", iter(pairs), TOKENIZERS, 3, "text 1", keep_texts=True, cut=cut)


def test_texts_are_kept_where_they_are_wanted(tmp_path: Path) -> None:
    with_texts(tmp_path, [*ODD, ("a b c a", "b"), ("", "c"), ("c", "a")])
    shard = read(tmp_path)
    assert shard.source.texts is not None
    assert shard.target.texts is not None
    kept = [(shard.source.texts[i], shard.target.texts[i]) for i in range(len(shard))]
    assert kept == [*(tuple(text.replace("\ud83d", "?") for text in pair) for pair in ODD), ("c", "a")]
    for text, ids in zip((source for source, _ in kept), shard.source, strict=True):
        assert TOKENIZER.encode(text) == ids.tolist()


def test_texts_are_not_kept_otherwise(tmp_path: Path) -> None:
    assert write(tmp_path).source.texts is None
    assert sorted(path.name for path in (tmp_path / "train").iterdir()) == sorted([*FILES, "index.json"])


@pytest.mark.parametrize("name", ["source.text", "target.text", "source.bounds", "target.bounds"])
def test_a_damaged_text_is_written_anew(tmp_path: Path, name: str) -> None:
    with_texts(tmp_path)
    path = tmp_path / "train" / name
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with_texts(tmp_path)
    assert path.read_bytes() == data


def test_where_every_side_was_cut_there_is_no_text(tmp_path: Path) -> None:
    shard = with_texts(tmp_path, [("a b c a", "b b b b")], cut=True)
    assert shard.source.texts is not None
    assert shard.source.texts[0] == ""
    assert shard.source[0].tolist() == [4, 5, 6]


FAULTY = [("a", "b"), ("", "b"), ("a a a a", "c"), ("c", "b"), ("a", "b b b b b"), ("b", "")]


@pytest.mark.parametrize("chunk", [2, 100])
def test_places_of_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(shards, "CHUNK", chunk)
    write(tmp_path, FAULTY)
    shard = read(tmp_path)
    assert texts(shard) == [("a", "b"), ("c", "b")]
    assert (shard.empty, shard.too_long, shard.first_too_long) == (2, 2, 2)
    assert shard.left_out == (1, 2, 4, 5)
    assert shard.corpora == ()


def test_long_sides_may_be_cut(tmp_path: Path) -> None:
    shard = load_or_encode(tmp_path / "train", iter(FAULTY), TOKENIZERS, 3, "text 1", keep_texts=True, cut=True)
    assert texts(shard) == [("a", "b"), ("a a a", "c"), ("c", "b"), ("a", "b b b")]
    assert (shard.empty, shard.too_long, shard.first_too_long, shard.left_out) == (2, 2, 2, (1, 5))
    assert shard.source.texts is not None
    assert [shard.source.texts[i] for i in range(4)] == ["a", "", "c", "a"], "a side that was cut has no text"
