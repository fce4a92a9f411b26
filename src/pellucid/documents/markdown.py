"""Markdown: paragraphs, headings, cells and image texts; code, addresses, front matter and all signs are copied."""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import cast

from pellucid.documents.content import MAIL, SCHEME
from pellucid.documents.lines_of_text import Parse, gaps, read_between
from pellucid.documents.scalars import encode_plain, encode_single
from pellucid.documents.spans import Item, Reading, Unit, Wrap, has_letters
from pellucid.documents.web_pages import read_page

_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_QUOTES = re.compile(r"(?:[ ]{0,3}>[ ]?)*")
_BULLET = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+(?:\[[ xX]\][ \t]+)?|$)")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,}|\$\$|:{3,})")
_RULE = re.compile(r"[ \t]*(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})")
_UNDERLINE = re.compile(r"[ \t]*(?:=+|-+)[ \t]*")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t]+|$)")
_HEADING_END = re.compile(r"(?:[ \t]+#+)?[ \t]*$")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_CELL_BAR = re.compile(r"(?<!\\)\|")
_DEFINITION = re.compile(r"[ ]{0,3}\[(?!\^)[^\]]+\]:[ \t]*\S+")
_DEFINED = re.compile(r"^[ \t>]*\[(?!\^)([^\[\]\r\n]{1,999})\]:", re.MULTILINE)
"""The label of a definition of a link."""
_REFERENCE = re.compile(r"\](?:\[\])?(\{[^{}]*\})?")
"""The end of a link whose text is its label."""
_NOTE = re.compile(r"[ ]{0,3}\[\^[^\]]+\]:[ \t]+")
_HTML = re.compile(r"[ ]{0,3}<(?:/?[A-Za-z][\w-]*(?=[\s/>])|!--|\?|!\[CDATA\[|![A-Z])")
_HTML_BLOCK = re.compile(
    r"[ ]{0,3}</?(?:address|article|aside|base|blockquote|body|center|col|dd|details|dialog|dir|div|dl|dt|fieldset|"
    r"figcaption|figure|footer|form|frame|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|nav|ol|"
    r"option|p|param|section|source|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul|pre|script|style|textarea)\b"
    r"|[ ]{0,3}<(?:!--|\?|!)",
    re.IGNORECASE,
)
_RAW_HTML = re.compile(r"[ ]{0,3}<(pre|script|style|textarea)\b", re.IGNORECASE)
_FRONT_KEY = re.compile(r"(title|subtitle|description|summary|excerpt|linkTitle)[ \t]*:[ \t]+(.*\S)[ \t]*")
_INLINE = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<code>(?<!`)(`+)(?!`).{1,2000}?(?<!`)\3(?!`))"
    r"|(?P<math>\$\$[^$]{1,2000}\$\$|\$(?=\S)[^$\n]{1,500}(?<=\S)\$(?!\d))"
    r"|(?P<auto><[A-Za-z][A-Za-z0-9+.-]+:[^<>\s]*>|<[\w.+-]+@[\w.-]+>|<!--.{0,2000}?-->|</?[A-Za-z][^<>]*>)"
    r"|(?P<note>\[\^[^\]]+\]:?)"
    r"|(?P<attributes>\{[#.:][^{}]*\}|\{[{%].{0,500}?[%}]\})"
    rf"|(?P<url>{SCHEME}[^\s<>\"'\[\]*`]+[^\s<>\"'\[\]*`.,;:!?)_~]|{MAIL})"
    r"|(?P<entity>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});)"
    r"|(?P<emoji>:[a-z0-9_+-]+:)"
    r"|(?P<hard>(?: {2,}|\\)\n[^\S\n]*)"
    r"|(?P<image>!\[)|(?P<open>\[)"
    r"|(?P<close>\](?:\(\s*(?:<[^<>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)|\[[^\]]*\])?"
    r"(?:\{[^{}]*\})?)"
    r"|(?P<mark>\*{1,3}|_{1,3}|~~)",
    re.DOTALL,
)
MOST_BULLETS = 20
"""The lists that begin in one line, at most."""
MOST_OPEN = 50
"""Signs without their end, at most, among which the beginning of an end is looked for."""


