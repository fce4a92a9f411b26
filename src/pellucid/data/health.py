"""Inspects a corpus from the first line to the last, in one pass: what is wrong in it, and which pairs are used.

Of the text nothing is kept but 25 bytes a pair: two hashes, two lengths, and whether it is used; beside what is usual,
no hashes, for the survey has them.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pellucid.config import DataConfig
from pellucid.config.data import OnBadUtf8
from pellucid.data.alignment import Break, find_break
from pellucid.data.characters import Spellings
from pellucid.data.faults import TITLES, Fault, Finding
from pellucid.data.judging import Flaw, HeldOut, Judge, shortened
from pellucid.data.lines import PARALLEL, unequal
from pellucid.data.parallel import END, ParallelText, Side
from pellucid.data.survey import Usual
from pellucid.errors import DataError

STRETCH = 1 << 16  # pairs that are looked at together where there may be more than fit into the memory
AROUND, MOST_AROUND = 2, 6  # lines shown before and after a place: fewest, most


@dataclass(frozen=True)
class Inspection:
    """The findings of an inspection. Pairs are numbered from 0 through all of them."""

    texts: tuple[ParallelText, ...]
    counts: tuple[int, ...]
    """Pairs in each text."""
    used: npt.NDArray[np.bool_]
    """True for each pair that is to be trained on."""
    hashes: npt.NDArray[np.int64]
    """A hash of each pair: equal pairs have equal hashes; of others, one in 10^19 has the hash of a certain pair."""
    source_hashes: npt.NDArray[np.int64]
    """The same of each pair's source alone."""
    findings: tuple[Finding, ...]
    spellings: tuple[Finding, ...] = ()
    """The ways in which the text is typed. A tokenizer evens most of them out, so only `doctor` reports them."""

    def of(self, fault: Fault) -> Finding | None:
        """Returns the finding of a kind, if there is one."""
        return next((finding for finding in (*self.findings, *self.spellings) if finding.fault == fault), None)

    def check(self) -> None:
        """Raises DataError where the texts cannot be trained on: lines without another side, or no pair at all."""
        if found := self.of("lines"):
            raise DataError(found.detail, PARALLEL)
        if not len(self.used):
            texts = " and ".join(map(str, self.texts))
            verb = "are" if " and " in texts else "is"
            raise DataError(f"{texts} {verb} empty", "give two files with a sentence a line")

    def pairs(self, used: npt.NDArray[np.bool_], on_bad_utf8: OnBadUtf8, skip: int = 0) -> Iterator[tuple[str, str]]:
        """Reads the texts once more from disk, and yields the pairs for which `used` is true, but the first `skip`."""
        first = find_true(used, skip) if skip else 0
        start = 0
        for text, count in zip(self.texts, self.counts, strict=True):
            if first < start + count:
                before = max(0, first - start)
                pairs = islice(text.pairs(on_bad_utf8, skip=before), count - before)
                for source, target in compress(pairs, _one_by_one(used, start + before, start + count)):
                    assert source is not None
                    assert target is not None
                    yield f"{text.tag} {source}" if text.tag else source, target
            start += count

    def of_repeated(self, count: int, first: int, earlier: int) -> Finding:
        """Returns what there is to say of pairs that occurred before, the first of which is equal to an earlier one."""
        (path, line), (earlier_path, earlier_line) = self.place(first), self.place(earlier)
        where = "" if earlier_path == path else f" of `{earlier_path}`"
        return Finding("duplicate", count, path, line, f"as line {earlier_line:,}{where}", "pairs")

    def place(self, number: int) -> tuple[str, int]:
        """Returns the source file of a pair, and its line there, from 1."""
        for text, count in zip(self.texts, self.counts, strict=True):
            if number < count:
                return text.src, number + 1
            number -= count
        raise IndexError(number)


def find_true(mask: npt.NDArray[np.bool_], number: int) -> int:
    """Returns the place of the n-th true one, counted from 0; of the mask's end where there are fewer.

    A mask that is mapped from disk is read in stretches.
    """
    for start in range(0, len(mask), STRETCH):
        places = np.flatnonzero(mask[start : start + STRETCH])
        if number < len(places):
            return start + int(places[number])
        number -= len(places)
    return len(mask)


def _one_by_one(mask: npt.NDArray[np.bool_], start: int, end: int) -> Iterator[bool]:
    for place in range(start, end, STRETCH):
        yield from mask[place : min(place + STRETCH, end)].tolist()


class Told(Protocol):
    """A callable that is told of each pair of a text, by its line, with its faults: none where it is sound."""

    def __call__(self, text: ParallelText, line: int, source: str, target: str, flaws: Sequence[Flaw]) -> object: ...


