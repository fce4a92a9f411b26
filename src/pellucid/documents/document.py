"""A document: read into units, translated, checked, and written as a whole.

    document = open_document(Path("report.docx"))
    data, report = document.translate(translate, target="en")

`translate` takes a list of segments and returns their translations. The translated document is read again and compared
with the original before it is returned.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pellucid.documents.archive import Archive, read_archive, write_archive
from pellucid.documents.catalogue import check_charset
from pellucid.documents.check import check_part, find_faults
from pellucid.documents.content import is_code, reason_to_leave
from pellucid.documents.kinds import ARCHIVES, MARKUP, check_archive_kind, check_kind
from pellucid.documents.markup import check_xml, decode_bytes, encode_bytes
from pellucid.documents.parts import PartReader, choose_parts, text_reader
from pellucid.documents.spans import (
    Answer,
    Chunk,
    Edit,
    Editor,
    NoRoomError,
    Piece,
    Reading,
    TextSegment,
    Unit,
    copy_answer,
    divide,
    keep_order,
    make_edit,
    raw_of,
    say,
    write_chunk,
)
from pellucid.errors import DataError, format_value
from pellucid.files.budget import MOST_DOCUMENT_BYTES, MOST_UNIT_CHARACTERS, MOST_UNITS, open_regular

Translate = Callable[[Sequence[TextSegment]], Sequence[Answer]]
"""Translates segments: one answer for each, with as many marks as the segment has."""
MOST_COMPARED = 20
"""The times that a translated part is compared with the original; after each, faulty translations are taken back."""
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127, 65534, 65535), " ")
"""Characters that are no text: XML forbids most of them, and a file with a NUL is refused as a text."""
UNKNOWN = "und"
"""The code of an undetermined language."""


@dataclass(frozen=True)
class ReportedUnit:
    """The outcome of a unit of a document."""

    place: str
    source: str
    text: str
    state: str
    """"translated"; "left", as a code or a formula is; or "failed", with the source in place of a translation."""
    flags: tuple[str, ...] = ()
    """The reasons to check the unit, or the reason why it was left."""


@dataclass(frozen=True)
class DocumentReport:
    """The outcome of the translation of a document: its units, in the order of the document."""

    units: list[ReportedUnit]
    target: str = ""
    """The code of the language that the labels of the document have now; empty if it has none."""
    notes: tuple[str, ...] = ()

    @property
    def translated(self) -> int:
        """The number of units that were translated."""
        return sum(unit.state == "translated" for unit in self.units)

    @property
    def left(self) -> int:
        """The number of units without a translation."""
        return len(self.units) - self.translated

    @property
    def flagged(self) -> list[ReportedUnit]:
        """The units to check."""
        return [unit for unit in self.units if unit.flags and unit.state != "left"]


@dataclass
class Part:
    """A part of a document that contains text."""

    name: str
    text: str
    encoding: str
    reader: PartReader
    in_markup: bool
    is_xml: bool
    reading: Reading = field(default_factory=Reading)


@dataclass
class Document:
    """An opened document."""

    path: Path
    kind: str
    parts: list[Part]
    archive: Archive | None = None

    @property
    def units(self) -> list[Unit]:
        """All units, in the order of the document."""
        return [unit for part in self.parts for unit in part.reading.units]

    @property
    def source(self) -> str:
        """The code of the document's language; empty if it does not say."""
        return next((part.reading.source for part in self.parts if part.reading.source), "")

    def translate(self, translate: Translate, target: str = "") -> tuple[bytes, DocumentReport]:
        """Returns the translated document, and its report.

        Args:
            target: the code of the target language, for the labels of the document; empty: the document's own label of
                a target, else `und`.

        Raises PellucidError if the translated document does not have the structure of the original.
        """
        label = target or next((part.reading.target for part in self.parts if part.reading.target), "") or UNKNOWN
        work = [_UnitWork(unit) for unit in self.units]
        segments = list(
            dict.fromkeys(chunk.segment for each in work for chunk in each.chunks if chunk.nodes or chunk.text)
        )
        answers = dict(zip(segments, translate(segments), strict=True)) if segments else {}
        for each in work:
            each.answer(answers, label)
        changed, labels, rest = dict[str, bytes](), 0, iter(work)
        for part in self.parts:
            mine = [next(rest) for _ in part.reading.units]
            found = self._write_part(part, mine, label)
            labels += len(part.reading.labels)
            if found is not None:
                changed[part.name] = found
        report = DocumentReport([each.report for each in work], label if labels else "", tuple(self._notes()))
        if self.archive is not None:
            return write_archive(self.archive, changed), report
        part = self.parts[0]
        return changed.get(part.name, encode_bytes(part.text, part.encoding, False)), report

    def _write_part(self, part: Part, work: Sequence["_UnitWork"], label: str) -> bytes | None:
        """Returns the translated part, checked; None if nothing in it changes."""
        labels = [
            Edit(each.start, each.end, (each.write(label),))
            for each in part.reading.labels
            if each.is_own and each.value != each.write(label)
        ]
        faults, fault = dict[int, str](), ""
        for rounds_left in reversed(range(MOST_COMPARED)):
            edits = [each.edit for each in work if each.edit is not None] + labels
            if not edits:
                return None
            data = encode_bytes(Editor(part.text, edits).write(), part.encoding, part.in_markup)
            faults, fault = compare_part(part, data, [each.text for each in work])
            if not faults and not fault:
                return data
            # A translation that is read as two units shifts all that follow: it alone is taken back.
            first = [place for place in faults if place - 1 not in faults]
            places = _find_culprit(part, work, labels, label) if fault else first if rounds_left else [*faults]
            if not places:
                break
            for place in places:
                work[place].leave(label)
        check_part(part.name, faults, fault, part.reading.units)
        raise AssertionError("check_part raises for a fault")

    def _notes(self) -> list[str]:
        if self.archive is not None and any(
            "_xmlsignatures/" in name or "documentsignatures" in name for name in self.archive.data
        ):
            return ["the digital signature of the document does not hold for its translation"]
        return []


