"""Translation memories: the pairs of a TMX file, one for each unit, as a stream.

The languages are the requested ones, or the source language of the head (or of the units) and the only other language.
A code matches a more general or more specific one: `en` and `en-US`. Elements with codes of other programs are not
text; entities of HTML are replaced by their characters.
"""

import codecs
import html.entities
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any
from xml.parsers import expat

from pellucid.data.issues import IssueCallback, ignore_issue
from pellucid.data.lines import check_text_file, decompress, guess_encodings
from pellucid.errors import DataError, format_list, format_value
from pellucid.files.budget import MOST_DEPTH, MOST_TEXT_BYTES, MOST_TOGETHER_BYTES
from pellucid.files.formats import HEAD, detect_format

BLOCK = 1 << 20
"""Bytes per call of the parser."""
MOST_UNDECIDED = 10_000
"""Units in one language at most before the first unit that has two languages."""
MOST_CODES = 1000
"""Codes of other languages at most that are stored for a message."""
NOT_TEXT = {"bpt", "ept", "ph", "it", "ut"}
"""The elements of a segment that contain codes of other programs, and no text."""
NAME_A_PAIR = 'select source and target with `data.jsonl_keys`, as in ["de", "en"]'

SUPERSETS = {
    "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "big5": "cp950",
    "iso8859-9": "cp1254",
}  # fmt: skip
"""Supersets by encoding name: files that declare the one are often in the other."""
NO_CHARSETS = {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7", "mbcs", "oem"}
"""The text codecs of Python that are not file encodings."""
MARKS = {
    b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16", b"<\0?\0": "utf-16-le", b"\0<\0?": "utf-16-be",
}  # fmt: skip
"""The first bytes of a file that identify an encoding without a declaration."""
_DECLARED = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})[\"']")
_CONTROL = re.compile(
    rb"[\0-\x08\x0b\x0c\x0e-\x1f]|&#(?:0*(?:[0-8]|1[124-9]|2\d|3[01])|[xX]0*(?:[0-8bcefBCEF]|1[\da-fA-F]));"
)
_REFERENCE = re.compile(rb"&(?!(?:[A-Za-z_][\w.-]*|#\d+|#[xX][\da-fA-F]+);)")

_THREE_LETTERS = """
    ara:ar bul:bg cat:ca ces:cs cze:cs chi:zh zho:zh cmn:zh dan:da deu:de ger:de ell:el gre:el eng:en est:et
    eus:eu baq:eu fas:fa per:fa fin:fi fra:fr fre:fr gle:ga glg:gl heb:he hin:hi hrv:hr hun:hu hye:hy arm:hy
    ind:id isl:is ice:is ita:it jpn:ja kat:ka geo:ka kaz:kk kor:ko lit:lt lav:lv mkd:mk mac:mk msa:ms may:ms
    mya:my bur:my nld:nl dut:nl nor:no nob:nb nno:nn pol:pl por:pt ron:ro rum:ro rus:ru slk:sk slo:sk slv:sl
    spa:es sqi:sq alb:sq srp:sr swe:sv tam:ta tel:te tha:th tur:tr ukr:uk urd:ur uzb:uz vie:vi cym:cy wel:cy
"""
THREE_LETTERS = {long: short for long, _, short in (pair.partition(":") for pair in _THREE_LETTERS.split())}
"""Codes of ISO 639-2, with the ISO 639-1 codes of the same languages."""
SCRIPTS = {"zh-cn": "zh-hans-cn", "zh-sg": "zh-hans-sg", "zh-tw": "zh-hant-tw", "zh-hk": "zh-hant-hk"}
"""Codes whose region determines the script of the language."""

Row = tuple[str, str]
Side = tuple[str, str | None]
"""A code, and the text of its segment; None if there is no segment."""


def read_units(path: str, keys: Sequence[str], named: bool, note: IssueCallback, skip: int = 0) -> Iterator[Row]:
    """Yields the two sides of each unit after the first `skip`; the side of a missing language is empty.

    Args:
        keys: the codes of source and target, or one code for monolingual text. They are used only if `named` is true.
        note: is called for units without a segment or with several texts of a language, and for languages that are not
            read.

    Raises DataError for a file that is not TMX or damaged, for ambiguous languages, and for a text, a unit or a depth
    beyond the budget.
    """
    languages = _Languages(path, [_code(key) for key in keys] if named else [], len(keys), note)
    for number, unit in enumerate(_Memory(path, languages).units(), start=1):
        for first, sides in languages.take(number, unit):
            if first > skip:
                yield sides
    yield from (sides for first, sides in languages.end() if first > skip)


