"""Plain text: paragraphs of hard-wrapped lines are joined, translated, and wrapped again with the same beginnings."""

import re
from collections.abc import Callable
from typing import cast

from pellucid.documents.content import URL, protect
from pellucid.documents.spans import Item, Reading, Unit, Wrap, has_letters

_LINE = re.compile(r"([^\r\n\f]*)(\r\n|\n|\r|\f|\Z)")
_PREFIX = re.compile(r"[ \t]*(?:>[ \t]?)*[ \t]*")
_BULLET = re.compile(r"(?:[-*+•·–—‣◦][ \t]+|\(?\d{1,3}[.)][ \t]+|\(?[a-zA-Z][.)][ \t]+)")
_RULE = re.compile(r"[ \t]*([=\-_*~#+.])\1{2,}[ \t]*")
_SIGNATURE = re.compile(r"-- ?")
_PROTECTED = re.compile(URL.pattern)
VERSE = 50
"""The characters that a line of verse has, at most."""

Parse = Callable[[str], list[Item]]


def read_text(text: str, name: str, pinned: object = None) -> Reading:
    """Returns the paragraphs of a plain text.

    Args:
        pinned: the places between the units of an earlier reading.
    """
    if pinned is not None:
        return read_between(text, cast(list[tuple[str, Unit, Parse]], pinned))
    found = Reading()
    lines = [(m.start(1), m.end(1), m[2]) for m in _LINE.finditer(text) if m.start() < len(text)]
    place = 0
    while place < len(lines):
        start, end, _ = lines[place]
        line = text[start:end]
        if _SIGNATURE.fullmatch(line):
            break
        if not has_letters(line) or _RULE.fullmatch(line):
            place += 1
            continue
        size, is_joined = _paragraph(text, lines, place)
        for first in [place] if is_joined else range(place, place + size):
            group = lines[first : first + size] if is_joined else lines[first : first + 1]
            found.units.append(_unit(text, group, first + 1))
        place += size
    found.pinned = gaps(text, found.units, lambda said: protect(said, _PROTECTED, lambda part: part))
    return found


def _beginning(line: str) -> tuple[str, str]:
    """Returns the indentation and quotation marks of a line, and its bullet."""
    prefix = _PREFIX.match(line)
    assert prefix is not None
    bullet = _BULLET.match(line, prefix.end())
    return prefix[0], bullet[0] if bullet else ""


def _paragraph(text: str, lines: list[tuple[int, int, str]], place: int) -> tuple[int, bool]:
    """Returns the number of lines of the paragraph that begins with a line, and if they are joined: verse is not."""
    first, bullet = _beginning(text[lines[place][0] : lines[place][1]])
    size = 1
    while place + size < len(lines) and lines[place + size - 1][2] != "\f":
        line = text[lines[place + size][0] : lines[place + size][1]]
        prefix, other = _beginning(line)
        fits = (prefix.rstrip() == first.rstrip() and (len(prefix) > len(first)) == bool(bullet)) or (
            prefix == first and not bullet
        )
        if size > 1 and bullet:
            fits = prefix == _beginning(text[lines[place + 1][0] : lines[place + 1][1]])[0]
        is_end = not has_letters(line) or other or _RULE.fullmatch(line) or _SIGNATURE.fullmatch(line) or not fits
        if is_end:
            break
        size += 1
    said = [text[a:b].strip() for a, b, _ in lines[place : place + size]]
    under = text[lines[place + size][0] : lines[place + size][1]] if place + size < len(lines) else ""
    is_verse = size > 2 and all(line[:1].isupper() and len(line) <= VERSE for line in said)
    return size, not (is_verse or (_RULE.fullmatch(under) and size > 1))


def _unit(text: str, lines: list[tuple[int, int, str]], number: int) -> Unit:
    start, end = lines[0][0], lines[-1][1]
    first, bullet = _beginning(text[lines[0][0] : lines[0][1]])
    start += len(first) + len(bullet)
    end -= len(text[start:end]) - len(text[start:end].rstrip())
    prefix = first + " " * len(bullet)
    words = []
    for number, (a, b, _) in enumerate(lines):
        line = text[a:b]
        if number:
            prefix = _beginning(line)[0]
            words.append(line[len(prefix) :].strip())
        else:
            words.append(text[start:b].strip())
    unit = Unit(
        start,
        end,
        protect(" ".join(words), _PROTECTED, lambda said: said),
        _one_line,
        f"line {number}",
    )
    if len(lines) > 1:
        unit.wrap = Wrap(max(b - a for a, b, _ in lines), prefix, lines[0][2])
    return unit


def _one_line(text: str) -> str:
    return re.sub(r"[\r\n\f]+", " ", text)


def gaps(text: str, units: list[Unit], parse: Parse | list[Parse]) -> list[tuple[str, Unit, Parse]]:
    """Returns the text before each unit, with the unit and what parses its text, and at the end the rest."""
    found, at = list[tuple[str, Unit, Parse]](), 0
    for number, unit in enumerate(units):
        found.append((text[at : unit.start], unit, parse[number] if isinstance(parse, list) else parse))
        at = unit.end
    if units:
        found.append((text[at:], units[-1], found[-1][2]))
    return found


def read_between(text: str, pinned: list[tuple[str, Unit, Parse]]) -> Reading:
    """Returns the units of a translated text, which lie between the pinned characters of the original."""
    found, at = Reading(), 0
    for number, (gap, unit, parse) in enumerate(pinned[:-1]):
        if not text.startswith(gap, at):
            break
        start = at + len(gap)
        following = pinned[number + 1][0]
        is_last = number + 2 == len(pinned)
        end = len(text) - len(following) if is_last else text.find(following, start)
        if end < start or not text.startswith(following, end):
            break
        said = text[start:end]
        if unit.wrap is not None:
            line_end = re.escape(unit.wrap.end + unit.wrap.prefix)
            said = re.sub(rf"( {{2,}}|\\)?{line_end}", lambda match: f"{match[1]}\n" if match[1] else " ", said)
        found.units.append(Unit(start, end, parse(said), unit.encode, unit.place))
        at = end
    return found
