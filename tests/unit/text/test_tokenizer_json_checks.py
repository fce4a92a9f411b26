"""A tokenizer.json of a stranger: what it may ask of the library, and what happens when the library gives up."""

import base64
import json
from typing import Any

import pytest

from pellucid.errors import CheckpointError
from pellucid.text.hugging_face import HuggingFaceTokenizer
from pellucid.text.tokenizer_json_checks import find_unsafe_content

IDS = {"pad_id": 0, "bos_id": 0, "eos_id": 0, "unk_id": 1}
WORDS = {"type": "WordLevel", "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2, "b": 3}, "unk_token": "[UNK]"}
PUBLISHED_PATTERNS = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # GPT-2
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",  # Llama 3, Qwen2
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}",  # GPT-4o
    r" {2,}",
]


def charsmap(trie: bytes, texts: bytes) -> str:
    return base64.b64encode(len(trie).to_bytes(4, "little") + trie + texts).decode()


def file_with(**parts: Any) -> bytes:
    table = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": WORDS} | parts
    return json.dumps(table).encode()


def replacing(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def splitting(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


HOSTILE: list[tuple[dict[str, Any], str]] = [
    # Each of these ended the process, or would take all memory, in version 0.23 of the library.
    (
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        "its pre_tokenizer is of the kind FixedLength; supported are ",
    ),
    (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}},
        "the `precompiled_charsmap` of its normalizer is damaged: it has 0 bytes, but declares an index of 0",
    ),
    (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}},
        "is damaged: it has 4 bytes, but declares an index of 4,294,967,295 bytes",
    ),
    (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "no base 64"}},
        "the `precompiled_charsmap` of its normalizer is not in base64",
    ),
    (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap(bytes(4), b"a" * 257 + b"\0")}},
        "writes 257 bytes for a character; at most 256 are allowed",
    ),
    (
        {"normalizer": {"type": "Sequence", "normalizers": [replacing("a", "a" * 1000)] * 4}},
        "its normalizer makes a text up to 1,000,000,000,000 times as long; at most 16 times is allowed",
    ),
    (
        {"decoder": {"type": "Sequence", "decoders": [replacing("", "abc")] * 3}},
        "its decoder makes a text up to 64 times",
    ),
    ({"normalizer": {"type": "Prepend", "prepend": "a" * 17}}, "at most 16 characters are"),
    (
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 64}},
        "its normalizer has 65 components; at most 64 are supported",
    ),
    ({"pre_tokenizer": splitting("(a|aa)+$")}, "`(a|aa)+$` of its pre_tokenizer repeats a group, which is not allowed"),
    ({"pre_tokenizer": splitting("(?:a*){3}")}, "repeats a group"),
    ({"pre_tokenizer": splitting("a*{3}")}, "has a nested repetition"),
    ({"pre_tokenizer": splitting("a+?*")}, "has a nested repetition"),
    ({"pre_tokenizer": splitting("(?#[)(a|aa)+$")}, "has the group (?#["),
    ({"pre_tokenizer": splitting("(?<x>a)")}, "has the group (?<x"),
    ({"pre_tokenizer": splitting(r"(a)\1")}, "has a backreference"),
    ({"pre_tokenizer": splitting(r"\g<0>")}, "has a backreference"),
    ({"pre_tokenizer": splitting("[[]a]")}, "has a nested class"),
    ({"pre_tokenizer": splitting("[](a|aa)+$]")}, "has a class that begins with its end"),
    ({"pre_tokenizer": splitting("a{1,1001}")}, "repeats more than 1,000 times"),
    ({"pre_tokenizer": splitting("a" * 1001)}, "is not a string of at most 1,000 characters"),
    (
        {"normalizer": {"type": "Replace", "pattern": {"Regex": 5}, "content": ""}},
        "`5` of its normalizer is not a string",
    ),
    ({"model": {**WORDS, "vocab": {"a": 2**22}}}, "its token a has the id 4194304; ids are 0 to 4,194,303"),
    ({"model": {**WORDS, "vocab": {"a": True}}}, "its token a has the id True"),
    ({"model": {**WORDS, "vocab": {"a" * 2001: 0}}}, "is not a string of at most 2,000 characters"),
    ({"model": {**WORDS, "vocab": {"a": 2}}}, "the token for unknown words, [UNK], is not in its vocabulary"),
    ({"model": {**WORDS, "type": "WordPiece", "max_input_chars_per_word": 10**9}}, "(1000000000) must be in 1..1000"),
    ({"model": {"type": "Unigram", "vocab": [[5, 0.0]], "unk_id": 0}}, "its token 5 is not a string"),
    (
        {"model": {"type": "Nothing"}},
        "its model is of the kind Nothing; supported are BPE, Unigram, WordLevel, WordPiece",
    ),
    ({"model": 5}, "its model has 5 where a component should be"),
    ({"normalizer": [1]}, "its normalizer has [1] where a component should be"),
    ({"decoder": {"type": "Sequence"}}, "its decoder has None where a component should be"),
    ({"added_tokens": [{"id": 2**40, "content": "x"}]}, "its token x has the id 1099511627776"),
    ({"added_tokens": 5}, "its `added_tokens` are not a list of tables"),
]


