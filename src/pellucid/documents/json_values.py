"""JSON: the strings that are values and text, each between its quotes; keys, numbers and layout are copied."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial

from pellucid.documents.content import ENTITIES, PLACEHOLDERS, URL, protect
from pellucid.documents.spans import Item, Reading, Unit
from pellucid.errors import DataError
from pellucid.files.budget import MOST_VALUE_DEPTH
from pellucid.files.reading import parse_json

_TOKEN = re.compile(
    r"[ \t\r\n\ufeff]*(?:(?P<string>\"(?:[^\"\\\x00-\x1f]|\\.)*\")|(?P<word>-?\d[\d.eE+-]*|true|false|null)"
    r"|(?P<mark>[{}\[\],:]))"
)
_PROTECTED = re.compile("|".join((PLACEHOLDERS.pattern, ENTITIES, URL.pattern)))
_CHOICE = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")
_BRANCH = re.compile(r"\s*(?:offset:\d+\s+)?(?:=\d+|\w+)\s*\{")


def read_json(text: str, name: str, pinned: object = None) -> Reading:
    """Returns the strings of a JSON document that are values. Raises DataError for a text that is no JSON."""
    found = Reading()
    for start, end, path in iterate_strings(text):
        raw = text[start:end]
        try:
            said: str = parse_json(raw)
        except ValueError as error:
            raise _no_json(text, start) from error
        encode = _encoder(raw)
        items = split_choices(said, partial(protect, pattern=_PROTECTED, encode=encode), encode)
        found.units.append(Unit(start + 1, end - 1, items, encode, path, is_label_like=True))
    return found


def _encoder(raw: str) -> Callable[[str], str]:
    """Returns the function that writes text as the source does: characters beyond ASCII as they are, or escaped."""
    is_ascii = raw.isascii() and re.search(r"\\u(?!00[01])", raw) is not None
    has_slash = "\\/" in raw

    def encode(text: str) -> str:
        written = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        return written.replace("/", "\\/") if has_slash else written

    return encode


def split_choices(said: str, split: Callable[[str], list[Item]], encode: Callable[[str], str]) -> list[Item]:
    """Returns a message as items: each branch of an ICU plural or select is a segment of its own."""
    if not _CHOICE.search(said) or said.count("{") != said.count("}"):
        return split(said)
    items: list[Item] = []
    at, depths = 0, list[str]()
    begin = 0

    def text(end: int) -> None:
        if end > begin:
            for part in re.split(r"(#)", said[begin:end]) if "branch" in depths else [said[begin:end]]:
                items.extend([Item("object", (encode(part),))] if part == "#" else split(part) if part else [])

    def mark(end: int) -> None:
        items.append(Item("object", (encode(said[at:end]),), ends="always"))

    while at < len(said):
        if (not depths or depths[-1] == "branch") and (match := _CHOICE.match(said, at)):
            text(at)
            mark(match.end())
            at = begin = match.end()
            depths.append("choice")
        elif depths and depths[-1] == "choice" and (match := _BRANCH.match(said, at)):
            mark(match.end())
            at = begin = match.end()
            depths.append("branch")
        elif depths and said[at] == "{" and depths[-1] != "choice":
            depths.append("other")
            at += 1
        elif depths and said[at] == "}":
            if depths[-1] == "branch":
                text(at)
            if depths.pop() == "other":
                at += 1
                continue
            mark(at + 1)
            at = begin = at + 1
        else:
            at += 1
    text(len(said))
    return items


def iterate_strings(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields the place of each string that is a value, with its quotes, and its path of keys."""
    stack: list[list[object]] = []  # the bracket, and the key or the index
    at, expected = 0, "value"
    while (match := _TOKEN.match(text, at)) is not None:
        kind, at = match.lastgroup, match.end()
        said = match[kind or 0]
        if kind == "string" and expected in ("key", "key or end"):
            stack[-1][1] = said[1:-1]
            expected = ":"
        elif said == ":" and expected == ":":
            expected = "value"
        elif said in "]}" and stack and expected in ("key or end", "value or end", ", or end"):
            if stack.pop()[0] != said:
                break
            expected = ", or end" if stack else "end"
        elif said == "," and expected == ", or end":
            is_list = stack[-1][0] == "]"
            if is_list:
                stack[-1][1] = int(str(stack[-1][1])) + 1
            expected = "value" if is_list else "key"
        elif expected in ("value", "value or end") and kind in ("string", "word"):
            if kind == "string":
                yield match.start("string"), at, "/".join(str(key) for _, key in stack[-20:]) or "value"
            expected = ", or end" if stack else "end"
        elif expected in ("value", "value or end") and said in "[{":
            if len(stack) >= MOST_VALUE_DEPTH:
                raise DataError(
                    f"the JSON document has more than {MOST_VALUE_DEPTH:,} values within each other", "make it flatter"
                )
            stack.append(["]" if said == "[" else "}", 0])
            expected = "value or end" if said == "[" else "key or end"
        else:
            break
    if expected != "end" or text[at:].strip():
        raise _no_json(text, at)


def _no_json(text: str, place: int) -> DataError:
    line = text.count("\n", 0, place) + 1
    return DataError(f"the document is no JSON: line {line}", "check it by `python -m json.tool`")
