"""Our tokenizers in the common format: the libraries that read it cut and join text as we do, id by id."""

import json
import unicodedata
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.conversion.proof import read_test_sentences
from pellucid.errors import ConfigError
from pellucid.text.hugging_face import HuggingFaceTokenizer
from pellucid.text.special_ids import SpecialIds
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizer_json_writing import tokenizer_json
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights.export.tokenizer_files import write_tokenizer_files
from tests.unit.text.subword_models import CORPUS, LINES, subwords

pytestmark = pytest.mark.foreign

OWN: dict[str, dict[str, Any]] = {
    "bpe": {},
    "bpe, no bytes": {"byte_fallback": False},
    "unigram": {},
    "unigram, no bytes": {"byte_fallback": False},
    "words": {},
    "words, lower case": {"lowercase": True},
    "spaces": {},
    "characters": {},
    "characters, no bytes": {"byte_fallback": False},
    "characters, lower case": {"lowercase": True},
    "bytes": {},
    "bpe, nfc": {"normalize": "nfc"},
    "unigram, nfc": {"normalize": "nfc"},
    "words, nfc": {"normalize": "nfc", "lowercase": True},
    "characters, nfc": {"normalize": "nfc"},
    "bytes, nfc": {"normalize": "nfc"},
    "bpe, nmt_nfkc": {"normalize": "nmt_nfkc"},
    "bpe, symbols": {"symbols": ["<2en>", "<2zh-cn>", "<bt>", "<bt", "x"]},
    "bpe, no bytes, symbols": {"symbols": ["<2en>", "<bt>"], "byte_fallback": False, "normalize": "nfc"},
    "unigram, symbols": {"symbols": ["<2en>", "<2zh-cn>", "<bt>"]},
    "unigram, nfc, symbols": {"symbols": ["<2en>", "<2zh-cn>", "<bt>"], "normalize": "nfc"},
    "spaces, symbols": {"symbols": ["<2en>", "<bt>"]},
    "characters, nmt_nfkc": {"normalize": "nmt_nfkc"},
}
MORE = [
    "Don't (you) [x] – 80% 3.5 10:30, \"so\" ’tis a-b « c »",
    "ΟΔΥΣΣΕΥΣ ΑΣ. Σ ΑΣΑ A\u0301Σ İstanbul",
    "हिन्दी भाषा தமிழ் 👩🏽\u200d💻 \u200d\u200d x",
    "²³½ ٣٫٥ Ⅻ \x85 \x1c \ufeff",
    " nai\u0308ve\xa0cafe\u0301 \u200b한국어\u2009 한  \ufeffA\u030a\u0323 ﬁ Ｆｕｌｌ \xadsoft",
    "<s>", "</s></s>", "<unk> <pad>x", "a<s>b <0x41><0x0A>",
    "<2en>", "<2en> two dogs", "<bt> <2en>two dogs", "two<2zh-cn>dogs<bt>", "<bt><bt> <2en <2zh-cn>> <bt x<bt",
    "<2en><s>", "<bt></s><bt> <2en><0x41>", "<2en><unk><bt><pad>x<2en>▁<bt>\x1b", "<2en>lower<bt>newest slowest<bt>",
]  # fmt: skip


def trained(name: str) -> Tokenizer:
    """A tokenizer of ours; text that is cut at spaces has words that are spelled like special tokens."""
    kind = name.partition(",")[0]
    options = {"normalize": "none"} | OWN[name]
    lines = [*CORPUS, "<s> <unk> a"] if kind == "spaces" else CORPUS
    return train_tokenizer(kind, lines, vocab_size=600, **options)


def texts() -> list[str]:
    """Real sentences, odd ones, and strings of characters that matter to some tokenizer."""
    random = Random(2)
    alphabet = "abc ▁<>s/pad0x4\x1b_éßΣσς한공e\u0301,.'’-()% 犬\t"
    drawn = ["".join(random.choices(alphabet, k=random.randint(1, 24))) for _ in range(600)]
    parts = [*alphabet, "<2en>", "<2zh-cn>", "<bt>", "<s>", "<unk>", "<0x41>", " dogs", "slow", "er"]
    drawn += ["".join(random.choices(parts, k=random.randint(1, 12))) for _ in range(600)]
    return [*read_test_sentences(), *LINES, *MORE, *drawn]


