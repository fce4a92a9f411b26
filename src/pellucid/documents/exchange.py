"""XLIFF and TMX: the missing and empty translations are filled; finished, approved and protected units stay."""

import re
from typing import cast

from pellucid.documents.content import ENTITIES, PLACEHOLDERS, URL, is_same_language, protect
from pellucid.documents.markup import MarkupToken, Node, decode_xml, encode_xml, iterate_elements, iterate_xml
from pellucid.documents.spans import LABEL, Item, LanguageLabel, Reading, Unit

_PROTECTED = re.compile("|".join((PLACEHOLDERS.pattern, ENTITIES, URL.pattern)))
_AROUND = frozenset({"g", "mrk", "pc", "hi"})
_BEGINS, _ENDS = frozenset({"bpt", "bx", "sc"}), frozenset({"ept", "ex", "ec"})
_DONE = frozenset({"final", "signed-off", "translated", "reviewed"})

Pinned = dict[int, str]
"""The units that were filled, by their number, and the form of their region: "inside", "empty" or "missing"."""


def read_xliff(text: str, name: str, pinned: object = None) -> Reading:
    """Returns the units of an XLIFF document, 1.2 or 2.x, whose translation is missing or empty."""
    found, filled = Reading(), Pinned()
    chosen = None if pinned is None else cast(Pinned, pinned)
    number = 0
    for token in iterate_xml(text):
        if token.kind == "start" and _local(token.name) in ("file", "xliff"):
            _read_languages(found, token)
    for node in iterate_elements(text, lambda each: _local(each) in ("trans-unit", "segment")):
        source = _child(node, "source")
        if source is None:
            continue
        reason = _reason(text, node)
        target = _child(node, "target")
        content = _child(node, "seg-source") or source
        above = node.parent.get("id") if node.parent is not None and node.parent.token is not None else ""
        place = f"unit {node.get('id') or above or number + 1}"
        _add(text, found, (node, content, target), place, reason, number, chosen, filled)
        number += 1
    found.units.sort(key=lambda unit: unit.start)
    found.pinned = filled
    return found


def _add(
    text: str,
    found: Reading,
    nodes: tuple[Node, Node, Node | None],
    place: str,
    reason: str,
    number: int,
    chosen: Pinned | None,
    filled: Pinned,
) -> None:
    """Adds a unit, and the label of its state if it is filled."""
    node, content, target = nodes
    keeps = _keeps_space(content)
    form = "missing" if target is None else "empty" if target.is_empty else "inside"
    if chosen is not None and number in chosen:
        form = chosen[number]
        assert target is not None, "the unit was filled"
        start = {"missing": content.end, "empty": target.inside - 1, "inside": target.inside}[form]
        end = target.stop if form == "inside" else target.end
        found.units.append(Unit(start, end, read_inline(text, target, keeps), encode_xml, place))
    elif reason or (target is not None and text[target.inside : target.stop].strip()):
        items = read_inline(text, content, keeps)
        unit = Unit(content.inside, content.stop, items, encode_xml, place, reason=reason or "translated before")
        found.units.append(unit)
        return
    else:
        found.units.append(_make_unit(text, content, target, form, read_inline(text, content, keeps), place))
    filled[number] = form
    for each in (None if form == "missing" else target, node if _local(node.name) == "segment" else None):
        if each is not None and (state := each.attribute("state")) is not None:
            found.labels.append(LanguageLabel(state.start + 1, state.end - 1, state.value, form="state"))


def _make_unit(text: str, content: Node, target: Node | None, form: str, items: list[Item], place: str) -> Unit:
    unit = Unit(content.end, content.end, items, encode_xml, place, fills=True)
    if target is None or form == "missing":
        assert content.token is not None
        prefix = content.token.name.rpartition(":")[0]
        name = f"{prefix}:target" if prefix else "target"
        unit.before, unit.after = f"{_indentation(text, content)}<{name}>", f"</{name}>"
    elif form == "empty":
        assert target.token is not None
        tag = text[target.start : target.end].rstrip("/> \t\r\n")
        unit.start, unit.end = target.start + len(tag), target.end
        unit.before, unit.after = ">", f"</{target.token.name}>"
    else:
        unit.start, unit.end = target.inside, target.stop
    return unit


def _indentation(text: str, node: Node) -> str:
    """Returns the white space before an element on its line, with the line end."""
    match = re.search(r"\r?\n[ \t]*\Z", text[max(0, node.start - 200) : node.start])
    return match[0] if match else ""


def _reason(text: str, node: Node) -> str:
    above: Node | None = node
    while above is not None and above.token is not None:
        said = above.get("translate") if above.attribute("translate") else ""
        if said == "no":
            return "translate is no"
        if said == "yes":
            break
        above = above.parent
    if node.get("approved") == "yes":
        return "approved"
    target = _child(node, "target")
    states = {node.get("state"), target.get("state") if target is not None else ""}
    if states & _DONE and target is not None and text[target.inside : target.stop].strip():
        return "translated before"
    return ""


def _read_languages(found: Reading, token: MarkupToken) -> None:
    for each in token.attributes():
        if each.name in ("target-language", "trgLang") and each.value:
            found.target = found.target or each.value
            found.labels.append(LanguageLabel(each.start + 1, each.end - 1, each.value))


