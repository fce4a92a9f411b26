"""Paragraphs of runs, as Office documents have them: text with equal visible properties is one run."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pellucid.documents.markup import Node, decode_xml, encode_xml
from pellucid.documents.spans import Item, Piece, Raw, RunTags, Unit

_INVISIBLE = frozenset({"w:lang", "w:noProof", "w:rsid", "w:proofErr"})
_INVISIBLE_ATTRIBUTES = frozenset({"lang", "altLang", "dirty", "err", "smtClean", "smtId", "noProof", "bmk"})


@dataclass(frozen=True)
class RunNames:
    """The names of the elements of a kind of paragraph."""

    run: str
    properties: str
    text: str
    leading: frozenset[str]
    """The elements at the beginning of a paragraph that are no part of its text."""
    containers: frozenset[str]
    """The elements around runs: links, insertions."""
    dropped: frozenset[str]
    """The elements that say something about the old text alone: spelling marks, page breaks of the last layout."""
    breaks: frozenset[str]
    tabs: frozenset[str] = frozenset()
    characters: tuple[tuple[str, str], ...] = ()
    """The elements that are characters."""


@dataclass
class _Field:
    """A run with a piece of a field: `begin`, `separate`, `end` or `code`."""

    kind: str
    item: Item
    code: str = ""


@dataclass
class ParagraphReader:
    """Reads the paragraphs of a part."""

    text: str
    names: RunNames
    take_special: Callable[[Node], str] = lambda _: ""
    """Returns the kind of the field's piece in a child of a run; empty if it is none."""

    def read(self, paragraph: Node, place: str) -> Unit | None:
        """Returns the unit of a paragraph; None if it has no text."""
        children = [child for child in paragraph.children if child.name not in self.names.leading]
        if not children:
            return None
        work = _Paragraph(self)
        work.visit(children)
        items = work.join_fields()
        if not any(item.kind == "text" and item.text.strip() for item in items):
            return None
        return Unit(children[0].start, paragraph.stop, items, encode_xml, place, work.runs)

    def decode(self, node: Node) -> str:
        """Returns the text inside an element."""
        return "".join(
            self.text[child.start + 9 : child.end - 3]
            if child.name == "#cdata"
            else decode_xml(self.text[child.start : child.end])
            for child in node.children
            if child.name in ("#text", "#cdata")
        )