def inspect(
    texts: Sequence[ParallelText],
    data: DataConfig,
    held_out: HeldOut,
    judge: Judge | None = None,
    told: Told | None = None,
) -> Inspection:
    """Reads the texts and looks for all that is in `faults.TITLES`; without a judge for what training needs to know.

    Raises DataError for what cannot be read at all: a missing or damaged file, a line that is not of its format or, as
    `data.on_bad_utf8` says, not UTF-8.
    """
    pass_ = Pass(data, held_out, judge or Judge(data, held_out), told)
    counts = [pass_.read(text) for text in texts]
    used, hashes = np.frombuffer(pass_.used, np.bool_).copy(), np.frombuffer(pass_.hashes, np.int64)
    sources = np.frombuffer(pass_.source_hashes, np.int64)
    seen = Inspection(tuple(texts), tuple(counts), used, hashes, sources, ())
    if pass_.usual:
        return replace(seen, findings=pass_.findings(), spellings=pass_.spellings.findings())
    repeated = _repeated(used, hashes)
    if len(repeated):
        first = int(repeated.min())
        earlier = int(np.flatnonzero(used & (hashes == hashes[first]))[0])
        pass_.record(seen.of_repeated(len(repeated), first, earlier))
        if data.on_duplicate == "skip":
            used[repeated] = False
    return replace(seen, findings=pass_.findings(), spellings=pass_.spellings.findings())


@dataclass
class Pass:
    """The state of a pass: what it has gathered so far."""

    data: DataConfig
    held_out: HeldOut
    judge: Judge
    told: Told | None = None
    used: bytearray = field(default_factory=bytearray)
    hashes: "array[int]" = field(default_factory=lambda: array("q"))
    source_hashes: "array[int]" = field(default_factory=lambda: array("q"))
    found: dict[Fault, Finding] = field(default_factory=dict)
    mended: list[tuple[str, int, str]] = field(default_factory=list)
    """The files, lines and details of what was not UTF-8 in the pair that is being read."""
    leaked: dict[Fault, set[int]] = field(default_factory=dict)
    starts: list[tuple[ParallelText, int]] = field(default_factory=list)
    """The texts read so far, each with the number of its first pair."""

    def __post_init__(self) -> None:
        of_bytes = {"replace": "replaced by U+FFFD", "skip": "left out"}.get(self.data.on_bad_utf8, "")
        self.effects: dict[str, str] = {"utf8": of_bytes}
        self.effects |= {"empty": "left out", "line_break": "read as a space"}
        self.effects |= {"too_long": "cut" if self.data.on_too_long == "cut" else "left out"}
        self.effects |= {"copy": _left_out(self.data.on_copy), "duplicate": _left_out(self.data.on_duplicate)}
        self.spellings: Spellings = Spellings(self.data.normalize)
        self.usual: Usual | None = self.judge.usual

    def read(self, text: ParallelText) -> int:
        """Goes through a text; returns how many pairs there are in it."""
        lengths = array("I"), array("I")
        start = len(self.used)
        self.starts.append((text, start))
        for line, (source, target) in enumerate(text.pairs(self.data.on_bad_utf8, self.note), start=1):
            if source != END:
                lengths[0].append(len(source or ""))
            if target != END:
                lengths[1].append(len(target or ""))
            if source != END and target != END:
                self.used.append(self.use(text, line, source, target))
                if not self.usual:
                    self.hashes.append(hash((source, target)))
                    self.source_hashes.append(hash(source))
            self.mended.clear()
        if text.tgt:
            sources, targets = (np.frombuffer(side, np.uint32) for side in lengths)
            self.compare(text, len(sources), len(targets), find_break(sources, targets))
        return len(self.used) - start

    def note(self, fault: Fault, path: str, line: int, detail: str, of: str = "lines") -> None:
        """Counts a fault; the first one is kept with its place."""
        self.add(Finding(fault, 1, path, line, detail, of, self.effects.get(fault, "kept")))
        if fault == "utf8":
            self.mended.append((path, line, detail))

    def add(self, finding: Finding) -> None:
        """Adds what was found in lines that come behind those before."""
        first = self.found.get(finding.fault)
        self.found[finding.fault] = replace(first, count=first.count + finding.count) if first else finding

    def record(self, finding: Finding) -> None:
        """Records a finding as it is."""
        self.found.setdefault(finding.fault, replace(finding, effect=self.effects.get(finding.fault, "")))

    def findings(self) -> tuple[Finding, ...]:
        """Returns all that was found, in the order of TITLES."""
        for fault, leaked in self.leaked.items():  # each sentence once, however often it stands there
            sentences = len(self.held_out[fault][1])
            self.found[fault] = replace(self.found[fault], count=len(leaked), of=f"of {sentences:,} sentences")
        return tuple(self.found[fault] for fault in TITLES if fault in self.found)

    def use(self, text: ParallelText, line: int, source: Side, target: Side) -> bool:
        """Tells whether a pair is used, as far as it can be told by itself."""
        files = text.src, text.tgt_file
        mended = [Flaw("utf8", int(path != text.src), detail) for path, _, detail in self.mended]
        if source is None or target is None:
            if self.told:
                self.told(text, line, source or "", target or "", mended)
            return False
        bad = [any(path == file for path, _, _ in self.mended) for file in files]
        flaws = self.judge.flaws(source, target, (bad[0], bad[1]))
        for flaw in flaws:
            self.note(flaw.fault, files[flaw.side], line, flaw.detail, flaw.of)
            if flaw.line:
                self.leaked.setdefault(flaw.fault, set()).add(flaw.line)
        if "utf8" in self.judge.rules:
            flaws = [*mended, *flaws]
        kinds = {flaw.fault for flaw in flaws}
        empty = not (source.strip() and target.strip())
        used = not empty and not ("copy" in kinds and self.data.on_copy == "skip")
        if self.usual and used:
            repeated = self._look_back(self.usual, text, line, sound=not flaws)
            flaws = [*flaws, *repeated]
            used = not (repeated and repeated[0].fault == "duplicate" and self.data.on_duplicate == "skip")
        if self.told:
            self.told(text, line, source, target, flaws)
        if not empty:
            for side, path in list(zip((source, target), files, strict=True))[: 1 if text.alone else 2]:
                self.spellings.look_at(side, path, line)
        return used

    def _look_back(self, usual: Usual, text: ParallelText, line: int, sound: bool) -> list[Flaw]:
        """Returns whether a pair has occurred before: the same, or nearly the same among the sound ones."""
        number = len(self.used)
        if number >= usual.pairs:
            raise DataError("the texts have grown while they were read", "run it again when nothing writes to them")
        same, nearly = usual.same.before(number), usual.nearly.before(number) if sound else -1
        usual.same.meet(number)
        fault: Fault
        for fault, before in (("duplicate", same), ("near_duplicate", nearly)):
            if before >= 0 and fault in self.judge.rules:
                earlier, start = next((read, start) for read, start in reversed(self.starts) if start <= before)
                where = "" if earlier.src == text.src else f" of `{earlier.src}`"
                flaw = Flaw(fault, 0, f"as line {before - start + 1:,}{where}", "pairs")
                self.note(fault, text.src, line, flaw.detail, flaw.of)
                return [flaw]
        if sound:
            usual.nearly.meet(number)
        return []

    def compare(self, text: ParallelText, sources: int, targets: int, place: Break | None) -> None:
        """Notes where the files do not have equally many lines, or lines that belong together by their lengths."""
        sentence = f"{_of_break(text, place)}\n{_lines_around(text, place)}" if place else ""
        if sources != targets:
            sentence = sentence or "no place stands out by the lengths of its lines; an end may be missing"
            detail = f"{unequal(text.src, text.tgt, sources, targets)}\n{sentence}"
            self.record(Finding("lines", 1, text.src, place.line if place else 0, detail))
        elif place:
            self.record(Finding("shift", 1, text.src, place.line, sentence))