def _keeps_space(node: Node) -> bool:
    above: Node | None = node
    while above is not None and above.token is not None:
        if (each := above.attribute("xml:space")) is not None:
            return each.value == "preserve"
        above = above.parent
    return False


def read_inline(text: str, node: Node, keeps_space: bool) -> list[Item]:
    """Returns the content of a source, a target or a segment as items."""
    found: list[Item] = []
    pairs = _pairs(node)
    stack: list[Node | Item] = list(reversed(node.children))
    while stack:
        child = stack.pop()
        if isinstance(child, Item):
            found.append(child)
            continue
        name, place = _local(child.name), ((child.start, child.end),)
        if child.name in ("#text", "#cdata"):
            raw = text[child.start : child.end]
            said = raw[9:-3] if child.name == "#cdata" else decode_xml(raw)
            if not keeps_space:
                said = re.sub(r"[ \t\r\n]+", " ", said)
            found += protect(said, _PROTECTED, encode_xml)
        elif (
            name in _AROUND
            and not child.is_empty
            and child.get("translate") != "no"
            and child.get("mtype") != "protected"
        ):
            if child.get("mtype") == "seg":
                found.append(Item("object", ((child.start, child.inside),), ends="always"))
                stack.append(Item("object", ((child.stop, child.end),), ends="always"))
            else:
                found.append(Item("open", ((child.start, child.inside),)))
                stack.append(Item("close", ((child.stop, child.end),)))
            stack += reversed(child.children)
        elif id(child) in pairs:
            found.append(Item("open" if name in _BEGINS else "close", place))
        elif child.name != "#other":
            found.append(Item("object", place))
    return found


def _pairs(node: Node) -> set[int]:
    """Returns the empty elements that begin and end a range, if all such ranges nest."""
    found, waiting = set[int](), list[Node]()
    for child in node.children:
        name = _local(child.name)
        if name in _BEGINS:
            waiting.append(child)
        elif name in _ENDS:
            if not waiting or _key(waiting[-1]) != _key(child):
                return set()
            found |= {id(waiting.pop()), id(child)}
    return found if not waiting else set()


def _key(node: Node) -> str:
    return node.get("startRef") or node.get("rid") or node.get("i") or node.get("id")


# TMX


def read_tmx(text: str, name: str, pinned: object = None) -> Reading:
    """Returns the units of a translation memory that have no text in the target language.

    The source language is that of the header; the target language the most frequent other one, or, in a memory of one
    language, the label of the document.
    """
    found, filled = Reading(), Pinned()
    chosen = None if pinned is None else cast(Pinned, pinned)
    source = target = ""
    for head in iterate_elements(text, lambda each: each == "header"):
        source = head.get("srclang") if "all" not in head.get("srclang") else ""
    counts: dict[str, int] = {}
    for variant in iterate_elements(text, lambda each: each == "tuv"):
        counts[_language(variant)] = counts.get(_language(variant), 0) + 1
    source = source or next(iter(counts), "")
    others = [code for code in counts if code and not is_same_language(code, source)]
    target = max(others, key=lambda code: counts[code], default="")
    found.source, found.target = source, target
    for number, node in enumerate(iterate_elements(text, lambda each: each == "tu")):
        variants = [child for child in node.children if child.name == "tuv"]
        of_source = next((each for each in variants if is_same_language(_language(each), source)), None)
        of_target = next(
            (each for each in variants if each is not of_source and _is_target(each, source, target)), None
        )
        segment = of_source.find("seg") if of_source is not None else None
        if of_source is None or segment is None:
            continue
        place = f"unit {node.get('tuid') or number + 1}"
        of_segment = of_target.find("seg") if of_target is not None else None
        if chosen is not None and number in chosen and of_target is not None and of_segment is not None:
            form = chosen[number]
            start, end = (of_source.end, of_target.end) if form == "missing" else (of_segment.inside, of_segment.stop)
            if form == "empty":
                start, end = of_segment.inside - 1, of_segment.end
            found.units.append(Unit(start, end, read_inline(text, of_segment, True), encode_xml, place))
            filled[number] = form
            continue
        items = read_inline(text, segment, True)
        if of_target is not None and (of_segment is None or text[of_segment.inside : of_segment.stop].strip()):
            unit = Unit(segment.inside, segment.stop, items, encode_xml, place, reason="translated before")
        elif of_target is None:
            unit = Unit(of_source.end, of_source.end, items, encode_xml, place, fills=True)
            code = encode_xml(target) or LABEL
            unit.before = f'{_indentation(text, of_source)}<tuv xml:lang="{code}"><seg>'
            unit.after = "</seg></tuv>"
            filled[number] = "missing"
        else:
            form = "empty" if of_segment is not None and of_segment.is_empty else "inside"
            unit = _make_unit(text, segment, of_segment, form, items, place)
            filled[number] = form
        found.units.append(unit)
    found.pinned = filled
    return found


def _language(node: Node) -> str:
    return node.get("xml:lang") or node.get("lang")


def _is_target(node: Node, source: str, target: str) -> bool:
    return is_same_language(_language(node), target) if target else not is_same_language(_language(node), source)


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _child(node: Node, name: str) -> Node | None:
    return next((child for child in node.children if _local(child.name) == name), None)
