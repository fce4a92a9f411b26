"""Places the marks of a text (bold words, links, images, protected spans) in its translation.

Each mark of the source is in the translation: as many as before, nested as before, and none that had text is empty. A
mark is placed around the target words that look at its words (see `word_alignment`): of all ranges
of words the one in which most words look at the mark, so that one stray word does not widen it. Marks of one level do
not overlap, in whatever order their translations follow each other.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError
from pellucid.tasks.word_alignment import PartAlignment, Span, WordAlignment, split_words
from pellucid.text.words import is_combining

Scores = npt.NDArray[np.float64]
EVEN = 0.5
"""The share of a target word's attention from which on the word belongs to a mark."""
BRIDGE = 0.01
"""The cost of punctuation between two words of a mark, so that it does not begin or end a range by itself."""
NO_ROOM = "the translation has no room for the marks: the source is kept"
NEAREST = "stands around the nearest word: no word of the translation looks at it"
_ENDS = re.compile(r"([\W_]*).*?([\W_]*)", re.DOTALL)
"""The punctuation at both ends of a text."""


@dataclass(frozen=True)
class Mark:
    """A range of a text: bold words, a link, an object."""

    start: int
    """The index of its first character."""
    end: int
    """The index after its last character; equal to `start` for an empty element or an object (an image, a footnote
    reference, a line break)."""


@dataclass(frozen=True)
class MarkedText:
    """A text with marks, which nest properly and are in document order: an outer mark before the marks inside."""

    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class MarkedTranslation:
    """The translation of a text with marks."""

    text: str
    """The translation, with the white space around the source."""
    marks: tuple[Mark, ...]
    """The marks of the source in the order of the source: as many, nested as in the source. A mark around words is
    around words; a mark around white space alone may be empty."""
    flags: tuple[str, ...]
    """The quality flags of the translation, then each mark that could not be placed by the alignment."""


def needs_alignment(source: MarkedText) -> bool:
    """Returns True unless each mark is around all words of the text, or is empty at one of its ends."""
    for mark in source.marks:
        before, inside, after = (
            bool(part.strip())
            for part in (source.text[: mark.start], source.text[mark.start : mark.end], source.text[mark.end :])
        )
        if (before and after) or (inside and (before or after)):
            return True
    return False


def check_marks(text: MarkedText, number: int = 1) -> None:
    """Raises DataError, with the number of the text, for marks that are outside of it, overlap, or are not in order."""
    open_marks: list[Mark] = []
    before = Mark(0, len(text.text))
    for place, mark in enumerate(text.marks, start=1):
        if not 0 <= mark.start <= mark.end <= len(text.text):
            raise DataError(
                f"mark {place} of text {number} is from {mark.start} to {mark.end}, and the text has "
                f"{len(text.text)} characters"
            )
        if place > 1 and mark.start < before.start:
            raise DataError(
                f"mark {place} of text {number} begins at {mark.start}, before mark {place - 1} at {before.start}",
                "give the marks in the order in which they begin",
            )
        while open_marks and open_marks[-1].end <= mark.start and open_marks[-1].end <= mark.end:
            open_marks.pop()
        if open_marks and mark.end > open_marks[-1].end:
            raise DataError(
                f"mark {place} of text {number} is from {mark.start} to {mark.end}, and overlaps the mark from "
                f"{open_marks[-1].start} to {open_marks[-1].end}",
                "part it in two, or give the outer mark first",
            )
        open_marks += [mark] if mark.start < mark.end else []
        before = mark


def place_marks(source: MarkedText, target: str, alignment: WordAlignment) -> MarkedTranslation:
    """Places the marks of a text in its translation `target`, whose words are aligned with the words of the text.

    The result has the white space of the source at both ends in place of that of `target`.
    """
    text, core = source.text, target.strip()
    lead, trail = _white_space(text)
    whole = lead + core + trail
    if not source.marks:
        return MarkedTranslation(whole, (), ())
    shift = len(lead) - (len(target) - len(target.lstrip()))
    parts = [replace(part, targets=[(a + shift, b + shift) for a, b in part.targets]) for part in alignment.parts]
    for by_characters in (False, True):
        try:
            return _Placement(source, whole, WordAlignment(parts), by_characters).run()
        except _NoRoom:
            continue
    return MarkedTranslation(text, source.marks, (NO_ROOM,))