def opened(tokenizer: Tokenizer, *around: Any) -> Any:
    """The same tokenizer in the library, told that special tokens in a text are text."""
    import tokenizers

    found = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(tokenizer, *around)))
    found.encode_special_tokens = True
    return found


@pytest.mark.parametrize("name", OWN)
def test_each_text_has_the_same_ids_and_comes_back(name: str) -> None:
    ours = trained(name)
    theirs = opened(ours)
    given = texts()
    if "nmt_nfkc" in name:  # the library applies a table of characters to a grapheme, SentencePiece to a character
        given = [text for text in given if not any(unicodedata.category(c)[0] == "M" or c == "\u200d" for c in text)]
    for text in given:
        ids = ours.encode(text)
        assert theirs.encode(text, add_special_tokens=False).ids == ids, text
        assert theirs.decode(ids) == ours.decode(ids), text
    assert theirs.get_vocab_size() == ours.size


@pytest.mark.parametrize("name", OWN)
def test_we_read_it_back_as_a_strangers(name: str) -> None:
    ours = trained(name)
    data = json.dumps(tokenizer_json(ours)).encode()
    back = HuggingFaceTokenizer(data, lambda _: SpecialIds(0, 1, 2, 3), name="tokenizer.json")
    for text in read_test_sentences():
        assert back.encode(text) == ours.encode(text)


@pytest.mark.parametrize("name", ["bpe", "words", "characters"])
def test_special_tokens_stand_around_and_are_left_out(name: str) -> None:
    ours = trained(name)
    theirs = opened(ours, (5,), (2, 7))
    ids = ours.encode("two dogs")
    assert theirs.encode("two dogs").ids == [5, *ids, 2, 7]
    assert theirs.decode([1, *ids, 2, 0, 0]) == ours.decode([1, *ids, 2, 0, 0])


def test_models_of_others_are_cut_as_their_library_cuts_them() -> None:
    plain = [text for text in [*read_test_sentences(), *CORPUS] if "▁" not in text]
    for kind in ("bpe, normalised", "unigram, normalised", "bpe, across spaces", "unigram, across spaces"):
        ours = subwords(kind)
        theirs = opened(ours)
        for text in plain:
            ids = ours.encode(text)
            assert theirs.encode(text, add_special_tokens=False).ids == ids, (kind, text)
            assert theirs.decode(ids) == ours.decode(ids), (kind, text)


def test_what_the_format_cannot_express_is_refused() -> None:
    with pytest.raises(ConfigError, match="a SentencePiece model with its space after words cannot be written"):
        tokenizer_json(subwords("bpe, spaces at the end"))
    with pytest.raises(ConfigError, match="a SentencePiece model with a symbol like '<sep>' cannot be written"):
        tokenizer_json(subwords("bpe, symbols"))


@pytest.mark.parametrize("name", ["bpe", "words, lower case", "characters, no bytes"])
def test_transformers_opens_the_folder(name: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    ours = trained(name)
    config = ModelConfig(src_vocab_size=ours.size, tgt_vocab_size=ours.size, max_positions=64)
    write_tokenizer_files(TokenizerPair(ours, ours), tmp_path, config, DecodeConfig(source_prefix=(4,)))
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*read_test_sentences(), *MORE]:
        ids = ours.encode(text)
        assert theirs(text).input_ids == [4, *ids, 2], text
        assert theirs.decode([*ids, 2], skip_special_tokens=True) == ours.decode(ids)
    assert (theirs.pad_token_id, theirs.bos_token_id, theirs.eos_token_id) == (0, 1, 2)
    assert theirs.model_max_length == 64


def test_a_target_of_its_own_lies_in_its_own_folder(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    source, target = trained("words"), trained("characters")
    config = ModelConfig(src_vocab_size=source.size, tgt_vocab_size=target.size)
    write_tokenizer_files(TokenizerPair(source, target), tmp_path, config, DecodeConfig())
    theirs = AutoTokenizer.from_pretrained(tmp_path / "target")
    assert theirs("two dogs").input_ids == target.encode("two dogs")
