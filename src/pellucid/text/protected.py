"""Finds the parts of a text that a translation must contain unchanged: placeholders, addresses, code, tags, emoji.

Every pattern runs in time linear in the length of a line. A pattern of the user is limited to a second per line.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pellucid.errors import ConfigError, DataError, format_argument, format_value

if TYPE_CHECKING:
    import regex

LONGEST_PATTERN = 1000
"""The most characters of a pattern of the user."""
LONGEST_ARGUMENT = 2000
"""The most characters of an ICU argument with its branches; a longer one is read as text."""
MOST_SECONDS = 1.0
"""The longest search of one pattern of the user in one line."""
_FILE_ENDINGS = (
    "txt|pdf|docx?|xlsx?|pptx?|odt|ods|odp|epub|csv|tsv|jsonl?|ya?ml|toml|xml|html?|css|js|mjs|tsx?|py|ipynb|rb|cpp|hpp"
    "|java|rs|bat|ps1|exe|dll|zip|tar|gz|bz2|xz|7z|rar|png|jpe?g|gif|svg|webp|bmp|tiff?|mp3|mp4|wav|ogg|avi|mkv|webm"
    "|log|ini|cfg|conf|md|rst|tex|po|xliff|srt|vtt|sql|iso|apk|dmg|deb|rpm|whl|bak|tmp|env|lock"
)
_UNITS = (
    "km/h|m/s|km|cm|mm|µm|μm|nm|kg|mg|µg|μg|dl|ml|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB|[kMG]?bit/s|Mbps|Hz|kHz|MHz|GHz|kW"
    "|MW|kWh|mAh|kJ|kcal|hPa|kPa|°C|°F|km²|cm²|m²|cm³|m³|px|dpi|fps|ms|dB"
)
_PATTERNS = {
    "code": r"``(?:[^`\n]|`(?!`)){1,500}``|`[^`\n]{1,500}`",
    "url": r"(?:(?:https?|ftp|file|ssh|git)://|www\.(?=\w))[^\s<>\"'`“”„«»]{1,2000}",
    "mail": r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}\b",
    "tag": r"</?[A-Za-z][\w:.-]{0,40}(?:\s[^<>\n]{0,500})?/?>|<!--[^<>\n]{0,500}-->|&(?:[a-zA-Z]{2,10}|#\d{1,7});",
    "brace": r"\{\{[^{}\n]{0,200}\}\}|[$%#]\{[^{}\n]{1,200}\}|\{[\w.\[\]-]{0,60}(?:![rsa])?(?::[^{}\s]{0,40})?\}",
    "printf": r"(?<![\w%])(?<!\d )%(?:\d{1,2}\$)?(?:\([A-Za-z_][\w.]{0,60}\))?[-+0#']{0,3}"
    r"(?:\d{1,3}|\*)?(?:\.(?:\d{1,3}|\*))?(?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGaAcCsSpn@]"
    r"|(?<![\w%])(?<!\d )%L?\d{1,2}(?![\w%])",
    "path": r"(?<![\w./\\~-])(?:~|\.{1,2})?(?:/[\w.@+~-]{1,100}){2,30}/?"
    r"|(?<![\w./\\])(?:~|\.{1,2})(?:/[\w.@+~-]{1,100}){1,30}/?|(?<!\w)[A-Za-z]:\\[^\s\"<>|]{0,300}|(?<![\w\\])\\\\[\w.-]{1,60}\\[^\s\"<>|]{1,300}",
    "file": rf"(?<![\w./@-])(?:[\w.+-]{{1,80}}/){{0,10}}[\w+-][\w.+-]{{0,79}}\.(?:{_FILE_ENDINGS})(?![\w-]|\.\w)",
    "number": rf"(?<![\w.,])[-+±]?\d{{1,20}}(?:[.,]\d{{1,20}}){{0,8}}[ \u00a0\u202f]?(?:{_UNITS})(?![\w/²³])",
    "emoji": r"[\U0001F1E6-\U0001F1FF]{2}"
    r"|[\u2600-\u27bf\u2b50\u2b55\U0001F300-\U0001FAFF][\ufe0f\U0001F3FB-\U0001F3FF]?"
    r"(?:\u200d[\u2600-\u27bf\U0001F300-\U0001FAFF][\ufe0f\U0001F3FB-\U0001F3FF]?){0,6}",
}
"""The pattern of each kind; of two that begin at one place, the first."""
_ICU = re.compile(
    r"\{\s?[\w.-]{1,60}\s?,\s?(?:number|date|time|duration|spellout|ordinal|plural|select|selectordinal)\b"
)
_MAY_HAVE = re.compile(r"[`@<&{%/\\\u2600-\u27bf\u2b50\u2b55\U0001F1E6-\U0001FAFF]|www\.|\d|\w\.\w")
"""Matches every text with a span, and few others."""
_BEHIND = re.compile(r"(?:[.,;:!?]|'s)+$")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class ProtectedSpan:
    """A part of a text that its translation must contain unchanged."""

    start: int
    end: int
    kind: str
    """code, url, mail, tag, brace, printf, path, file, number or emoji; "kept" for a pattern of the user."""


def find_protected(
    text: str, patterns: Sequence["regex.Pattern[str]"] = (), *, known: bool = True
) -> list[ProtectedSpan]:
    """Returns the protected spans of a line, in order and without overlaps; a pattern of the user goes first.

    Args:
        patterns: further patterns, from compile_patterns().
        known: if False, the further patterns alone.

    Raises DataError if a further pattern takes too long.
    """
    found = [span for pattern in patterns for span in _find_kept(text, pattern)]
    if known and _MAY_HAVE.search(text):
        found += _find_known(text)
    if not patterns:
        return found
    taken, free = bytearray(len(text)), []
    for span in found:  # earlier patterns win
        if not any(taken[span.start : span.end]):
            taken[span.start : span.end] = b"\1" * (span.end - span.start)
            free.append(span)
    return sorted(free, key=lambda span: span.start)


def find_in_lines(
    lines: Sequence[str], patterns: Iterable[str], *, known: bool = True
) -> list[list[ProtectedSpan]] | None:
    """Returns the protected spans of each line; None if no line has one. Raises the errors of the other functions."""
    compiled = compile_patterns(patterns)
    if not known and not compiled:
        return None
    found = [find_protected(line, compiled, known=known) for line in lines]
    return found if any(found) else None


def compile_patterns(patterns: Iterable[str]) -> tuple["regex.Pattern[str]", ...]:
    """Compiles the patterns of a user. Raises ConfigError for one that is invalid, empty or too long."""
    return tuple(map(_compile, patterns))


@cache
def _compile(pattern: str) -> "regex.Pattern[str]":
    import regex  # its searches can have a time limit

    if not isinstance(pattern, str) or not 0 < len(pattern) <= LONGEST_PATTERN:
        size = f"has {len(pattern):,} characters" if isinstance(pattern, str) else f"is {format_value(pattern)}"
        raise ConfigError(
            f"the pattern in `keep=` {size}, and must have 1 to {LONGEST_PATTERN:,}", "part it, or leave it out"
        )
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise ConfigError(
            f"{format_argument('keep', format_value(pattern))} is not a regular expression: {error}",
            "write a backslash before signs: `\\.`",
        ) from error


def _find_kept(text: str, pattern: "regex.Pattern[str]") -> Iterator[ProtectedSpan]:
    try:
        matches = [match.span() for match in pattern.finditer(text, timeout=MOST_SECONDS)]
    except TimeoutError:
        raise DataError(
            f"the pattern {format_value(pattern.pattern)} in `keep=` takes more than {MOST_SECONDS:g} s on the line "
            f"`{format_value(text)}`",
            "do not repeat what repeats itself, as `(a+)+` does",
        ) from None
    for start, end in matches:
        if text[start:end].strip():
            yield ProtectedSpan(start, end, "kept")


@cache
def _known() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()))


def _find_known(text: str) -> Iterator[ProtectedSpan]:
    place = 0
    while True:
        match, argument = _known().search(text, place), _ICU.search(text, place)
        if argument and (not match or argument.start() <= match.start()):
            end = _find_closing(text, argument.start())
            if end:
                yield ProtectedSpan(argument.start(), end, "brace")
            place = end or argument.end()
            continue
        if not match:
            return
        start, end = match.span()
        kind = str(match.lastgroup)
        if kind in ("url", "path"):
            end = start + len(_trim(match[0]))
        yield ProtectedSpan(start, end, kind)
        place = end


def _find_closing(text: str, start: int) -> int:
    """Returns the place after the brace that closes the one at `start`; 0 if there is none."""
    depth = 0
    for place in range(start, min(len(text), start + LONGEST_ARGUMENT)):
        depth += (text[place] == "{") - (text[place] == "}")
        if not depth:
            return place + 1
    return 0


def _trim(url: str) -> str:
    """Returns a URL or path without the punctuation of the sentence around it."""
    while True:
        short = _BEHIND.sub("", url)
        for opening, closing in _PAIRS.items():
            if short.endswith(closing) and short.count(closing) > short.count(opening):
                short = short[:-1]
        if short == url:
            return url
        url = short