def read_markdown(text: str, name: str, pinned: object = None) -> Reading:
    """Returns the texts of a Markdown document.

    Args:
        pinned: the places between the units of an earlier reading.
    """
    if pinned is not None:
        return read_between(text, cast(list[tuple[str, Unit, Parse]], pinned))
    blocks = _Blocks(text)
    blocks.run()
    found = Reading(sorted(blocks.units, key=lambda unit: unit.start))
    parses = [blocks.parses[unit.start] for unit in found.units]
    found.pinned = gaps(text, found.units, parses)
    return found


@dataclass
class _Blocks:
    text: str
    units: list[Unit] = field(default_factory=list)
    parses: dict[int, Parse] = field(default_factory=dict)
    content: int = 0
    """The column of the text of the list item at this place."""
    is_open: bool = False
    """True after a paragraph, which the next line may continue."""

    def __post_init__(self) -> None:
        self.labels = frozenset(_fold_label(match[1]) for match in _DEFINED.finditer(self.text))
        self.parse = partial(parse_inline, labels=self.labels) if self.labels else parse_inline
        self.lines = [(m.start(1), m.end(1), m[2]) for m in _LINE.finditer(self.text) if m.start() < len(self.text)]

    def line(self, place: int) -> str:
        start, end, _ = self.lines[place]
        return self.text[start:end]

    def run(self) -> None:
        place = self._front_matter()
        was_blank = True
        while place < len(self.lines):
            line = self.line(place)
            quotes = _quotes(line)
            rest = line[len(quotes) :]
            if not rest.strip():
                was_blank, place = True, place + 1
                continue
            indent = _columns(rest[: len(rest) - len(rest.lstrip())])
            if was_blank and not rest[:1].isspace() and not _BULLET.match(rest):
                self.content = 0
            begin = len(quotes)
            if indent < self.content + 4 or not was_blank:
                for _ in range(MOST_BULLETS):
                    bullet = _BULLET.match(line, begin)
                    if bullet is None or _RULE.fullmatch(line, begin):
                        break
                    begin = bullet.end()
                    self.content = _columns(line[len(quotes) : begin])
            elif indent >= self.content + 4:
                place += 1  # indented code
                continue
            self.is_open = False
            place = self._block(place, begin, quotes)
            was_blank = not self.is_open

    def _front_matter(self) -> int:
        if not self.lines or self.line(0).rstrip() not in ("---", "+++"):
            return 0
        mark = self.line(0).rstrip()
        end = next((n for n in range(1, len(self.lines)) if self.line(n).rstrip() in (mark, "...")), None)
        if end is None:
            return 0
        for place in range(1, end if mark == "---" else 1):
            match = _FRONT_KEY.fullmatch(self.line(place))
            if match is None or match[2][0] in "|>&*!{[" or " #" in match[2]:
                continue
            start, stop = self.lines[place][0] + match.start(2), self.lines[place][0] + match.end(2)
            self._add_value(start, stop, match[1])
        return end + 1

    def _add_value(self, start: int, stop: int, key: str) -> None:
        raw = self.text[start:stop]
        if raw[0] in "\"'" and (len(raw) < 2 or raw[-1] != raw[0]):
            return
        encode = {'"': _double, "'": encode_single}.get(raw[0], encode_plain)

        def parse(said: str) -> list[Item]:
            if said[:1] == '"':
                said = said[1:-1].replace('\\"', '"').replace("\\\\", "\\")
            elif said[:1] == "'":
                said = said[1:-1].replace("''", "'")
            return [Item("text", (said,), said)]

        if "\\" in raw.replace('\\"', "").replace("\\\\", ""):
            return
        self.units.append(Unit(start, stop, parse(raw), encode, f"front matter, {key}"))
        self.parses[start] = parse

    def _block(self, place: int, begin: int, quotes: str) -> int:
        """Takes the block that begins with a line at an index; returns the number of the line after it."""
        line, first = self.line(place), self.lines[place][0]
        if _RULE.fullmatch(line, begin):
            return place + 1
        if (fence := _FENCE.match(line, begin)) is not None and not (fence[1] == "$$" and line.count("$$") > 1):
            return self._skip_fence(place, fence[1]) if fence[1][0] != ":" else place + 1
        if (heading := _HEADING.match(line, begin)) is not None:
            end = _HEADING_END.search(line, heading.end())
            self._add(first + heading.end(), first + (end.start() if end else len(line)), place)
            return place + 1
        if _DEFINITION.match(line, begin):
            return place + 1
        if (raw := _RAW_HTML.match(line, begin)) is not None:
            return self._skip_until(place, f"</{raw[1].lower()}")
        if _HTML_BLOCK.match(line, begin):
            return self._take_html(place, begin)
        if place + 1 < len(self.lines) and "|" in line and _TABLE_RULE.fullmatch(self.line(place + 1), len(quotes)):
            return self._take_table(place, begin)
        if (note := _NOTE.match(line, begin)) is not None:
            begin = note.end()
        return self._take_paragraph(place, begin, quotes)

    def _skip_fence(self, place: int, mark: str) -> int:
        for n in range(place + 1, len(self.lines)):
            rest = self.line(n).lstrip(" \t>")
            if rest.startswith(mark) and not rest.strip(mark[0] + " \t"):
                return n + 1
        return len(self.lines)

    def _skip_until(self, place: int, mark: str) -> int:
        for n in range(place, len(self.lines)):
            if mark in self.line(n).lower():
                return n + 1
        return len(self.lines)

    def _take_html(self, place: int, begin: int) -> int:
        if self.line(place).lstrip().startswith("<!--"):
            return self._skip_until(place, "-->")
        end = place
        while end < len(self.lines) and self.line(end).strip():
            end += 1
        start, stop = self.lines[place][0] + begin, self.lines[end - 1][1]
        for unit in read_page(self.text[start:stop]).units:
            moved = [_as_text(self.text[start:stop], item) for item in unit.items]
            self.units.append(Unit(unit.start + start, unit.end + start, moved, unit.encode, self._place(place)))
            is_attribute = self.text[unit.start + start] in "\"'"
            self.parses[unit.start + start] = _parse_attribute if is_attribute else _parse_html
        return end

    def _take_table(self, place: int, begin: int) -> int:
        end = place
        while end < len(self.lines) and self.line(end).strip() and "|" in self.line(end):
            if end != place + 1:
                self._take_row(end, begin if end == place else len(_quotes(self.line(end))))
            end += 1
        return end

    def _take_row(self, place: int, begin: int) -> None:
        line, first = self.line(place), self.lines[place][0]
        bars = [begin, *(m.start() for m in _CELL_BAR.finditer(line, begin)), len(line)]
        for start, stop in pairwise(bars):
            start += line[start : start + 1] == "|"
            said = line[start:stop]
            start, stop = start + len(said) - len(said.lstrip()), stop - len(said) + len(said.rstrip())
            if stop > start:
                self._add(first + start, first + stop, place, in_table=True)

    def _take_paragraph(self, place: int, begin: int, quotes: str) -> int:
        end = place + 1
        while end < len(self.lines):
            line = self.line(end)
            inner = _quotes(line)
            rest = line[len(inner) :]
            if not rest.strip() or (inner.strip() and inner.count(">") != quotes.count(">")):
                break
            if _UNDERLINE.fullmatch(rest) or _RULE.fullmatch(rest) or _FENCE.match(rest) or _HEADING.match(rest):
                break
            if (_BULLET.match(rest) and not rest.lstrip()[:1].isdigit()) or re.match(r"[ \t]*\d{1,9}[.)][ \t]", rest):
                break
            if _HTML_BLOCK.match(rest) or _NOTE.match(rest):
                break
            end += 1
        start, stop = self.lines[place][0] + begin, self.lines[end - 1][1]
        stop -= len(self.text[start:stop]) - len(self.text[start:stop].rstrip())
        start += len(self.text[start:stop]) - len(self.text[start:stop].lstrip(" \t"))
        if end == place + 1:
            self._add(start, stop, place, encode_whole=escape_beginning)
        else:
            self._add_wrapped(start, stop, place, end)
        if end < len(self.lines) and _UNDERLINE.fullmatch(self.line(end)[len(_quotes(self.line(end))) :]):
            return end + 1
        self.is_open = True
        return end

    def _add_wrapped(self, start: int, stop: int, place: int, end: int) -> None:
        lines = self.lines[place:end]
        second = self.text[lines[1][0] : lines[1][1]]
        quotes = _quotes(second)
        prefix = quotes + re.match(r"[ \t]*", second[len(quotes) :])[0]  # type: ignore[index]
        same = all(self.text[a:b].startswith(prefix) for a, b, _ in lines[1:])
        said = [self.text[start : lines[0][1]]] + [
            self.text[a:b][len(prefix) :] if same else self.text[a:b].lstrip(" \t>") for a, b, _ in lines[1:]
        ]
        said[-1] = said[-1].rstrip()
        whole = list[str]()
        wrap = Wrap(max(b - a for a, b, _ in lines), prefix, lines[0][2])
        for part in said[:-1]:
            is_hard = part.endswith("  ") or re.search(r"(?<!\\)(?:\\\\)*\\$", part) is not None
            whole.append(f"{part}\n" if is_hard else f"{part.rstrip()} ")
        joined = "".join([*whole, said[-1]])
        parse = partial(parse_inline, line_end=wrap.end + prefix, labels=self.labels)
        unit = Unit(
            start, stop, parse(joined), encode_markdown, self._place(place), wrap=wrap, encode_whole=escape_beginning
        )
        self.units.append(unit)
        self.parses[start] = parse

    def _place(self, place: int) -> str:
        return f"line {place + 1}"

    def _add(
        self,
        start: int,
        stop: int,
        place: int,
        in_table: bool = False,
        encode_whole: Callable[[str], str] | None = None,
    ) -> None:
        if not has_letters(self.text[start:stop]):
            return
        encode, items = _encode_cell if in_table else encode_markdown, self.parse(self.text[start:stop])
        self.units.append(Unit(start, stop, items, encode, self._place(place), encode_whole=encode_whole))
        self.parses[start] = self.parse


