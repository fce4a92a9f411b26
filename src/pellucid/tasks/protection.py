"""Takes the protected spans out of lines before their translation, and puts them into the translations.

A model that never learned to copy `{0}` or a URL loses it, or breaks the words around it. So a span is taken out, the
rest of the line is translated, and the span is put back where the model's own alignment says (see `mark_placement`). A
pair of tags goes around the translation of its words. A line without spans is not touched.

If a span is lost or doubled, further hypotheses are tried, then a search over the whole line that must write its spans.
Only after both the line itself stands for its translation, with a flag.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pellucid.config import DecodeConfig
from pellucid.errors import PellucidError
from pellucid.tasks.guards import flag_text
from pellucid.tasks.mark_placement import NO_ROOM, Mark, MarkedText, MarkedTranslation, needs_alignment, place_marks
from pellucid.tasks.quality_flags import Flag
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.terms import make_glossary
from pellucid.tasks.translation import Translation
from pellucid.tasks.word_alignment import WordAlignment
from pellucid.text.protected import ProtectedSpan
from pellucid.text.sentences import writes_spaces
from pellucid.text.tokenizer import TokenizerBase

Align = Callable[[str, Translation], WordAlignment]
"""Returns the alignment of a line with its translation."""
Search = Callable[[Sequence[str], SearchOptions], list[Translation]]
"""Translates lines with the options of a search."""
FLAG = "spans"
"""The name of the flag of a translation without all spans of its line."""
_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)(?:[^<>]*[^<>/])?>")
"""A tag that begins or ends an element; not one that does both."""
_BEAM_SIZE = DecodeConfig().beam_size
_WORD = re.compile(r"\w")
_SPACES = re.compile(" *")
_BETWEEN = re.compile(r"[^\w.!?]{0,3}")
"""The characters between two spans that stay together."""
_AROUND = {
    "(": ")", "[": "]", '"': '"', "'": "'", "„": "“”", "“": "”", "‚": "‘’", "‘": "’", "«": "»", "»": "«", "「": "」",
}  # fmt: skip
"""Marks before a span, with the marks after it that belong to it, too."""
_OPENING = frozenset("([{„«“‘¿¡")


@dataclass(frozen=True)
class _Range:
    """A range of a line that is taken out."""

    start: int
    end: int
    is_tag: bool


@dataclass
class TakenSpan:
    """A protected span that is taken out of a line, or the two tags of an element."""

    opening: str
    """The span, or the first tag."""
    closing: str = ""
    """The second tag."""
    spaces: tuple[bool, bool] = (False, False)
    """True for white space, or an end of the line, before and after the span."""
    inner: list[int] = field(default_factory=list)
    """The indices of the spans directly inside the element."""


@dataclass(frozen=True)
class ProtectedLine:
    """A line without its protected spans."""

    line: str
    """The whole line."""
    rest: MarkedText
    """The line without its spans, with a mark for each of `taken`."""
    taken: list[TakenSpan] = field(default_factory=list)

    @classmethod
    def from_spans(cls, line: str, spans: Sequence[ProtectedSpan]) -> "ProtectedLine":
        """Takes the spans, which are in order, out of a line."""
        parts = _join_ranges(line, spans)
        partners = _pair_tags([line[part.start : part.end] if part.is_tag else "" for part in parts])
        kept, places, end = "", list[int](), 0
        spaces = [_find_spaces(line, part) for part in parts]
        for number, part in enumerate(parts):
            kept += line[end : part.start]
            end = part.end
            if number not in partners and all(spaces[number]):  # of the spaces on both sides, one remains
                end = _SPACES.match(line, end).end()  # type: ignore[union-attr]  # it matches any text
            elif number not in partners and spaces[number][0] and not line[end].isalnum():  # a mark follows
                kept = kept.rstrip(" ")
            places.append(len(kept))
        kept += line[end:]
        taken, marks, open_elements = list[TakenSpan](), list[Mark](), list[int]()
        places = [min(place, following) for place, following in zip(places, _least_following(places), strict=True)]
        for number, part in enumerate(parts):
            partner = partners.get(number, number)
            if partner < number:
                open_elements.pop()
                continue
            closing = "" if partner == number else line[parts[partner].start : parts[partner].end]
            if open_elements:
                taken[open_elements[-1]].inner.append(len(taken))
            if closing:
                open_elements.append(len(taken))
            taken.append(TakenSpan(line[part.start : part.end], closing, (False, False) if closing else spaces[number]))
            marks.append(Mark(places[number], places[partner]))
        return cls(line, MarkedText(kept, tuple(marks)), taken)

    def restore(self, found: Translation, align: Align) -> Translation:
        """Returns a translation of the rest of the line with all spans, and the same for its alternatives.

        The best alternative that has each span as often as the line has it becomes the translation. If there is none,
        it is the line itself, with a flag.
        """
        if not self.taken:
            return found
        if not any(map(str.isalpha, self.rest.text)):
            return replace(found, text=self.line, alternatives=[replace(found, text=self.line)], flags=())
        tried = [self._restore(one, align) for one in found.alternatives or [found]]
        complete = [one for one in tried if not has_lost(one)]
        if not complete:
            flag = Flag(FLAG, f"{tried[0].flags[0].evidence}: the source is kept")
            return replace(found, text=self.line, flags=(flag,), alternatives=[])
        return replace(complete[0], alternatives=complete, confidence=found.confidence, flags=found.flags)

    def _restore(self, found: Translation, align: Align) -> Translation:
        """Returns a translation with the spans, and with a flag if it has one of them more or less often."""
        if not found.text.strip():
            return replace(found, flags=(Flag(FLAG, "the text around the spans has no translation"),))
        alignment = align(self.rest.text, found) if needs_alignment(self.rest) else WordAlignment()
        placed = place_marks(self.rest, found.text, alignment)
        if NO_ROOM in placed.flags:
            return replace(found, flags=(Flag(FLAG, "the translation has fewer words than elements"),))
        text = self._write(placed)
        fault = self.find_fault(text)
        return replace(found, text=text, flags=(Flag(FLAG, fault),) if fault else ())

    @property
    def spans(self) -> list[str]:
        """The different spans of the line."""
        return list(dict.fromkeys(part for taken in self.taken for part in (taken.opening, taken.closing) if part))

    def find_fault(self, text: str) -> str:
        """Returns the first span that a translation has more or less often than the line; empty if there is none."""
        for written in self.spans:
            if text.count(written) != self.line.count(written):
                return f"`{written}` is {text.count(written)} times in the translation, not {self.line.count(written)}"
        return ""

    def accept(self, found: Translation) -> Translation | None:
        """Returns the best alternative of a translation of the whole line that has all spans; None if none has.

        The tags of each element must be in their order, as elements in elements. A model that must write tokens that it
        never saw may write nonsense around them: a flagged translation is not accepted.
        """
        count = self._count_elements(self.line)
        complete = [
            one
            for one in found.alternatives or [found]
            if not self.find_fault(one.text)
            and self._count_elements(one.text) == count
            and not flag_text(self.line, one, searched=True)
        ]
        return replace(complete[0], alternatives=complete, confidence=found.confidence) if complete else None

    def _count_elements(self, text: str) -> int:
        tags = sorted((match.start(), span) for span in self.spans for match in re.finditer(re.escape(span), text))
        return len(_pair_tags([span for _, span in tags]))

    def _write(self, placed: MarkedTranslation) -> str:
        """Returns the translation with the spans at their marks."""
        text, end, spaced = "", 0, writes_spaces(placed.text)

        def write(numbers: Sequence[int]) -> None:
            nonlocal text, end
            for number in sorted(numbers, key=lambda n: (placed.marks[n].start, placed.marks[n].end, n)):
                mark, taken = placed.marks[number], self.taken[number]
                text += placed.text[end : mark.start]
                end = mark.start
                before, after = text[-1:], placed.text[end : end + 1]
                if spaced and taken.spaces[0] and before and not before.isspace() and before not in _OPENING:
                    text += " "
                text += taken.opening
                write(taken.inner)
                if taken.closing:
                    text += placed.text[end : mark.end] + taken.closing
                    end = mark.end
                elif spaced and taken.spaces[1] and (after.isalnum() or after in _OPENING):
                    text += " " * bool(after)

        inner = {number for taken in self.taken for number in taken.inner}
        write([number for number in range(len(self.taken)) if number not in inner])
        return text + placed.text[end:]


def has_lost(found: Translation) -> bool:
    """Returns True if a translation is flagged since it has not all spans of its line."""
    return any(flag.name == FLAG for flag in found.flags)


def protect_lines(
    lines: Sequence[str], found: Sequence[Sequence[ProtectedSpan]], options: SearchOptions, tokenizer: TokenizerBase
) -> list[ProtectedLine]:
    """Returns lines without the protected spans that were found in them.

    A span stays in its line if it is one token of the model (a tag that it was trained with), if a term or a source
    term has it, or if the prefix of the translation has it already.
    """
    glossary = make_glossary(options.terms or ())

    def is_left(number: int, span: ProtectedSpan) -> bool:
        written = lines[number][span.start : span.end]
        if span.kind in ("tag", "brace") and written in tokenizer.tokens(tokenizer.encode(written)):
            return True
        of_line = options.constraints[number] if options.constraints and number < len(options.constraints) else ()
        begun = "".join(options.prefixes[number : number + 1]) if options.prefixes else ""
        return bool(glossary.find_all(written)) or any(written in term for term in of_line) or written in begun

    return [
        ProtectedLine.from_spans(line, [span for span in spans if not is_left(number, span)])
        for number, (line, spans) in enumerate(zip(lines, found, strict=True))
    ]


def search_again(
    lines: Sequence[ProtectedLine],
    restored: Sequence[Translation],
    options: SearchOptions,
    search: Search,
    align: Align,
) -> list[Translation]:
    """Returns the translations of lines, after further searches for the lines that lack a span.

    First more hypotheses of the rest of the line are tried, as many as the beam is wide, then a search over the whole
    line with its spans as terms. A line for which neither finds a translation with all spans keeps its translation.

    Args:
        restored: the translations from `ProtectedLine.restore`.
        options: the options of the call.
        search: translates lines without protecting their spans.
        align: aligns a line with its translation.
    """
    found = list(restored)
    for number, (line, one) in enumerate(zip(lines, restored, strict=True)):
        if has_lost(one):
            found[number] = _search_line(line, options.select([number]), search, align) or one
    return found


def _search_line(line: ProtectedLine, options: SearchOptions, search: Search, align: Align) -> Translation | None:
    beam = max(options.beam_size or 0, _BEAM_SIZE)
    wide = replace(options, beam_size=beam, n_best=beam, rerank=None, beam_groups=None, diversity_penalty=None)
    terms = options.terms or ()
    given = terms.items() if isinstance(terms, Mapping) else terms
    forced = replace(wide, terms=[*given, *((span, span) for span in line.spans)])
    most = options.n_best or 1
    for text, attempt in ((line.rest.text, wide), (line.line, forced)):
        try:
            (found,) = search([text], attempt)
        except PellucidError:  # the vocabulary lacks a character of a span, there is no room, the engine has no terms
            continue
        whole = line.restore(found, align) if attempt is wide else line.accept(found)
        if whole is not None and not has_lost(whole):
            return replace(whole, alternatives=whole.alternatives[:most])
    return None


def _least_following(values: Sequence[int]) -> Iterator[int]:
    """Yields for each value the least of itself and those after it."""
    least = list(values)
    for place in range(len(least) - 2, -1, -1):
        least[place] = min(least[place], least[place + 1])
    yield from least


def _join_ranges(line: str, spans: Sequence[ProtectedSpan]) -> list[_Range]:
    """Returns the ranges to take out: spans with the quotes and hyphens next to them.

    Neighbours are one range, and so is an element without words.
    """
    parts: list[_Range] = []
    for span in spans:
        part = _widen(line, span)
        before = parts[-1] if parts else None
        if (
            before
            and not before.is_tag
            and not part.is_tag
            and _BETWEEN.fullmatch(line, before.end, max(before.end, part.start))
        ):
            parts[-1] = _Range(before.start, part.end, False)
        else:
            parts.append(part)
    partners = _pair_tags([line[part.start : part.end] if part.is_tag else "" for part in parts])
    joined: list[_Range] = []
    for number, part in enumerate(parts):
        last = partners.get(number, number)
        if joined and part.start < joined[-1].end:
            continue
        gaps = (line[one.end : other.start] for one, other in pairwise(parts[number : last + 1]))
        is_empty = last > number and not any(_WORD.search(gap) for gap in gaps)
        joined.append(_Range(part.start, parts[last].end, False) if is_empty else part)
    return joined


def _widen(line: str, span: ProtectedSpan) -> _Range:
    start, end = span.start, span.end
    if span.kind == "tag" and line[start] == "<":
        return _Range(start, end, True)
    if start and line[end : end + 1] and line[end] in _AROUND.get(line[start - 1], ""):
        start, end = start - 1, end + 1
    if line[end : end + 1] == "-" and line[end + 1 : end + 2].isalpha():
        end += 1
    if line[max(0, start - 1) : start] == "-" and line[max(0, start - 2) : start - 1].isalpha():
        start -= 1
    return _Range(start, end, False)


def _find_spaces(line: str, part: _Range) -> tuple[bool, bool]:
    """Returns True for white space, or an end of the line, before and after a part."""
    return not line[: part.start][-1:].strip(), not line[part.end : part.end + 1].strip()


def _pair_tags(tags: Sequence[str]) -> dict[int, int]:
    """Returns the other tag of each tag that is one of a pair; pairs are nested."""
    partners: dict[int, int] = {}
    begun: list[tuple[int, str]] = []
    for number, tag in enumerate(tags):
        match = _TAG.fullmatch(tag)
        if not match:
            continue
        if not match[1]:
            begun.append((number, match[2]))
        elif place := next((p for p in range(len(begun), 0, -1) if begun[p - 1][1] == match[2]), 0):
            first = begun[place - 1][0]
            partners |= {first: number, number: first}
            del begun[place - 1 :]
    return partners
