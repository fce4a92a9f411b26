"""The characters of a line: traces of encoding errors, and the variants in which a text is typed.

No variant (composed or decomposed letters, kinds of spaces and quotation marks) is wrong by itself, but a model that
was trained on one of them fails on another, unless the tokenizer normalizes them.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.data.issues import Issue, IssueKind
from pellucid.text.normalization import INVISIBLE, JOINER, NON_JOINER, SPACES, normalize

# Control characters except the tab. A byte order mark within a text is one of INVISIBLE.
_CONTROL = re.compile("[\0-\x08\x0a-\x1f\x7f-\x9f]")
# The bytes 0x80 to 0x9f in Windows-1252, the encoding in which most misread text was read.
_WINDOWS = {0x20AC: 0x80, 0x201A: 0x82, 0x0192: 0x83, 0x201E: 0x84, 0x2026: 0x85, 0x2020: 0x86, 0x2021: 0x87,
            0x02C6: 0x88, 0x2030: 0x89, 0x0160: 0x8A, 0x2039: 0x8B, 0x0152: 0x8C, 0x017D: 0x8E, 0x2018: 0x91,
            0x2019: 0x92, 0x201C: 0x93, 0x201D: 0x94, 0x2022: 0x95, 0x2013: 0x96, 0x2014: 0x97, 0x02DC: 0x98,
            0x2122: 0x99, 0x0161: 0x9A, 0x203A: 0x9B, 0x0153: 0x9C, 0x017E: 0x9E, 0x0178: 0x9F}  # fmt: skip
_PRINTED = {byte: chr(character) for character, byte in _WINDOWS.items() if byte != 0x85}  # which is also a line end
_BEHIND = f"[\x80-\xbf{''.join(map(chr, _WINDOWS))}]"
# The first two bytes of a longer sequence, as misread characters.
_POSSIBLE = re.compile(f"[Â-ô]{_BEHIND}")
# Sequences that occur in no language, whatever the rest of the line; a quotation mark after a capital is not included.
# Three misread characters of Korean in a row, or four misread Cyrillic letters, are unambiguous, too.
_CERTAIN = re.compile(
    "Ã[\x80-\x9f¡-ª¬-º¼-¿ƒŠŒŽšœžŸ€‰†‡ˆ]|â€[\x9c\x9d™œž¢¦“”]|Â[°©®«·²³£§´±º½¼¾]"
    f"|(?:[à-ï]{_BEHIND}{{2}}){{3}}|(?:[Â-ß]{_BEHIND}){{4}}"
)
# A no-break space before » or ! is French; after é, the two would be read as one Chinese character.
_FRENCH = re.compile("\xa0(?=[»!?:;])|(?<=«)\xa0")


def control_character(line: str, normalization: str = "none") -> str:
    """Returns the first control character of a line as "U+0000", or an empty string. Ignores tabs, and characters that
    a tokenizer with this normalization removes or reads as a space.
    """
    if line.isprintable() or not _CONTROL.search(line):
        return ""
    found = _CONTROL.search(normalize(line, normalization))
    return f"U+{ord(found[0]):04X}" if found else ""


def is_encoded_twice(line: str) -> bool:
    """Returns True if UTF-8 has been read as Latin-1 or Windows-1252 and written as UTF-8 again: `fÃ¼r`.

    This is so if all characters above ASCII, as bytes, form valid UTF-8, which hardly happens by chance, or if the line
    has a sequence that occurs in no language.
    """
    if line.isascii() or not _POSSIBLE.search(line):
        return False
    if _CERTAIN.search(line):
        return True
    try:
        return _encode_windows(_FRENCH.sub(" ", line)).decode() != line
    except UnicodeError:
        return False


# The result of misreading a character of two to four bytes.
_SEQUENCE = re.compile(f"[Â-ß]{_BEHIND}|[à-ï]{_BEHIND}{{2}}|[ð-ô]{_BEHIND}{{3}}")


def decode_twice_encoded(line: str) -> str:
    """Returns the original of a line that was encoded twice or more often. Decodes the whole line or, within other
    text, only the sequences that are valid UTF-8. Any other line is returned unchanged.
    """
    while is_encoded_twice(line):
        before = line
        try:
            line = _encode_windows(_FRENCH.sub(" ", line)).decode()
        except UnicodeError:
            line = _SEQUENCE.sub(_decode_match, line)
        if line == before:
            break
    return line


def _decode_match(sequence: re.Match[str]) -> str:
    try:
        return _encode_windows(sequence[0]).decode()
    except UnicodeError:
        return sequence[0]


def _encode_windows(line: str) -> bytes:
    return line.translate(_WINDOWS).encode("latin-1")


def remove_controls(line: str) -> str:
    """Returns a line without control characters: decoded by Windows-1252, else a space if white space, else removed."""
    return _CONTROL.sub(lambda found: _PRINTED.get(ord(found[0]), " " if found[0].isspace() else ""), line)


_ODD_SPACE = re.compile(f"[{SPACES.replace(' ', '')}]|  |^ | $")
_INVISIBLE = re.compile(f"[{INVISIBLE}{JOINER}{NON_JOINER}]")
_WIDE = re.compile("[\uff01-\uff5e\uffe0-\uffe6]")
_STRAIGHT, _CURVED = re.compile("[\"']"), re.compile("[“”„‟‘’‚‛«»‹›]")
_LINE_ENDS = "\r\n"

EFFECTS: dict[str, dict[IssueKind, str]] = {
    "nfc": {"decomposed": "composed", "spaces": "read as one space", "invisible": "removed if they have no effect"},
    "nmt_nfkc": {
        "decomposed": "composed", "spaces": "read as one space", "invisible": "removed or read as spaces",
        "wide": "read as plain letters and marks",
    },
    "none": {},
}  # fmt: skip
"""The effect on each variant, by `data.normalize`; variants without an entry are kept."""


@dataclass
class _Way:
    """A variant of typing: the number of lines of a file in which it occurs, and the first of them."""

    line: int
    detail: str
    count: int = 0


@dataclass
class UnicodeVariants:
    """Counts the lines of each file that have a variant, and keeps the first of them."""

    normalization: str
    ways: dict[str, dict[str, _Way]] = field(default_factory=dict)
    """By the name of a variant, then by file."""

    def look_at(self, line: str, path: str, number: int) -> None:
        """Counts the variants in a line of a file."""
        line = line.rstrip(_LINE_ENDS)
        if odd := _ODD_SPACE.search(line):
            self._count("spaces", path, number, _format_code_point(odd[0]))
        if "'" in line or '"' in line:
            self._count("straight", path, number, _STRAIGHT.findall(line)[0])
        if line.isascii():
            return
        if not unicodedata.is_normalized("NFC", line):
            self._count("decomposed", path, number, "")
        if unseen := _INVISIBLE.search(line):
            self._count("invisible", path, number, _format_code_point(unseen[0]))
        if wide := _WIDE.search(line):
            self._count("wide", path, number, wide[0])
        if curved := _CURVED.search(line):
            self._count("curved", path, number, curved[0])

    def merge(self, later: "UnicodeVariants") -> None:
        """Adds the counts of later lines."""
        for way, files in later.ways.items():
            own = self.ways.setdefault(way, {})
            for path, found in files.items():
                first = own.setdefault(path, _Way(found.line, found.detail))
                first.count += found.count

    def to_json(self) -> dict[str, dict[str, list[Any]]]:
        """Returns the counts as lists, for JSON."""
        return {
            way: {path: [found.line, found.detail, found.count] for path, found in files.items()}
            for way, files in self.ways.items()
        }

    @classmethod
    def from_json(cls, normalization: str, ways: Mapping[str, Mapping[str, Sequence[Any]]]) -> "UnicodeVariants":
        """Returns the counts from the result of to_json()."""
        read = {way: {path: _Way(*found) for path, found in files.items()} for way, files in ways.items()}
        return cls(normalization, read)

    def findings(self) -> tuple[Issue, ...]:
        """Returns a finding per variant, with the number of lines in each file."""
        one_way: tuple[IssueKind, ...] = ("decomposed", "spaces", "invisible", "wide")
        found = {fault: self.ways[fault] for fault in one_way if fault in self.ways}
        straight, curved = self.ways.get("straight", {}), self.ways.get("curved", {})
        # Either is right by itself; for a file that has both, the rarer one is reported.
        both = {
            path: min(straight[path], curved[path], key=lambda way: way.count) for path in straight if path in curved
        }
        if both:
            found["quotes"] = both
        return tuple(self._make_finding(fault, files) for fault, files in found.items())

    def _make_finding(self, fault: IssueKind, files: dict[str, _Way]) -> Issue:
        path, first = next(iter(files.items()))
        count = sum(way.count for way in files.values())
        counts = [f"{way.count:,} in `{path}`" for path, way in files.items()]
        of = "lines" if len(files) == 1 else f"lines ({' and '.join(counts)})"
        return Issue(fault, count, path, first.line, first.detail, of, EFFECTS[self.normalization].get(fault, "kept"))

    def _count(self, way: str, path: str, line: int, detail: str) -> None:
        self.ways.setdefault(way, {}).setdefault(path, _Way(line, detail)).count += 1


def _format_code_point(character: str) -> str:
    """Returns the code point of an invisible character, as "U+00A0"; plain spaces in words."""
    if character == "  ":
        return "two spaces"
    return "at an end" if character == " " else f"U+{ord(character):04X}"