def _columns(text: str) -> int:
    """Returns the width of the beginning of a line."""
    return len(text.expandtabs(4))


def _fold_label(label: str) -> str:
    """Returns a label of a link as it is compared."""
    return " ".join(label.casefold().split())


def _quotes(line: str) -> str:
    match = _QUOTES.match(line)
    return match[0] if match else ""


def _as_text(text: str, item: Item) -> Item:
    raw = tuple(piece if isinstance(piece, str) else text[piece[0] : piece[1]] for piece in item.raw)
    return Item(item.kind, raw, item.text, ends=item.ends)


def _parse_html(said: str) -> list[Item]:
    return [_as_text(said, item) for unit in read_page(said).units for item in unit.items]


def _parse_attribute(said: str) -> list[Item]:
    decoded = html.unescape(said[1:-1])
    return [Item("text", (said,), decoded)]


def parse_inline(said: str, line_end: str = "\n", labels: frozenset[str] = frozenset()) -> list[Item]:
    """Returns a text of Markdown as items. A hard break is written with `line_end` after its spaces.

    `labels` are the labels of link definitions: a link whose text is one of them names it after its text.
    """
    items: list[Item] = []
    open_signs: list[str] = []
    at = 0
    for match in _INLINE.finditer(said):
        kind, raw = match.lastgroup, match[0]
        if kind == "mark" and not _is_mark(said, match.start(), match.end()):
            continue
        if kind == "emoji" and not re.search(r"[a-z]", raw):
            continue
        if match.start() > at:
            items.append(_words(said[at : match.start()]))
        at = match.end()
        if kind == "escape":
            items.append(Item("text", (raw,), raw[1:]))
        elif kind == "entity":
            items.append(Item("text", (raw,), html.unescape(raw)))
        elif kind in ("open", "image"):
            items.append(Item("open", (raw,)))
        elif kind == "close":
            items.append(Item("close", (raw,)))
        elif kind == "mark":
            before = said[match.start() - 1 : match.start()]
            is_end = bool(before) and not before.isspace() and raw in open_signs[-1:]
            if is_end:
                open_signs.pop()
            else:
                open_signs.append(raw)
            items.append(Item("close" if is_end else "open", (raw,)))
        elif kind == "hard":
            items.append(Item("object", (raw.rstrip(" \t").replace("\n", line_end),), " ", ends="sentence"))
        elif kind == "auto" and not raw.startswith("<!--") and ":" not in raw.split(" ")[0] and "@" not in raw:
            is_open = raw[1] != "/" and not raw.endswith("/>") and raw[1:4].lower() not in ("br>", "img", "hr>")
            items.append(Item("close" if raw[1] == "/" else "open" if is_open else "object", (raw,)))
        else:
            items.append(Item("object", (raw,), is_word=kind in ("code", "math", "auto", "url", "emoji")))
    if at < len(said):
        items.append(_words(said[at:]))
    return _nest(items, labels)


