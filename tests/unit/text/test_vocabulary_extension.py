"""Pieces appended to a tokenizer: text that is to stay keeps its ids, new text gets shorter, and comes back whole."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import ConfigError
from pellucid.text.sentencepiece_file import read_pieces
from pellucid.text.subwords import SentencePieceTokenizer
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.vocabulary_extension import extend_vocabulary

OLD = ["ein Hund läuft über die Straße", "zwei Männer und ein Ball", "die Frau mit dem Hund", "Männer laufen"] * 5
NEW = ["pes běží přes ulici", "dva muži a míč", "žena se psem", "muži běží přes louku", "žena běží"] * 5
CYRILLIC = ["собака бежит через улицу", "две женщины и мяч", "собака и мяч"] * 5


def old_tokenizer(kind: str = "bpe", **options: object) -> SentencePieceTokenizer:
    tokenizer = train_tokenizer(kind, OLD, vocab_size=340, symbols=["<2de>"], **options)  # type: ignore[arg-type]
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


@pytest.mark.parametrize("new", [NEW, CYRILLIC], ids=["letters of the old", "letters of its own"])
def test_old_text_keeps_its_ids_and_new_text_gets_shorter(new: list[str], tmp_path: Path) -> None:
    old = old_tokenizer()
    longer = extend_vocabulary(old, new, OLD, 60, ["<2cs>", "<2de>"]).tokenizer
    assert longer.pieces()[: old.size] == old.pieces()
    assert [longer.encode(f"<2de> {line}") for line in OLD] == [old.encode(f"<2de> {line}") for line in OLD]
    assert sum(len(longer.encode(line)) for line in new) < 0.7 * sum(len(old.encode(line)) for line in new)
    assert [longer.decode(longer.encode(line)) for line in (*OLD, *new)] == [*OLD, *new]
    assert "<2cs>" in longer.tokens(longer.encode("<2cs> pes"))
    assert old.size < longer.size <= old.size + 61
    again = SentencePieceTokenizer(longer.save(tmp_path / "tokenizer").read_bytes(), "bpe")
    assert again.encode(new[0]) == longer.encode(new[0])


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.text("abcdä ", min_size=1), min_size=1, max_size=8),
    st.lists(st.text("abcdfě ", min_size=1), min_size=1, max_size=8),
)
def test_whatever_the_texts_are(kept: list[str], new: list[str]) -> None:
    old = train_tokenizer("bpe", ["ab abc bcd abcd aab", *kept], vocab_size=290)
    longer = extend_vocabulary(old, new * 3, kept, 20).tokenizer
    assert [longer.encode(line) for line in kept] == [old.encode(line) for line in kept]
    assert [longer.decode(longer.encode(line)) for line in new] == [old.decode(old.encode(line)) for line in new]


def test_merges_are_those_of_byte_pair_encoding() -> None:
    """Gone on with as in algorithm 1 of the paper, on the words of its example; of equal pairs the alphabet's first."""
    old = train_tokenizer("bpe", ["x y z"], vocab_size=270)
    new = [" ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3)]
    longer = extend_vocabulary(old, new, [], 25).tokenizer
    pieces = read_pieces(longer.proto)
    merged = [piece for piece in longer.pieces()[old.size :] if len(piece) > 1]
    assert merged[:5] == ["es", "est", "lo", "low", "▁low"]
    assert merged == sorted(merged, key=lambda piece: -pieces.scores[piece])


def test_what_a_piece_was() -> None:
    old = old_tokenizer()
    longer = extend_vocabulary(old, CYRILLIC, OLD, 40, ["<2ru>"])
    names = longer.tokenizer.pieces()[old.size :]
    for name, ids in zip(names[:-1], longer.made_of[:-1], strict=True):
        assert old.decode(ids).strip() == name.replace("▁", " ").strip()
    assert longer.made_of[-1] == tuple(old.encode("<2de>")[-1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("unigram", {}, "appended to a bpe tokenizer, and this one is unigram$"),
        ("bpe", {"byte_fallback": False}, "this one is bpe without byte fallback$"),
    ],
)
def test_what_nothing_can_be_appended_to(kind: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        extend_vocabulary(old_tokenizer(kind, **options), NEW, OLD, 10)