class _NoRoom(Exception):
    """A range of the translation has fewer words than marks that need one each."""


@dataclass
class _MarkNode:
    """A mark around words, with the marks around words inside it."""

    number: int
    """Its index among the marks; -1: the whole text."""
    start: int
    end: int
    children: list["_MarkNode"] = field(default_factory=list)
    last: bool = False
    """If True, it must end where the mark around it ends, since an empty mark is at the end of both."""
    place: Span = (0, 0)
    """Its range in the translation."""

    @property
    def need(self) -> int:
        """The number of words that it needs: one for each mark without marks inside."""
        return max(1, sum(child.need for child in self.children))


@dataclass
class _Group:
    """Empty marks at one place of the source, which stay together."""

    start: int
    end: int
    numbers: list[int]
    chain: list[_MarkNode]
    """The whole text, and the marks around words that are open there, or end there, from the outermost."""

    @property
    def ended(self) -> list[_MarkNode]:
        """The marks around words that end there: it is unknown if the empty marks are inside or after them."""
        return [node for node in self.chain[1:] if self.start <= node.end <= self.end]


@dataclass(frozen=True)
class _Part:
    """The alignment of a part of the line, prepared for the atoms of its translation; R atoms, S source words."""

    sources: list[Span]
    is_word: npt.NDArray[np.bool_]
    """(S,): False for punctuation."""
    shares: Scores
    """(T, S): the share of each target word's attention; that of words is shared among words alone."""
    atoms: npt.NDArray[np.int64]
    """(R,): the atoms of the translation, in order."""
    rows: npt.NDArray[np.int64]
    """(R,): the target word of each of them."""
    best: npt.NDArray[np.int64]
    """(T,): the source word with the largest share of each target word."""
    known: bool

    def mask(self, start: int, end: int) -> Scores:
        """Returns the weight of each source word in a mark, (S,): 1 if it is inside, less if it is inside by a part."""
        spans = np.array(self.sources, dtype=np.float64).reshape(-1, 2)
        common = np.minimum(spans[:, 1], end) - np.maximum(spans[:, 0], start)
        return np.maximum(0, common) / np.maximum(1, np.minimum(spans[:, 1] - spans[:, 0], end - start))


@dataclass(frozen=True)
class _Atom:
    """A word, or a part of one, of the translation."""

    start: int
    end: int
    word: bool
    """If False, it is punctuation."""