def _words(said: str) -> Item:
    text = re.sub(r"[ \t\r\n]+", " ", said)
    return Item("text", (text,), text)


def _is_mark(said: str, start: int, end: int) -> bool:
    """Returns True if signs of emphasis stand at a word: `2 * 3` and `snake_case` have none."""
    before, after = said[start - 1 : start], said[end : end + 1]
    if said[start] == "_" and before[-1:].isalnum() and after[:1].isalnum():
        return False
    return not ((not before or before.isspace()) and (not after or after.isspace()))


def _nest(items: list[Item], labels: frozenset[str]) -> list[Item]:
    """Returns the items with signs that have no partner as text, and brackets around what is no link as text.

    `[Hund][]`, whose text is its label, gets its label as `[Hund][Hund]` has it: the text is translated.
    """
    waiting: list[int] = []
    partner: dict[int, int] = {}
    for place, item in enumerate(items):
        if item.kind == "open":
            waiting.append(place)
        elif item.kind == "close":
            wanted = (
                "["
                if str(item.raw[0]).startswith("]")
                else "<"
                if str(item.raw[0]).startswith("<")
                else str(item.raw[0])
            )
            for depth in range(len(waiting) - 1, max(-1, len(waiting) - MOST_OPEN), -1):
                sign = str(items[waiting[depth]].raw[0]).lstrip("!")
                if (wanted in "[<" and sign.startswith(wanted)) or sign == wanted:
                    partner[waiting[depth]] = place
                    del waiting[depth:]
                    break
    ends = set(partner.values())
    if labels:
        for start, end in partner.items():
            implicit = _REFERENCE.fullmatch(str(items[end].raw[0]))
            if implicit is None or str(items[start].raw[0]) not in ("[", "!["):
                continue
            label = "".join(str(piece) for item in items[start + 1 : end] for piece in item.raw)
            if _fold_label(label) in labels:
                items[end] = Item("close", (f"][{label}]{implicit[1] or ''}",))
    found = []
    for place, item in enumerate(items):
        raw = str(item.raw[0]) if item.raw else ""
        if (item.kind == "open" and place not in partner) or (item.kind == "close" and place not in ends):
            if raw.startswith("<") or (raw.startswith("]") and len(raw) > 1):
                found.append(Item("object", item.raw))
            else:
                found.append(Item("text", item.raw, raw))
        else:
            found.append(item)
    return found


_SIGNS = re.compile(
    r"([\\`*\[\]<]|(?<![^\W_])_|_(?![^\W_])|~~|&(?=[#\w]+;)|\$(?=\S)|(?<=[\w.+-])@(?=[\w-]{1,64}\.[\w-])|:(?=//))"
)
_BEGINS = re.compile(r"(#{1,6}(?=\s|\0|$)|[-+](?=\s|\0|$)|>|\d{1,9}(?=[.)](?:\s|\0|$)))")


def escape_beginning(content: str) -> str:
    """Returns a paragraph that does not begin as a list, a heading or a quotation."""
    begin = _BEGINS.match(content)
    if begin is None:
        return content
    place = begin.end() if content[0].isdigit() else 0
    return f"{content[:place]}\\{content[place:]}"


def encode_markdown(text: str) -> str:
    """Returns a text as Markdown, with its signs escaped."""
    return _SIGNS.sub(lambda match: "\\" + match[1], text)


def _encode_cell(text: str) -> str:
    return encode_markdown(text).replace("|", "\\|")


def _double(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
