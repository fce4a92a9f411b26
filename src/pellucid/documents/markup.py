"""XML and HTML as tokens with the places of their characters, so that all but the text can be copied.

XML is checked by expat first: well-formed, without entity declarations, of bounded depth. Many files name an
external DTD, which is never loaded.
"""

import codecs
import html
import html.entities
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal
from xml.parsers import expat

from pellucid.documents.spans import SPACE
from pellucid.errors import DataError, format_value
from pellucid.files.budget import MOST_ELEMENT_DEPTH

Kind = Literal["text", "cdata", "start", "end", "empty", "other"]

_XML_TOKEN = re.compile(
    r"<!--.*?-->|(?P<cdata><!\[CDATA\[.*?\]\]>)|<\?.*?\?>|<!DOCTYPE(?:[^\[>\"']|\"[^\"]*\"|'[^']*')*(?:\[.*?\]\s*)?>"
    r"|(?P<end></[^>]*>)|(?P<start><(?:[^>\"']|\"[^\"]*\"|'[^']*')*>)|(?P<text>[^<]+)",
    re.DOTALL,
)
_HTML_TOKEN = re.compile(
    r"<!--(?:>|->|.*?(?:-->|--!>|\Z))|(?P<end></[A-Za-z](?:[^>]*)(?:>|\Z))|<[!?/](?:[^>]*)(?:>|\Z)"
    r"|(?P<start><[A-Za-z](?:[^\s>/=]*+)(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>\"'][^\s>]*+)|[^>=]|=(?=[>]))*+>)"
    r"|(?P<cut><[A-Za-z].*\Z)|(?P<text><?[^<]*)",
    re.DOTALL,
)
_NAME = re.compile(r"</?\s*([^\s/>]+)")
_ATTRIBUTE = re.compile(r"[\s/]*([^\s=>/]+)(?:\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>\"'][^\s>]*))?", re.DOTALL)
_RAW_TEXT = {"script", "style", "xmp", "iframe", "noembed", "noframes", "textarea", "title", "plaintext"}
_DECLARED = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})[\"']")
_META = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16-le"),     (b"\xfe\xff", "utf-16-be"), (b"<\0?\0", "utf-16-le"), (b"\0<\0?", "utf-16-be"),
)  # fmt: skip


@dataclass(slots=True)
class Attribute:
    """An attribute of a tag: the place of its value with its quotes, as an index of the part."""

    name: str
    start: int
    end: int
    value: str
    """The value, decoded."""


@dataclass(slots=True)
class MarkupToken:
    """A tag, a text or another piece of a part."""

    kind: Kind
    start: int
    end: int
    name: str = ""
    source: str = ""
    """The characters of a tag; empty for a text."""

    def attributes(self, is_html: bool = False) -> list[Attribute]:
        """Returns the attributes of a start tag."""
        first = _NAME.match(self.source)
        found, at = [], first.end() if first else len(self.source)
        while at < len(self.source) and (match := _ATTRIBUTE.match(self.source, at)) and match.end() > at:
            name, raw = match[1], match[2]
            start, end = (match.start(2), match.end(2)) if raw is not None else (match.end(), match.end())
            value = "" if raw is None else raw[1:-1] if raw[0] in "\"'" else raw
            decoded = html.unescape(value) if is_html else decode_xml(value)
            found.append(Attribute(name.lower() if is_html else name, self.start + start, self.start + end, decoded))
            at = match.end()
        return found


def iterate_xml(text: str) -> Iterator[MarkupToken]:
    """Yields the tokens of an XML text that expat has accepted."""
    at = 0
    while at < len(text):
        match = _XML_TOKEN.match(text, at)
        if match is None:  # expat has accepted the text: this is a mark, or the end
            yield MarkupToken("other", at, len(text))
            return
        kind, source = match.lastgroup, match[0]
        if kind == "text":
            yield MarkupToken("text", at, match.end())
        elif kind == "cdata":
            yield MarkupToken("cdata", at, match.end())
        elif kind in ("start", "end"):
            name = _NAME.match(source)
            is_empty = kind == "start" and source.endswith("/>")
            yield MarkupToken(
                "empty" if is_empty else "start" if kind == "start" else "end",
                at,
                match.end(),
                name[1] if name else "",
                source,
            )
        else:
            yield MarkupToken("other", at, match.end())
        at = match.end()


def iterate_html(text: str) -> Iterator[MarkupToken]:
    """Yields the tokens of an HTML text; names are in lower case, the text of a script is one token of its own."""
    at = 0
    while at < len(text):
        match = _HTML_TOKEN.match(text, at)
        assert match is not None, "each alternative of the pattern but the last begins with <"
        kind, source, end = match.lastgroup, match[0], match.end()
        if end == at:  # a lone < at the end
            yield MarkupToken("text", at, len(text))
            return
        if kind in ("start", "end"):
            found = _NAME.match(source)
            name = found[1].lower() if found else ""
            yield MarkupToken("start" if kind == "start" else "end", at, end, name, source)
            if kind == "start" and name in _RAW_TEXT:
                stop = _find_end(text, name, end)
                if stop > end:
                    yield MarkupToken("text", end, stop, name)
                end = stop
        elif kind == "text":
            yield MarkupToken("text", at, end)
        else:
            yield MarkupToken("other", at, end)
        at = end