class _Placement:
    """Places the marks of one text in its translation."""

    def __init__(self, source: MarkedText, whole: str, alignment: WordAlignment, by_characters: bool) -> None:
        self.text, self.marks, self.whole = source.text, source.marks, whole
        self.lead, self.trail = map(len, _white_space(source.text))
        self.atoms = self._make_atoms(alignment, by_characters)
        self.parts = [self._prepare(part) for part in alignment.parts]
        self.by_characters = by_characters
        self.root = _MarkNode(-1, 0, len(self.text), place=(self.lead, len(whole) - self.trail))
        self.groups = self._build_tree()
        self.found = [(0, 0)] * len(self.marks)
        self.flags: list[tuple[int, str]] = []

    def run(self) -> MarkedTranslation:
        """Returns the translation with all marks. Raises _NoRoom if a mark would be empty."""
        self._place_children(self.root)
        for group in self.groups:
            self._place_group(group)
        flags = tuple(f"mark {number + 1} {said}" for number, said in sorted(self.flags))
        return MarkedTranslation(self.whole, tuple(Mark(*place) for place in self.found), flags)

    def _make_atoms(self, alignment: WordAlignment, by_characters: bool) -> list[_Atom]:
        words = sorted(span for part in alignment.parts for span in part.targets)
        gaps, end = [], 0
        for a, b in [*words, (len(self.whole), len(self.whole))]:
            gaps += split_words(self.whole, (end, a)) if a > end else []
            end = b
        words = sorted([*words, *gaps])
        if by_characters:
            cut = [[a, *(i for i in range(a + 1, b) if not is_combining(self.whole[i])), b] for a, b in words]
            words = [span for places in cut for span in pairwise(places)]
        return [_Atom(a, b, _has_letters(self.whole[a:b])) for a, b in words]

    def _prepare(self, part: PartAlignment) -> _Part:
        is_word = np.array([_has_letters(self.text[a:b]) for a, b in part.sources], dtype=bool)
        shares = part.weights.astype(np.float64)
        for row, (a, b) in enumerate(part.targets):
            if is_word.any() and _has_letters(self.whole[a:b]):
                shares[row, ~is_word] = 0
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-6)
        atoms: list[int] = []
        rows: list[int] = []
        for row, (a, b) in enumerate(part.targets):
            first = bisect_left(self.atoms, a, key=lambda atom: atom.start)
            stop = bisect_right(self.atoms, b, key=lambda atom: atom.end)
            atoms += range(first, stop)
            rows += [row] * (stop - first)
        best = shares.argmax(axis=1) if part.sources else np.full(len(part.targets), -1)
        places = np.array(atoms, dtype=np.int64), np.array(rows, dtype=np.int64)
        return _Part(part.sources, is_word, shares, *places, best, part.known)

    def _build_tree(self) -> list[_Group]:
        """Adds the marks around words to the tree; returns the empty marks, in groups."""
        groups: list[_Group] = []
        chain, fresh = [self.root], True
        for number, mark in enumerate(self.marks):
            while len(chain) > 1 and chain[-1].end < mark.start:
                chain.pop()
            if self.text[mark.start : mark.end].strip():
                while len(chain) > 1 and chain[-1].end <= mark.start:
                    chain.pop()
                node = _MarkNode(number, mark.start, mark.end)
                chain[-1].children.append(node)
                chain.append(node)
                fresh = True
            elif not fresh and groups and groups[-1].end >= mark.start:
                groups[-1].numbers.append(number)
                groups[-1].end = max(groups[-1].end, mark.end)
            else:
                groups.append(_Group(mark.start, mark.end, [number], list(chain)))
                fresh = False
        for group in groups:
            for node in group.ended[1:]:
                node.last = True
        return groups

    def _place_children(self, parent: _MarkNode) -> None:
        """Places the marks inside a mark, then the marks inside each of these."""
        if not (children := parent.children):
            return
        inside = self._inside(parent)
        if len(children) == 1 and not self._has_words_around(parent, children[0]):
            if len(inside) < children[0].need:
                raise _NoRoom
            self._set(children[0], parent.place)
            self._place_children(children[0])
            return
        scores = {node.number: self._score(node)[inside.start : inside.stop] for node in children}
        ordered = sorted(children, key=lambda node: (node.last, self._centre(node, parent, scores[node.number])))
        ranges = choose_ranges(
            [scores[node.number] for node in ordered], [node.need for node in ordered], to_end=ordered[-1].last
        )
        if ranges is None:
            raise _NoRoom
        for place, (node, (first, stop)) in enumerate(zip(ordered, ranges, strict=True)):
            first, stop = inside.start + first, inside.start + stop
            if not self._is_linked(node, range(first, stop)):
                self._flag(node.number, NEAREST)
            elif self.by_characters:
                self._flag(node.number, "stands around a part of a word: there are more marks than words")
            least = ranges[place - 1][1] + inside.start if place else inside.start
            most = ranges[place + 1][0] + inside.start if place + 1 < len(ranges) else inside.stop
            first, stop = self._add_punctuation(node, first, stop, least, most)
            ranges[place] = first - inside.start, stop - inside.start
            self._set(node, (self.atoms[first].start, parent.place[1] if node.last else self.atoms[stop - 1].end))
        for node in children:
            self._place_children(node)

    def _inside(self, node: _MarkNode) -> range:
        """Returns the atoms inside a mark that is placed."""
        first = bisect_left(self.atoms, node.place[0], key=lambda atom: atom.start)
        return range(first, bisect_right(self.atoms, node.place[1], key=lambda atom: atom.end))

    def _has_words_around(self, parent: _MarkNode, node: _MarkNode) -> bool:
        """Returns True if a mark has text that the mark inside does not have."""
        return bool(self.text[parent.start : node.start].strip() or self.text[node.end : parent.end].strip())

    def _set(self, node: _MarkNode, place: Span) -> None:
        """Keeps the range of a mark, with the white space at the ends of the text if the mark had it."""
        start, end = place
        if node.start < self.lead and start <= self.lead:
            start = node.start
        if node.end > len(self.text) - self.trail and end >= len(self.whole) - self.trail:
            end = len(self.whole) - (len(self.text) - node.end)
        node.place = self.found[node.number] = start, end

    def _flag(self, number: int, said: str) -> None:
        self.flags.append((number, said))

    def _look(self, node: _MarkNode) -> Scores:
        """Returns the share of each atom's attention, 0 to 1, that is on the words of a mark."""
        found = np.zeros(len(self.atoms))
        for part in self.parts:
            if (mask := part.mask(node.start, node.end)).any():
                found[part.atoms] = (part.shares @ mask)[part.rows]
        return found

    def _is_linked(self, node: _MarkNode, atoms: range) -> bool:
        """Returns True if one of the atoms looks at a word of a mark more than at any other word."""
        written = self.text[node.start : node.end]
        if not _has_letters(written):
            return any(self.whole[self.atoms[i].start : self.atoms[i].end] in written for i in atoms)
        for part in self.parts:
            mask = part.mask(node.start, node.end)
            if part.known and mask.any():
                here = part.rows[(part.atoms >= atoms.start) & (part.atoms < atoms.stop)]
                if (mask[part.best[here]] > 0).any():
                    return True
        return False

    def _score(self, node: _MarkNode) -> Scores:
        """Returns the score of each atom for a mark: positive if the atom belongs to it."""
        look, written = self._look(node), self.text[node.start : node.end]
        is_word = np.array([atom.word for atom in self.atoms], dtype=bool)
        if _has_letters(written):
            scores = look - EVEN
            words = np.flatnonzero(is_word)
            for place in np.flatnonzero(~is_word):  # punctuation follows the words around it
                later = int(np.searchsorted(words, place))
                inside = 0 < later < len(words) and scores[words[later - 1]] > 0 < scores[words[later]]
                scores[place] = -BRIDGE if inside else -EVEN - BRIDGE
            return scores
        same = [not atom.word and self.whole[atom.start : atom.end] in written for atom in self.atoms]
        return np.where(same, EVEN, -EVEN) + look * BRIDGE

    def _centre(self, node: _MarkNode, parent: _MarkNode, scores: Scores) -> float:
        """Returns the place of a mark among the atoms of the mark around it, by which its siblings are ordered."""
        weights = np.maximum(scores, 0)
        if weights.sum() > 0:
            return float(weights @ np.arange(len(weights)) / weights.sum())
        return len(scores) * (node.start - parent.start) / max(1, parent.end - parent.start)

    def _add_punctuation(self, node: _MarkNode, first: int, stop: int, least: int, most: int) -> Span:
        """Returns a range of atoms, with the punctuation at its ends if the mark has as much at its own ends."""
        written = self.text[node.start : node.end].strip()
        if not _has_letters(written):
            return first, stop
        opening, closing = _ENDS.fullmatch(written).groups()  # type: ignore[union-attr]  # it matches any text
        for character in reversed(opening):
            if first > least and self._takes(
                first - 1, character, self.atoms[first - 1].end == self.atoms[first].start
            ):
                first -= 1
        for character in closing:
            if stop < most and self._takes(stop, character, self.atoms[stop].start == self.atoms[stop - 1].end):
                stop += 1
        return first, stop

    def _takes(self, number: int, character: str, adjoins: bool) -> bool:
        """Returns True if an atom is the punctuation of a mark's end: the same character, or next to its words."""
        atom = self.atoms[number]
        return not atom.word and (adjoins or self.whole[atom.start : atom.end] == character)

    def _place_group(self, group: _Group) -> None:
        """Places the empty marks of one place of the source."""
        ended = group.ended
        parent = [node for node in group.chain if node.end > group.end or node is self.root][-1]
        before = self.text[parent.start : group.start].strip()
        after = self.text[group.end : parent.end].strip()
        if ended:
            place = ended[0].place[1]
        elif not before:
            place = group.start if parent is self.root else parent.place[0]
        elif not after:
            place = len(self.whole) - (len(self.text) - group.end) if parent is self.root else parent.place[1]
        else:
            place = self._find_place(group, parent)
        for child in parent.children:
            if child.place[0] < place < child.place[1]:
                place = min(child.place, key=lambda edge: abs(edge - place))
        for number in group.numbers:
            self.found[number] = place, place

    def _find_place(self, group: _Group, parent: _MarkNode) -> int:
        """Returns the place of empty marks between words: after the word before them, or before the word after them."""
        free = self.text[group.start - 1].isspace(), self.text[group.end].isspace()
        sides = (True, False) if free[1] or not free[0] else (False, True)
        inside = self._inside(parent)
        for is_before in sides:
            found = self._find_neighbour(group, parent, inside, is_before=is_before)
            if found is not None:
                return found + 1 if all(free) and is_before and self.whole[found : found + 1].isspace() else found
        for number in group.numbers:
            self._flag(number, "stands at the nearest place: no word of the translation looks at a word near it")
        share = (group.start - parent.start) / max(1, parent.end - parent.start)
        if not inside:
            return parent.place[0]
        return self.atoms[inside[min(len(inside) - 1, int(share * len(inside)))]].end

    def _find_neighbour(self, group: _Group, parent: _MarkNode, inside: range, *, is_before: bool) -> int | None:
        """Returns the place after the translation of the word before empty marks, or before that of the word after.

        Returns None if no word of the translation looks at that word.
        """
        words = [
            (span, part, column)
            for part in self.parts
            for column, span in enumerate(part.sources)
            if part.is_word[column]
            and (parent.start <= span[0] < group.start if is_before else group.end <= span[0] < parent.end)
        ]
        if not words:
            return None
        (start, end), part, column = (
            max(words, key=lambda word: word[0]) if is_before else min(words, key=lambda word: word[0])
        )
        here = (part.atoms >= inside.start) & (part.atoms < inside.stop)
        here &= np.array([self.atoms[atom].word for atom in part.atoms], dtype=bool)
        looks = part.shares[part.rows[here], column]
        if not part.known or not looks.size or looks.max() <= 0:
            return None
        atom = int(part.atoms[here][looks.argmax()])
        step = 1 if is_before else -1
        linked = {int(a) for a, row in zip(part.atoms[here], part.rows[here], strict=True) if part.best[row] == column}
        while atom + step in linked:  # to the end of the words that look at it
            atom += step
        if is_before:
            for _ in self.text[end : group.start].strip():
                later = atom + 1
                if (
                    later < inside.stop
                    and not self.atoms[later].word
                    and self.atoms[later].start == self.atoms[atom].end
                ):
                    atom = later
            return self.atoms[atom].end
        for _ in self.text[group.end : start].strip():
            earlier = atom - 1
            if (
                earlier >= inside.start
                and not self.atoms[earlier].word
                and self.atoms[earlier].end == self.atoms[atom].start
            ):
                atom = earlier
        return self.atoms[atom].start


