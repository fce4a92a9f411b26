"""OpenDocument texts: a unit is a paragraph or a heading; notes are units, too; fields and deleted text stay."""

from collections.abc import Iterator

from pellucid.documents.content import is_same_language
from pellucid.documents.markup import Node, decode_xml, encode_xml, iterate_elements
from pellucid.documents.spans import Item, LanguageLabel, Reading, Unit

_PARAGRAPHS = frozenset({"text:p", "text:h"})
_DESCRIPTIONS = frozenset({"svg:title", "svg:desc"})
_INLINE = frozenset({"text:span", "text:a", "text:meta", "text:ruby-base"})
_DROPPED = frozenset({"text:soft-page-break"})
_LEFT = frozenset({"text:tracked-changes", "office:annotation"})
_VALUES = frozenset({"float", "percentage", "currency", "date", "time", "boolean"})
WANTED = _PARAGRAPHS | _DESCRIPTIONS | {"style:text-properties"}


def read_open_document(text: str, name: str, pinned: object = None, *, language: str = "") -> Reading:
    """Returns the paragraphs, headings and descriptions of a part, and its labels of language."""
    found, number = Reading(source=language), 0
    for node in iterate_elements(text, lambda each: each in WANTED or each.endswith(":text-properties")):
        if node.name.endswith(":text-properties"):
            _add_labels(found, node, language)
            continue
        number += 1
        if _is_left(node):
            continue
        items = list(_items(text, node))
        begin, end = _trim(text, items)
        if items:
            found.units.append(Unit(begin, end, items, encode_xml, f"{name}, paragraph {number}"))
    found.units.sort(key=lambda unit: unit.start)
    return found


def _is_left(node: Node) -> bool:
    """Returns True for a paragraph in deleted text or a comment, or in a cell whose value is a number or a date."""
    above, nearest = node.parent, True
    while above is not None:
        if above.name in _LEFT:
            return True
        if above.name == "table:table-cell" and nearest:
            nearest = False
            if above.get("value-type") in _VALUES:
                return True
        above = above.parent
    return False


def _items(text: str, paragraph: Node) -> Iterator[Item]:
    """Yields the items of a paragraph, with white space collapsed as ODF does."""
    space = True
    stack: list[Node | Item] = list(reversed(paragraph.children))
    while stack:
        node = stack.pop()
        if isinstance(node, Item):
            yield node
            continue
        place = ((node.start, node.end),)
        if node.name in ("#text", "#cdata"):
            raw = text[node.start : node.end]
            decoded = raw[9:-3] if node.name == "#cdata" else decode_xml(raw)
            said = " ".join(decoded.replace("\t", " ").replace("\r", " ").replace("\n", " ").split(" "))
            words = " ".join(word for word in said.split(" ") if word)
            lead = " " if said[:1] == " " and not space else ""
            tail = " " if words and said[-1:] == " " else ""
            whole = f"{lead}{words}{tail}"
            space = whole.endswith(" ") or (space and not whole)
            yield Item("text", place, whole)
        elif node.name in _INLINE and not node.is_empty:
            yield Item("open", ((node.start, node.inside),))
            stack.append(Item("close", ((node.stop, node.end),)))
            stack += reversed(node.children)
        elif node.name == "text:s":
            yield Item("object", place, " ")
            space = False
        elif node.name == "text:tab":
            yield Item("object", place, " ", ends="always")
            space = False
        elif node.name == "text:line-break":
            yield Item("object", place, " ", ends="sentence")
            space = True
        elif node.name not in _DROPPED:
            yield Item("object", place)
            space = False


def _trim(text: str, items: list[Item]) -> tuple[int, int]:
    """Returns the region of a paragraph's items; without text there are none."""
    if not any(item.kind == "text" and item.text.strip() for item in items):
        items.clear()
        return 0, 0
    first, last = items[0].raw[0], items[-1].raw[-1]
    assert not isinstance(first, str)
    assert not isinstance(last, str)
    return first[0], last[1]


def _add_labels(found: Reading, node: Node, language: str) -> None:
    for prefix in ("fo", "style"):
        code = node.attribute(f"{prefix}:language")
        if code is None or prefix != "fo":
            continue
        is_own = is_same_language(code.value, language)
        found.labels.append(LanguageLabel(code.start + 1, code.end - 1, code.value, is_own, "language"))
        if (country := node.attribute("fo:country")) is not None:
            found.labels.append(LanguageLabel(country.start + 1, country.end - 1, country.value, is_own, "country"))
