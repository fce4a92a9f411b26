"""Excel workbooks: shared and inline strings; formulas, names, numbers and the column names of tables are copied."""

import posixpath
import re
from dataclasses import dataclass, field

from pellucid.documents.archive import Archive
from pellucid.documents.markup import Node, check_xml, decode_bytes, decode_xml, encode_xml, iterate_elements
from pellucid.documents.runs import ParagraphReader, RunNames
from pellucid.documents.spans import Item, Reading, Unit

NAMES = RunNames(
    "x:r", "x:rPr", "x:t", frozenset({"#text"}), frozenset(), frozenset({"x:rPh", "x:phoneticPr"}), frozenset()
)
_CELL = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_RANGE = re.compile(r"([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})")
COLUMN_NAME = "a column name of a table"


@dataclass
class Fixed:
    """The strings of a workbook that other parts of it repeat, and that are left."""

    shared: set[int] = field(default_factory=set)
    """The shared strings that are column names of tables, by their index."""
    cells: dict[str, set[str]] = field(default_factory=dict)
    """The cells of column names, by the sheet."""
    values: set[str] = field(default_factory=set)
    """The values of lists from which a cell must have one."""


def read_strings(text: str, name: str, pinned: object = None, *, fixed: Fixed) -> Reading:
    """Returns the shared strings of a workbook."""
    found = Reading()
    for number, node in enumerate(iterate_elements(text, frozenset({"x:si"}).__contains__)):
        if (unit := _string(text, node, f"shared string {number}")) is not None:
            if number in fixed.shared:
                unit.reason = COLUMN_NAME
            elif unit.text.strip() in fixed.values:
                unit.reason = "a value of a list"
            found.units.append(unit)
    return found


def read_sheet(text: str, name: str, pinned: object = None, *, fixed: Fixed) -> Reading:
    """Returns the inline strings of a sheet."""
    found = Reading()
    for node in iterate_elements(text, frozenset({"x:c"}).__contains__):
        inline = node.find("x:is")
        place = node.get("r")
        if inline is None or node.get("t") != "inlineStr":
            continue
        if (unit := _string(text, inline, f"{name}, cell {place}")) is not None:
            if place in fixed.cells.get(name, ()):
                unit.reason = COLUMN_NAME
            elif unit.text.strip() in fixed.values:
                unit.reason = "a value of a list"
            found.units.append(unit)
    return found


def _string(text: str, node: Node, place: str) -> Unit | None:
    """Returns the unit of a string: its runs, or the only text."""
    reader = ParagraphReader(text, NAMES)
    if any(child.name == "x:r" for child in node.children):
        unit = reader.read(node, place)
        if unit is not None:
            unit.is_label_like = True
        return unit
    only = node.find("x:t")
    if only is None or only.is_empty or not (said := reader.decode(only)).strip():
        return None
    item = Item("text", ((only.inside, only.stop),), said)
    unit = Unit(only.inside, only.end, [item], encode_xml, place, is_label_like=True, after=text[only.stop : only.end])
    unit.end = max([only.end, *(child.end for child in node.children if child.name in NAMES.dropped)])
    return unit


def find_fixed(archive: Archive, sheets: list[str]) -> Fixed:
    """Returns the strings of a workbook that are column names of tables or values of lists."""
    found = Fixed()
    for sheet in sheets:
        text, _ = decode_bytes(archive.get(sheet), sheet)
        check_xml(text, sheet)
        for formula in re.findall(r"<(?:\w+:)?formula1>([^<]*)</(?:\w+:)?formula1>", text):
            literal = decode_xml(formula).strip()
            if literal[:1] == '"':
                found.values |= {value.strip() for value in literal.strip('"').split(",")}
        headers = [area for table in _tables(archive, sheet) if (area := _header(archive, table)) is not None]
        if not headers:
            continue
        cells = found.cells.setdefault(sheet, set())
        for node in iterate_elements(text, frozenset({"x:c"}).__contains__):
            place = _CELL.fullmatch(node.get("r"))
            if place is None:
                continue
            column, row = _column(place[1]), int(place[2])
            if not any(a <= column <= b and row == top for a, b, top in headers):
                continue
            cells.add(place[0])
            value = node.find("x:v")
            if (
                node.get("t") == "s"
                and value is not None
                and (index := text[value.inside : value.stop].strip()).isdigit()
            ):
                found.shared.add(int(index))
    return found


def _tables(archive: Archive, sheet: str) -> list[str]:
    """Returns the members with the tables of a sheet."""
    folder, name = posixpath.split(sheet)
    links = f"{folder}/_rels/{name}.rels"
    if links not in archive:
        return []
    text, _ = decode_bytes(archive.get(links), links)
    check_xml(text, links)
    found = []
    for node in iterate_elements(text, lambda name: name.rpartition(":")[2] == "Relationship"):
        if node.get("Type").endswith("/table"):
            target = node.get("Target")
            found.append(target.lstrip("/") if target.startswith("/") else posixpath.normpath(f"{folder}/{target}"))
    return [member for member in found if member in archive]


def _header(archive: Archive, table: str) -> tuple[int, int, int] | None:
    """Returns the first and last column and the row of a table's header; None if it has none."""
    text, _ = decode_bytes(archive.get(table), table)
    check_xml(text, table)
    for node in iterate_elements(text, frozenset({"x:table"}).__contains__):
        area = _RANGE.fullmatch(node.get("ref"))
        if area is not None and node.get("headerRowCount", "1") != "0":
            return _column(area[1]), _column(area[3]), int(area[2])
    return None


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number