def choose_ranges(scores: Sequence[Scores], needs: Sequence[int], *, to_end: bool = False) -> list[Span] | None:
    """Returns ranges of places that follow each other and do not overlap, with the largest sum of scores.

    Args:
        scores: for each range the score of each place, (N,).
        needs: the fewest places of each range.
        to_end: if True, the last range ends at the last place.

    Returns None if there are fewer than sum(needs) places.
    """
    size = len(scores[0]) if scores else 0
    best = np.zeros(size + 1)  # the best sum of the ranges so far, before each place
    chosen: list[tuple[list[int], list[int]]] = []
    for number, (values, need) in enumerate(zip(scores, needs, strict=True)):
        sums = np.concatenate([[0.0], np.cumsum(values)])
        found, begins, ends = np.full(size + 1, -math.inf), [0] * (size + 1), [0] * (size + 1)
        most, begin = -math.inf, 0
        for end in range(need, size + 1):
            if best[end - need] - sums[end - need] >= most:
                most, begin = best[end - need] - sums[end - need], end - need
            begins[end], ends[end], found[end] = begin, end, sums[end] + most
            if not (to_end and number == len(scores) - 1) and found[end - 1] >= found[end]:
                begins[end], ends[end], found[end] = begins[end - 1], ends[end - 1], found[end - 1]
        best = found
        chosen.append((begins, ends))
    if scores and best[size] == -math.inf:
        return None
    ranges: list[Span] = []
    end = size
    for begins, ends in reversed(chosen):
        ranges.append((begins[end], ends[end]))
        end = begins[end]
    return ranges[::-1]


def _white_space(text: str) -> tuple[str, str]:
    """Returns the white space before and after a text; a text without words has none after it."""
    rest = text.lstrip()
    return text[: len(text) - len(rest)], rest[len(rest.rstrip()) :]


def _has_letters(text: str) -> bool:
    return any(map(str.isalnum, text))
