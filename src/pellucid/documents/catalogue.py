"""gettext catalogues: the empty translations are filled; finished, fuzzy and obsolete entries stay as they are."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from pellucid.documents.content import BRACES, ENTITIES, PRINTF, TAGS, protect
from pellucid.documents.spans import Item, LanguageLabel, Reading, Unit
from pellucid.errors import DataError

_LINE = re.compile(r"([^\n]*)(\n|\Z)")
_KEY = re.compile(r"[ \t]*(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)[ \t]*(\"(?:[^\"\\]|\\.)*\")[ \t]*\r?")
_STRING = re.compile(r"[ \t]*(\"(?:[^\"\\]|\\.)*\")[ \t]*\r?")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", '"': '"', "\\": "\\"}
_ESCAPED = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)", re.DOTALL)
_PATTERNS = {
    "python-brace-format": BRACES, "kde-format": r"%\d+", "qt-format": r"%L?\d{1,2}|%n", "qt-plural-format": r"%n",
    "python-format": PRINTF + "|%%", "c-format": PRINTF + "|%%",
}  # fmt: skip
_ACCELERATOR = re.compile(r"(?<![\w&_])[_&](?=[^\W\d_])|(?<=[^\W\d_&])[&_](?=[^\W\d_])")
MOST_HEADER = 10_000
"""The bytes at the beginning of a catalogue in which its header names the encoding."""
_COUNT = re.compile(r"nplurals\s*=\s*(\d{1,2})")


@dataclass
class _Value:
    """A keyword with its string: the place of the string's first quote to its last, and the text."""

    start: int
    end: int
    text: str


@dataclass
class _Entry:
    line: int
    flags: set[str] = field(default_factory=set)
    values: dict[str, _Value] = field(default_factory=dict)


def read_catalogue(text: str, name: str, pinned: object = None) -> Reading:
    """Returns the entries without translation as units, and the label `Language` of the header.

    Args:
        pinned: the keys of the entries that an earlier reading filled.
    """
    found = Reading()
    chosen = None if pinned is None else cast(set[tuple[int, str]], pinned)
    filled, count = set[tuple[int, str]](), 0
    for number, entry in enumerate(_entries(text)):
        if "msgid" not in entry.values:
            continue
        source = entry.values["msgid"].text
        if not source and "msgctxt" not in entry.values:
            _read_header(text, entry, found)
            match = _COUNT.search(entry.values["msgstr"].text if "msgstr" in entry.values else "")
            count = int(match[1]) if match else 0
            continue
        for key, value in entry.values.items():
            if not key.startswith("msgstr"):
                continue
            place = f"line {entry.line}"
            plural = entry.values.get("msgid_plural")
            index = int(key[7:-1]) if "[" in key else 0
            said = plural.text if (index or count == 1) and plural is not None else source
            if "[" in key and sum("[" in each for each in entry.values) != count:
                unit = Unit(value.start, value.end, [Item("text", ((value.start, value.end),), said)], encode_po, place)
                unit.reason = "a plural form, and Plural-Forms of the header has another number of them"
                found.units.append(unit)
                continue
            is_open = (number, key) in chosen if chosen is not None else not value.text and "fuzzy" not in entry.flags
            if is_open:
                filled.add((number, key))
                found.units.append(_unit(value, value.text if chosen is not None else said, entry, place))
            elif chosen is None:
                reason = "fuzzy" if "fuzzy" in entry.flags else "translated before"
                unit = Unit(value.start, value.end, [Item("text", ((value.start, value.end),), said)], encode_po, place)
                unit.reason = reason
                found.units.append(unit)
            else:
                unit = Unit(value.start, value.end, [Item("text", ((value.start, value.end),), said)], encode_po, place)
                found.units.append(unit)
    found.pinned = filled
    return found


def _unit(value: _Value, said: str, entry: _Entry, place: str) -> Unit:
    items = split_message(said, entry.flags)
    unit = Unit(value.start, value.end, items, _escape, place, before='"', after='"', fills=True)
    return unit


