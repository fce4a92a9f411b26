"""Tokens of other people's tokenizers: pieces as their vocabulary spells them, text as it is read."""

from typing import Any

import pytest

from pellucid.text.hugging_face import HuggingFaceTokenizer
from pellucid.text.special_ids import SpecialIds
from pellucid.tracing.tokens import make_tokens

pytestmark = pytest.mark.foreign

LINES = ["a dog runs", "the dogs run and run", "unlikely, the dog"] * 10
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


def opened(tokenizer: Any) -> HuggingFaceTokenizer:
    """A tokenizer of the library as Pellucid opens it."""
    return HuggingFaceTokenizer(tokenizer.to_str().encode(), lambda _: SpecialIds(0, 1, 2, 3))


def byte_level() -> HuggingFaceTokenizer:
    """GPT-2's kind, trained on English: it spells Korean in single bytes."""
    import tokenizers as hf

    tokenizer = hf.Tokenizer(hf.models.BPE())
    tokenizer.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = hf.decoders.ByteLevel()
    alphabet = hf.pre_tokenizers.ByteLevel.alphabet()
    trainer = hf.trainers.BpeTrainer(vocab_size=280, special_tokens=SPECIAL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(LINES, trainer)
    return opened(tokenizer)


def word_pieces() -> HuggingFaceTokenizer:
    """BERT's kind."""
    import tokenizers as hf

    ids = {token: i for i, token in enumerate([*SPECIAL, "dog", "##s", "un", "##like", "##ly", ","])}
    tokenizer = hf.Tokenizer(hf.models.WordPiece(ids, unk_token="<unk>"))
    tokenizer.pre_tokenizer = hf.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = hf.decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens(SPECIAL)
    return opened(tokenizer)


def test_byte_level_pieces() -> None:
    tokenizer = byte_level()
    found = make_tokens(tokenizer, [1, *tokenizer.encode("the dog 안"), 2])
    assert [(token.text, token.word) for token in found if not token.special and token.adds is None][:2] == [
        ("the", 0), (" dog", 1),
    ]  # fmt: skip
    assert [token.text for token in found[-4:]] == ["안[EC]", "안[95]", "안[88]", "</s>"]
    assert [token.piece for token in found[-4:-1]] == ["ì", "ķ", "Ī"]
    assert {token.word for token in found[-4:-1]} == {2}
    assert "".join(token.text_in_word for token in found[1:-1]) == "the dog 안"


def test_word_pieces() -> None:
    tokenizer = word_pieces()
    found = make_tokens(tokenizer, [1, *tokenizer.encode("unlikely, dogs xyz"), 2])
    assert [(token.text, token.piece, token.word, token.special) for token in found] == [
        ("<s>", "<s>", None, True),
        ("un", "un", 0, False),
        ("like", "##like", 0, False),
        ("ly", "##ly", 0, False),
        (",", ",", 1, False),
        ("dog", "dog", 2, False),
        ("s", "##s", 2, False),
        ("<unk>", "<unk>", 3, False),
        ("</s>", "</s>", None, True),
    ]
