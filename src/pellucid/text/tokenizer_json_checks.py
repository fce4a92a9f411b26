"""The limits on what a stranger's `tokenizer.json` may ask of the library `tokenizers`, which trusts it.

The library trusts the file. A component that makes each letter a thousand, or a table that says it is four gigabytes
long, ends the process, and no error is raised that could be caught. So components come from a list, those that the
families of models use which are opened here, and their settings have bounds.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pellucid.errors import shown
from pellucid.files.reading import MOST_ID
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
"""The kinds of component that are run."""
MEMBERS = {
    "normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "post_processor": "processors",
    "decoder": "decoders",
}  # fmt: skip
"""The key under which a sequence of such components has them."""
MOST_COMPONENTS = 64
MOST_GROWTH = 16
"""Times that a text may become longer, by all replacements of a file together."""
MOST_PATTERN = 1000
"""Characters of a regular expression; those of published models have about 200."""
MOST_TOKEN = 2000
"""Characters of a token."""
MOST_WORD = 1000
"""Characters of a word that WordPiece cuts; it tries each part of it. BERT has 100."""
MOST_REWRITTEN = 256
"""Bytes that a table of SentencePiece may write for a character; NFKC's longest are 33."""

_GROUP = re.compile(r"\?(?:[:=!>]|<[=!]|-?[ims]+[:)])")
_REPEAT = re.compile(r"[*+]|\{\d*,?\d*\}")


