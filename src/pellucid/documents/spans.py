"""Spans of text with inline marks, which are translated; every other character of a document is copied.

A reader of a format returns the *units* of a part: a paragraph, a cell, a value. The *items* of a unit are text, the
ends of an element around text (a link, bold words) and objects (an image, a footnote reference, a placeholder), each
with its source. A unit is divided into *segments*: texts with marks, which a translator translates. From their
translations the unit is written again: text is escaped by the unit's `encode`, all else is a slice of the source.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pellucid.text.sentences import ends_as_sentence

Piece = str | tuple[int, int]
"""Characters of an output: written as they are, or the slice of the source from one index to another."""
Raw = tuple[Piece, ...]
SPACE = "\0"
"""The place of a space at which a wrapped paragraph may break; no document contains it."""
LABEL = "\x02"
"""The place of the code of the target language in `Unit.before`."""
_LETTER = re.compile(r"[^\W\d_]")
_FIRST_LETTER = re.compile(r"(?<!\w)[^\W\d_]")


@dataclass(slots=True)
class Item:
    """Text, an end of an element, or an object, with its source."""

    kind: Literal["text", "open", "close", "object"]
    raw: Raw
    """The source, which is copied."""
    text: str = ""
    """The text, decoded; of an object the text that stands for it in the sentence: a space for a line break."""
    run: int = -1
    """The index of the run with the properties of the text; -1: text needs no run."""
    ends: Literal["no", "sentence", "always", "share"] = "no"
    """If an object ends a segment: a tab does always, a line break after a sentence. "share": it does not, and stands
    in the translation where the same share of the text is before it, as the end of a subtitle does."""
    hidden: str = ""
    """The text of an element that became an object, such as the number of a footnote."""
    is_reference: bool = False
    """True for the beginning of an element that is an object if it has no letters: a footnote's number."""
    is_word: bool = False
    """True for an object that is read as a word, as code and placeholders are: a space parts it from other words."""
    is_ordered: bool = False
    """True for a placeholder whose meaning is its rank among the placeholders of a text, as that of `%s`."""
    is_before_letter: bool = False
    """True for the sign of an accelerator, which stands before a letter."""


@dataclass(frozen=True, slots=True)
class RunTags:
    """The tags around text with the same visible properties."""

    begin: Raw
    end: Raw
    key: str
    """The properties."""


@dataclass(frozen=True, slots=True)
class Wrap:
    """The lines of a hard-wrapped paragraph."""

    width: int
    prefix: str
    """The characters before each line but the first."""
    end: str
    """The characters between lines."""


@dataclass(slots=True)
class Unit:
    """A paragraph, a cell, a value: text that is translated together, and the region of its part that it replaces."""

    start: int
    end: int
    items: list[Item]
    encode: Callable[[str], str]
    place: str
    """The place, for reports."""
    runs: list[RunTags] = field(default_factory=list)
    """The runs of its text, one for each set of properties; empty if text needs no runs."""
    wrap: Wrap | None = None
    encode_whole: Callable[[str], str] | None = None
    """Writes the whole content of the region, after `encode`: the quotes of a value depend on all of it."""
    before: str = ""
    """Is written before the unit, in the region: the beginning of an element that is missing in the source."""
    after: str = ""
    fills: bool = False
    """True if the region is the empty translation of a unit, which is filled."""
    is_label_like: bool = False
    """True for a value that may be a code (a cell, a value of a table): text like `A-17` is left."""
    reason: str = ""
    """The reason why the unit is left; empty: it is translated."""
    constraint: Callable[[str], str] | None = None
    """Returns the fault of a translation by the rule of the format; empty if there is none."""

    @property
    def text(self) -> str:
        """The text, without marks."""
        return "".join(item.text for item in self.items)


@dataclass(frozen=True, slots=True)
class LanguageLabel:
    """A name of the document's language, which becomes the name of the target language."""

    start: int
    end: int
    value: str
    is_own: bool = True
    """False for another language than the document's, whose label stays."""
    form: Literal["code", "language", "country", "state", "gettext"] = "code"

    def write(self, code: str) -> str:
        """Returns the label for a code such as `en` or `en-GB`."""
        if self.form == "state":
            return "translated"
        if self.form == "gettext":  # with the space behind `Language:`; a variant such as `pt_BR` stays
            named = re.split(r"[-_@]", self.value.strip().lower())[0]
            is_same = code == "und" or (bool(named) and named == code.lower().partition("-")[0])
            return self.value if is_same else f" {code.replace('-', '_')}"
        language, _, region = code.partition("-")
        if self.form == "country":
            return region if len(region) == 2 else "none"
        return language if self.form == "language" else code