def _find_culprit(part: Part, work: Sequence["_UnitWork"], labels: Sequence[Edit], label: str) -> list[int]:
    """Returns the first unit whose translation makes a part differ, by bisection; none, if its labels alone do."""

    def is_fault(count: int) -> bool:
        chosen = [(each.edit, each.text) if n < count else each.keep(label) for n, each in enumerate(work)]
        edits = [edit for edit, _ in chosen if edit is not None]
        data = encode_bytes(Editor(part.text, [*edits, *labels]).write(), part.encoding, part.in_markup)
        return compare_part(part, data, [text for _, text in chosen]) != ({}, "")

    if is_fault(0):
        return []
    low, high = 0, len(work)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_fault(middle) else (middle, high)
    return [low]


def compare_part(part: Part, data: bytes, texts: Sequence[str]) -> tuple[dict[int, str], str]:
    """Returns the differences between a translated part and its original, as `find_faults` does."""
    text = data.decode(part.encoding)
    if part.is_xml:
        check_xml(text, part.name)
    return find_faults(part.text, part.reading, text, part.reader(text, part.name, part.reading.pinned), texts)


class _UnitWork:
    """A unit with its chunks, their answers, and its new content."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.flags: list[str] = []
        self.edit: Edit | None = None
        self.text = unit.text
        self.state = "left"
        reason = unit.reason or reason_to_leave(unit.text)
        if not reason and unit.is_label_like and is_code(unit.text):
            reason = "a code"
        if not reason and len(unit.text) > MOST_UNIT_CHARACTERS:
            reason, self.state = f"longer than {MOST_UNIT_CHARACTERS:,} characters", "failed"
        self.reason = reason
        self.chunks: list[Chunk] = [] if reason else divide(unit)
        if not reason and not any(chunk.text for chunk in self.chunks):
            self.reason, self.chunks = "without letters", []

    def answer(self, answers: Mapping[TextSegment, Answer], label: str) -> None:
        """Sets the new content of the unit."""
        if self.reason and not (self.unit.fills and not self.unit.reason):
            return
        pieces, said, changed = list[Piece](), list[str](), self.unit.fills
        for chunk in self.chunks:
            source = copy_answer(chunk)
            found = self._usable(chunk, answers[chunk.segment]) if chunk.text else source
            changed = changed or found != source
            if found == source and not (chunk.text and self.unit.runs):
                raw, text = raw_of(self.unit, chunk.items), say(chunk.items)
            else:
                try:
                    raw, text = write_chunk(self.unit, chunk, found)
                except NoRoomError:
                    self.flags.append("the translation has fewer words than the source has parts: the source is kept")
                    raw, text = write_chunk(self.unit, chunk, source)
            pieces += raw
            said.append(text)
        if not self.chunks:
            pieces, said = [*raw_of(self.unit, self.unit.items)], [self.unit.text]
        text = "".join(said)
        fault = self.unit.constraint(text) if self.unit.constraint is not None and changed else ""
        if fault:
            self.flags.append(fault)
            self.state = "failed"
            return
        if not self.reason:
            self.state = "translated"
        if changed:
            self.edit, self.text = make_edit(self.unit, pieces, label), text

    def _usable(self, chunk: Chunk, answer: Answer) -> Answer:
        """Returns an answer that has text and marks; else the chunk as it is, flagged."""
        if answer.text != chunk.text:
            answer = replace(answer, text=answer.text.translate(_CONTROLS))
        if not answer.text.strip() or len(answer.marks) != len(chunk.nodes):
            self.flags += [*answer.flags, "the translation is empty: the source is kept"]
            return copy_answer(chunk)
        answer = keep_order(chunk, answer)
        self.flags += answer.flags
        return _strip(answer)

    def leave(self, label: str) -> None:
        """Keeps the source, since the translation would be read as markup or as another unit."""
        self.flags.append("the translation would be read as more than text: the source is kept")
        self.state = "failed"
        self.edit, self.text = self.keep(label)

    def keep(self, label: str) -> tuple[Edit | None, str]:
        """Returns the edit and the text of the unit with its source in place of its translation."""
        if self.edit is None:
            return None, self.text
        source = raw_of(self.unit, self.unit.items)
        return make_edit(self.unit, source, label) if self.unit.fills else None, say(self.unit.items)

    @property
    def report(self) -> ReportedUnit:
        flags = (*dict.fromkeys(self.flags),) or ((self.reason,) if self.reason else ())
        return ReportedUnit(self.unit.place, self.unit.text, self.text, self.state, flags)


def _strip(answer: Answer) -> Answer:
    """Returns an answer without the white space around its text, and without its flags."""
    lead = len(answer.text) - len(answer.text.lstrip())
    text = answer.text.strip()
    marks = tuple((min(max(a - lead, 0), len(text)), min(max(b - lead, 0), len(text))) for a, b in answer.marks)
    return Answer(text, marks)


def open_document(path: str | Path) -> Document:
    """Opens a document and reads its units.

    Raises DataError for a file that is no document, is damaged or encrypted, differs from its name, or exceeds the
    budget of untrusted documents.
    """
    path = Path(path)
    with open_regular(path, DataError, "check the path; it is relative to the folder you are in") as file:
        data = file.read(MOST_DOCUMENT_BYTES + 1)
    return read_document(data, path)


def read_document(data: bytes, path: Path) -> Document:
    """Returns the document in some bytes; the name says its kind. Raises the errors of `open_document`."""
    if len(data) > MOST_DOCUMENT_BYTES:
        raise DataError(
            f"`{format_value(path)}` has more than {MOST_DOCUMENT_BYTES:,} bytes, the most that are read", "divide it"
        )
    kind = check_kind(path, data)
    if kind in ARCHIVES:
        archive = read_archive(data, str(path))
        check_archive_kind(path, kind, archive)
        document = Document(path, kind, [], archive)
        for name, reader in choose_parts(kind, archive).items():
            document.parts.append(_read_part(name, archive.get(name), reader, True, True))
    else:
        text, encoding = _decode(data, path, kind)
        is_xml = kind in ("xliff", "tmx") or (kind == "html" and _is_xhtml(path, text))
        reader = text_reader(kind, is_xml, encoding)
        if is_xml:
            check_xml(text, str(path))
        document = Document(path, kind, [Part("", text, encoding, reader, kind in MARKUP, is_xml)])
        document.parts[0].reading = reader(text, "", None)
    if (count := len(document.units)) > MOST_UNITS:
        raise DataError(f"`{format_value(path)}` has {count:,} units; at most {MOST_UNITS:,} are read", "divide it")
    return document


def _read_part(name: str, data: bytes, reader: PartReader, in_markup: bool, is_xml: bool) -> Part:
    text, encoding = decode_bytes(data, name)
    if is_xml:
        check_xml(text, name)
    part = Part(name, text, encoding, reader, in_markup, is_xml)
    part.reading = reader(text, name, None)
    return part


def _decode(data: bytes, path: Path, kind: str) -> tuple[str, str]:
    if kind == "po":
        check_charset(data)
    return decode_bytes(data, str(path), in_html=kind == "html", else_latin=kind in ("html", "properties"))


def _is_xhtml(path: Path, text: str) -> bool:
    return path.suffix.lower() in (".xhtml", ".xht") or text.lstrip("\ufeff \t\r\n").startswith("<?xml")
