"""SentencePiece models as tokenizers: trained here and by somebody else."""

import io
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from pellucid.errors import CheckpointError, ConfigError
from pellucid.text.sampling import SubwordSampler
from pellucid.text.subwords import FEW, SentencePieceTokenizer, escape, unescape
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizer_training import train_tokenizer

CORPUS = ["two dogs play with a ball", "zwei Hunde spielen", "  spaces  kept ", "공 놀이", "a ▁ mark \x1b too"]
ODD = ["", " ", "  ", "\t", "\n", "\r\n", "\0", "▁", "▅", "\x1b", "\x1b_", "<s>", "</s>", "<unk>", "<pad>", "<0x41>"]
ODD += [
    "한국어",
    "👨\u200d👩\u200d👧",
    "e\u0301",
    "\u2028",
    "\ufeff",
    "\u200b",
    "dog",
    "\ufffd",
    "\U0010ffff",
    "\u3000",
]


@pytest.mark.parametrize("count", [1, FEW, FEW + 1, 5 * FEW])
def test_lines_are_encoded_as_each_of_them(count: int) -> None:
    """Few are encoded one by one, many by SentencePiece's threads."""
    lines = [f"{number} {(CORPUS + ODD)[number % len(CORPUS + ODD)]}" for number in range(count)]
    tokenizer = trained("bpe")
    assert tokenizer.encode_lines(lines) == [tokenizer.encode(line) for line in lines]


@cache
def trained(kind: str, byte_fallback: bool = True) -> Tokenizer:
    return train_tokenizer(kind, CORPUS, vocab_size=340, byte_fallback=byte_fallback, normalize="none")


def foreign_model(**options: Any) -> bytes:
    model = io.BytesIO()
    settings = {"model_type": "bpe", "vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2, **options}
    SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=model, **settings)
    return model.getvalue()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(text=st.one_of(st.text(), st.lists(st.sampled_from(ODD)).map("".join)))
def test_any_text_comes_back(kind: str, text: str) -> None:
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not {0, 1, 2, 3} & set(ids)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(data=st.data())
def test_any_ids_decode(kind: str, data: st.DataObject) -> None:
    tokenizer = trained(kind)
    ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1)))
    assert tokenizer.decode(ids) == tokenizer.decode([i for i in ids if i > 2])
    assert len(tokenizer.tokens(ids)) == len(ids)


@given(st.lists(st.sampled_from(ODD)).map("".join))
def test_escape_leaves_no_space_mark_and_can_be_undone(text: str) -> None:
    assert "▁" not in escape(text)
    assert unescape(escape(text)) == text


def test_escape_that_escapes_nothing_stays() -> None:
    assert unescape("a\x1b b\x1b") == "a\x1b b\x1b"


def test_without_byte_fallback_the_space_mark_is_a_space_and_the_unseen_unknown() -> None:
    tokenizer = trained("bpe", byte_fallback=False)
    assert tokenizer.decode(tokenizer.encode("two▁dogs")) == "two dogs"
    assert tokenizer.decode(tokenizer.encode("two Ж")) == "two <unk>"
    assert tokenizer.unk_id in tokenizer.encode("Ж")


def test_lines_are_encoded_as_one_by_one() -> None:
    tokenizer = trained("bpe")
    assert tokenizer.encode_lines(ODD) == [tokenizer.encode(text) for text in ODD]
    assert tokenizer.encode_lines([]) == []


def test_tokens_spell_the_text() -> None:
    tokenizer = trained("bpe")
    assert "".join(tokenizer.tokens(tokenizer.encode("two dogs"))) == "▁two▁dogs"
    assert tokenizer.tokens([0, 1, 2, 3]) == ["<pad>", "<s>", "</s>", "<unk>"]


def test_half_a_surrogate_pair_is_no_error() -> None:
    tokenizer = trained("bpe")
    assert tokenizer.decode(tokenizer.encode("two\ud83d")) == "two?"
    assert tokenizer.encode_lines(["\ud83d"]) == [tokenizer.encode("?")]