@dataclass(slots=True)
class Reading:
    """The units of a part in the order of their regions, and its labels of language."""

    units: list[Unit] = field(default_factory=list)
    labels: list[LanguageLabel] = field(default_factory=list)
    pinned: object = None
    """The choices that depended on the text: with them a reading of the translated part yields equal units."""
    target: str = ""
    """The code of the target language, if the document names it."""
    source: str = ""
    """The code of the source language, if the document names it."""


@dataclass(frozen=True)
class TextSegment:
    """A text with marks, each a range of its characters, in document order; that of an object is empty, or a space."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Answer:
    """The translation of a segment: the marks are in the order of the segment's."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(slots=True)
class _Node:
    """A mark of a segment."""

    kind: Literal["element", "run", "object"]
    start: int
    end: int
    open: Raw = ()
    close: Raw = ()
    run: int = -1
    parent: int = -1
    spaced: tuple[bool, bool] = (False, False)
    """If white space stands before and after an object."""
    around: int = -1
    """The element around an object."""
    is_space_outside: bool = False
    """True if the white space after an object stands after the end of the element around it."""
    is_word: bool = False
    is_alone: tuple[bool, bool] = (False, False)
    """If no letter or digit touches an object, before and after it."""
    is_ordered: bool = False
    is_before_letter: bool = False
    touches_previous: bool = False
    """True if no text stands between the object and the mark before it."""
    is_break: bool = False
    is_share: bool = False
    hidden: str = ""


@dataclass(slots=True)
class Chunk:
    """A part of a unit that is translated as one segment; `before` and `after` are copied around it."""

    items: list[Item]
    before: Raw = ()
    after: Raw = ()
    base: int = -1
    """The run of text outside of other runs."""
    said_before: str = ""
    said_after: str = ""
    """The text in `before` and `after`: that of objects."""
    word_before: bool = False
    """True if `before` ends with an object that is a word, which no letter or digit touches."""
    nodes: list[_Node] = field(default_factory=list)
    text: str = ""

    @property
    def segment(self) -> TextSegment:
        return TextSegment(self.text, tuple((node.start, node.end) for node in self.nodes))


def has_letters(text: str) -> bool:
    """Returns True if a text has a letter: a text without one is copied."""
    return _LETTER.search(text) is not None


def divide(unit: Unit) -> list[Chunk]:
    """Returns the chunks of a unit; one without a letter has no nodes and is copied."""
    items = _join_objects(unit.items)
    chunks, here, depth, before = [], list[Item](), 0, ""
    for item in items:
        depth += (item.kind == "open") - (item.kind == "close")
        parts = _split_lines(unit, item) if depth == 0 and item.kind == "text" and "\n" in item.text else [item]
        for part in parts:
            here.append(part)
            before += part.text
            ended = part.ends == "always" or (part.ends == "sentence" and ends_as_sentence(before.strip()))
            if depth == 0 and part.kind == "object" and ended:
                chunks.append(_make_chunk(unit, here))
                here, before = [], ""
    return [*chunks, _make_chunk(unit, here)] if here else chunks


def _join_objects(items: Sequence[Item]) -> list[Item]:
    """Returns the items with elements without text, and ends without their other end, as objects."""
    partner: dict[int, int] = {}
    waiting: list[int] = []
    for place, item in enumerate(items):
        if item.kind == "open":
            waiting.append(place)
        elif item.kind == "close" and waiting:
            partner[waiting.pop()] = place
    closes = {close: open for open, close in partner.items()}
    found: list[Item] = []
    place = 0
    empty = _find_empty(items, partner)
    while place < len(items):
        item = items[place]
        if item.kind == "open" and place in empty:
            inside = items[place : partner[place] + 1]
            raw = tuple(piece for each in inside for piece in each.raw)
            hidden = "".join(each.text for each in inside)
            found.append(Item("object", raw, hidden=hidden, is_word=any(each.is_word for each in inside)))
            place = partner[place]
        elif (item.kind == "open" and place not in partner) or (item.kind == "close" and place not in closes):
            found.append(Item("object", item.raw))
        else:
            found.append(item)
        place += 1
    return found