def _repeated(used: npt.NDArray[np.bool_], hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the used pairs that are equal to a used one before, in any order."""
    numbers = np.flatnonzero(used)
    numbers = numbers[np.argsort(hashes[numbers], kind="stable")]
    equal: npt.NDArray[np.bool_] = hashes[numbers[1:]] == hashes[numbers[:-1]]
    return numbers[1:][equal]


def _of_break(text: ParallelText, place: Break) -> str:
    """Returns what the lengths of the lines say of a place."""
    lacking, other = (text.src, text.tgt) if (place.lacking == "src") == (place.lines > 0) else (text.tgt, text.src)
    lines, between = abs(place.lines), f" (or any from {place.earliest:,} to {place.latest:,})"
    return (
        f"by the lengths of the lines, from line {place.line:,} on{between if place.latest > place.earliest else ''}"
        + (f" up to about line {place.until - 1:,}" if place.until else "")
        + f" line n of `{lacking}` belongs to line n + {lines:,} of `{other}`: there "
        + (
            f"{lines:,} lines are missing in `{lacking}`, or as many are"
            if lines > 1
            else f"a line is missing in `{lacking}`, or one is"
        )
        + f" too many in `{other}`"
    )


def _lines_around(text: ParallelText, place: Break) -> str:
    """Returns the lines of both files around a place, side by side."""
    first = max(place.line - MOST_AROUND, min(place.earliest, place.line - AROUND), 1) - 1
    last = min(place.line + MOST_AROUND, max(place.latest, place.line + AROUND))
    pairs = islice(text.pairs("replace", skip=first), last - first)
    shown = [(shortened(source or ""), shortened(target or "")) for source, target in pairs]
    width = max(len(source) for source, _ in shown)
    return "\n".join(
        f"{'>' if number == place.line else ' '} {number:>9,}  {source:<{width}} | {target}"
        for number, (source, target) in enumerate(shown, start=first + 1)
    )


def _left_out(choice: str) -> str:
    return "left out" if choice == "skip" else "kept"
