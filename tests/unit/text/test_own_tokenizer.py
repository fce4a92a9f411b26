"""A tokenizer of one's own: encode, decode and ids are enough to read, to write and to be recorded."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.text.tokenizer import TRIED, TokenizerAdapter, adapt_tokenizer
from pellucid.text.tokenizer_json_writing import tokenizer_json
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary


class Letters:
    """A tokenizer with nothing that it need not have; its special ids stand behind the letters."""

    size, pad_id, bos_id, eos_id, unk_id = 12, 11, 10, 9, 8

    def __init__(self, letters: str = "abcdefg ") -> None:
        self.letters = letters

    def encode(self, text: str) -> list[int]:
        return [self.letters.index(letter) if letter in self.letters else self.unk_id for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.letters[i] if i < len(self.letters) else "?" for i in ids)


class Fast(Letters):
    """The same with what a tokenizer may have."""

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        return [self.encode(line)[::-1] for line in lines]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [f"t{i}" for i in ids]


def test_what_it_lacks_is_made_of_what_it_has() -> None:
    tokenizers = TokenizerPair(Letters())
    own = tokenizers.source
    assert tokenizers.joint
    assert (own.kind, own.size, own.pad_id, own.bos_id, own.eos_id, own.unk_id) == ("own", 12, 11, 10, 9, 8)
    assert own.encode_lines(["bad", "", "z"]) == [[1, 0, 3], [], [8]]
    assert own.tokens([1, 7, 11, 10, 9, 8]) == ["b", "▁", "<pad>", "<s>", "</s>", "<unk>"]
    assert own.decode([10, 1, 0, 3, 9, 11, 11]) == "bad"


def test_what_it_has_is_used() -> None:
    own = TokenizerPair(Letters(), Fast()).target
    assert own.encode_lines(["bad"]) == [[3, 0, 1]]
    assert own.tokens([1, 9]) == ["t1", "t9"]


def test_a_tokenizer_of_pellucids_stays_itself() -> None:
    words = Vocabulary("words", ("a",))
    assert adapt_tokenizer(words) is words
    assert TokenizerPair(words, words).joint
    assert TokenizerPair.from_given(None) is None
    pair = TokenizerPair(words)
    assert TokenizerPair.from_given(pair) is pair
    own = pair.from_given(Letters())
    assert own is not None
    assert isinstance(own.source, TokenizerAdapter)


DRAWN = itertools.count(3)


@pytest.mark.parametrize(
    ("members", "message", "hint"),
    [
        (
            {"decode": None},
            r"the tokenizer `.*Broken` has no `decode`",
            "a tokenizer must have encode, decode, size, pad_id",
        ),
        ({"eos_id": None}, r"has no `eos_id`", "a tokenizer must have encode"),
        ({"unk_id": 12}, r"has `unk_id` = 12; it must be from 0 to 11, below its `size`", ""),
        ({"pad_id": -1}, r"has `pad_id` = -1; it must be from 0 to 11", ""),
        (
            {"encode": lambda self, text: [{"a": 1}[letter] for letter in text]},
            r"fails on `A b.*`: KeyError: 'A'",
            "encode characters outside of the vocabulary as `unk_id`",
        ),
        ({"size": lambda self: 12}, r"the tokenizer `.*Broken` has a method for its `size`", "it must be a number"),
        ({"decode": lambda self, ids: None}, "decodes to NoneType, not to str", "return a str"),
        (
            {"encode": lambda self, text: [3 + next(DRAWN) % 2]},
            "encodes `A b.*` differently the second time",
            "switch off its random sampling",
        ),
    ],
)
def test_an_object_that_is_not_a_tokenizer(members: dict[str, Any], message: str, hint: str) -> None:
    own = {
        name: getattr(Letters, name) for name in ("encode", "decode", "size", "pad_id", "bos_id", "eos_id", "unk_id")
    }
    given = {name: value for name, value in {**own, **members}.items() if value is not None}
    broken = type("Broken", (), {**given, "letters": "abcdefg "})()
    with pytest.raises(ConfigError, match=message) as caught:
        TokenizerPair(broken)
    assert caught.value.hint.startswith(hint)


def test_ids_beyond_its_size_are_told_with_the_text() -> None:
    letters = Letters()
    own = TokenizerPair(letters).source
    letters.letters = "abcdefghijklmnop"
    with pytest.raises(DataError, match=r"encodes `ape` with the id 15; ids are from 0 to 11"):
        own.encode("ape")
    with pytest.raises(DataError, match=r"encodes `m` with the id 12"):
        own.encode_lines(["a", "m"])


def test_it_is_recorded_and_comes_back_when_it_is_handed_over(tmp_path: Path) -> None:
    words = Vocabulary("words", ("a", "b"))
    for pair in (TokenizerPair(Letters()), TokenizerPair(Letters(), words), TokenizerPair(words, Letters())):
        folder = tmp_path / f"{pair.source.kind}-{pair.target.kind}"
        folder.mkdir()
        table = json.loads(json.dumps(pair.save(folder)))
        assert len(list(folder.iterdir())) == sum(isinstance(side, Vocabulary) for side in (pair.source, pair.target))
        loaded = TokenizerPair.load(folder, table, Letters())
        assert loaded.joint == pair.joint
        for side, before in ((loaded.source, pair.source), (loaded.target, pair.target)):
            assert side.kind == before.kind
            assert side.encode_lines(["a b", "bad"]) == before.encode_lines(["a b", "bad"])


def test_it_is_refused_when_it_is_missing_or_another(tmp_path: Path) -> None:
    table = TokenizerPair(Letters()).save(tmp_path)
    with pytest.raises(CheckpointError, match=r"uses the custom tokenizer `.*\.Letters`, which is not") as caught:
        TokenizerPair.load(tmp_path, table)
    assert caught.value.hint == "pass it as `tokenizer=`, as in `load(folder, tokenizer=Letters(...))`"
    with pytest.raises(CheckpointError, match=r"it encodes `A b,.*` differently"):
        TokenizerPair.load(tmp_path, table, Letters("bacdefg "))
    longer = type("Longer", (Letters,), {"size": 13})()
    with pytest.raises(CheckpointError, match=r"`.*Longer` is not that of .* `.*Letters`: its `size` is 13, not 12"):
        TokenizerPair.load(tmp_path, table, longer)
    with pytest.raises(CheckpointError, match="has no name for its `own` tokenizer"):
        TokenizerPair.load(tmp_path, {**table, "own": {"source": 5}}, Letters())
    with pytest.raises(ConfigError, match=r"`tokenizer=` is given, but `.*` has its own tokenizer"):
        TokenizerPair.load(tmp_path, TokenizerPair(Vocabulary("words", ("a",))).save(tmp_path), Letters())


def test_no_file_is_written_of_it(tmp_path: Path) -> None:
    own = adapt_tokenizer(Letters())
    with pytest.raises(ConfigError, match=r"the tokenizer `.*Letters` is custom, so it is not saved"):
        own.save(tmp_path / "x")
    with pytest.raises(ConfigError, match=r"is custom, so it cannot be written as `tokenizer.json`"):
        tokenizer_json(own)


def test_the_record_says_how_a_text_is_read() -> None:
    own = adapt_tokenizer(Letters())
    assert isinstance(own, TokenizerAdapter)
    assert own.record() == {
        "class": f"{__name__}.Letters", "size": 12, "pad_id": 11, "bos_id": 10, "eos_id": 9, "unk_id": 8,
        "tried": Letters().encode(TRIED),
    }  # fmt: skip


def test_the_names_are_public() -> None:
    tokenizer: pellucid.Tokenizer = Letters()
    assert isinstance(pellucid.TokenizerPair(tokenizer).source, TokenizerAdapter)
    trained = pellucid.train_tokenizer("words", ["a b", "b"])
    assert trained.tokens(trained.encode("b a c")) == ["b", "a", "<unk>"]


def test_a_class_is_not_a_tokenizer() -> None:
    with pytest.raises(ConfigError, match=r"^the tokenizer is the class `Letters`, not an object of it$") as caught:
        TokenizerPair.from_given(Letters)  # type: ignore[arg-type]
    assert caught.value.hint == "pass Letters(...)"


@pytest.mark.parametrize("count", [0, 3])
def test_sides_have_one_tokenizer_or_two(count: int) -> None:
    with pytest.raises(ConfigError, match=f"^`tokenizer` holds {count} tokenizers$"):
        TokenizerPair.from_given((Letters(),) * count)  # type: ignore[arg-type]