def _find_empty(items: Sequence[Item], partner: dict[int, int]) -> set[int]:
    """Returns the elements without text, and the references without letters, by the index of their beginning."""
    letters, marks, runs = [0], [0], [0]
    for item in items:
        is_text = item.kind == "text"
        letters.append(letters[-1] + (is_text and has_letters(item.text)))
        marks.append(marks[-1] + (is_text and bool(item.text.strip())))
        runs.append(runs[-1] + (item.run >= 0))
    found = set()
    for open, close in partner.items():
        without_text = marks[close] == marks[open] or (items[open].is_reference and letters[close] == letters[open])
        if without_text and runs[close] == runs[open]:
            found.add(open)
    return found


def _split_lines(unit: Unit, item: Item) -> list[Item]:
    """Returns the lines of a text, with an object at each line end; blank lines are part of the objects."""
    found = []
    for part in re.split(r"(\s*\n\s*)", item.text):
        if "\n" in part:
            raw = tuple(write_run(unit, item.run, part)) if item.run >= 0 else (unit.encode(part),)
            found.append(Item("object", raw, "", ends="always", hidden=part))
        elif part:
            found.append(Item("text", (part,), part, item.run))
    return found


def _make_chunk(unit: Unit, items: list[Item]) -> Chunk:
    before: list[Item] = []
    after: list[Item] = []
    items = list(items)
    first, last = 0, len(items)
    pairs = _pairs(items)
    while first < last:
        head, tail = items[first], items[last - 1]
        if (head.kind == "object" and not head.is_before_letter) or (head.kind == "text" and not head.text.strip()):
            before.append(head)
            first += 1
        elif tail.kind == "object" or (tail.kind == "text" and not tail.text.strip()):
            after.append(tail)
            last -= 1
        elif head.kind == "open" and pairs.get(first) == last - 1:
            before.append(head)
            after.append(tail)
            first, last = first + 1, last - 1
        else:
            break
    inside = items[first:last]
    text = "".join(item.text for item in inside if item.kind == "text")
    if not has_letters(text):
        return Chunk(items, raw_of(unit, items))
    after.reverse()
    chunk = Chunk(items, raw_of(unit, before), raw_of(unit, after), said_before=say(before), said_after=say(after))
    chunk.word_before = bool(before) and before[-1].is_word and not text[:1].isalnum()
    _add_nodes(chunk, inside)
    return chunk


def say(items: Iterable[Item]) -> str:
    """Returns the text of items, that of objects included."""
    return "".join(item.text + item.hidden for item in items)


def _pairs(items: Sequence[Item]) -> dict[int, int]:
    found, waiting = {}, list[int]()
    for place, item in enumerate(items):
        if item.kind == "open":
            waiting.append(place)
        elif item.kind == "close" and waiting:
            found[waiting.pop()] = place
    return found


def raw_of(unit: Unit, items: Iterable[Item]) -> Raw:
    """Returns items as they are in the source; text in runs stands in a run."""
    found: list[Piece] = []
    for item in items:
        if item.kind == "text" and item.run >= 0:
            found += write_run(unit, item.run, item.text)
        elif item.kind == "text" and item.raw and isinstance(item.raw[0], str):
            found.append(unit.encode(item.text))
        else:
            found += item.raw
    return tuple(found)


def write_run(unit: Unit, run: int, text: str) -> list[Piece]:
    """Returns a run with a text."""
    if not text:
        return []
    head: list[Piece] = list(unit.runs[run].begin)
    if text != text.strip() and isinstance(head[-1], str) and head[-1] == ">":
        head[-1] = ' xml:space="preserve">'
    return [*head, unit.encode(text), *unit.runs[run].end]


