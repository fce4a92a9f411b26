"""Slides, notes, charts, diagrams and shapes of Office documents: a unit is a paragraph, wherever it stands."""

from pellucid.documents.markup import iterate_elements
from pellucid.documents.runs import ParagraphReader, RunNames
from pellucid.documents.spans import Reading
from pellucid.documents.word import add_label, attribute_units

NAMES = RunNames("a:r", "a:rPr", "a:t", frozenset({"a:pPr", "#text"}), frozenset(), frozenset(), frozenset({"a:br"}))
_LANGUAGES = frozenset({"a:rPr", "a:endParaRPr", "a:defRPr"})


def read_drawing(text: str, name: str, pinned: object = None, *, language: str = "") -> Reading:
    """Returns the paragraphs of a part with drawings, the alternative texts and the labels of language."""
    found = Reading(source=language)
    reader, number = ParagraphReader(text, NAMES), 0
    for node in iterate_elements(text, _is_wanted):
        if node.name == "a:p":
            number += 1
            if (unit := reader.read(node, f"{name}, paragraph {number}")) is not None:
                found.units.append(unit)
        elif node.name in _LANGUAGES:
            add_label(found, node, "lang", language)
        else:
            found.units += attribute_units(node, ("descr", "title"), f"{name}, shape")
    found.units.sort(key=lambda unit: unit.start)
    return found


def _is_wanted(name: str) -> bool:
    return name == "a:p" or name in _LANGUAGES or name.endswith(":cNvPr")
