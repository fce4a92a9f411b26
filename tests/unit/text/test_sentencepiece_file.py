"""The pieces read off a model's bytes are those that SentencePiece tells of."""

import io

import pytest
from sentencepiece import SentencePieceTrainer

from pellucid.text.sentencepiece_file import read_pieces
from tests.unit.text.subword_models import CORPUS, FOREIGN, KINDS, processor, subwords


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_sentencepieces_own(kind: str) -> None:
    pieces, theirs = read_pieces(subwords(kind).proto), processor(kind)
    symbols = FOREIGN.get(kind, {}).get("user_defined_symbols", [])
    places = range(theirs.get_piece_size())
    special = [i for i in places if theirs.is_control(i) or theirs.is_unknown(i) or theirs.is_byte(i)]
    names = {theirs.id_to_piece(i): i for i in places if i not in special}
    assert pieces.symbols == {name: names.pop(name) for name in symbols}
    assert pieces.ids == names
    assert pieces.scores == {name: theirs.get_score(i) for name, i in names.items()}
    assert list(pieces.byte_ids) == [i for i in places if theirs.is_byte(i)]
    assert pieces.unk_id == theirs.unk_id()
    assert pieces.algorithm == ("bpe" if "bpe" in kind else "unigram")


@pytest.mark.parametrize("algorithm", ["unigram", "bpe", "word", "char"])
def test_the_algorithm(algorithm: str) -> None:
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS[:3]), model_writer=model, model_type=algorithm, vocab_size=60,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    assert read_pieces(model.getvalue()).algorithm == algorithm


def test_an_unknown_character_is_bytes_or_unknown() -> None:
    with_bytes, without = read_pieces(subwords("bpe").proto), read_pieces(subwords("bpe, normalised").proto)
    assert [with_bytes.byte_ids.index(i) for i in with_bytes.get_ids("Ж")] == list("Ж".encode())
    assert without.get_ids("Ж") == (without.unk_id,)
    assert with_bytes.get_ids("▁") == (with_bytes.ids["▁"],)


def test_what_a_file_may_leave_out() -> None:
    """A score of 0, the type of a normal piece, the algorithm unigram: all that is at its default."""
    unknown, plain = b"\n\x05<unk>\x18\x02", b"\n\x01a"
    proto = b"".join(b"\n" + bytes([len(piece)]) + piece for piece in (unknown, plain))
    pieces = read_pieces(proto)
    assert (pieces.algorithm, pieces.ids, pieces.scores, pieces.unk_id) == ("unigram", {"a": 1}, {"a": 0.0}, 0)
    assert (pieces.symbols, pieces.byte_ids) == ({}, ())
