"""Tokenizers from lines: any small corpus works, equal text gives equal files, wrong settings are named."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceTrainer

import pellucid
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.text.subwords import SentencePieceTokenizer
from pellucid.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer
from pellucid.text.tokenizer_training import TOKENIZER_KINDS, train_tokenizer

LINES = ["the dog runs", "the cat runs", "a dog, a cat", "The end"]
WITH_BYTES = ["bpe", "unigram", "characters", "bytes"]


def train(kind: str, lines: Any = LINES, **options: Any) -> Tokenizer:
    settings = {"normalize": "none"}
    return train_tokenizer(kind, lines, **{**settings, **options})


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_special_ids_are_the_same_for_all_kinds(kind: str) -> None:
    tokenizer = train(kind, iter(LINES))
    assert tokenizer.kind == kind
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (PAD_ID, BOS_ID, EOS_ID)
    assert tokenizer.unk_id == UNK_ID
    assert tokenizer.decode([BOS_ID, *tokenizer.encode("the dog runs"), EOS_ID, PAD_ID]) == "the dog runs"


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
@pytest.mark.parametrize("lines", [["a"], ["aaaa"], ["가"], ["!"] * 9, ["", "a b", "\n"], ["▁ ▅ \x1b"]])
def test_the_smallest_corpus_works(kind: str, lines: list[str]) -> None:
    tokenizer = train(kind, lines)
    assert tokenizer.size <= 300
    assert tokenizer.decode(tokenizer.encode(lines[0])) == lines[0]
    assert UNK_ID not in tokenizer.encode(lines[0])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("line", ["a", "ab ab", "가나"])
def test_the_smallest_corpus_works_without_bytes(kind: str, line: str) -> None:
    tokenizer = train(kind, [line], byte_fallback=False)
    assert tokenizer.size < 30
    assert tokenizer.decode(tokenizer.encode(line)) == line


@pytest.mark.parametrize("kind", WITH_BYTES)
@settings(max_examples=25)
@given(lines=st.lists(st.text(max_size=20), min_size=1, max_size=5), text=st.text(max_size=20))
def test_any_corpus_makes_an_exact_tokenizer(kind: str, lines: list[str], text: str) -> None:
    tokenizer = train(kind, [*lines, "a"])
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
@pytest.mark.parametrize("vocab_size", [275, 280, 10**12])
def test_vocab_size_is_an_upper_bound(kind: str, vocab_size: int) -> None:
    assert train(
        kind, [f"{first}{second}" for first in "abcd" for second in "efgh"], vocab_size=vocab_size
    ).size <= min(vocab_size, 400)


def test_words_rank_by_frequency_then_alphabet() -> None:
    assert train("words").tokens(range(4, 12)) == ["a", "cat", "dog", "runs", "the", ",", "The", "end"]
    assert train("words", vocab_size=6).tokens(range(6))[4:] == ["a", "cat"]
    assert train("words", min_frequency=2).size == 9
    assert train("words", lowercase=True).tokens([4]) == ["the"]
    assert train("spaces", ["x@@ y. y."]).tokens([4, 5]) == ["y.", "x@@"]


def test_line_ends_are_not_text() -> None:
    assert train("characters", ["ab\r\n", "b\n"], byte_fallback=False).tokens(range(4, 6)) == ["b", "a"]
    assert train("characters", ["ab\r\n", "b\n"], byte_fallback=False).size == 6


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_equal_text_gives_equal_files_in_another_process(kind: str, tmp_path: Path) -> None:
    mine = train(kind).save(tmp_path / "mine")
    program = f"""
import sys
from pathlib import Path
from pellucid.text.tokenizer_training import train_tokenizer
train_tokenizer({kind!r}, {LINES!r}, normalize="none").save(
    Path({str(tmp_path / "theirs")!r}))
