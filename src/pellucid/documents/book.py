"""EPUB books: the pages, the contents of EPUB 3 and EPUB 2, the title and the language."""

import posixpath
from collections.abc import Mapping
from functools import partial
from typing import Protocol
from urllib.parse import unquote

from pellucid.documents.archive import PASSWORD, Archive
from pellucid.documents.content import is_same_language
from pellucid.documents.markup import Node, check_xml, decode_bytes, decode_xml, encode_xml, iterate_elements
from pellucid.documents.spans import Item, LanguageLabel, Reading, Unit
from pellucid.documents.web_pages import read_page
from pellucid.errors import DataError, format_value

_PAGES = frozenset({"application/xhtml+xml", "application/x-dtbook+xml", "text/html"})
_CONTENTS = "application/x-dtbncx+xml"
_TEXTS = frozenset({"dc:title", "dc:description", "ncx:text"})


class _BookReader(Protocol):
    def __call__(self, text: str, name: str, pinned: object, /) -> Reading: ...


def choose_book_parts(archive: Archive) -> Mapping[str, _BookReader]:
    """Returns the readers of a book's packages, pages and contents, as its container and manifests name them.

    Raises DataError for a book whose pages are encrypted.
    """
    found: dict[str, _BookReader] = {}
    for package in _values(archive, "META-INF/container.xml", "rootfile", "full-path"):
        text, _ = decode_bytes(archive.get(package), package)
        check_xml(text, package)
        language = next(
            (_text(text, node).strip() for node in iterate_elements(text, frozenset({"dc:language"}).__contains__)), ""
        )
        found[package] = partial(read_package, language=language)
        for item in iterate_elements(text, lambda name: name.rpartition(":")[2] == "item"):
            member = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(item.get("href"))))
            if member not in archive:
                continue
            if item.get("media-type") in _PAGES:
                found[member] = partial(read_page, is_xml=True, source=language)
            elif item.get("media-type") == _CONTENTS:
                found[member] = partial(read_package, language=language)
    if "META-INF/encryption.xml" in archive:
        for member in _values(archive, "META-INF/encryption.xml", "CipherReference", "URI"):
            if unquote(member) in found:
                raise DataError(f"`{format_value(archive.name)}` is encrypted: {format_value(member)}", PASSWORD)
    return found


def read_package(text: str, name: str, pinned: object = None, *, language: str = "") -> Reading:
    """Returns the title and description of a package, or the entries of contents, and the labels of language."""
    found, number = Reading(source=language), 0
    for node in iterate_elements(
        text, lambda each: each in _TEXTS or each in ("dc:language", "opf:package", "ncx:ncx")
    ):
        if node.name in _TEXTS:
            number += 1
            if not node.is_empty and _text(text, node).strip() and not any(c.token for c in node.children):
                item = Item("text", ((node.inside, node.stop),), _text(text, node))
                found.units.append(Unit(node.inside, node.stop, [item], encode_xml, f"{name}, entry {number}"))
        elif node.name == "dc:language":
            raw = text[node.inside : node.stop]
            start = node.inside + len(raw) - len(raw.lstrip())
            found.labels.append(
                LanguageLabel(start, start + len(raw.strip()), raw.strip(), is_same_language(raw.strip(), language))
            )
        elif (each := node.attribute("xml:lang")) is not None:
            found.labels.append(
                LanguageLabel(each.start + 1, each.end - 1, each.value, is_same_language(each.value, language))
            )
    found.units.sort(key=lambda unit: unit.start)
    return found


def _text(text: str, node: Node) -> str:
    return "".join(
        text[child.start + 9 : child.end - 3] if child.name == "#cdata" else decode_xml(text[child.start : child.end])
        for child in node.children
        if child.name in ("#text", "#cdata")
    )


def _values(archive: Archive, member: str, element: str, attribute: str) -> list[str]:
    """Returns an attribute of all elements of a name in a member."""
    text, _ = decode_bytes(archive.get(member), member)
    check_xml(text, member)
    nodes = iterate_elements(text, lambda name: name.rpartition(":")[2] == element)
    return [node.get(attribute) for node in nodes]