def split_message(said: str, flags: set[str]) -> list[Item]:
    """Returns a message as items, with its placeholders, tags, entities and accelerators as objects."""
    patterns = [_PATTERNS[flag] for flag in sorted(flags) if flag in _PATTERNS]
    if not patterns:
        patterns = [] if any(flag.startswith("no-") for flag in flags) else [BRACES, rf"(?:{PRINTF})(?![A-Za-z])"]
    pattern = re.compile("|".join([TAGS, ENTITIES, *patterns, _ACCELERATOR.pattern]))
    if len(_ACCELERATOR.findall(re.sub("|".join([TAGS, ENTITIES, *patterns]), "", said))) != 1:  # snake_case, R&D
        pattern = re.compile("|".join([TAGS, ENTITIES, *patterns]))
    items = protect(said, pattern, _escape)
    for item in items:
        item.is_before_letter = item.raw in (("_",), ("&",))
    return items


def _escape(text: str) -> str:
    table = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return "".join(table.get(character, character) for character in text)


def encode_po(text: str) -> str:
    """Returns a text between quotes, with the escapes of gettext."""
    return f'"{_escape(text)}"'


def _decode(quoted: str) -> str:
    def replace(match: re.Match[str]) -> str:
        said = match[1]
        if said[0] in "01234567":
            return chr(int(said, 8))
        if said[0] == "x" and len(said) > 1:
            return chr(int(said[1:], 16))
        return _ESCAPES.get(said, said)

    return _ESCAPED.sub(replace, quoted[1:-1])


def _read_header(text: str, entry: _Entry, found: Reading) -> None:
    value = entry.values.get("msgstr")
    if value is None:
        return
    if match := re.search(r"Language:((?:[^\\\"\n]|\\(?!n))*)\\n", text[value.start : value.end]):
        found.target = match[1].strip().replace("_", "-")
        start, end = (value.start + place for place in match.span(1))
        found.labels.append(LanguageLabel(start, end, match[1], form="gettext"))


def check_charset(data: bytes) -> None:
    """Raises DataError for a catalogue whose header names another encoding than UTF-8."""
    charset = re.search(rb"charset=([\w-]{1,40})", data[:MOST_HEADER])
    if charset is not None and charset[1].lower() not in (b"utf-8", b"utf8", b"charset", b"us-ascii", b"ascii"):
        raise DataError(
            f"the catalogue is in the encoding {charset[1].decode()}, and only UTF-8 is read",
            "convert it by `msgconv -t UTF-8`",
        )


def _entries(text: str) -> Iterator[_Entry]:
    """Yields the entries, without the obsolete ones."""
    entry, at, number = _Entry(1), 0, 0
    last = ""
    while at < len(text):
        match = _LINE.match(text, at)
        assert match is not None
        number += 1
        line = match[1]
        if (found := _KEY.fullmatch(line)) is not None:
            key = found[1]
            if key in ("msgctxt", "msgid") and any(old.startswith("msgstr") for old in entry.values):
                yield entry
                entry = _Entry(number)
            if not entry.values:
                entry.line = number
            last = key
            entry.values[key] = _Value(at + found.start(2), at + found.end(2), _decode(found[2]))
        elif (found := _STRING.fullmatch(line)) is not None and last:
            value = entry.values[last]
            value.text, value.end = value.text + _decode(found[1]), at + found.end(1)
        elif line.lstrip().startswith("#"):
            if any(old.startswith("msgstr") for old in entry.values):
                yield entry
                entry = _Entry(number)
            last = ""
            if line.startswith("#,"):
                entry.flags |= {flag.strip() for flag in line[2:].split(",")}
        elif line.strip():
            raise DataError(f"line {number} of the catalogue is no line of gettext", "check it by the program msgfmt")
        at = match.end()
    if entry.values:
        yield entry