assert "torch" not in sys.modules
"""
    source = str(Path(pellucid.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": "12345", "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert (tmp_path / "theirs").with_suffix(mine.suffix).read_bytes() == mine.read_bytes()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_long_line_without_spaces(kind: str) -> None:
    line = "".join(chr(ord("a") + i * i % 7) for i in range(12_000))
    tokenizer = train(kind, [line], vocab_size=300)
    assert tokenizer.decode(tokenizer.encode("abc")) == "abc"
    assert tokenizer.decode(tokenizer.encode(line)) == line


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_training_is_silent(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    train(kind)
    assert capfd.readouterr() == ("", "")


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    trained = train("bpe")
    path = str(trained.save(tmp_path / "own"))
    tokenizer = train(path, [])
    assert (tokenizer.kind, tokenizer.size) == ("sentencepiece", trained.size)
    assert tokenizer.encode("the dog") == trained.encode("the dog")
    assert train(path, [], vocab_size=17).size == trained.size  # what is finished has its size
    with pytest.raises(ConfigError, match="`byte_fallback = false` has no effect on the tokenizer"):
        train(path, [], byte_fallback=False)


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "x.model").write_bytes(b"junk")
    with pytest.raises(CheckpointError, match=r"x\.model` is not a complete SentencePiece model \(4 bytes\)"):
        train(str(tmp_path / "x.model"))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("bp", "unknown tokenizer `bp`; did you mean `bpe`?"),
        ("word", "unknown tokenizer `word`; did you mean `words`?"),
        ("", "unknown tokenizer ``$"),
        ("none.model", "no SentencePiece model at `none.model`"),
        ("some/folder", "no SentencePiece model at `some/folder`"),
    ],
)
def test_unknown_kinds(kind: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")) as caught:
        train(kind)
    assert caught.value.hint.startswith("choose one of bpe, unigram, words, characters, bytes, spaces")


@pytest.mark.parametrize(
    ("kind", "option", "value", "kinds"),
    [
        ("bpe", "lowercase", True, "words, characters, spaces"),
        ("bytes", "lowercase", True, "words, characters, spaces"),
        ("characters", "min_frequency", 2, "words, spaces"),
        ("words", "byte_fallback", False, "bpe, unigram, characters"),
    ],
)
def test_options_of_other_kinds(kind: str, option: str, value: Any, kinds: str) -> None:
    message = f"`{option} = {str(value).lower()}` has no effect on the tokenizer `{kind}`"
    with pytest.raises(ConfigError, match=message) as caught:
        train(kind, **{option: value})
    assert caught.value.hint.endswith(kinds)


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
@pytest.mark.parametrize("lines", [[], ["", " ", "\n", "\t\u3000"]])
def test_an_empty_corpus(kind: str, lines: list[str]) -> None:
    with pytest.raises(DataError, match="the training text of the tokenizer is empty"):
        train(kind, lines)


@pytest.mark.parametrize(("kind", "least"), [("words", 5), ("spaces", 5), ("bytes", 260), ("characters", 261)])
def test_a_vocabulary_without_room(kind: str, least: int) -> None:
    message = rf"`vocab_size` \({least - 1}\) must be at least {least} for the tokenizer `{kind}`"
    with pytest.raises(ConfigError, match=message):
        train(kind, vocab_size=least - 1)
    assert train(kind, vocab_size=least).size == least


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(
    ("byte_fallback", "least", "whose"),
    [(True, 261, "the bytes, a character and `symbols`"), (False, 8, "the characters of the text")],
)
def test_subwords_without_room_for_the_characters(kind: str, byte_fallback: bool, least: int, whose: str) -> None:
    message = rf"`vocab_size` \({least - 1}\) is too small: {whose} take {least} ids"
    with pytest.raises(ConfigError, match=message) as caught:
        train(kind, ["abc"], vocab_size=least - 1, byte_fallback=byte_fallback)
    assert f"use at least {least}" in caught.value.hint
    assert ("byte_fallback" in caught.value.hint) is not byte_fallback
    assert train(kind, ["abc"], vocab_size=least, byte_fallback=byte_fallback).size == least


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_symbols_take_ids_too(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"`vocab_size` \(261\) is too small: .+ take 263 ids"):
        train(kind, ["abc"], vocab_size=261, symbols=["<a>", "<b>"])
    assert train(kind, spread(300), vocab_size=300, symbols=["<a>", "<b>"]).size == 300


def spread(count: int, lines: int = 400) -> list[str]:
    """A script with many characters, some far more frequent than others."""
    random = Random(1)
    return ["".join(chr(0x4E00 + int(count * random.random() ** 3)) for _ in range(20)) for _ in range(lines)]


@pytest.mark.parametrize("normalization", ["nfc", "none"])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(("vocab_size", "most"), [(300, 40), (700, 280), (2000, 800)])
def test_characters_never_take_all_of_a_vocabulary_that_has_bytes(
    kind: str, vocab_size: int, most: int, normalization: str
) -> None:
    lines, told = spread(1500), list[str]()
    tokenizer = train(kind, lines, vocab_size=vocab_size, normalize=normalization, log_line=told.append)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    assert tokenizer.size <= vocab_size
    single = {piece for piece in tokenizer.pieces() if len(piece) == 1}
    assert len(single) == most
    counts = Counter("".join(lines))
    assert min(counts[piece] for piece in single - {"▁"}) >= max(
        count for character, count in counts.items() if character not in single
    )
    share = (sum(counts[piece] for piece in single) + len(lines)) / (counts.total() + len(lines))
    of = len(counts) + 1
    assert told == [
        f"{most:,} of {of:,} characters have their own piece, {share:.1%} of the text; the others are written as bytes"
    ]
    assert all(tokenizer.decode(tokenizer.encode(line)) == line for line in lines)
    assert not any("\0" in piece for piece in tokenizer.pieces())


def test_where_there_is_room_nothing_is_left_out_and_the_text_is_read_as_ever() -> None:
    told = list[str]()
    tokenizer = train("bpe", spread(100), vocab_size=1000, log_line=told.append)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    assert told == []
    assert {piece for piece in tokenizer.pieces() if len(piece) == 1} == {"▁", *"".join(spread(100))}


def test_lines_that_can_be_read_once_are_as_good_as_others() -> None:
    lines = spread(300)
    assert train("bpe", iter(lines), vocab_size=400).tokens(range(400)) == train("bpe", lines, vocab_size=400).tokens(
        range(400)
    )


def test_what_sentencepiece_cannot_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**options: Any) -> None:
        raise RuntimeError("INTERNAL: score is not finite")

    monkeypatch.setattr(SentencePieceTrainer, "train", refuse)
    with pytest.raises(DataError, match="SentencePiece cannot train `bpe` on this text: INTERNAL: score is not finite"):
        train("bpe")


def test_a_minimum_frequency_that_nothing_reaches() -> None:
    with pytest.raises(
        ConfigError, match=r"`min_frequency` \(9\) removes all words: the most frequent one occurs 2 times"
    ):
        train("words", min_frequency=9)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words"])
def test_an_error_of_the_reader_comes_through(kind: str) -> None:
    def reader() -> Iterator[str]:
        yield "fine"
        raise DataError("line 2 of `x.txt` is not UTF-8")

    with pytest.raises(DataError, match=r"line 2 of `x\.txt` is not UTF-8"):
        train(kind, reader())
