"""Repairs of a pair: undoes accidental damage to its text if the repair is unambiguous.

    mojibake  UTF-8 that was read as Latin-1 or Windows-1252 is read as UTF-8
    control   control characters are replaced by their Windows-1252 characters, a space, or nothing
    markup    entities, as in web pages and Moses output, are replaced by their characters; layout tags are removed
    address   an address after the last sentence is removed if it is the issue of the pair

Each repair is repeated until nothing changes, so that a repaired text is not changed a second time.
"""

import re
from collections.abc import Callable, Set
from dataclasses import dataclass
from html import unescape
from html.entities import html5

from pellucid.config.data import Normalization
from pellucid.data.characters import control_character, decode_twice_encoded, remove_controls
from pellucid.data.issues import IssueKind
from pellucid.data.line_patterns import ENTITY, address_apart, addresses_at
from pellucid.text.sentences import ends_as_sentence

REPAIRED: tuple[IssueKind, ...] = ("mojibake", "control", "markup", "address")
"""The issues that can be repaired."""
_INLINE = "a|abbr|b|big|cite|code|del|em|font|i|ins|kbd|mark|nobr|q|s|small|span|strike|strong|sub|sup|tt|u|wbr"
_BLOCKS = "blockquote|br|center|div|h[1-6]|hr|img|li|ol|p|pre|table|tbody|td|th|thead|tr|ul"
_ATTRIBUTES = r"(?:\s[^<>]{0,300})?/?>"
_INLINE_TAG = re.compile(
    rf"</?(?:{_INLINE}){_ATTRIBUTES}|\[/?(?:b|i|u|url|quote|code)(?:=[^\[\]\s]{{0,300}})?\]", re.IGNORECASE
)
_BLOCK_TAG = re.compile(rf"</?(?:{_BLOCKS}){_ATTRIBUTES}|<!--[^<>]{{0,300}}-->", re.IGNORECASE)
_OPENING, _CLOSING = " \t([<{|-–—:", " \t)]>}.,;"


@dataclass(frozen=True)
class Repairs:
    """The repairs to apply."""

    rules: Set[IssueKind]
    """The issues that are checked for."""
    normalization: Normalization
    tags: bool = True
    """If True, tags are removed; False if they belong to the text."""
    sides: int = 2
    """The number of sides that are text: 1 if the second side is a label or missing."""

    def repair(self, source: str, target: str) -> tuple[str, str, list[IssueKind]]:
        """Returns both sides, and the issues repaired in them; none if the text is unchanged."""
        found: list[IssueKind] = []
        sides = [self._repair_line(side, found) for side in (source, target)[: self.sides]]
        if self.sides == 2 and "address" in self.rules and address_apart(sides):
            without = _remove_final_addresses(sides)
            if without != sides and not address_apart(without):
                sides = without
                found.append("address")
        return sides[0], sides[1] if self.sides == 2 else target, list(dict.fromkeys(found))

    def _repair_line(self, line: str, found: list[IssueKind]) -> str:
        if line.isascii() and line.isprintable() and not any(mark in line for mark in "&<["):
            return line
        before = ""
        while line != before:
            before = line
            repairs: list[tuple[IssueKind, Callable[[str], str]]] = [
                ("mojibake", decode_twice_encoded), ("control", self._remove_controls), ("markup", self._remove_markup),
            ]  # fmt: skip
            for fault, repaired in repairs:
                after = repaired(line) if fault in self.rules else line
                if after != line and after.strip():  # text that would become empty is kept, and checked
                    found.append(fault)
                    line = after
        return line

    def _remove_controls(self, line: str) -> str:
        return remove_controls(line) if control_character(line, self.normalization) else line

    def _remove_markup(self, line: str) -> str:
        line = ENTITY.sub(_character, line) if "&" in line else line
        if not self.tags or not ("<" in line or "[" in line):
            return line
        without = _BLOCK_TAG.sub(" ", _INLINE_TAG.sub("", line))
        return line if without == line else re.sub(" {2,}", " ", without).strip()


def _character(entity: re.Match[str]) -> str:
    """Returns the character that an entity represents, white space as a space; unknown entities unchanged."""
    if entity[0][1] != "#" and entity[0][1:] not in html5:
        return entity[0]
    return "".join(" " if character in "\t\n\v\f\r\x85\u2028\u2029" else character for character in unescape(entity[0]))


def _remove_final_addresses(sides: list[str]) -> list[str]:
    """Returns the sides without the addresses after their last words.

    An address on only one side is removed only after the end of a sentence: otherwise it may be part of the sentence.
    """
    cut = [_split_addresses(side) for side in sides]
    at_both = all(rest != side for rest, side in zip(cut, sides, strict=True))
    return [
        rest if rest and (at_both or ends_as_sentence(rest)) else side for rest, side in zip(cut, sides, strict=True)
    ]


def _split_addresses(line: str) -> str:
    """Returns the part of a line before the addresses at its end; the whole line if there are none."""
    end = len(line.rstrip(_CLOSING))
    for first, last in reversed(addresses_at(line)):
        if last < end:
            break
        line = line[:first].rstrip(_OPENING)
        end = len(line.rstrip(_CLOSING))
    return line
