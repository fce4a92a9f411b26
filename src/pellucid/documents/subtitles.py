"""Subtitles, SubRip and WebVTT: a sentence over several cues is one unit, and is dealt out to them by its shares."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from pellucid.documents.markup import decode_xml
from pellucid.documents.spans import Item, LanguageLabel, Reading, Unit, Wrap, has_letters
from pellucid.text.sentences import ends_as_sentence

_TIME = re.compile(r"[ \t]*((?:\d+:)?\d\d?:\d\d[,.]\d{1,3})[ \t]*-->[ \t]*((?:\d+:)?\d\d?:\d\d[,.]\d{1,3})")
_MARK = re.compile(
    r"(?P<close></[A-Za-z][^>]{0,100}>)|(?P<open><[A-Za-z][^>]{0,300}>)|(?P<object><[\d:.]{5,20}>|\{\\[^}]{0,300}\})"
)
_DASH = re.compile(r"(?:<[^>]*>|\{\\[^}]*\})*[-\u2013\u2014][ \t]*(?=\S)")
_NAME = re.compile(r"[^\W\d_a-zß-ÿ][^\W\d_a-zß-ÿ .'-]{1,30}:(?=\s|</)")
_BRACKETS = re.compile(r"([\[(\u266a])([^\])\u266a]{1,200})([\])\u266a])")
WIDTH = 42
"""The characters of a line of subtitles, unless the document has longer ones."""
MOST_TOGETHER, MOST_GAP = 4, 1.0
"""The cues of one sentence, at most, and the seconds between them."""
MOSTLY = 0.3
"""The share of cues that end sentences; with fewer of them nothing says where a sentence ends, and cues stay apart."""


@dataclass
class _Cue:
    number: int
    begin: float
    end: float
    lines: list[tuple[int, int]] = field(default_factory=list)
    """The places of its lines of text."""


def read_subtitles(text: str, name: str, pinned: object = None, *, is_vtt: bool = False) -> Reading:
    """Returns the cues, grouped by sentence.

    Args:
        pinned: of an earlier reading, the numbers of cues that each unit had.
        is_vtt: True for WebVTT, which has a header, notes and entities.
    """
    found = Reading()
    cues = [cue for cue in _cues(text, is_vtt) if cue.lines]
    sizes = cast(list[int], pinned) if pinned is not None else _group(text, cues)
    end = "\r\n" if "\r\n" in text else "\n"
    width = max([WIDTH, *(b - a for cue in cues for a, b in cue.lines)])
    at = 0
    for size in sizes:
        group = cues[at : at + size]
        at += size
        if not group:
            break
        items: list[Item] = []
        for cue, following in zip(group, [*group[1:], None], strict=True):
            _add_cue(text, cue, items, is_vtt)
            if following is not None:
                place = cue.lines[-1][1], following.lines[0][0]
                items.append(Item("object", (place,), " ", ends="share"))
        encode = _encode_vtt if is_vtt else _encode_srt
        unit = Unit(group[0].lines[0][0], group[-1].lines[-1][1], items, encode, f"cue {group[0].number}")
        unit.wrap = Wrap(width, "", end)
        unit.reason = "" if is_vtt else _find_time_sign(unit.text)
        unit.constraint = None if is_vtt else _find_time_sign
        found.units.append(unit)
    found.pinned = sizes
    if is_vtt and (match := re.match(r"WEBVTT(?:.+\r?\n)+?Language:[ \t]*([\w-]+)", text.removeprefix("\ufeff"))):
        shift = len(text) - len(text.removeprefix("\ufeff"))
        found.labels.append(LanguageLabel(match.start(1) + shift, match.end(1) + shift, match[1]))
        found.source = match[1]
    return found


def _cues(text: str, is_vtt: bool) -> list[_Cue]:
    lines = [(match.start(1), match.end(1)) for match in re.finditer(r"([^\r\n]*)(?:\r\n|\n|\r|\Z)", text)]
    times = [(i, match) for i, (a, b) in enumerate(lines) if "-->" in text[a:b] and (match := _TIME.match(text[a:b]))]
    found = []
    for place, (i, match) in enumerate(times):
        stop = times[place + 1][0] if place + 1 < len(times) else len(lines)
        if place + 1 < len(times) and not is_vtt and text[slice(*lines[stop - 1])].strip().isdigit():
            stop -= 1
        mine = lines[i + 1 : stop]
        if is_vtt:
            blank = next((n for n, (a, b) in enumerate(mine) if not text[a:b].strip()), len(mine))
            mine = mine[:blank]
        cue = _Cue(
            place + 1, _seconds(match[1]), _seconds(match[2]), [line for line in mine if text[slice(*line)].strip()]
        )
        found.append(cue)
    return found


def _seconds(written: str) -> float:
    found = 0.0
    for part in written.replace(",", ".").split(":"):
        found = found * 60 + float(part)
    return found


def _plain(text: str, cue: _Cue) -> str:
    return _MARK.sub("", " ".join(text[a:b] for a, b in cue.lines)).strip()


def _group(text: str, cues: list[_Cue]) -> list[int]:
    """Returns the number of cues of each unit."""
    ended = [ends_as_sentence(_plain(text, cue)) for cue in cues]
    if sum(ended) < MOSTLY * len(cues):
        return [1] * len(cues)
    sizes: list[int] = []
    for place, cue in enumerate(cues):
        before = cues[place - 1] if place else None
        goes_on = (
            before is not None
            and not ended[place - 1]
            and -2 < cue.begin - before.end <= MOST_GAP
            and sizes[-1] < MOST_TOGETHER
            and has_letters(_plain(text, before))
            and not any(
                _DASH.match(text, a) or _BRACKETS.match(text, a) for each in (before, cue) for a, _ in each.lines
            )
            and not _NAME.match(_plain(text, cue))
        )
        if goes_on:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return sizes


def _add_cue(text: str, cue: _Cue, items: list[Item], is_vtt: bool) -> None:
    """Adds the text of a cue: its lines are joined, but for the lines of different speakers."""
    for place, (start, end) in enumerate(cue.lines):
        dash = _DASH.match(text, start, end)
        if place:
            gap = cue.lines[place - 1][1], start
            if dash:
                items.append(Item("object", (gap,), " ", ends="always"))
            elif not text[slice(*gap)].strip("\r\n") and text[slice(*gap)].count("\n") > 1:
                items.append(Item("object", (gap,), " ", ends="sentence"))
            else:
                items.append(Item("text", (gap,), " "))
        if dash:
            _add_text(text, start, dash.end(), items, is_vtt, is_object=True)
            start = dash.end()
        _add_text(text, start, end, items, is_vtt)


def _add_text(text: str, start: int, end: int, items: list[Item], is_vtt: bool, is_object: bool = False) -> None:
    at = start
    for match in (*_MARK.finditer(text, start, end), None):
        stop = match.start() if match else end
        if stop > at and is_object:
            items.append(Item("object", ((at, stop),), ends="always"))
        elif stop > at:
            _add_words(text, at, stop, items, is_vtt)
        if match:
            kind = match.lastgroup or "object"
            items.append(Item(kind, ((match.start(), match.end()),)))  # type: ignore[arg-type]
            at = match.end()


def _add_words(text: str, start: int, end: int, items: list[Item], is_vtt: bool) -> None:
    at = start
    if (name := _NAME.match(text, start, end)) is not None:
        items.append(Item("object", ((at, name.end()),), ends="always"))
        at = name.end()
    for match in (*_BRACKETS.finditer(text, at, end), None):
        stop = match.start() if match else end
        for kind, a, b in [("text", at, stop)] + (
            [("mark", *match.span(1)), ("text", *match.span(2)), ("mark", *match.span(3))] if match else []
        ):
            if b > a and kind == "text":
                said = decode_xml(text[a:b]) if is_vtt else text[a:b]
                items.append(Item("text", ((a, b),), said))
            elif b > a:
                items.append(Item("object", ((a, b),), ends="always"))
        at = match.end() if match else end


def _encode_vtt(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("-->", "--&gt;").replace("\n", " ")


def _encode_srt(text: str) -> str:
    return text.replace("\n", " ")


def _find_time_sign(text: str) -> str:
    """Returns the fault of a text that a player would read as a time line."""
    return "it has the sign of a time line, -->" if "-->" in text else ""


read_vtt: Callable[[str, str, object], Reading] = partial(read_subtitles, is_vtt=True)
