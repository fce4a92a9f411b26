"""What the tokenizer of a foreign folder puts around a text: by the files that need no further library."""

from pathlib import Path
from typing import Any

import pytest

from pellucid.config import DecodeConfig
from pellucid.text.foreign_files import ForeignFiles
from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers
from pellucid.text.language_codes import language_ids, set_language_codes
from pellucid.text.template import Template, read_template
from tests.parity.foreign_tokenizers import folders


def template(folder: Path, *, continues: bool = False) -> tuple[Template | None, dict[str, int]]:
    tokenizers = load_hugging_face_tokenizers(ForeignFiles(folder))
    assert tokenizers is not None
    codes = language_ids(tokenizers)
    return read_template(ForeignFiles(folder), tokenizers.source, codes, continues=continues), codes


@pytest.mark.parametrize(
    ("settings", "before", "after"),
    [
        ({}, [], []),
        ({"src_lang": "deu_Latn"}, ["deu_Latn"], []),
        ({"src_lang": "deu_Latn", "legacy_behaviour": False}, ["deu_Latn"], []),
        ({"src_lang": "deu_Latn", "legacy_behaviour": True}, [], ["deu_Latn"]),
        ({"legacy_behaviour": True}, [], ["eng_Latn"]),
        ({"src_lang": "deu_Latn", "legacy_behaviour": True, "tokenizer_class": "NllbTokenizerFast"}, [], ["deu_Latn"]),
    ],
)
def test_the_code_of_nllb(settings: dict[str, Any], before: list[str], after: list[str], tmp_path: Path) -> None:
    folder = folders.fairseq(tmp_path, "m2m_100", "NllbTokenizer", more=204)
    folders.write(folder, tokenizer_config={"tokenizer_class": "NllbTokenizer"} | settings)
    found, codes = template(folder)
    assert found == Template(tuple(codes[code] for code in before), (2, *(codes[code] for code in after)))


@pytest.mark.parametrize(("tokenizer_class", "behind"), [("MBartTokenizer", True), ("MBart50Tokenizer", False)])
def test_the_two_mbarts_are_told_apart_by_their_tokenizers(tokenizer_class: str, behind: bool, tmp_path: Path) -> None:
    folder = folders.fairseq(tmp_path, "mbart", tokenizer_class, more=54)
    folders.write(folder, tokenizer_config={"tokenizer_class": tokenizer_class, "src_lang": "fr_XX"})
    found, codes = template(folder)
    code = (codes["fr_XX"],)
    assert found == (Template((), (2, *code)) if behind else Template(code, (2,)))


def test_what_is_usual_in_a_family(tmp_path: Path) -> None:
    assert template(folders.t5(tmp_path))[0] is None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, Template()),
        ({"add_bos_token": True}, Template((1,))),
        ({"add_bos_token": True, "add_eos_token": True}, Template((1,), (2,))),
    ],
)
def test_the_switches_of_a_decoder(settings: dict[str, Any], expected: Template, tmp_path: Path) -> None:
    folder = folders.write(folders.llama(tmp_path), tokenizer_config={"tokenizer_class": "LlamaTokenizer"} | settings)
    assert template(folder, continues=True)[0] == expected


@pytest.mark.parametrize(
    ("decode", "start", "expected"),
    [
        ({}, 2, {"source_prefix": (8,)}),
        ({}, 9, {"source_suffix": (8,)}),
        ({"source_prefix": (7,)}, 2, {"source_prefix": (8,)}),
        ({"source_suffix": (7,)}, 2, {"source_suffix": (8,)}),
        ({"source_prefix": (0,), "source_suffix": (5, 7)}, 2, {"source_prefix": (0,), "source_suffix": (5, 8)}),
        ({"source_prefix": (0,)}, 2, {"source_prefix": (8, 0)}),
    ],
)
def test_a_code_takes_the_place_of_the_one_before(decode: Any, start: int, expected: Any) -> None:
    found = set_language_codes(DecodeConfig(**decode), start, {"a": 7, "b": 8, "c": 9}, 8, 9)
    assert found == DecodeConfig(**expected, target_prefix=() if start == 9 else (9,))