@dataclass
class _Paragraph:
    reader: ParagraphReader
    items: list[Item | _Field] = field(default_factory=list)
    runs: list[RunTags] = field(default_factory=list)
    keys: dict[str, int] = field(default_factory=dict)

    def visit(self, children: Sequence[Node]) -> None:
        """Adds the items of some children of a paragraph or a container."""
        names = self.reader.names
        stack: list[Node | Item] = list(reversed(children))
        while stack:
            child = stack.pop()
            if isinstance(child, Item):
                self.items.append(child)
            elif child.name == names.run:
                self._add_run(child)
            elif child.name in names.containers and (content := _content(child)) is not None:
                self.items.append(Item("open", ((child.start, content.inside),)))
                stack.append(Item("close", ((content.stop, child.end),)))
                stack += reversed(content.children)
            elif child.name in names.breaks:
                self.items.append(Item("object", ((child.start, child.end),), " ", ends="sentence"))
            elif child.name not in names.dropped and child.name != "#text":
                self.items.append(Item("object", ((child.start, child.end),)))

    def _add_run(self, run: Node) -> None:
        reader, names = self.reader, self.reader.names
        properties = run.find(names.properties)
        head: list[Piece] = [(run.start, run.inside)]
        if properties is not None:
            head.append((properties.start, properties.end))
        tail: Piece = (run.stop, run.end)
        characters = dict(names.characters)
        for child in run.children:
            if child is properties or child.name in names.dropped or child.name == "#text":
                continue
            raw: Raw = (*head, (child.start, child.end), tail)
            if child.name == names.text or child.name in characters:
                said = characters.get(child.name) if child.name in characters else reader.decode(child)
                if said:
                    self.items.append(Item("text", raw, said, self._run(run, head, properties, child, tail)))
            elif child.name in names.breaks:
                is_page = child.get("type") in ("page", "column")
                self.items.append(Item("object", raw, " ", ends="always" if is_page else "sentence"))
            elif child.name in names.tabs:
                self.items.append(Item("object", raw, " ", ends="always"))
            elif kind := reader.take_special(child):
                self.items.append(_Field(kind, Item("object", raw), reader.decode(child)))
            else:
                self.items.append(Item("object", raw))

    def _run(self, run: Node, head: list[Piece], properties: Node | None, child: Node, tail: Piece) -> int:
        """Returns the index of the run with some properties."""
        key = "" if properties is None else visible_properties(self.reader.text, properties)
        if key not in self.keys:
            self.keys[key] = len(self.runs)
            if child.name == self.reader.names.text:
                tag = self.reader.text[child.start : child.inside]
                can_say = "xml:space" not in tag and not child.name.startswith("a:")
                place: Raw = ((child.start, child.inside - 1), ">") if can_say else ((child.start, child.inside),)
                begin: Raw = (*head, *place)
                self.runs.append(RunTags(begin, ((child.stop, child.end), tail), key))
            else:
                name = self.reader.names.text
                prefix = (run.token.name.rpartition(":")[0] + ":") if run.token and ":" in run.token.name else ""
                local = name.rpartition(":")[2]
                self.runs.append(RunTags((*head, f"<{prefix}{local}", ">"), (f"</{prefix}{local}>", tail), key))
        return self.keys[key]

    def join_fields(self) -> list[Item]:
        """Returns the items, with each field as one object, or as an element if it is a link."""
        found: list[Item] = []
        open_fields: list[tuple[int, int, str, int]] = []
        depth = 0
        for each in self.items:
            if isinstance(each, Item):
                depth += (each.kind == "open") - (each.kind == "close")
                found.append(each)
                continue
            found.append(each.item)
            if each.kind == "begin":
                open_fields.append((len(found) - 1, -1, "", depth))
            elif open_fields:
                start, separate, code, level = open_fields[-1]
                if each.kind == "code":
                    open_fields[-1] = (start, separate, code + each.code if separate < 0 else code, level)
                elif each.kind == "separate":
                    open_fields[-1] = (start, len(found) - 1, code, level)
                else:
                    open_fields.pop()
                    if level == depth:
                        _join_field(found, start, separate, code)
        return found


def _join_field(items: list[Item], start: int, separate: int, code: str) -> None:
    """Replaces the items of a field, which ends with the last item."""
    inside = items[start:]
    if any(item.kind != "text" and item.kind != "object" for item in inside):
        return
    if code.strip().upper().startswith("HYPERLINK") and separate >= 0:
        first = items[start : separate + 1]
        link = Item("open", tuple(piece for item in first for piece in item.raw))
        items[start:] = [link, *items[separate + 1 : -1], Item("close", items[-1].raw)]
        return
    items[start:] = [Item("object", tuple(piece for item in inside for piece in item.raw))]


def _content(container: Node) -> Node | None:
    """Returns the element whose children are the runs of a container; None if it is copied as it is."""
    if container.is_empty:
        return None
    if container.name != "w:sdt":
        return container
    properties = container.find("w:sdtPr")
    kinds = {child.name.rpartition(":")[2] for child in properties.children} if properties is not None else set()
    if kinds & {"dropDownList", "comboBox", "date", "checkbox", "docPartObj", "citation", "bibliography", "equation"}:
        return None
    found = container.find("w:sdtContent")
    return None if found is None or found.is_empty else found


def visible_properties(text: str, properties: Node) -> str:
    """Returns the properties of a run that can be seen: without language and spelling."""
    assert properties.token is not None
    attributes = sorted(
        f"{each.name}={each.value}"
        for each in properties.token.attributes()
        if each.name.rpartition(":")[2] not in _INVISIBLE_ATTRIBUTES
    )
    children = [
        text[child.start : child.end]
        for child in properties.children
        if child.name not in _INVISIBLE and child.name != "#text"
    ]
    return re.sub(r"\s+", " ", "".join([*attributes, *children]))