@pytest.mark.parametrize(("parts", "problem"), HOSTILE)
def test_what_a_file_may_not_ask_for(parts: dict[str, Any], problem: str) -> None:
    assert problem in find_unsafe_content(file_with(**parts))


@pytest.mark.parametrize("pattern", PUBLISHED_PATTERNS)
def test_patterns_of_published_models_may_run(pattern: str) -> None:
    assert find_unsafe_content(file_with(pre_tokenizer=splitting(pattern))) == ""


def test_a_file_says_each_thing_once() -> None:
    """Which of the two the library takes is its own affair, so that the other one would have been looked at."""
    data = b'{"pre_tokenizer": {"type": "Whitespace"}, "pre_tokenizer": {"type": "FixedLength", "length": 0}}'
    assert find_unsafe_content(data) == "it is damaged: it has `pre_tokenizer` twice"


@pytest.mark.parametrize(
    ("data", "problem"),
    [(b"[1]", "it holds no table"), (b"[" * 100_000, "it is damaged: "), (b"\xff", "it is damaged")],
)
def test_what_is_no_table(data: bytes, problem: str) -> None:
    assert find_unsafe_content(data).startswith(problem)


@pytest.mark.foreign
@pytest.mark.parametrize(("parts", "problem"), HOSTILE)
def test_a_forbidden_file_is_no_tokenizer(parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(
        CheckpointError, match=r"`x.json` \([0-9,]+ bytes\) is not a tokenizer that Pellucid can run"
    ) as got:
        HuggingFaceTokenizer.from_options(file_with(**parts), IDS, "x.json")
    assert problem in str(got.value)


@pytest.mark.foreign
@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        # An index that leads out of itself: the library panics, which is no Exception in Python.
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap(b"\xff" * 4, b"ab\0")}},
            "index out of bounds",
        ),
        ({"model": {"type": "Unigram", "vocab": [["[PAD]", 0.0], ["a", -1.0]], "unk_id": None}}, "unknown token"),
        ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "x"}}, "not found in the vocabulary"),
    ],
)
def test_a_file_that_fails_on_a_plain_text_is_refused_at_once(parts: dict[str, Any], reason: str) -> None:
    with pytest.raises(CheckpointError, match=r"the tokenizer `x.json` fails on `A b,.*") as got:
        HuggingFaceTokenizer.from_options(file_with(**parts), IDS, "x.json")
    assert reason in str(got.value)


class _Broken:
    """A library that gives up on one letter, as PyO3 has Rust give up in Python."""

    PanicException = type("PanicException", (BaseException,), {})

    def __init__(self, sound: Any) -> None:
        self.sound = sound

    def encode(self, text: str, add_special_tokens: bool) -> Any:
        if "z" in text:
            raise self.PanicException("retry-limit-in-match over")
        return self.sound.encode(text, add_special_tokens=add_special_tokens)

    def encode_batch_fast(self, texts: list[str], add_special_tokens: bool) -> list[Any]:
        return [self.encode(text, add_special_tokens) for text in texts]


@pytest.mark.foreign
def test_a_line_that_the_library_gives_up_on_is_named() -> None:
    tokenizer = HuggingFaceTokenizer.from_options(file_with(), IDS, "x.json")
    tokenizer._tokenizer = _Broken(tokenizer._tokenizer)
    with pytest.raises(CheckpointError, match=r"`x.json` fails on `b z`: retry-limit-in-match over"):
        tokenizer.encode_lines(["a", "b z", "b"])
    assert tokenizer.encode_lines(["a", "b"]) == [[2], [3]]


@pytest.mark.foreign
def test_an_interruption_is_no_failure_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = HuggingFaceTokenizer.from_options(file_with(), IDS, "x.json")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tokenizer, "_tokenizer", type("Interrupted", (), {"encode": interrupted})())
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode("a")