def _add_nodes(chunk: Chunk, items: list[Item]) -> None:
    """Sets the text of a chunk, with single spaces around objects, and its marks."""
    lengths: dict[int, int] = {}
    for item in items:
        if item.kind == "text" and item.run >= 0:
            lengths[item.run] = lengths.get(item.run, 0) + len(item.text)
    chunk.base = max(lengths, key=lambda run: lengths[run]) if lengths else -1
    text, size, last = list[str](), 0, ""
    nodes, parents, run_node = chunk.nodes, [-1], -1
    first_text = next(place for place, item in enumerate(items) if item.kind == "text" and item.text.strip())
    skip = False
    pending: list[int] = []
    for place, item in enumerate(items):
        if item.kind == "text":
            said = item.text
            if place == first_text or (skip and said[:1].isspace()):
                kept = said.lstrip() if place == first_text and not size else said[1:]
                said = kept
            for number in pending:
                nodes[number].spaced = (nodes[number].spaced[0], item.text[:1].isspace())
                nodes[number].is_space_outside = nodes[number].around != parents[-1]
                nodes[number].is_alone = (nodes[number].is_alone[0], not item.text[:1].isalnum())
            if said or item.text:
                pending, skip = [], False
            if item.run >= 0 and item.run != chunk.base:
                if run_node < 0 or nodes[run_node].run != item.run:
                    run_node = len(nodes)
                    nodes.append(_Node("run", size, size, run=item.run, parent=parents[-1]))
                nodes[run_node].end = size + len(said)
            else:
                run_node = -1
            text.append(said)
            size += len(said)
            last = said[-1:] or last
        elif item.kind == "open":
            run_node = -1
            nodes.append(_Node("element", size, size, item.raw, parent=parents[-1]))
            parents.append(len(nodes) - 1)
        elif item.kind == "close":
            run_node = -1
            node = nodes[parents.pop()]
            node.end, node.close = size, item.raw
        else:
            spaced = last.isspace() or not size
            parent = run_node if run_node >= 0 and not item.text else parents[-1]
            node = _Node(
                "object", size, size, item.raw, parent=parent, is_break=bool(item.text), spaced=(spaced, False)
            )
            node.hidden, node.is_share, node.around = item.hidden, item.ends == "share", parents[-1]
            node.is_word, node.is_alone = item.is_word, (not last.isalnum(), True)
            node.is_ordered, node.is_before_letter = item.is_ordered, item.is_before_letter
            node.touches_previous = bool(pending) and pending[-1] == len(nodes) - 1
            if item.text and not spaced:
                text.append(item.text)
                size += len(item.text)
                node.end, last, spaced = size, item.text[-1], True
            nodes.append(node)
            pending.append(len(nodes) - 1)
            skip = skip or spaced
    whole = "".join(text)
    chunk.text = whole.rstrip()
    tail = whole[len(chunk.text) :]
    if tail and items[-1].kind == "text":  # behind the end of an element it would be outside of the element
        chunk.after = (*_space(items, tail), *chunk.after)
    lead = items[first_text].text
    if lead != lead.lstrip() and first_text == 0:
        chunk.before = (*chunk.before, *_space(items[:1], lead[: len(lead) - len(lead.lstrip())]))
    most = len(chunk.text)
    for node in nodes:
        node.start, node.end = min(node.start, most), min(node.end, most)


def _space(items: Sequence[Item], space: str) -> Raw:
    return (_Space(space),)


class _Space(str):
    """White space at an end of a chunk, which is not yet escaped or in a run."""


def write_chunk(unit: Unit, chunk: Chunk, answer: Answer) -> tuple[Raw, str]:
    """Returns the source of a chunk with its translation, and the text that it then contains."""
    text = answer.text
    marks = _fit(chunk, answer)
    lead, tail = "", ""
    before, after = list(chunk.before), list(chunk.after)
    if before and isinstance(before[-1], _Space):
        lead = str(before.pop())
    if after and isinstance(after[0], _Space):
        tail = str(after.pop(0))
    children: dict[int, list[int]] = {}
    for number, node in enumerate(chunk.nodes):
        children.setdefault(node.parent, []).append(number)
    out: list[Piece] = list(before)
    said: list[str] = []

    held, held_run, owes_space = list[str](), chunk.base, False
    # The object that was written last, if it is a word and no text follows it yet; -1: that in `before`.
    word_before: int | None = -1 if chunk.word_before else None

    def flush() -> None:
        words = "".join(held)
        held.clear()
        if words and held_run >= 0:
            out.extend(write_run(unit, held_run, words))
        elif words:
            out.append(unit.encode(words.replace(" ", SPACE)) if unit.wrap else unit.encode(words))

    def part(words: str) -> bool:
        """Returns True if a space must part words from the object before them."""
        nonlocal owes_space, word_before
        if word_before is not None:
            is_alone = word_before < 0 or chunk.nodes[word_before].is_alone[1]
            owes_space, word_before = owes_space or (is_alone and words[0].isalnum()), None
        is_owed, owes_space = owes_space and not words[0].isspace(), False
        return is_owed

    def write(words: str, run: int) -> None:
        nonlocal held_run
        if words and part(words):
            words = f" {words}"
        if words and run != held_run:
            flush()
            held_run = run
        if words:
            held.append(words)
            said.append(words)

    def copy(raw: Raw) -> None:
        flush()
        out.extend(raw)

    write(lead, chunk.base)
    # Each entry of the stack is a mark that is open: its number, its children that are left, its end, its run.
    stack: list[tuple[int, list[int], int, int]] = [(-1, _in_order(children.get(-1, []), marks), len(text), chunk.base)]
    at = 0
    while stack:
        number, rest, end, run = stack.pop()
        if not rest:
            write(text[at:end], run)
            at = max(at, end)
            if number >= 0 and chunk.nodes[number].kind == "element":
                copy(chunk.nodes[number].close)
            continue
        child = rest.pop()
        node, (start, stop) = chunk.nodes[child], marks[child]
        write(text[at:start], run)
        at = max(at, start)
        stack.append((number, rest, end, run))
        if node.kind == "object":
            last = said[-1][-1:] if said else ""
            needs_space = node.spaced[0] and not node.is_break and at > 0 and not last.isspace()
            if node.is_word:
                is_glued = word_before is not None and not (node.touches_previous and word_before == child - 1)
                needs_space = needs_space or is_glued or (node.is_alone[0] and last.isalnum())
            if needs_space:
                write(" ", run)
            copy(node.open)
            word_before = child if node.is_word else None
            said += [node.hidden] if node.hidden else []
            if node.is_break:
                said.append(text[at:stop])
            elif node.spaced[1] and at < len(text) and not text[at].isspace():
                if node.is_space_outside:
                    owes_space = True
                else:
                    write(" ", run)
            at = max(at, stop)
        else:
            if node.kind == "element":
                if start < stop and text[start].isalnum() and part(text[start]):
                    write(" ", run)
                copy(node.open)
            inner = node.run if node.kind == "run" else run
            stack.append((child, _in_order(children.get(child, []), marks), stop, inner))
    write(tail, chunk.base)
    flush()
    return (*out, *after), chunk.said_before + "".join(said) + chunk.said_after


