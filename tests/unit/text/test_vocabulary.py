"""Vocabularies: their ids, their text, their file."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.errors import CheckpointError
from pellucid.text.tokenizer import UNK_ID
from pellucid.text.vocabulary import FORMAT, Vocabulary

WORDS = Vocabulary("words", ("the", "dog", ".", "<s>"), lowercase=True)
SPACES = Vocabulary("spaces", ("d@@", "og", "<unk>", "</s>"))
CHARACTERS = Vocabulary("characters", ("a", " ", "가", "👩"), byte_fallback=True)
BYTES = Vocabulary("bytes", (), byte_fallback=True)
ALPHABET = Vocabulary("characters", ("a", "b"))
ALL = [WORDS, SPACES, CHARACTERS, BYTES, ALPHABET]


@pytest.mark.parametrize(
    ("vocabulary", "text", "ids"),
    [
        (WORDS, "The dog.", [4, 5, 6]),
        (WORDS, "the cat", [4, UNK_ID]),
        (SPACES, " d@@  og\tog\n", [4, 5, 5]),
        (CHARACTERS, "a é", [260, 261, 4 + 0xC3, 4 + 0xA9]),
        (BYTES, "A\0", [4 + 0x41, 4]),
        (BYTES, "", []),
        (ALPHABET, "abc", [4, 5, UNK_ID]),
    ],
)
def test_ids_of_a_text(vocabulary: Vocabulary, text: str, ids: list[int]) -> None:
    assert vocabulary.encode(text) == ids
    assert vocabulary.encode_lines([text, text]) == [ids, ids]


@pytest.mark.parametrize("vocabulary", [CHARACTERS, BYTES])
@given(text=st.text())
def test_bytes_make_it_exact(vocabulary: Vocabulary, text: str) -> None:
    assert vocabulary.decode(vocabulary.encode(text)) == text


@given(st.text())
def test_lower_cased_text_comes_back(text: str) -> None:
    vocabulary = Vocabulary("characters", ("a",), lowercase=True, byte_fallback=True)
    assert vocabulary.decode(vocabulary.encode(text)) == text.lower()


@given(st.lists(st.sampled_from(SPACES.entries)))
def test_cut_text_comes_back_with_single_spaces(words: list[str]) -> None:
    assert SPACES.decode(SPACES.encode("\t".join(words) + "  ")) == " ".join(words)


def test_text_cannot_name_a_special_id_or_a_byte() -> None:
    assert WORDS.encode("<s>") == [UNK_ID] * 3
    assert SPACES.encode("<unk> </s> <s> <pad>") == [6, 7, UNK_ID, UNK_ID]
    assert BYTES.decode(BYTES.encode("<0x41><s>")) == "<0x41><s>"


@pytest.mark.parametrize("vocabulary", ALL)
def test_half_a_surrogate_pair_is_no_error(vocabulary: Vocabulary) -> None:
    assert vocabulary.decode(vocabulary.encode("a \ud83d")).encode()[-1:] in (b"?", b">")


@pytest.mark.parametrize("vocabulary", ALL)
@given(data=st.data())
def test_any_ids_decode(vocabulary: Vocabulary, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, vocabulary.size - 1)))
    without = [i for i in ids if i > 2]
    assert vocabulary.decode(ids) == vocabulary.decode(without)
    assert len(vocabulary.tokens(ids)) == len(ids)


def test_damaged_bytes_show_as_such() -> None:
    assert BYTES.decode([4 + 0xE2, 4 + 0x96]) == "\ufffd"
    assert CHARACTERS.decode([4 + 0xE2, 260]) == "\ufffda"


def test_tokens_are_what_a_reader_wants() -> None:
    assert WORDS.tokens([0, 1, 2, 3, 4]) == ["<pad>", "<s>", "</s>", "<unk>", "the"]
    assert CHARACTERS.tokens(CHARACTERS.encode("a 가é!")) == ["a", "▁", "가", "<0xC3>", "<0xA9>", "!"]
    assert BYTES.tokens(BYTES.encode("a b\n")) == ["a", "▁", "b", "<0x0A>"]


@pytest.mark.parametrize("vocabulary", ALL)
def test_file_gives_the_same_vocabulary(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = vocabulary.save(tmp_path / "tokenizer")
    assert path == tmp_path / "tokenizer.json"
    assert Vocabulary.from_bytes(path.read_bytes(), "x") == vocabulary


def test_file_is_readable_and_sorted_by_id(tmp_path: Path) -> None:
    table = json.loads(CHARACTERS.save(tmp_path / "v").read_text(encoding="utf-8"))
    assert (table["format"], table["kind"], table["lowercase"]) == (FORMAT, "characters", False)
    assert CHARACTERS.tokens([260, 262]) == [table["tokens"][260], table["tokens"][262]] == ["a", "가"]
    assert ' "가",\n' in (tmp_path / "v.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"tokens": [', "`x.json` is not a vocabulary: Expecting value"),
        (b"\xff", "`x.json` is not a vocabulary: 'utf-8'"),
        (b"[" * 100_000, "`x.json` is not a vocabulary: it is nested too deep"),
        (b"[]", f'`x.json` is not a vocabulary of format "{FORMAT}"'),
    ],
)
def test_what_is_no_vocabulary(data: bytes, reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        Vocabulary.from_bytes(data, "x.json")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", "pellucid-vocabulary/9"),
        ("kind", "bpe"),
        ("kind", ["words"]),
        ("tokens", "abc"),
        ("tokens", ["<pad>", "<s>", "</s>", "a"]),
        ("tokens", ["<pad>", "<s>", "</s>", "<unk>", 7]),
        ("tokens", ["<pad>", "<s>", "</s>", "<unk>", "a", "a"]),
        ("byte_fallback", True),
    ],
)
def test_a_changed_file_is_refused(key: str, value: Any, tmp_path: Path) -> None:
    table = json.loads(ALPHABET.save(tmp_path / "v").read_bytes())
    with pytest.raises(CheckpointError, match=r"`x\.json` is not a vocabulary of format"):
        Vocabulary.from_bytes(json.dumps({**table, key: value}).encode(), "x.json")
