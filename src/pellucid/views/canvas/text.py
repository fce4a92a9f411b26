"""Prepares tokens for a picture: makes invisible characters visible, shortens long tokens, and measures widths."""

import re
import unicodedata
from collections.abc import Sequence

from pellucid.tracing.tokens import Token

LONGEST_LABEL = 24.0
"""The largest width of a label in a picture, in units of its font size."""

CONTROL_PICTURES = {**{code: 0x2400 + code for code in range(0x20)}, 0x7F: 0x2421, 0x09: 0x21E5, 0x0A: 0x21B5}
NOT_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")
# Direction marks and other invisible characters; joiners stay, since emoji and scripts require them.
INVISIBLE = re.compile(
    "[\u0080-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2067\u206a-\u206f\ufeff]"
)
ISOLATES = re.compile("[\u2068\u2069]")
"""The marks that isolate_direction() puts around a token. A picture's text has them, a label alone does not."""
MOST_MARKS = 6
"""The largest number of marks shown on one letter: more would cover the lines above and below."""
ZERO_WIDTH_JOINER = "\u200d"
_NARROW, _WIDE = frozenset("iljtfrI|!.,:;'`()[]{}/\\ "), frozenset("mwMWOQGD@%&—…")


def printable(text: str) -> str:
    """Replaces control characters by ␀ to ␡ (tab ⇥, newline ↵), direction marks and invisible characters by [U+202E]
    and the like, and characters that XML does not allow by �. Marks of isolate_direction() stay."""
    named = INVISIBLE.sub(_format_code_point, text)
    return NOT_XML.sub("�", named.translate(CONTROL_PICTURES))


def visible(token: str) -> str:
    """Returns the printable token with spaces replaced by ␣."""
    shown, marks = "", 0
    for char in printable(ISOLATES.sub(_format_code_point, token)):
        marks = marks + 1 if unicodedata.category(char).startswith("M") else 0
        if marks <= MOST_MARKS:
            shown += "␣" if char.isspace() else char
        elif marks == MOST_MARKS + 1:
            shown += "…"
    return shown


def _format_code_point(found: re.Match[str]) -> str:
    return f"[U+{ord(found[0]):04X}]"


def label(token: Token, continues: bool = False) -> str:
    """Returns the label of a token in a picture: visible, and shortened if it is long.

    A token that continues the word before it begins with "·"; a space before a word is not shown, since most have one.
    """
    text = token.text if token.special else token.text.removeprefix(" ") or token.text
    return shorten(("·" if continues else "") + (visible(text) or "∅"))


def labels(tokens: Sequence[Token]) -> list[str]:
    """Returns the labels of a sequence's tokens."""
    befores: list[Token | None] = [None, *tokens[:-1]]
    return [label(token, _continues(token, before)) for token, before in zip(tokens, befores, strict=True)]


def _continues(token: Token, before: Token | None) -> bool:
    """Returns True if a token continues the word of the token before it."""
    same = before is not None and token.word is not None and token.word == before.word
    return same and before is not None and token.segment == before.segment and not token.text.startswith(" ")


def shorten(text: str, longest: float = LONGEST_LABEL) -> str:
    """Shortens a text wider than `longest`, and ends it with …; no character is split."""
    if text_width(text) <= longest:
        return text
    kept, width = "", 1.0
    for cluster in clusters(text):
        width += text_width(cluster)
        if width > longest:
            break
        kept += cluster
    return kept + "…"


def clusters(text: str) -> list[str]:
    """Splits a text into user-perceived characters: a letter with its marks, an emoji with its parts."""
    found: list[str] = []
    for char in text:
        joined = bool(found) and (found[-1].endswith(ZERO_WIDTH_JOINER) or char == ZERO_WIDTH_JOINER)
        mark = unicodedata.category(char).startswith("M") or "\U0001f3fb" <= char <= "\U0001f3ff"
        if found and (joined or mark):
            found[-1] += char
        else:
            found.append(char)
    return found


def isolate_direction(text: str) -> str:
    """Puts marks around a text that isolate its direction in a line of tokens (UAX 9, FSI and PDI)."""
    return f"\u2068{text}\u2069"


def text_width(text: str) -> float:
    """Estimates the width of a text in units of its font size, rather too large than too small."""
    return sum(map(_char_width, text))


def _char_width(char: str) -> float:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.0
    return 0.4 if char in _NARROW else 0.95 if char in _WIDE else 0.72 if char.isupper() else 0.62