@dataclass
class _Unit:
    source: str
    """The source language that the unit names; empty if none."""
    sides: list[Side] = field(default_factory=list)


@dataclass
class _Languages:
    """Selects the two sides of each unit."""

    path: str
    wanted: list[str]
    count: int
    note: IssueCallback
    source: str = ""
    """The source language of the head."""

    def __post_init__(self) -> None:
        self._asked = bool(self.wanted)
        self._missing = set(self.wanted)
        self._there: dict[str, None] = {}
        self._others: dict[str, None] = {}
        self._undecided: list[tuple[int, _Unit]] = []
        self._number = 0

    def take(self, number: int, unit: _Unit) -> Iterator[tuple[int, Row]]:
        """Yields the number and the sides of each unit whose languages are known after this unit."""
        self._number = number
        if not self.wanted and not self._decide(number, unit):
            self._undecided.append((number, unit))
            if len(self._undecided) > MOST_UNDECIDED:
                raise self._one_language()
            return
        yield from self._iterate_decided()
        yield number, self._sides(number, unit)

    def end(self) -> Iterator[tuple[int, Row]]:
        """Reports the languages that are not read. Raises DataError if the requested languages are not in the file."""
        if not self._number:
            raise DataError(
                f"`{format_value(self.path)}` has no translation unit", "check that it is a translation memory"
            )
        if not self.wanted:
            raise self._one_language()
        if self._missing:
            raise DataError(
                f"none of the {self._number:,} units of `{format_value(self.path)}` is in "
                f"{format_list(sorted(self._missing))}; "
                f"its languages: {format_list(self._there) or 'none'}",
                "select the source and the target with `data.jsonl_keys`",
            )
        for _ in self._others:
            self.note("others", self.path, 0, f"the languages {format_list(self._others)}", "parts")
        yield from ()

    def _iterate_decided(self) -> Iterator[tuple[int, Row]]:
        for number, unit in self._undecided:
            yield number, self._sides(number, unit)
        self._undecided.clear()

    def _decide(self, number: int, unit: _Unit) -> bool:
        """Returns True if a unit determines the source and the target language."""
        codes = list(dict.fromkeys(code for code, _ in unit.sides))
        if len(codes) < self.count:
            return False
        named = self.source or _code(unit.source)
        if self.count == 1 and len(codes) == 1:
            first = codes
        elif named:
            first = [code for code in codes if _fit(code, named)] or [
                c for c in codes if _language(c) == _language(named)
            ]
            if not first and len(codes) == 2:
                raise DataError(
                    f"`{format_value(self.path)}` declares the source language `{format_value(named)}`, but unit "
                    f"{number:,} is "
                    f"in {format_list(codes)}",
                    NAME_A_PAIR,
                )
        else:
            first = codes[:1]
        others = [code for code in codes if code not in first]
        if len(first) != 1 or len(others) != self.count - 1:
            raise DataError(
                f"unit {number:,} of `{format_value(self.path)}` is in {len(codes):,} languages ({format_list(codes)})",
                NAME_A_PAIR,
            )
        if not named:
            what = f"its head names no source language; it is `{format_value(first[0])}`, as in unit {number:,}"
            self.note("sides", self.path, 0, what, "files")
        pair = [*first, *others]
        # Units with other regions of the languages match, unless the two languages differ only by region.
        self.wanted = [_language(code) for code in pair] if len(set(map(_language, pair))) == len(pair) else pair
        return True

    def _sides(self, number: int, unit: _Unit) -> Row:
        found = [self._side(number, unit.sides, wanted) for wanted in self.wanted[: self.count]]
        for code, _ in unit.sides:
            if self._missing and len(self._there) < MOST_CODES:
                self._there[code] = None
            if len(self._others) < MOST_CODES and not any(_fit(code, wanted) for wanted in self.wanted):
                self._others[code] = None
        return found[0], found[-1]

    def _side(self, number: int, sides: Sequence[Side], wanted: str) -> str:
        """Returns the text of a language: of an equal code, else of the first code that matches."""
        fitting = [side for side in sides if _fit(side[0], wanted)]
        if not fitting:
            return ""
        self._missing.discard(wanted)
        exact = [side for side in fitting if side[0] == wanted] or [
            side for side in fitting if side[0] == fitting[0][0]
        ]
        code, text = next((side for side in exact if side[1]), exact[0])
        if len(fitting) > 1:
            self.note(
                "variants",
                self.path,
                number,
                f"{len(fitting)} texts in {format_list({c: 0 for c, _ in fitting})}",
                "units",
            )
        if text is None:
            self.note("segment", self.path, number, f"its `{format_value(code)}` has no <seg>", "texts")
        return text or ""

    def _one_language(self) -> DataError:
        codes = dict.fromkeys(code for _, unit in self._undecided for code, _ in unit.sides)
        return DataError(
            f"no unit of `{format_value(self.path)}` is in two languages; its languages: "
            f"{format_list(codes) or 'none'}",
            NAME_A_PAIR,
        )