def test_saved_model_is_sentencepieces_own(tmp_path: Path) -> None:
    tokenizer = trained("bpe")
    path = tokenizer.save(tmp_path / "tokenizer")
    assert path == tmp_path / "tokenizer.model"
    assert SentencePieceProcessor(model_file=str(path)).encode("two dogs") == tokenizer.encode("two dogs")
    assert SentencePieceTokenizer(path.read_bytes(), "bpe").encode("▁") == tokenizer.encode("▁")


def test_foreign_model_without_pad_gets_one_behind_its_pieces() -> None:
    proto = foreign_model()  # SentencePiece's defaults: unk 0, bos 1, eos 2, no pad, NFKC, spaces merged
    theirs, ours = SentencePieceProcessor(model_proto=proto), SentencePieceTokenizer(proto, "sentencepiece")
    assert (ours.unk_id, ours.bos_id, ours.eos_id) == (0, 1, 2)
    assert ours.pad_id == theirs.get_piece_size() == ours.size - 1
    assert ours.encode(" two  ▁dogs") == theirs.encode(" two  ▁dogs")
    assert ours.decode([ours.pad_id, *ours.encode("two  dogs"), ours.pad_id]) == "two dogs"
    assert ours.tokens([ours.pad_id, 0, 1, 2]) == ["<pad>", "<unk>", "<s>", "</s>"]


def test_foreign_model_without_any_special_id_gets_three() -> None:
    proto = foreign_model(bos_id=-1, eos_id=-1, pad_id=-1)
    pieces = SentencePieceProcessor(model_proto=proto).get_piece_size()
    ours = SentencePieceTokenizer(proto, "sentencepiece")
    assert (ours.pad_id, ours.bos_id, ours.eos_id, ours.size) == (pieces, pieces + 1, pieces + 2, pieces + 3)
    assert ours.decode(range(pieces, pieces + 3)) == ""


def test_foreign_special_ids_are_read() -> None:
    ours = SentencePieceTokenizer(foreign_model(pad_id=0, eos_id=1, unk_id=2, bos_id=-1), "sentencepiece")
    assert (ours.pad_id, ours.eos_id, ours.unk_id, ours.bos_id) == (0, 1, 2, ours.size - 1)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    kind=st.sampled_from(["bpe", "unigram", "sentencepiece"]),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=2)), min_size=1, max_size=3),
)
def test_a_damaged_model_is_refused_or_works(kind: str, changes: list[tuple[float, bytes]]) -> None:
    """SentencePiece itself takes pieces that are no UTF-8, and fails when it is to write one."""
    tokenizer = trained("unigram" if kind == "unigram" else "bpe")
    assert isinstance(tokenizer, SentencePieceTokenizer)
    proto = tokenizer.proto
    for place, put in changes:
        at = int(place * len(proto))
        proto = proto[:at] + put + proto[at + 1 :]
    try:
        damaged = SentencePieceTokenizer(proto, kind)
        ids = damaged.encode("two dogs 공 ▁ e\u0301")
        assert isinstance(damaged.decode(ids) + damaged.decode(range(damaged.size)), str)
        assert len(damaged.tokens(range(damaged.size))) == damaged.size
        SubwordSampler(damaged, 0.1).sample("two dogs", Random(1))
    except (CheckpointError, ConfigError):  # of the second kind is a model of words, say, which are cut in one way
        pass


def test_a_piece_that_is_no_utf8() -> None:
    tokenizer = trained("bpe")
    assert isinstance(tokenizer, SentencePieceTokenizer)
    piece = max(tokenizer.pieces(), key=len).encode()
    proto = tokenizer.proto.replace(piece, b"\xff" * len(piece))
    assert proto != tokenizer.proto
    with pytest.raises(
        CheckpointError, match=rf"`x.model` is not a complete SentencePiece model \({len(proto)} bytes\)"
    ):
        SentencePieceTokenizer(proto, "bpe", "x.model")


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: b"junk", lambda data: data[:-7]])
def test_what_is_no_model(damage: Any) -> None:
    data = damage(foreign_model())
    with pytest.raises(
        CheckpointError, match=rf"`x.model` is not a complete SentencePiece model \({len(data)} bytes\)"
    ):
        SentencePieceTokenizer(data, "bpe", "x.model")
