"""Java properties: the values that are text, with the escapes, the continued lines and the encoding of the file."""

import re
from collections.abc import Callable, Iterator
from functools import partial

from pellucid.documents.content import PLACEHOLDERS, URL, protect
from pellucid.documents.spans import Item, Reading, Unit

_LOGICAL = re.compile(r"(?:[^\\\r\n]|\\(?:\r\n|[\s\S]))*")
_KEY = re.compile(r"(?:[^\\\s:=]|\\(?:\r\n[ \t\f]*|[\s\S]))+")
_SEPARATOR = re.compile(r"(?:[ \t\f]|\\\r?\n[ \t\f]*)*(?:[:=](?:[ \t\f]|\\\r?\n[ \t\f]*)*)?")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(\r\n|\r|\n)[ \t\f]*|([\s\S]))")
_MESSAGE = re.compile(r"\{\d+(?:,[^{}]*)?\}")
_QUOTED_BRACES = re.compile(r"'[{}]|[{}]'(?!')")
_PROTECTED = re.compile("|".join((PLACEHOLDERS.pattern, URL.pattern)))


def read_properties(text: str, name: str, pinned: object = None, *, is_ascii: bool | None = None) -> Reading:
    """Returns the values of a file of properties.

    Args:
        is_ascii: True if characters beyond ASCII are escaped; None: if the file has escapes.
    """
    found = Reading()
    escapes = re.search(r"\\u[0-9a-fA-F]{4}", text) is not None if is_ascii is None else is_ascii
    for key, start, end in _values(text):
        said = decode_properties(text[start:end])
        is_message = _MESSAGE.search(said) is not None
        encode = partial(encode_properties, is_ascii=escapes, is_message=is_message)
        if is_message:
            said = said.replace("''", "'")
        unit = Unit(start, end, _items(said, encode), encode, key, is_label_like=True, encode_whole=_escape_start)
        if is_message and _QUOTED_BRACES.search(text[start:end]):
            unit.reason = "quoted braces"
        found.units.append(unit)
    return found


def _items(said: str, encode: Callable[[str], str]) -> list[Item]:
    return protect(said, _PROTECTED, encode)


def _values(text: str) -> Iterator[tuple[str, int, int]]:
    """Yields the key and the place of each value."""
    at = 0
    while at < len(text):
        while at < len(text) and text[at] in " \t\f\r\n":
            at += 1
        if at >= len(text):
            return
        if text[at] in "#!":
            end = at
            while end < len(text) and text[end] not in "\r\n":
                end += 1
            at = end
            continue
        line = _LOGICAL.match(text, at)
        key = _KEY.match(text, at)
        assert line is not None
        stop = line.end()
        if key is not None:
            separator = _SEPARATOR.match(text, key.end())
            start = min(separator.end() if separator else key.end(), stop)
            yield decode_properties(key[0]), start, stop
        at = max(stop, at + 1)


def decode_properties(raw: str) -> str:
    """Returns a value without its escapes."""

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2]:
            return ""
        return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(match[3], match[3])

    found = _ESCAPE.sub(replace, raw)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def encode_properties(text: str, *, is_ascii: bool, is_message: bool) -> str:
    """Returns a text as a value; with doubled apostrophes in one that MessageFormat reads."""
    if is_message and not _MESSAGE.fullmatch(text):
        text = text.replace("'", "''")
    table = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    written = "".join(table.get(character, character) for character in text)
    return "".join(_escape(c) if c < " " or c == "\x7f" or (is_ascii and not c.isascii()) else c for c in written)


def _escape_start(written: str) -> str:
    """Returns a written value with an escaped space at its beginning, which would be part of the separator."""
    return f"\\{written}" if written.startswith((" ", "\t", "\f")) else written


def _escape(character: str) -> str:
    code = character.encode("utf-16-be")
    return "".join(f"\\u{code[i : i + 2].hex()}" for i in range(0, len(code), 2))
