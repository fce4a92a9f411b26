"""Limits on the content of an untrusted `tokenizer.json`, checked before the library `tokenizers` reads it.

The library trusts the file. A component that replaces each letter by a thousand, or a table that declares a length of
four gigabytes, ends the process without an exception that could be caught. So only the listed components of the
supported model families are allowed, and their settings have bounds.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pellucid.errors import format_value
from pellucid.files.reading import MOST_ID, parse_json
from pellucid.text.patterns import is_own

COMPONENTS: dict[str, tuple[str, ...]] = {
    "normalizer": (
        "BertNormalizer", "ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend",
        "Replace", "Sequence", "Strip", "StripAccents",
    ),
    "pre_tokenizer": (
        "BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "Metaspace", "Punctuation", "Sequence",
        "Split", "UnicodeScripts", "Whitespace", "WhitespaceSplit",
    ),
    "model": ("BPE", "Unigram", "WordLevel", "WordPiece"),
    "post_processor": ("BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"),
    "decoder": (
        "BPEDecoder", "ByteFallback", "ByteLevel", "CTC", "Fuse", "Metaspace", "Replace", "Sequence", "Strip",
        "WordPiece",
    ),
}  # fmt: skip
"""The allowed types of component."""
MEMBERS = {
    "normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "post_processor": "processors",
    "decoder": "decoders",
}  # fmt: skip
"""The key of the members in a sequence of such components."""
MOST_COMPONENTS = 64
MOST_GROWTH = 16
"""The factor by which all replacements of a file together may lengthen a text."""
MOST_PATTERN = 1000
"""Characters of a regular expression; the expressions of published models have about 200."""
MOST_TOKEN = 2000
"""Characters of a token."""
MOST_WORD = 1000
"""Characters of a word that WordPiece segments, trying every substring; BERT's limit is 100."""
MOST_REWRITTEN = 256
"""Bytes that a SentencePiece character map may write for a character; NFKC writes at most 33."""

_GROUP = re.compile(r"\?(?:[:=!>]|<[=!]|-?[ims]+[:)])")
_REPEAT = re.compile(r"[*+]|\{\d*,?\d*\}")


def find_unsafe_content(data: bytes) -> str:
    """Returns the reason why the library must not read the bytes of a `tokenizer.json`, or "" if there is none."""
    try:
        table = parse_json(data.decode("utf-8"), no_doubles=True)
    except ValueError as error:
        return f"it is damaged: {str(error)[:200]}"
    if not isinstance(table, dict):
        return "it holds no table"
    problems = (problem for part in COMPONENTS for problem in _part_problems(part, table.get(part)))
    return next(problems, "") or next(_token_problems(table), "") or next(_unknown_problems(table.get("model")), "")


def _part_problems(part: str, component: Any) -> Iterator[str]:
    """Yields the problems of one part (normalizer, decoder ...) of a file."""
    if component is None and part != "model":
        return
    found = list(_flat(part, component))
    if len(found) > MOST_COMPONENTS:
        yield f"its {part} has {len(found)} components; at most {MOST_COMPONENTS} are supported"
    growth = 1
    for each in found:
        if not isinstance(each, dict):
            yield f"its {part} has {format_value(each)} where a component should be"
            return
        kind = each.get("type")
        # Old files omit the type of their model; its tables determine it.
        if kind not in COMPONENTS[part] and not (part == "model" and kind is None):
            yield f"its {part} is of the kind {format_value(kind)}; supported are {', '.join(COMPONENTS[part])}"
            return
        yield from _find_setting_problems(part, kind, each)
        growth *= _growth(kind, each)
    if growth > MOST_GROWTH:
        yield f"its {part} makes a text up to {growth:,} times as long; at most {MOST_GROWTH} times is allowed"


def _flat(part: str, component: Any) -> Iterator[Any]:
    """Yields a component, and the members if it is a sequence."""
    yield component
    if isinstance(component, dict) and component.get("type") == "Sequence":
        members = component.get(MEMBERS.get(part, ""))
        for member in members if isinstance(members, list) else [members]:
            yield from _flat(part, member)


def _find_setting_problems(part: str, kind: str | None, component: Mapping[str, Any]) -> Iterator[str]:
    """Yields the problems in the settings of one component."""
    pattern = component.get("pattern")
    if isinstance(pattern, dict) and "Regex" in pattern and (reason := _pattern_problem(pattern["Regex"])):
        yield f"the regular expression `{format_value(pattern['Regex'])}` of its {part} {reason}"
    if kind == "Prepend" and not _is_short(component.get("prepend"), MOST_GROWTH):
        yield (
            f"its {part} puts {format_value(component.get('prepend'))} before texts; at most {MOST_GROWTH} "
            "characters are allowed"
        )
    if kind == "Precompiled" and (reason := _charsmap_problem(component.get("precompiled_charsmap"))):
        yield f"the `precompiled_charsmap` of its {part} {reason}"
    longest = component.get("max_input_chars_per_word", 100)
    if part == "model" and not (type(longest) is int and 0 < longest <= MOST_WORD):
        yield f"its `max_input_chars_per_word` ({format_value(longest)}) must be in 1..{MOST_WORD}"


