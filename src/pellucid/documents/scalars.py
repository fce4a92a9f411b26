"""The ways to write a text in YAML: plain, between quotes, and in a block, so that it stays a text."""

import re

_NOT_TEXT = re.compile(
    r"|~|null|true|false|yes|no|on|off|y|n|[-+]?[\d.][\d_,.:eE+xXoOa-fA-F-]*|[-+]?\.(?:inf|nan)|\d{4}-\d\d?-\d\d?.*|=|<<",
    re.IGNORECASE,
)
"""The words that are no text in YAML 1.1 or 1.2 without quotes."""
_UNSAFE = re.compile(r"^[\s&*!|>'\"%@`#,\[\]{}?:-]|: |:$| #|\s$|[\n\r\t\x00-\x1f\x7f-\x9f\ufeff\u2028\u2029]|[,\[\]{}]")


def encode_plain(text: str) -> str:
    """Returns a text without quotes, if it stays the same text so; else between double quotes."""
    if _NOT_TEXT.fullmatch(text) or _UNSAFE.search(text):
        return encode_double(text)
    return text


def encode_single(text: str) -> str:
    """Returns a text between single quotes, or double quotes if it has a control character."""
    if re.search(r"[\n\r\t\x00-\x1f\x7f-\x9f\ufeff]", text):
        return encode_double(text)
    return "'" + text.replace("'", "''") + "'"


def encode_double(text: str) -> str:
    """Returns a text between double quotes."""
    table = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    written = "".join(table.get(c) or (c if c.isprintable() else f"\\u{ord(c):04x}") for c in text)
    return f'"{written}"'
