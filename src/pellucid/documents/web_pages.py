"""HTML and XHTML: a unit is a block with its inline elements; attributes that are shown are units of their own."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import cast

from pellucid.documents.content import is_same_language
from pellucid.documents.markup import (
    Attribute,
    MarkupToken,
    decode_xml,
    encode_attribute,
    encode_html,
    encode_xml,
    iterate_html,
    iterate_xml,
)
from pellucid.documents.spans import Item, LanguageLabel, Reading, Unit

INLINE = frozenset(
    {
        "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "ins",
        "mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "nobr", "blink",
        "output", "label", "epub:switch",
    }
)  # fmt: skip
"""The elements that do not end a sentence; all others do."""
OBJECTS = frozenset(
    {
        "code", "kbd", "samp", "var", "ruby", "math", "svg", "canvas", "object", "iframe", "audio", "video", "picture",
        "map", "script", "style", "template", "noscript", "textarea", "xmp", "noembed", "noframes", "plaintext",
    }
)  # fmt: skip
"""The elements that are copied with all inside."""
VOID = frozenset(
    {
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
        "keygen",
    }
)  # fmt: skip
INLINE_VOID = frozenset(
    {
        "br", "img", "input", "wbr", "embed", "keygen",
    }
)  # fmt: skip
LEFT_BLOCKS = frozenset(
    {
        "pre",
    }
)  # fmt: skip
OPTIONAL_END = frozenset(
    {
        "p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "optgroup", "colgroup", "caption",
    }
)  # fmt: skip
"""The elements whose end tag may be missing; they end where the next block begins or ends."""
ATTRIBUTES = frozenset(
    {
        "alt", "title", "placeholder", "aria-label", "aria-description", "aria-roledescription", "label", "summary",
        "abbr",
    }
)  # fmt: skip
META = frozenset(
    {
        "description", "keywords", "og:title", "og:description", "og:site_name", "og:image:alt", "twitter:title",
        "twitter:description", "twitter:image:alt", "dcterms.title", "dc.title", "dc.description",
    }
)  # fmt: skip
"""The names of `meta` whose content is shown to readers."""
LABELED = frozenset(
    {
        "option", "optgroup", "track", "menu", "command",
    }
)  # fmt: skip
_SPACE = " \t\n\r\f"


def read_page(text: str, place: str = "", pinned: object = None, *, is_xml: bool = False, source: str = "") -> Reading:
    """Returns the units of a page. Elements in another language than the page's are left.

    Args:
        place: the name of the part, for reports.
        pinned: of an earlier reading, whether each named language was the page's.
        is_xml: True for XHTML, whose names have upper and lower case and whose elements all end.
        source: the code of the page's language, if known; else the first `lang`.
    """
    reader = _Page(text, place, source, is_xml)
    reader.known = None if pinned is None else iter(cast(list[bool], pinned))
    for token in iterate_xml(text) if is_xml else iterate_html(text):
        reader.take(token)
    reader.end_unit(len(text))
    reader.found.source = reader.language
    reader.found.pinned = reader.own
    return reader.found


@dataclass
class _Page:
    text: str
    place: str
    language: str
    is_xml: bool
    found: Reading = field(default_factory=Reading)
    items: list[Item] = field(default_factory=list)
    begin: int = -1
    skip: str = ""
    depth: int = 0
    skip_start: int = 0
    skip_block: bool = False
    space: bool = True
    """True if a space at this place would be the second one, or the first of the unit."""
    number: int = 0
    own: list[bool] = field(default_factory=list)
    known: Iterator[bool] | None = None

    def take(self, token: MarkupToken) -> None:
        """Adds a token."""
        if self.skip and not self._take_skipped(token):
            return
        if token.kind in ("text", "cdata"):
            if token.name and token.name != "title":
                return
            self._add_text(token)
        elif token.kind in ("start", "empty"):
            self._take_start(token)
        elif token.kind == "end":
            name = self._name(token)
            if name in INLINE:
                self._push(Item("close", ((token.start, token.end),)), token.start)
            else:
                self.end_unit(token.start)
        else:
            self._push(Item("object", ((token.start, token.end),)), token.start)

    def _name(self, token: MarkupToken) -> str:
        return token.name.rpartition(":")[2].lower() if self.is_xml else token.name

    def _take_skipped(self, token: MarkupToken) -> bool:
        """Returns True if the token is after the element that is copied."""
        name = self._name(token) if token.name else ""
        if token.kind == "start" and name == self.skip and not (name in OPTIONAL_END and not self.is_xml):
            self.depth += 1
        elif token.kind == "end" and name == self.skip:
            self.depth -= 1
            if not self.depth:
                self._end_skip(token.end)
                return False
        elif self.skip in OPTIONAL_END and not self.is_xml and token.kind in ("start", "end"):
            is_block = name not in INLINE | OBJECTS | INLINE_VOID
            if is_block and (token.kind == "end" or self.skip in ("p", name)):
                self._end_skip(token.start)
                return True
        return False

    def _end_skip(self, end: int) -> None:
        self.skip = ""
        if not self.skip_block:
            self._push(Item("object", ((self.skip_start, end),), is_word=True), self.skip_start)

    def _take_start(self, token: MarkupToken) -> None:
        name = self._name(token)
        attributes = token.attributes(not self.is_xml)
        values = {each.name: each.value for each in attributes}
        is_inline = name in INLINE or name in OBJECTS or name in INLINE_VOID
        if not is_inline:
            self.end_unit(token.start)
        if name == "html" or not self.language:
            code = values.get("xml:lang" if self.is_xml else "lang") or values.get("lang", "")
            self.language = self.language or code
        is_own = self._is_own(code) if (code := values.get("xml:lang") or values.get("lang", "")) else True
        is_left = name in OBJECTS or name in LEFT_BLOCKS or not is_own or self._is_left(values)
        for each in attributes:
            if each.name in ("lang", "xml:lang"):
                if is_own and each.value:
                    self.found.labels.append(_label(self.text, each.start, each.end))
            elif not is_left or name == "img":
                self._take_attribute(name, values, each.name, each.start, each.end, each.value)
        if name == "meta" and values.get("http-equiv", "").lower() == "content-language":
            self._label_content(attributes)
        is_void = token.kind == "empty" or (name in VOID and not self.is_xml)
        if is_left and not is_void:
            self.skip, self.depth, self.skip_start, self.skip_block = name, 1, token.start, not is_inline
        elif name in INLINE_VOID or (is_void and is_inline):
            text, ends = (" ", "sentence") if name == "br" else ("", "no")
            self._push(Item("object", ((token.start, token.end),), text, ends=ends), token.start)  # type: ignore[arg-type]
        elif is_inline and not is_void:
            reference = name in ("sup", "sub", "a")
            self._push(Item("open", ((token.start, token.end),), is_reference=reference), token.start)

    def _is_left(self, values: dict[str, str]) -> bool:
        return values.get("translate", "").lower() == "no" or bool(
            {"notranslate", "math"} & {*values.get("class", "").split()}
        )

    def _is_own(self, code: str) -> bool:
        """Returns True if a code is of the page's language, or was so in an earlier reading."""
        found = next(self.known, False) if self.known is not None else is_same_language(code, self.language)
        self.own.append(found)
        return found

    def _label_content(self, attributes: list[Attribute]) -> None:
        for each in attributes:
            if each.name == "content" and self._is_own(each.value):
                self.found.labels.append(_label(self.text, each.start, each.end))

    def _take_attribute(self, name: str, values: dict[str, str], key: str, start: int, end: int, value: str) -> None:
        if key == "label" and name not in LABELED:
            return
        if key == "abbr" and name not in ("th", "td"):
            return
        if key == "content":
            if name != "meta" or (values.get("name") or values.get("property") or "").lower() not in META:
                return
        elif key not in ATTRIBUTES or name in ("meta", "link", "style"):
            return
        quote = self.text[start] if start < end and self.text[start] in "\"'" else '"'
        if start == end or not value.strip():
            return
        unit = Unit(start, end, [], encode_attribute(quote, not self.is_xml), f"{self._where()}, {key}")
        unit.items.append(Item("text", ((start, end),), value))
        self.found.units.append(unit)

    def _where(self) -> str:
        return f"{self.place}, block {self.number + 1}" if self.place else f"block {self.number + 1}"

    def _add_text(self, token: MarkupToken) -> None:
        raw = self.text[token.start : token.end]
        decoded = raw[9:-3] if token.kind == "cdata" else decode_xml(raw) if self.is_xml else unescape(raw)
        words, space = [], self.space
        for part in decoded.replace("\t", " ").replace("\n", " ").replace("\r", " ").replace("\f", " ").split(" "):
            words.append(part)
        said = " ".join(word for word in words if word)
        lead = " " if decoded[:1] in _SPACE and decoded and not space else ""
        tail = " " if said and decoded[-1:] in _SPACE else ""
        if not said:
            if lead and self.begin >= 0:
                self._push(Item("text", ((token.start, token.end),), " "), token.start)
                self.space = True
            elif self.begin >= 0:
                self._push(Item("text", ((token.start, token.end),), ""), token.start)
            return
        self._push(Item("text", ((token.start, token.end),), f"{lead}{said}{tail}"), token.start)
        self.space = bool(tail)

    def _push(self, item: Item, start: int) -> None:
        if self.begin < 0:
            self.begin, self.space = start, True
        self.items.append(item)
        if item.text == " " and item.kind == "object":
            self.space = True
        elif item.kind == "object":
            self.space = False

    def end_unit(self, end: int) -> None:
        """Ends the block: its text is a unit, without the white space at its ends."""
        items, self.items = self.items, []
        begin, self.begin, self.space = self.begin, -1, True
        if not any(item.kind == "text" and item.text.strip() for item in items):
            return
        while items and items[-1].kind == "text" and not items[-1].text.strip(_SPACE):
            end = _first(items.pop())
        first, last = items[0], items[-1]
        if first.kind == "text":
            begin = _first(first)
            begin += len(self.text[begin : _last(first)]) - len(self.text[begin : _last(first)].lstrip(_SPACE))
            items[0] = Item("text", ((begin, _last(first)),), first.text)
        if (last := items[-1]).kind == "text":
            start, stop = _first(last), _last(last)
            stop = start + len(self.text[start:stop].rstrip(_SPACE))
            items[-1] = Item("text", ((start, stop),), last.text.rstrip(_SPACE))
        end = _last(items[-1])
        self.number += 1
        place = f"{self.place}, block {self.number}" if self.place else f"block {self.number}"
        self.found.units.append(Unit(begin, end, items, encode_xml if self.is_xml else encode_html, place))


def _first(item: Item) -> int:
    piece = item.raw[0]
    assert not isinstance(piece, str)
    return piece[0]


def _last(item: Item) -> int:
    piece = item.raw[-1]
    assert not isinstance(piece, str)
    return piece[1]


def _label(text: str, start: int, end: int) -> LanguageLabel:
    if start < end and text[start] in "\"'":
        start, end = start + 1, end - 1
    return LanguageLabel(start, end, text[start:end])
