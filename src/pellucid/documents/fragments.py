"""Fragments of HTML and XML, as programs send them for translation: read by the rules of documents, without labels."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pellucid.documents.document import Document, Part
from pellucid.documents.markup import MarkupToken, check_xml, iterate_html, iterate_xml
from pellucid.documents.spans import Item, Reading
from pellucid.documents.web_pages import _Page


@dataclass(frozen=True)
class XmlTags:
    """The meaning of the tags of an XML fragment, by their names; every other tag is a part of its sentence."""

    copied: Collection[str] = ()
    """The elements that are copied with all inside."""
    splitting: Collection[str] = ()
    """The elements that end a sentence."""


def read_fragment(text: str, tags: XmlTags | None = None) -> Document:
    """Returns a fragment of HTML, or of XML if `tags` are given, as a document whose attributes stay as they are.

    Raises DataError for XML that is not well-formed, declares entities or is too deep.
    """
    if tags is not None:
        begins_document = text.lstrip().startswith(("<?xml", "<!DOCTYPE"))
        check_xml(text.lstrip() if begins_document else f"<fragment>{text}</fragment>", "the text")

    def read(fragment: str, place: str, pinned: object) -> Reading:
        reader = _HtmlFragment(fragment, place, "", False) if tags is None else _XmlFragment(fragment, place, "", True)
        if isinstance(reader, _XmlFragment) and tags is not None:
            reader.tags = tags
        reader.known = None if pinned is None else iter(cast(list[bool], pinned))
        for token in iterate_html(fragment) if tags is None else iterate_xml(fragment):
            reader.take(token)
        reader.end_unit(len(fragment))
        reader.found.labels.clear()
        reader.found.pinned = reader.own
        return reader.found

    part = Part("", text, "utf-8", read, True, False)
    part.reading = read(text, "", None)
    return Document(Path("text"), "html", [part])


@dataclass
class _HtmlFragment(_Page):
    """Reads a fragment of HTML without its attributes."""

    def _take_attribute(self, name: str, values: dict[str, str], key: str, start: int, end: int, value: str) -> None:
        pass


@dataclass
class _XmlFragment(_Page):
    """Reads a fragment of XML whose tags the caller explains."""

    tags: XmlTags = XmlTags()

    def take(self, token: MarkupToken) -> None:
        if self.skip and not self._take_skipped(token):
            return
        if token.kind in ("text", "cdata"):
            self._add_text(token)
        elif token.kind == "other":
            if self.begin >= 0:
                self._push(Item("object", ((token.start, token.end),)), token.start)
        elif token.name in self.tags.splitting:
            self.end_unit(token.start)
        elif token.kind == "end":
            self._push(Item("close", ((token.start, token.end),)), token.start)
        elif token.kind == "empty":
            self._push(Item("object", ((token.start, token.end),)), token.start)
        elif token.name in self.tags.copied:
            self.skip, self.depth, self.skip_start, self.skip_block = token.name, 1, token.start, False
        else:
            self._push(Item("open", ((token.start, token.end),)), token.start)

    def _name(self, token: MarkupToken) -> str:
        return token.name
