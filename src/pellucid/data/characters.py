"""The characters of a line: those that tell of an accident on the way to a text file, and how a text is typed.

Nothing of the second kind (letters composed or not, kinds of spaces and quotation marks) is wrong by itself, but a
model that has read one way is lost with another, unless the tokenizer makes them one.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.data.faults import Fault, Finding
from pellucid.text.normalization import INVISIBLE, JOINER, NON_JOINER, SPACES

# Control characters but the tab; and a byte order mark amid a text, where files were joined.
_CONTROL = re.compile("[\0-\x08\x0a-\x1f\x7f-\x9f\ufeff]")
# What the bytes 0x80 to 0x9f are in Windows-1252, as which most text is misread.
_WINDOWS = {0x20AC: 0x80, 0x201A: 0x82, 0x0192: 0x83, 0x201E: 0x84, 0x2026: 0x85, 0x2020: 0x86, 0x2021: 0x87,
            0x02C6: 0x88, 0x2030: 0x89, 0x0160: 0x8A, 0x2039: 0x8B, 0x0152: 0x8C, 0x017D: 0x8E, 0x2018: 0x91,
            0x2019: 0x92, 0x201C: 0x93, 0x201D: 0x94, 0x2022: 0x95, 0x2013: 0x96, 0x2014: 0x97, 0x02DC: 0x98,
            0x2122: 0x99, 0x0161: 0x9A, 0x203A: 0x9B, 0x0153: 0x9C, 0x017E: 0x9E, 0x0178: 0x9F}  # fmt: skip
_BEHIND = f"[\x80-\xbf{''.join(map(chr, _WINDOWS))}]"
# The first two bytes of a longer sequence, as misread characters.
_POSSIBLE = re.compile(f"[Â-ô]{_BEHIND}")
# Sequences that no language writes, whatever else stands in the line: no quotation mark after a capital is among them.
# Nor are three characters of Korean in a row, or four Cyrillic letters, anything else.
_CERTAIN = re.compile(
    "Ã[\x80-\x9f¡-ª¬-º¼-¿ƒŠŒŽšœžŸ€‰†‡ˆ]|â€[\x9c\x9d™œž¢¦“”]|Â[°©®«·²³£§´±º½¼¾]"
    f"|(?:[à-ï]{_BEHIND}{{2}}){{3}}|(?:[Â-ß]{_BEHIND}){{4}}"
)
# A space that does not break before » or ! is French, and after é the two would read as one Chinese character.
_FRENCH = re.compile("\xa0(?=[»!?:;])|(?<=«)\xa0")


def control_character(line: str) -> str:
    """Returns the first control character of a line as "U+0000", or an empty string. A tab does not count."""
    if line.isprintable():
        return ""
    found = _CONTROL.search(line)
    return f"U+{ord(found[0]):04X}" if found else ""


def is_encoded_twice(line: str) -> bool:
    """Tells whether UTF-8 has been read as Latin-1 or Windows-1252 and written as UTF-8 again: `fÃ¼r`.

    It is where the characters above ASCII, as bytes, all make up UTF-8, which text hardly does by chance; or where a
    sequence stands that text in no language has.
    """
    if line.isascii() or not _POSSIBLE.search(line):
        return False
    if _CERTAIN.search(line):
        return True
    try:
        return _FRENCH.sub(" ", line).translate(_WINDOWS).encode("latin-1").decode() != line
    except UnicodeError:
        return False


_ODD_SPACE = re.compile(f"[{SPACES.replace(' ', '')}]|  |^ | $")
_INVISIBLE = re.compile(f"[{INVISIBLE}{JOINER}{NON_JOINER}]")
_WIDE = re.compile("[\uff01-\uff5e\uffe0-\uffe6]")
_STRAIGHT, _CURVED = re.compile("[\"']"), re.compile("[“”„‟‘’‚‛«»‹›]")
_LINE_ENDS = "\r\n"

EFFECTS: dict[str, dict[Fault, str]] = {
    "nfc": {"decomposed": "composed", "spaces": "read as one space", "invisible": "removed where they do nothing"},
    "nmt_nfkc": {
        "decomposed": "composed", "spaces": "read as one space", "invisible": "removed or read as spaces",
        "wide": "read as plain ones",
    },
    "none": {},
}  # fmt: skip
"""The effect on each, by `data.normalize`; what is not named is kept."""


@dataclass
class _Way:
    """A way of typing: the lines of a file in which it occurs, and the first of them."""

    line: int
    detail: str
    count: int = 0


@dataclass
class Spellings:
    """Counts the lines of each file that are spelled in some way, and keeps the first place."""

    normalization: str
    ways: dict[str, dict[str, _Way]] = field(default_factory=dict)
    """By the name of a way, then by file."""

    def look_at(self, line: str, path: str, number: int) -> None:
        """Takes in a line of a file."""
        line = line.rstrip(_LINE_ENDS)
        if odd := _ODD_SPACE.search(line):
            self._count("spaces", path, number, _named(odd[0]))
        if "'" in line or '"' in line:
            self._count("straight", path, number, _STRAIGHT.findall(line)[0])
        if line.isascii():
            return
        if not unicodedata.is_normalized("NFC", line):
            self._count("decomposed", path, number, "")
        if unseen := _INVISIBLE.search(line):
            self._count("invisible", path, number, _named(unseen[0]))
        if wide := _WIDE.search(line):
            self._count("wide", path, number, wide[0])
        if curved := _CURVED.search(line):
            self._count("curved", path, number, curved[0])

    def merge(self, later: "Spellings") -> None:
        """Takes in what was counted in lines that come behind these."""
        for way, files in later.ways.items():
            own = self.ways.setdefault(way, {})
            for path, found in files.items():
                first = own.setdefault(path, _Way(found.line, found.detail))
                first.count += found.count

    def to_json(self) -> dict[str, dict[str, list[Any]]]:
        """Returns the counts as lists that JSON can hold."""
        return {
            way: {path: [found.line, found.detail, found.count] for path, found in files.items()}
            for way, files in self.ways.items()
        }

    @classmethod
    def from_json(cls, normalization: str, ways: Mapping[str, Mapping[str, Sequence[Any]]]) -> "Spellings":
        """Returns the counts that to_json() made lists of."""
        read = {way: {path: _Way(*found) for path, found in files.items()} for way, files in ways.items()}
        return cls(normalization, read)

    def findings(self) -> tuple[Finding, ...]:
        """Returns a finding a way of spelling, with the number of lines in each file."""
        one_way: tuple[Fault, ...] = ("decomposed", "spaces", "invisible", "wide")
        found = {fault: self.ways[fault] for fault in one_way if fault in self.ways}
        straight, curved = self.ways.get("straight", {}), self.ways.get("curved", {})
        # Either is right by itself; what is told is the rarer one of a file that has both.
        both = {
            path: min(straight[path], curved[path], key=lambda way: way.count) for path in straight if path in curved
        }
        if both:
            found["quotes"] = both
        return tuple(self._finding(fault, files) for fault, files in found.items())

    def _finding(self, fault: Fault, files: dict[str, _Way]) -> Finding:
        path, first = next(iter(files.items()))
        count = sum(way.count for way in files.values())
        counts = [f"{way.count:,} in `{path}`" for path, way in files.items()]
        of = "lines" if len(files) == 1 else f"lines ({' and '.join(counts)})"
        return Finding(fault, count, path, first.line, first.detail, of, EFFECTS[self.normalization].get(fault, "kept"))

    def _count(self, way: str, path: str, line: int, detail: str) -> None:
        self.ways.setdefault(way, {}).setdefault(path, _Way(line, detail)).count += 1


def _named(character: str) -> str:
    """Returns a character that cannot be seen, as "U+00A0"; plain spaces in words."""
    if character == "  ":
        return "two spaces"
    return "at an end" if character == " " else f"U+{ord(character):04X}"