def _growth(kind: str | None, component: Mapping[str, Any]) -> int:
    """Returns the factor by which this component lengthens a text if it finds a match at every position."""
    content = component.get("content")
    if kind != "Replace" or not isinstance(content, str):
        return 1
    pattern = component.get("pattern")
    # An expression can match the empty string; then it adds text without removing any.
    consumes = isinstance(pattern, dict) and bool(pattern.get("String"))
    return max(1, len(content)) if consumes else 1 + len(content)


def _pattern_problem(pattern: Any) -> str:
    """Returns why a regular expression is rejected, or "": nested repetition can take exponential time.

    Allowed are the constructs that published models use: alternatives, classes, and repeated classes. A group may be
    optional (`?`), but not repeated; backreferences are forbidden.
    """
    if isinstance(pattern, str) and len(pattern) > MOST_PATTERN and is_own(pattern):
        return ""
    if not _is_short(pattern, MOST_PATTERN):
        return f"is not a string of at most {MOST_PATTERN:,} characters"
    place, in_class, repeated = 0, False, False
    while place < len(pattern):
        character, rest = pattern[place], pattern[place + 1 :]
        repeat = None if in_class else _REPEAT.match(pattern, place)
        if character == "\\":
            if rest[:1].isdigit() or rest[:1] in ("k", "g", ""):
                return "has a backreference, which is not allowed"
            braces = re.match(r"[pPx]\{[^{}]*\}", rest)
            place += 1 + (braces.end() if braces else 1)
            repeated = False
            continue
        if in_class:  # inside a class only its end has a meaning
            if character == "[":
                return "has a nested class, which is not allowed"
            in_class = character != "]"
        elif character == "[":
            in_class = True
            if rest.startswith(("]", "^]")):
                return "has a class that begins with its end, which is not allowed"
        elif character == "(" and rest.startswith("?") and not _GROUP.match(rest):
            return f"has the group ({format_value(rest[:3])}, which is not allowed"
        elif repeat and place and pattern[place - 1] == ")":
            return "repeats a group, which is not allowed"
        elif repeat and repeated and repeat[0] != "+":  # `a*+` is one possessive repetition
            return "has a nested repetition, which is not allowed"
        elif repeat and any(int(number) > MOST_PATTERN for number in re.findall(r"\d+", repeat[0])):
            return f"repeats more than {MOST_PATTERN:,} times"
        repeated = bool(repeat) or (repeated and character == "?" and not in_class)
        place = repeat.end() if repeat else place + 1
    return ""


def _charsmap_problem(encoded: Any) -> str:
    """Returns the problem of a SentencePiece character map, or "".

    Its format: the length of a trie in four bytes, the trie, and the replacement texts.
    """
    try:
        table = base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else b""
    except (binascii.Error, ValueError):
        return "is not in base64"
    length = int.from_bytes(table[:4], "little")
    if len(table) < 8 or length < 4 or length % 4 or 4 + length > len(table):
        return f"is damaged: it has {len(table):,} bytes, but declares an index of {length:,} bytes"
    longest = max(map(len, table[4 + length :].split(b"\0")))
    if longest > MOST_REWRITTEN:
        return f"writes {longest:,} bytes for a character; at most {MOST_REWRITTEN} are allowed"
    return ""


def _token_problems(table: Mapping[str, Any]) -> Iterator[str]:
    """Yields the problems of the tokens and their ids: the largest id determines the memory of the model."""
    model = table.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    added = table.get("added_tokens") or []
    pairs: list[tuple[Any, Any]] = []
    if isinstance(vocabulary, dict):
        pairs = list(vocabulary.items())
    elif isinstance(vocabulary, list):  # Unigram: each with its score
        pairs = [(entry[0] if isinstance(entry, list) and entry else entry, i) for i, entry in enumerate(vocabulary)]
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        yield "its `added_tokens` are not a list of tables"
        return
    for name, number in (*pairs, *((token.get("content"), token.get("id")) for token in added)):
        if not _is_short(name, MOST_TOKEN):
            yield f"its token {format_value(name)} is not a string of at most {MOST_TOKEN:,} characters"
        if type(number) is not int or not 0 <= number < MOST_ID:
            yield f"its token {format_value(name)} has the id {format_value(number)}; ids are 0 to {MOST_ID - 1:,}"


def _unknown_problems(model: Any) -> Iterator[str]:
    """Yields a problem if the model has no token for unknown words: such a word would raise an error while encoding."""
    if isinstance(model, dict) and model.get("type") in ("WordLevel", "WordPiece"):
        unknown, vocabulary = model.get("unk_token"), model.get("vocab")
        if not isinstance(unknown, str) or not isinstance(vocabulary, dict) or unknown not in vocabulary:
            yield f"the token for unknown words, {format_value(unknown)}, is not in its vocabulary"


def _is_short(text: Any, most: int) -> bool:
    return isinstance(text, str) and len(text) <= most