class _Memory:
    """A TMX file, parsed as a stream: only the segments of a unit are in memory."""

    kind = "TMX"
    elements: Mapping[str, str] = MappingProxyType({})
    """The names of the elements in TMX, where the format has others."""
    has_several = False
    """True if a unit may have several texts in a language."""

    def __init__(self, path: str, languages: _Languages) -> None:
        self._path = path
        self._languages = languages
        self._ready = deque[_Unit]()
        self._depth = 0
        self._number = 0
        self._unit: _Unit | None = None
        self._code: str | None = None
        self._text: list[str] | None = None
        self._has_segment = False
        self._codes_open = 0
        self._size = self._unit_size = self._fed = 0

    def units(self) -> Iterator[_Unit]:
        """Yields the units. Raises DataError for a file that is not TMX, or damaged."""
        with (
            check_text_file(Path(self._path)).open("rb") as raw,
            decompress(raw, self._path, lambda: f"after unit {self._number:,}") as stream,
        ):
            head = stream.peek(HEAD)[:HEAD]
            known = detect_format("", head)
            if known is not None and not known.is_corpus:
                advice = known.to_pairs or known.to_text
                raise DataError(f"`{format_value(self._path)}` is not {self.kind}, but {known.name}", advice)
            decoder, encoding = self._decoder(head)
            parser, before, ends = self._parser(), b"", False
            while not ends:
                block = stream.read(BLOCK)
                ends = not block
                try:
                    text = decoder.decode(block, ends).encode()
                except UnicodeError as error:
                    raise self._wrong_bytes(error, encoding) from error
                self._fed += len(text)
                try:
                    parser.Parse(text, ends)
                except expat.ExpatError as error:
                    raise self._make_xml_error(error, parser.ErrorByteIndex, before + text) from error
                if self._fed - parser.CurrentByteIndex > MOST_TEXT_BYTES:
                    raise self._beyond(f"a tag or a comment of more than {MOST_TEXT_BYTES:,} bytes")
                before = text
                while self._ready:
                    yield self._ready.popleft()

    def _parser(self) -> expat.XMLParserType:
        parser = expat.ParserCreate(encoding="utf-8")  # the text is decoded here, whatever the file declares
        parser.buffer_text = True
        parser.buffer_size = 1 << 16
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = self._refuse_declaration
        parser.SkippedEntityHandler = self._refuse_skipped_entity
        # With an external DTD, which is not fetched, expat passes entities of HTML to the handler.
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_UNLESS_STANDALONE)
        parser.UseForeignDTD(True)
        return parser

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        name = self.elements.get(name, name)
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._beyond(f"more than {MOST_DEPTH} nested elements")
        if self._depth == 1 and name != "tmx":
            raise DataError(
                f"`{format_value(self._path)}` is not {self.kind}: it holds <{format_value(name)}>", "use another file"
            )
        if name == "header":
            source = _code(attributes.get("srclang", ""))
            self._languages.source = "" if source == "*all*" else source
        elif name == "tu":
            source = attributes.get("srclang", "")
            self._unit, self._unit_size = _Unit("" if source.strip().lower() == "*all*" else source), 0
        elif name == "tuv" and self._unit is not None:
            self._code = _code(attributes.get("xml:lang") or attributes.get("lang") or "")
            self._has_segment = False
        elif name == "seg" and self._code is not None and (self.has_several or not self._has_segment):
            self._text, self._codes_open, self._size, self._has_segment = [], 0, 0, True
        elif self._text is not None and name in NOT_TEXT:
            self._codes_open += 1

    def _end(self, name: str) -> None:
        name = name.rpartition(":")[2]
        name = self.elements.get(name, name)
        self._depth -= 1
        if name == "seg" and self._text is not None:
            assert self._unit is not None
            assert self._code is not None
            self._unit.sides.append((self._code, " ".join("".join(self._text).split())))
            self._text = None
        elif name == "tuv" and self._unit is not None and self._code is not None:
            if not self._has_segment:
                self._unit.sides.append((self._code, None))
            self._code = None
        elif name == "tu" and self._unit is not None:
            self._ready.append(self._unit)
            self._number += 1
            self._unit = None
        elif self._text is not None and name in NOT_TEXT:
            self._codes_open -= 1

    def _characters(self, text: str) -> None:
        if self._text is None or self._codes_open:
            return
        self._text.append(text)
        self._size += len(text)
        self._unit_size += len(text)
        if self._size > MOST_TEXT_BYTES:
            raise self._beyond(f"a segment of more than {MOST_TEXT_BYTES:,} characters")
        if self._unit_size > MOST_TOGETHER_BYTES:
            raise self._beyond(f"a unit of more than {MOST_TOGETHER_BYTES:,} characters")

    def _refuse_declaration(self, name: str, *_: Any) -> None:
        raise DataError(
            f"`{format_value(self._path)}` declares an entity, `{format_value(name)}`, and entities are not read",
            "replace the entity by its text",
        )

    def _refuse_skipped_entity(self, name: str, is_parameter: bool) -> None:
        if is_parameter:
            return
        text = html.entities.html5.get(f"{name};")
        if text is None:
            raise DataError(
                f"unit {self._number + 1:,} of `{format_value(self._path)}` has an unknown entity, "
                f"`&{format_value(name)};`",
                "replace the entity by its text",
            )
        self._characters(text)

    def _beyond(self, what: str) -> DataError:
        return DataError(
            f"unit {self._number + 1:,} of `{format_value(self._path)}` has {what}",
            "check that it is a translation memory",
        )

    def _decoder(self, head: bytes) -> tuple[codecs.IncrementalDecoder, str]:
        """Returns the decoder of the file and the name of its encoding, from its first bytes or its declaration."""
        found = next((name for mark, name in MARKS.items() if head.startswith(mark)), "")
        if not found:
            declared = _DECLARED.match(head.lstrip())
            found = declared[1].decode("ascii") if declared else "utf-8"
            # A declaration in single bytes is not UTF-16: some programs declare the encoding of their own strings.
            if re.match(r"(?i)(?:utf|ucs|iso-10646-ucs)-?_?(?:16|32|2|4)", found):
                found = "utf-8"
        try:
            known = codecs.lookup(found).name
            "".encode(known)  # LookupError for a codec that does not encode text to bytes
            if known in NO_CHARSETS:
                raise LookupError(known)
        except LookupError:
            raise DataError(
                f"`{format_value(self._path)}` is in an encoding that is not known: `{format_value(found)}`",
                "convert it to UTF-8 with the program that wrote it, and declare UTF-8 in its first line: "
                '`<?xml version="1.0" encoding="UTF-8"?>`',
            ) from None
        return codecs.getincrementaldecoder(SUPERSETS.get(known, known))(), found

    def _wrong_bytes(self, error: UnicodeError, encoding: str) -> DataError:
        place, likely = "", ""
        if isinstance(error, UnicodeDecodeError):
            place = f": a byte is 0x{error.object[error.start]:02x}"
            start = max(0, error.start - 200)
            likely = guess_encodings(re.sub(rb"<[^>]*>", b" ", error.object[start : error.start + 200]))
        return DataError(
            f"`{format_value(self._path)}` is not {format_value(encoding.upper())} after unit {self._number:,}{place}",
            "convert it from its encoding with `iconv -f ENCODING -t utf-8`, and name UTF-8 in "
            f"its first line{f'; it could be {likely}' if likely else ''}",
        )

    def _make_xml_error(self, error: expat.ExpatError, place: int, text: bytes) -> DataError:
        """Returns the error for text that is not well-formed, with its cause and a remedy."""
        name, start = str(self._path), place - (self._fed - len(text))
        around = text[max(0, start - 40) : start + 40] if 0 <= start <= len(text) else b""
        code, advice = (
            error.code,
            "export it again from the program that wrote it, or repair it with `xmllint --recover`",
        )
        if code in (expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],
                    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN]):  # fmt: skip
            advice = "its end is missing: download or export it again"
        elif _CONTROL.search(around[20:] or around):
            advice = (
                "XML has no control characters: remove them, by "
                f"`perl -pe 's/[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]|&#(x0*1?[0-9a-f]|0*[12]?[0-9]|0*3[01]);/ /gi' {name}`"
            )
        elif _REFERENCE.search(around):
            advice = (
                f"a `&` of the text is `&amp;` in XML: `perl -pe 's/&(?!(\\w+|#\\d+|#x[0-9a-f]+);)/&amp;/gi' {name}`"
            )
        elif code == expat.errors.codes[expat.errors.XML_ERROR_TAG_MISMATCH]:
            advice = (
                "write a `<` of the text as `&lt;` and close each element, or export the file again; "
                "`xmllint --recover` drops invalid parts"
            )
        there = f": `{format_value(around.decode('utf-8', 'replace').strip())}`" if around.strip() else ""
        return DataError(f"`{format_value(self._path)}` is not XML after unit {self._number:,}: {error}{there}", advice)