def _in_order(numbers: Sequence[int], marks: Sequence[tuple[int, int]]) -> list[int]:
    """Returns marks in the order of the translation, the first one last."""
    return sorted(numbers, key=lambda number: (marks[number], number), reverse=True)


def _fit(chunk: Chunk, answer: Answer) -> list[tuple[int, int]]:
    """Returns the marks of a translation, objects beside words and not in them, all inside the marks around them."""
    text, found = answer.text, list[tuple[int, int]]()
    for node, (start, end) in zip(chunk.nodes, answer.marks, strict=True):
        low, high = found[node.parent] if node.parent >= 0 else (0, len(text))
        start, end = min(max(start, low), high), min(max(end, low), high)
        if node.kind == "object":
            start, end = _place_object(node, text, start, end, low, high)
        found.append((start, end))
    if any(node.is_share for node in chunk.nodes):
        return _share(chunk, text, found)
    return _part_siblings(chunk, found)


def _share(chunk: Chunk, text: str, marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the marks with the objects that divide a text at their shares of it, between words, outside elements."""
    inside = [place for node, place in zip(chunk.nodes, marks, strict=True) if node.kind == "element"]
    gaps = [
        i for i, c in enumerate(text) if c.isspace() and 0 < i < len(text) - 1 and not any(a < i < b for a, b in inside)
    ]
    wanted = [number for number, node in enumerate(chunk.nodes) if node.is_share]
    found, first = list(marks), 0
    for rank, number in enumerate(wanted):
        left = len(wanted) - rank - 1
        usable = gaps[first : len(gaps) - left or None]
        if not usable:
            raise NoRoomError
        share = chunk.nodes[number].start / max(1, len(chunk.text)) * len(text)
        place = min(range(len(usable)), key=lambda i: abs(usable[i] - share))
        found[number] = usable[place], usable[place] + 1
        first += place + 1
    return _part_siblings(chunk, found)


class NoRoomError(Exception):
    """Is raised for a translation with fewer words than its source has subtitles."""


def _place_object(node: _Node, text: str, start: int, end: int, low: int, high: int) -> tuple[int, int]:
    if node.is_before_letter:
        found = _FIRST_LETTER.search(text, start, high) or _FIRST_LETTER.search(text, low, high)
        return (found.start(), found.start()) if found else (start, start)
    if node.is_break:
        if text[start:end].strip():
            end = start
        while start > low and text[start - 1].isspace():
            start -= 1
        while end < high and text[end].isspace():
            end += 1
        return start, end
    before, after = node.spaced
    if after and not before:
        while start > low and text[start - 1].isspace():
            start -= 1
    elif before and not after:
        while start < high and text[start].isspace():
            start += 1
    return start, start


def _part_siblings(chunk: Chunk, marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns marks whose neighbours do not overlap: of two that do, the later one begins where the first ends."""
    ends: dict[int, int] = {}
    found = list(marks)
    for number in sorted(range(len(marks)), key=lambda n: (marks[n], n)):
        parent = chunk.nodes[number].parent
        start, end = found[number]
        least = ends.get(parent, 0)
        if start < least and end > start:
            found[number] = min(least, max(end, least)), max(end, least)
        elif start < least:
            found[number] = least, max(end, least)
        ends[parent] = max(least, found[number][1])
    return found


def keep_order(chunk: Chunk, answer: Answer) -> Answer:
    """Returns an answer whose placeholders with a rank, such as `%s`, are in the order of the source; if not, flagged.

    A program fills the first `%s` with its first value: in another order it would have another one.
    """
    ordered = [number for number, node in enumerate(chunk.nodes) if node.is_ordered]
    places = sorted(answer.marks[number] for number in ordered)
    if places == [answer.marks[number] for number in ordered]:
        return answer
    marks = list(answer.marks)
    for number, place in zip(ordered, places, strict=True):
        marks[number] = place
    flag = "the placeholders are in the order of the source: check their places"
    return Answer(answer.text, tuple(marks), (*answer.flags, flag))


def copy_answer(chunk: Chunk) -> Answer:
    """Returns the answer that leaves a chunk as it is."""
    return Answer(chunk.text, tuple((node.start, node.end) for node in chunk.nodes))


def wrap_lines(text: str, wrap: Wrap) -> str:
    """Returns a paragraph with its spaces (SPACE) as spaces or line breaks, so that lines fit into the width."""
    words = text.split(SPACE)
    lines, here = list[str](), words[0]
    for word in words[1:]:
        # A line of a paragraph must not begin as a list, a heading or a quotation does.
        opens = re.match(r"([-+*>#=|~`]|\d+[.)])", word)
        last = here.rpartition("\n")[2]
        room = wrap.width - (len(wrap.prefix) if lines else 0)
        if len(last) + 1 + len(word.partition("\n")[0]) <= room or opens:
            here += f" {word}"
        else:
            lines.append(here)
            here = word
    return f"{wrap.end}{wrap.prefix}".join([*lines, here])


@dataclass(frozen=True, slots=True)
class Edit:
    """The region of a part that is replaced, and its new content."""

    start: int
    end: int
    pieces: Raw
    wrap: Wrap | None = None


class Editor:
    """A part with its edits. An edit may be inside an object of another one: both apply."""

    def __init__(self, source: str, edits: Sequence[Edit]) -> None:
        self._source = source
        self._edits = sorted(edits, key=lambda edit: (edit.start, -edit.end))
        self._starts = [edit.start for edit in self._edits]

    def write(self) -> str:
        """Returns the whole part."""
        return self.render(0, len(self._source))

    def render(self, start: int, end: int, first: int = 0) -> str:
        """Returns a slice of the part with the edits inside it, from the edit of the index `first` on."""
        out, at = [], start
        place = bisect_left(self._starts, start, first)
        while place < len(self._edits) and self._starts[place] <= end:
            edit = self._edits[place]
            place += 1
            is_at_end = edit.start == edit.end == end and end < len(self._source)
            if edit.end > end or edit.start < at or is_at_end:
                continue
            out.append(self._source[at : edit.start])
            whole = "".join(self._resolve(edit.pieces, place))
            out.append(wrap_lines(whole, edit.wrap) if edit.wrap else whole)
            at = edit.end
            if edit.end > edit.start:
                place = bisect_left(self._starts, at, place)
        out.append(self._source[at:end])
        return "".join(out)

    def resolve(self, pieces: Raw) -> str:
        """Returns the characters of pieces."""
        return "".join(self._resolve(pieces, 0))

    def _resolve(self, pieces: Raw, first: int) -> list[str]:
        return [piece if isinstance(piece, str) else self.render(*piece, first) for piece in pieces]


def make_edit(unit: Unit, pieces: Iterable[Piece], label: str) -> Edit:
    """Returns the edit that writes pieces in the region of a unit, with a label of language if it begins an element."""
    content = tuple(pieces)
    if unit.encode_whole is not None:
        content = (unit.encode_whole("".join(piece for piece in content if isinstance(piece, str))),)
    return Edit(unit.start, unit.end, (unit.before.replace(LABEL, label), *content, unit.after), unit.wrap)
