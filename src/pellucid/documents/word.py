"""Word documents: a unit is a paragraph of any part; fields, notes, drawings and deleted text are objects."""

from pellucid.documents.content import is_same_language
from pellucid.documents.markup import Node, encode_attribute, iterate_elements
from pellucid.documents.runs import ParagraphReader, RunNames
from pellucid.documents.spans import Item, LanguageLabel, Reading, Unit

NAMES = RunNames(
    "w:r", "w:rPr", "w:t", frozenset({"w:pPr", "#text"}),
    frozenset({"w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:sdt", "w:customXml", "w:dir", "w:bdo"}),
    frozenset({"w:proofErr", "w:lastRenderedPageBreak", "w:softHyphen"}),
    frozenset({"w:br", "w:cr"}), frozenset({"w:tab", "w:ptab"}), (("w:noBreakHyphen", "\u2011"),),
)  # fmt: skip
_LANGUAGES = frozenset({"w:lang", "w:themeFontLang"})
_SHOWN = frozenset({"wp:docPr"})
WANTED = frozenset({"w:p"}) | _LANGUAGES | _SHOWN
NO_TEXT = ("comments", "glossary", "fontTable", "webSettings", "people", "numbering")
"""The parts of a document whose text is left."""


def read_word_part(text: str, name: str, pinned: object = None, *, language: str = "") -> Reading:
    """Returns the paragraphs of a part, the alternative texts of its pictures, and its labels of language.

    Args:
        language: the code of the document's language; a label of another language stays.
    """
    found = Reading(source=language)
    reader = ParagraphReader(text, NAMES, _field_piece)
    number = 0
    for node in iterate_elements(text, WANTED.__contains__):
        if node.name == "w:p":
            number += 1
            if (unit := reader.read(node, f"{name}, paragraph {number}")) is not None:
                found.units.append(unit)
        elif node.name in _LANGUAGES:
            add_label(found, node, "val", language)
        else:
            found.units += attribute_units(node, ("descr", "title"), f"{name}, picture")
    found.units.sort(key=lambda unit: unit.start)
    return found


def attribute_units(node: Node, names: tuple[str, ...], place: str) -> list[Unit]:
    """Returns units for the attributes of an element that are text."""
    found = []
    for name in names:
        if (each := node.attribute(name)) is not None and each.value.strip():
            assert node.token is not None
            quote = node.token.source[each.start - node.start]
            item = Item("text", ((each.start, each.end),), each.value)
            found.append(Unit(each.start, each.end, [item], encode_attribute(quote), f"{place}, {name}"))
    return found


def add_label(found: Reading, node: Node, name: str, language: str) -> None:
    """Adds a label of language, the value of an attribute."""
    if (each := node.attribute(name)) is not None and each.value:
        is_own = is_same_language(each.value, language)
        found.labels.append(LanguageLabel(each.start + 1, each.end - 1, each.value, is_own))


def _field_piece(child: Node) -> str:
    if child.name == "w:fldChar":
        return child.get("fldCharType")
    return "code" if child.name == "w:instrText" else ""