def problem_of(data: bytes) -> str:
    """Returns what forbids the bytes of a `tokenizer.json` to be handed to the library; empty where nothing does."""
    try:
        table = json.loads(data.decode("utf-8"), object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        return f"it is damaged: {str(error)[:200]}"
    if not isinstance(table, dict):
        return "it holds no table"
    problems = (problem for part in COMPONENTS for problem in _part_problems(part, table.get(part)))
    return next(problems, "") or next(_token_problems(table), "") or next(_unknown_problems(table.get("model")), "")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a table, which may say each thing once: the library could read the other one of two."""
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in table if names.count(name) > 1)
        raise ValueError(f"it says `{shown(double)}` twice")
    return table


def _part_problems(part: str, component: Any) -> Iterator[str]:
    """Yields what is wrong with the normalizer, the decoder ... of a file."""
    if component is None and part != "model":
        return
    found = list(_flat(part, component))
    if len(found) > MOST_COMPONENTS:
        yield f"its {part} has {len(found)} components; at most {MOST_COMPONENTS} are run"
    growth = 1
    for each in found:
        if not isinstance(each, dict):
            yield f"its {part} has {shown(each)} where a component should be"
            return
        kind = each.get("type")
        # Old files leave out what their model is; its tables tell.
        if kind not in COMPONENTS[part] and not (part == "model" and kind is None):
            yield f"its {part} is of the kind {shown(kind)}; run are {', '.join(COMPONENTS[part])}"
            return
        yield from _setting_problems(part, kind, each)
        growth *= _growth(kind, each)
    if growth > MOST_GROWTH:
        yield f"its {part} makes a text up to {growth:,} times as long; at most {MOST_GROWTH} times is allowed"


def _flat(part: str, component: Any) -> Iterator[Any]:
    """Yields a component, with those in it where it is a sequence."""
    yield component
    if isinstance(component, dict) and component.get("type") == "Sequence":
        members = component.get(MEMBERS.get(part, ""))
        for member in members if isinstance(members, list) else [members]:
            yield from _flat(part, member)


def _setting_problems(part: str, kind: str | None, component: Mapping[str, Any]) -> Iterator[str]:
    """Yields what is wrong with the settings of one component."""
    pattern = component.get("pattern")
    if isinstance(pattern, dict) and "Regex" in pattern and (reason := _pattern_problem(pattern["Regex"])):
        yield f"the regular expression `{shown(pattern['Regex'])}` of its {part} {reason}"
    if kind == "Prepend" and not _is_short(component.get("prepend"), MOST_GROWTH):
        yield f"its {part} puts {shown(component.get('prepend'))} before texts; at most {MOST_GROWTH} characters are"
    if kind == "Precompiled" and (reason := _charsmap_problem(component.get("precompiled_charsmap"))):
        yield f"the `precompiled_charsmap` of its {part} {reason}"
    longest = component.get("max_input_chars_per_word", 100)
    if part == "model" and not (type(longest) is int and 0 < longest <= MOST_WORD):
        yield f"its `max_input_chars_per_word` ({shown(longest)}) must be in 1..{MOST_WORD}"


def _growth(kind: str | None, component: Mapping[str, Any]) -> int:
    """Returns how many times longer a text becomes where this component finds something to replace in every place."""
    content = component.get("content")
    if kind != "Replace" or not isinstance(content, str):
        return 1
    pattern = component.get("pattern")
    # An expression can match what has no length, and then nothing goes for what comes.
    consumes = isinstance(pattern, dict) and bool(pattern.get("String"))
    return max(1, len(content)) if consumes else 1 + len(content)


def _pattern_problem(pattern: Any) -> str:
    """Returns why a regular expression is not run: what it repeats could be cut in exponentially many ways.

    Allowed is what those of published models are made of: alternatives, classes, and classes repeated. A group may be
    left out (`?`), not repeated; nothing refers back.
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
                return "refers back, which is not allowed"
            braces = re.match(r"[pPx]\{[^{}]*\}", rest)
            place += 1 + (braces.end() if braces else 1)
            repeated = False
            continue
        if in_class:  # nothing has a meaning in it but its end
            if character == "[":
                return "has a class within a class, which is not allowed"
            in_class = character != "]"
        elif character == "[":
            in_class = True
            if rest.startswith(("]", "^]")):
                return "has a class that begins with its end, which is not allowed"
        elif character == "(" and rest.startswith("?") and not _GROUP.match(rest):
            return f"has the group ({shown(rest[:3])}, which is not allowed"
        elif repeat and place and pattern[place - 1] == ")":
            return "repeats a group, which is not allowed"
        elif repeat and repeated and repeat[0] != "+":  # `a*+` is one repetition that gives nothing back
            return "repeats what is repeated, which is not allowed"
        elif repeat and any(int(number) > MOST_PATTERN for number in re.findall(r"\d+", repeat[0])):
            return f"repeats more than {MOST_PATTERN:,} times"
        repeated = bool(repeat) or (repeated and character == "?" and not in_class)
        place = repeat.end() if repeat else place + 1
    return ""


def _charsmap_problem(encoded: Any) -> str:
    """Returns what is wrong with SentencePiece's table of characters: four bytes with the length of a trie, the trie,
    texts.
    """
    try:
        table = base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else b""
    except (binascii.Error, ValueError):
        return "is not in base64"
    length = int.from_bytes(table[:4], "little")
    if len(table) < 8 or length < 4 or length % 4 or 4 + length > len(table):
        return f"is damaged: it has {len(table):,} bytes, and says that {length:,} of them are its index"
    longest = max(map(len, table[4 + length :].split(b"\0")))
    if longest > MOST_REWRITTEN:
        return f"writes {longest:,} bytes for a character; at most {MOST_REWRITTEN} are allowed"
    return ""


def _token_problems(table: Mapping[str, Any]) -> Iterator[str]:
    """Yields what is wrong with the tokens and their ids: the model reserves room by the largest."""
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
            yield f"its token {shown(name)} is not a string of at most {MOST_TOKEN:,} characters"
        if type(number) is not int or not 0 <= number < MOST_ID:
            yield f"its token {shown(name)} has the id {shown(number)}; ids are 0 to {MOST_ID - 1:,}"


def _unknown_problems(model: Any) -> Iterator[str]:
    """Yields why a word that no token spells would be an error in the middle of somebody's text."""
    if isinstance(model, dict) and model.get("type") in ("WordLevel", "WordPiece"):
        unknown, vocabulary = model.get("unk_token"), model.get("vocab")
        if not isinstance(unknown, str) or not isinstance(vocabulary, dict) or unknown not in vocabulary:
            yield f"the token for unknown words, {shown(unknown)}, is not in its vocabulary"


def _is_short(text: Any, most: int) -> bool:
    return isinstance(text, str) and len(text) <= most