class _TermBase(_Memory):
    """A TBX file of version 2 or 3: an entry has terms in several languages, and several of one language."""

    kind = "TBX"
    elements: Mapping[str, str] = {
        "martif": "tmx", "tbx": "tmx", "termEntry": "tu", "conceptEntry": "tu", "langSet": "tuv", "langSec": "tuv",
        "term": "seg",
    }  # fmt: skip
    has_several = True


def read_term_base(path: str, languages: tuple[str, str] = ("", "")) -> list[Row]:
    """Returns the terms of a TBX file, each source term of an entry with each of its translations.

    Args:
        languages: the codes of the source and the target language; "" for the first one of the file, or the other one.

    Raises DataError for a file that is not TBX or damaged, for languages that it lacks, and for a file of more than two
    languages of which none is named.
    """
    entries = [unit.sides for unit in _TermBase(path, _Languages(path, [], 2, ignore_issue)).units()]
    codes = dict.fromkeys(code for sides in entries for code, text in sides if text)
    wanted = list(map(_code, languages))
    if not all(wanted):
        distinct = list(dict.fromkeys(map(_language, codes)))
        others = [code for code in distinct if not any(name and _fit(code, name) for name in wanted)]
        if len(others) != wanted.count(""):
            raise DataError(
                f"`{format_value(path)}` has the languages {format_list(codes) or 'none'}",
                "name the source and the target with `source_language=` and `target_language=`, or keep two languages",
            )
        rest = iter(others)
        wanted = [name or next(rest) for name in wanted]
    for name in wanted:
        if not any(_fit(code, name) for code in codes):
            raise DataError(
                f"`{format_value(path)}` has no terms in `{format_value(name)}`; its languages: "
                f"{format_list(codes) or 'none'}",
                "use the codes of the file",
            )
    return [
        (source, target)
        for sides in entries
        for code, source in sides
        if source and _fit(code, wanted[0])
        for other, target in sides
        if target and _fit(other, wanted[1])
    ]


@lru_cache(maxsize=4096)
def _fit(code: str, wanted: str) -> bool:
    """Returns True if two codes are equal, or one is a prefix of the other."""
    one, other = _full(code), _full(wanted)
    return one == other or one.startswith(f"{other}-") or other.startswith(f"{one}-")


@lru_cache(maxsize=4096)
def _full(code: str) -> str:
    language, _, rest = code.partition("-")
    code = f"{THREE_LETTERS.get(language, language)}{'-' if rest else ''}{rest}"
    return SCRIPTS.get(code, code)


@lru_cache(maxsize=4096)
def _language(code: str) -> str:
    return _full(code).partition("-")[0]


def _code(language: str) -> str:
    return language.strip().lower().replace("_", "-")
