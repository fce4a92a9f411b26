"""SentencePiece models for tests: the kinds that are trained here, and others as somebody else might have them."""

import io
from collections.abc import Iterator
from functools import cache
from random import Random

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from pellucid.text.subwords import SentencePieceTokenizer
from pellucid.text.tokenizer_training import train_tokenizer

SYLLABLES = ["lo", "we", "st", "er", "sl", "ow", "ne", "wi", "de", "in", "g", "un", "ha", *"강아지가공을놀이"]


def _made_up_lines(count: int) -> Iterator[str]:
    """Words of one to four syllables, some far more frequent than others."""
    random = Random(1)
    words = ["".join(random.choices(SYLLABLES, k=random.randint(1, 4))) for _ in range(200)]
    for _ in range(count):
        yield " ".join(words[int(200 * random.random() ** 2)] for _ in range(6))


CORPUS = [
    "two dogs play with a ball, and two more dogs look on",
    "zwei Hunde spielen mit einem Ball, ein dritter Hund schläft",
    "lower lowest slower slowest newer newest widest",
    "  spaces  kept  and   more ",
    "공 놀이를 하는 강아지, 강아지가 공을",
    "犬がボールで遊んでいる、犬が寝ている",
    "a ▁ mark \x1b too, a\ttab and an emoji 👍👍",
    *_made_up_lines(300),
]
ODD = ["", " ", "   ", "\t", "unseen Ж and 漢字", "👨\u200d👩\u200d👧 e\u0301 \0 \x07", "한국어 강아지", "a  b   c "]
ODD += [
    "<s> </s> <unk> <pad> <0x41> <sep>",
    "▁▁ \x1b_",
    "x" * 50,
    "犬が遊んでいる" * 12,
    "dogs" * 20,
    "\u3000\xa0\u2028wide",
]
LINES = [*CORPUS[:7], *ODD]
"""Lines in and out of the corpus: other scripts, control characters, runs of white space, long words."""

SIZES = {"vocab_size": 600, "hard_vocab_limit": False, "minloglevel": 2}
FOREIGN = {
    "bpe, normalised": {"model_type": "bpe"},
    "unigram, normalised": {"model_type": "unigram", "vocab_size": 300},
    "bpe, symbols": {"model_type": "bpe", "user_defined_symbols": ["<sep>", "dogs", "do"], "byte_fallback": True},
    "bpe, spaces at the end": {"model_type": "bpe", "treat_whitespace_as_suffix": True},
    "bpe, across spaces": {
        "model_type": "bpe", "split_by_whitespace": False, "remove_extra_whitespaces": False,
        "allow_whitespace_only_pieces": True,
    },
    "unigram, across spaces": {"model_type": "unigram", "split_by_whitespace": False, "vocab_size": 300},
}  # fmt: skip
KINDS = ("bpe", "unigram", *FOREIGN)


@cache
def subwords(kind: str) -> SentencePieceTokenizer:
    """A tokenizer of a kind that is trained here, or of a foreign model."""
    if kind in FOREIGN:
        model = io.BytesIO()
        SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=model, **SIZES | FOREIGN[kind])
        return SentencePieceTokenizer(model.getvalue(), "sentencepiece")
    tokenizer = train_tokenizer(kind, CORPUS, vocab_size=600, normalize="none")
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


def processor(kind: str) -> SentencePieceProcessor:
    """The same model as SentencePiece itself has it."""
    return SentencePieceProcessor(model_proto=subwords(kind).proto)