def _find_end(text: str, name: str, start: int) -> int:
    found = _end_of(name).search(text, start)
    return found.start() if found else len(text)


@lru_cache
def _end_of(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)


# Text

_REFERENCE = re.compile(r"&(#\d+|#[xX][0-9a-fA-F]+|lt|gt|amp|quot|apos|[A-Za-z][A-Za-z0-9]*);")
_FIVE = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def decode_xml(text: str) -> str:
    """Returns an XML text with its references replaced; entities of HTML, which XHTML has, too."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name[0] == "#":
            number = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
            return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else match[0]
        return _FIVE.get(name) or html.entities.html5.get(f"{name};", match[0])

    return _REFERENCE.sub(replace, text) if "&" in text else text


def encode_xml(text: str) -> str:
    """Returns a text as XML."""
    return _clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def encode_html(text: str) -> str:
    """Returns a text as HTML."""
    return _clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\u00a0", "&nbsp;")


def encode_attribute(quote: str, in_html: bool = False) -> Callable[[str], str]:
    """Returns the function that writes a value between quotes."""
    reference = "&quot;" if quote == '"' else "&#39;"
    encode = encode_html if in_html else lambda text: encode_xml(text).replace("\n", "&#10;").replace("\t", "&#9;")
    return lambda text: f"{quote}{encode(text).replace(quote, reference)}{quote}"


_FORBIDDEN = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def _clean(text: str) -> str:
    """Returns a text without the characters that XML forbids."""
    return _FORBIDDEN.sub("", text)


# Bytes


def decode_bytes(data: bytes, name: str, in_html: bool = False, else_latin: bool = False) -> tuple[str, str]:
    """Returns the text of bytes and the name of their encoding, by mark or declaration, else UTF-8.

    Bytes that are not UTF-8 and have no declaration are Latin-1 if `else_latin`.

    Raises DataError for bytes that are not in their encoding, or that would not be written back as they were.
    """
    encoding = next((found for mark, found in _MARKS if data.startswith(mark)), "")
    declared = _DECLARED.match(data[:400].lstrip()) or (_META.search(data[:2048]) if in_html else None)
    if not encoding and declared:
        encoding = declared[1].decode("ascii").lower()
        if in_html and encoding in ("utf-16", "utf-16le", "utf-16be"):
            encoding = "utf-8"
    encoding = encoding or "utf-8"
    try:
        if not codecs.lookup(encoding)._is_text_encoding:  # rot13, zlib
            raise LookupError
        text = data.decode(encoding)
    except LookupError:
        raise DataError(
            f"`{format_value(name)}` declares the encoding `{format_value(encoding)}`, which is unknown",
            "save it as UTF-8",
        ) from None
    except ValueError as error:
        if declared or not else_latin:
            raise DataError(
                f"`{format_value(name)}` is not in its encoding {format_value(encoding)}: {format_value(str(error))}",
                "save it as UTF-8",
            ) from None
        text, encoding = data.decode("latin-1"), "latin-1"
    if text.encode(encoding) != data:
        raise DataError(f"`{format_value(name)}` is not in its encoding {format_value(encoding)}", "save it as UTF-8")
    if SPACE in text:
        raise DataError(f"`{format_value(name)}` contains a NUL character: it is no text", "save the document again")
    return text, encoding


def encode_bytes(text: str, encoding: str, in_markup: bool) -> bytes:
    """Returns a text in an encoding; a character that it lacks becomes a reference in markup, else `?`."""
    return text.encode(encoding, "xmlcharrefreplace" if in_markup else "replace")


# Trees of XML

NAMES: Mapping[str, str] = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/drawingml/2006/main": "a",
    "http://purl.oclc.org/ooxml/drawingml/main": "a",
    "http://schemas.openxmlformats.org/presentationml/2006/main": "p",
    "http://purl.oclc.org/ooxml/presentationml/main": "p",
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main": "x",
    "http://purl.oclc.org/ooxml/spreadsheetml/main": "x",
    "http://schemas.openxmlformats.org/officeDocument/2006/math": "m",
    "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing": "wp",
    "http://purl.oclc.org/ooxml/drawingml/wordprocessingDrawing": "wp",
    "http://schemas.openxmlformats.org/drawingml/2006/chart": "c",
    "http://schemas.openxmlformats.org/markup-compatibility/2006": "mc",
    "urn:oasis:names:tc:opendocument:xmlns:text:1.0": "text",
    "urn:oasis:names:tc:opendocument:xmlns:office:1.0": "office",
    "urn:oasis:names:tc:opendocument:xmlns:table:1.0": "table",
    "urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0": "fo",
    "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0": "svg",
    "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0": "manifest",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://www.idpf.org/2007/opf": "opf",
    "http://www.daisy.org/z3986/2005/ncx/": "ncx",
    "urn:oasis:names:tc:xliff:document:1.2": "xliff",
    "urn:oasis:names:tc:xliff:document:2.0": "xliff",
    "http://www.w3.org/XML/1998/namespace": "xml",
}
"""The prefixes by which this package names the elements of a namespace, whatever a file calls them."""


@dataclass(slots=True, eq=False)
class Node:
    """An element or a text of an XML part, with its places."""

    name: str
    """The name with the prefix of NAMES; "#text" for text, "#cdata", "#other" for comments."""
    start: int
    inside: int
    """The index after the start tag."""
    stop: int = 0
    """The index of the end tag; of an empty element that of its end."""
    end: int = 0
    children: list["Node"] = field(default_factory=list)
    token: MarkupToken | None = None
    parent: "Node | None" = None

    def get(self, name: str, default: str = "") -> str:
        """Returns the value of an attribute by its name without prefix, or with `xml:`."""
        found = self.attribute(name)
        return default if found is None else found.value

    def attribute(self, name: str) -> Attribute | None:
        """Returns an attribute by its name without prefix, or with `xml:`."""
        assert self.token is not None
        for each in self.token.attributes():
            if each.name == name or (":" not in name and each.name.rpartition(":")[2] == name):
                return each
        return None

    def find(self, name: str) -> "Node | None":
        """Returns the first child of a name."""
        return next((child for child in self.children if child.name == name), None)

    def walk(self) -> Iterator["Node"]:
        """Yields all elements and texts inside, in document order."""
        stack = list(reversed(self.children))
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.children)

    @property
    def is_empty(self) -> bool:
        return self.token is not None and self.token.kind == "empty"


def iterate_elements(text: str, wanted: Callable[[str], bool]) -> Iterator[Node]:
    """Yields the elements of the wanted names with all inside them, at their ends: inner ones first.

    The elements inside a wanted one are kept, all others are discarded at their ends: memory is that of a paragraph.
    """
    root = Node("", 0, 0)
    stack, spaces, inside = [root], [dict[str, str]()], 0
    for token in iterate_xml(text):
        top = stack[-1]
        if token.kind in ("text", "cdata", "other"):
            if inside:
                top.children.append(Node(f"#{token.kind}", token.start, token.start, token.end, token.end, parent=top))
            continue
        if token.kind == "end":
            node = stack.pop()
            spaces.pop()
            node.stop, node.end = token.start, token.end
        else:
            space = spaces[-1]
            if "xmlns" in token.source:
                space = dict(space)
                for each in token.attributes():
                    if each.name == "xmlns" or each.name.startswith("xmlns:"):
                        space[each.name.partition(":")[2]] = each.value
            prefix, _, local = token.name.rpartition(":")
            uri = space.get(prefix, "")
            known = NAMES.get(uri, prefix if not uri else "?")
            name = f"{known}:{local}" if known else local
            node = Node(name, token.start, token.end, token.end, token.end, token=token, parent=top)
            top.children.append(node)
            inside += wanted(name)
            if token.kind == "start":
                stack.append(node)
                spaces.append(space)
                continue
        if wanted(node.name):
            inside -= 1
            yield node
        if not inside and node.parent is not None and node.parent.children:
            node.parent.children.pop()


def check_xml(text: str, name: str) -> None:
    """Raises DataError for a text that is not well-formed XML, declares entities, or is too deep."""
    depth = 0

    def start(_: str, __: object) -> None:
        nonlocal depth
        depth += 1
        if depth > MOST_ELEMENT_DEPTH:
            raise DataError(
                f"`{format_value(name)}` has more than {MOST_ELEMENT_DEPTH} elements within each other",
                "save the document again",
            )

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse(entity: str, *_: object) -> None:
        raise DataError(
            f"`{format_value(name)}` declares the entity `{format_value(entity)}`, and no document may",
            "save the document again in the program that made it",
        )

    def skip(entity: str, is_parameter: bool) -> None:
        if not is_parameter and f"{entity};" not in html.entities.html5:
            raise DataError(
                f"`{format_value(name)}` uses the entity `{format_value(entity)}`, which it does not define",
                "write the character itself",
            )

    parser = expat.ParserCreate(encoding="utf-8")
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.EntityDeclHandler, parser.SkippedEntityHandler = refuse, skip
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_UNLESS_STANDALONE)
    parser.UseForeignDTD(True)  # the DTD is not fetched: entities of HTML are passed to the handler
    try:
        parser.Parse(text.removeprefix("\ufeff").encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        raise DataError(
            f"`{format_value(name)}` is damaged at line {error.lineno}: {expat.ErrorString(error.code)}",
            "save the document again",
        ) from None
