"""How a text is typed: in letters composed or not, with which spaces and quotation marks. Nothing of it is wrong by
itself, but a model that has read one way is lost with another, unless the tokenizer makes them one."""

import re
import unicodedata
from dataclasses import dataclass, field

from pellucid.data.faults import Fault, Finding
from pellucid.text.normalization import INVISIBLE, JOINER, NON_JOINER, SPACES

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
"""What becomes of each, by `data.normalize`; what is not named is kept."""


@dataclass
class _Way:
    """In how many lines of a file something occurs, and where first."""

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
    """A character that cannot be seen, as "U+00A0"; plain spaces in words."""
    if character == "  ":
        return "two spaces"
    return "at an end" if character == " " else f"U+{ord(character):04X}"
