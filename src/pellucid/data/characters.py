"""Characters that tell of an accident on the way to a text file."""

import re

# Control characters but the tab; and a byte order mark amid a text, where files were joined.
_CONTROL = re.compile("[\0-\x08\x0a-\x1f\x7f-\x9f\ufeff]")
# What the bytes 0x80 to 0x9f are in Windows-1252, as which most text is misread.
_WINDOWS = {0x20AC: 0x80, 0x201A: 0x82, 0x0192: 0x83, 0x201E: 0x84, 0x2026: 0x85, 0x2020: 0x86, 0x2021: 0x87,
            0x02C6: 0x88, 0x2030: 0x89, 0x0160: 0x8A, 0x2039: 0x8B, 0x0152: 0x8C, 0x017D: 0x8E, 0x2018: 0x91,
            0x2019: 0x92, 0x201C: 0x93, 0x201D: 0x94, 0x2022: 0x95, 0x2013: 0x96, 0x2014: 0x97, 0x02DC: 0x98,
            0x2122: 0x99, 0x0161: 0x9A, 0x203A: 0x9B, 0x0153: 0x9C, 0x017E: 0x9E, 0x0178: 0x9F}  # fmt: skip
# The first two bytes of a longer sequence, as misread characters.
_POSSIBLE = re.compile(f"[Â-ô][\x80-\xbf{''.join(map(chr, _WINDOWS))}]")
# Sequences that no language writes, whatever else stands in the line: no quotation mark after a capital is among them.
_CERTAIN = re.compile("Ã[\x80-\x9f¡-ª¬-º¼-¿ƒŠŒŽšœžŸ€‰†‡ˆ]|â€[\x9c\x9d™œž¢¦“”]|Â[°©®«·²³£§´±º½¼¾]")
# A space that does not break before » or ! is French, and after é the two would read as one Chinese character.
_FRENCH = re.compile("\xa0(?=[»!?:;])|(?<=«)\xa0")


def control_character(line: str) -> str:
    """The first control character of a line as "U+0000", or an empty string. A tab is none."""
    if line.isprintable():
        return ""
    found = _CONTROL.search(line)
    return f"U+{ord(found[0]):04X}" if found else ""


def is_encoded_twice(line: str) -> bool:
    """Whether UTF-8 has been read as Latin-1 or Windows-1252 and written as UTF-8 again: `fÃ¼r`.

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
