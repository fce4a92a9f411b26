"""The findings of an inspection of a corpus, and the pass over its pairs: the issues, and the pairs that are used.

`streamed_inspection` reads the texts and runs the pass.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pellucid.config import DataConfig
from pellucid.config.data import OnBadUtf8
from pellucid.data.characters import UnicodeVariants
from pellucid.data.issues import EFFECTS, OF_CONTAINERS, TITLES, Issue, IssueKind
from pellucid.data.line_mismatch import LineMismatch
from pellucid.data.lines import PARALLEL, describe_length_mismatch
from pellucid.data.pair_checks import HeldOut, PairChecker, PairIssue, shorten
from pellucid.data.parallel import MOST_NAMED, ParallelText, Side, describe_texts
from pellucid.data.profile import CorpusProfile
from pellucid.data.repairs import Repairs
from pellucid.errors import DataError

CHUNK_SIZE = 1 << 16  # pairs processed at once if all might not fit into memory
AROUND, MOST_AROUND = 2, 6  # lines shown before and after a place: fewest, most


@dataclass(frozen=True)
class Inspection:
    """The findings of an inspection. Pairs are numbered from 0 across all texts."""

    texts: tuple[ParallelText, ...]
    counts: tuple[int, ...]
    """Pairs in each text."""
    used: npt.NDArray[np.bool_]
    """True for each pair that can be used for training."""
    findings: tuple[Issue, ...]
    spellings: tuple[Issue, ...]
    """Unicode variants in the text. A tokenizer normalizes most of them, so only `doctor` reports them."""
    held_out: npt.NDArray[np.bool_]
    """True for each used pair that is held out for validation."""
    trained: npt.NDArray[np.bool_]
    """True for each used pair whose source differs from the sources of all held-out pairs."""
    valid: tuple[tuple[str, str], ...]
    """The pairs that are held out."""

    def get_finding(self, fault: IssueKind) -> Issue | None:
        """Returns the finding of a kind, or None."""
        return next((finding for finding in (*self.findings, *self.spellings) if finding.fault == fault), None)

    def check(self) -> None:
        """Raises DataError for texts that cannot be used for training: lines without their other side, or no pair."""
        if found := self.get_finding("lines"):
            raise DataError(found.detail, PARALLEL)
        if not len(self.used):
            texts = describe_texts(self.texts)
            verb = "is" if len(self.texts) == 1 and not self.texts[0].tgt else "are"
            raise DataError(f"{texts} {verb} empty", "use two files with one sentence per line")

    def causes(self, *faults: IssueKind) -> str:
        """Returns the parts of the files that are not read, and the findings of these issues, for a message."""
        causes = [found for found in self.findings if found.fault in (*OF_CONTAINERS, *faults)]
        return "".join(f"; {found}" for found in causes[:MOST_NAMED])

    def check_used(self, what: str) -> None:
        """Raises DataError if no pair can be used, with the counts of dropped pairs, and the files."""
        if np.any(self.used):
            return
        left_out = [f"{found.count:,} ({TITLES[found.fault]})" for found in self.findings if found.effect == "left out"]
        files = ", ".join(f"`{path}`" for text in self.texts[:3] for path in (text.src, text.tgt) if path)
        raise DataError(
            f"the {what} has no usable {'text' if all(text.alone for text in self.texts) else 'pair'} in {files}; of "
            f"{len(self.used):,}, left out: {', '.join(left_out) or 'all'}{self.causes()}",
            "use texts with one sentence per line on each side",
        )

    def pairs(self, used: npt.NDArray[np.bool_], on_bad_utf8: OnBadUtf8, skip: int = 0) -> Iterator[tuple[str, str]]:
        """Reads the texts from disk again, and yields the pairs for which `used` is true, without the first `skip`."""
        first = find_nth_true(used, skip) if skip else 0
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

    def place(self, number: int) -> tuple[str, int]:
        """Returns the source file of a pair, and its line there, from 1."""
        for text, count in zip(self.texts, self.counts, strict=True):
            if number < count:
                return text.src, number + 1
            number -= count
        raise IndexError(number)


def find_nth_true(mask: npt.NDArray[np.bool_], number: int) -> int:
    """Returns the index of the n-th true element, counted from 0; the length of the mask if there are fewer.

    A memory-mapped mask is read in chunks.
    """
    for start in range(0, len(mask), CHUNK_SIZE):
        places = np.flatnonzero(mask[start : start + CHUNK_SIZE])
        if number < len(places):
            return start + int(places[number])
        number -= len(places)
    return len(mask)


def _one_by_one(mask: npt.NDArray[np.bool_], start: int, end: int) -> Iterator[bool]:
    for place in range(start, end, CHUNK_SIZE):
        yield from mask[place : min(place + CHUNK_SIZE, end)].tolist()


class PairCallback(Protocol):
    """Callback called with each pair of a text, its line, and its issues, which are empty for a sound pair."""

    def __call__(
        self,
        text: ParallelText,
        line: int,
        before: tuple[str, str],
        pair: tuple[str, str],
        flaws: Sequence[PairIssue],
        repaired: Sequence[IssueKind],
    ) -> object:
        """Receives a pair before and after the repairs; `repaired` lists the issues that were repaired."""


@dataclass
class Findings:
    """Counts the issues of a corpus, each with its first place, in the order of the pairs."""

    data: DataConfig
    found: dict[IssueKind, Issue] = field(default_factory=dict)
    leaked: dict[IssueKind, set[int]] = field(default_factory=dict)
    """The lines of the held-out texts that occur in the corpus, by "valid" and "test"."""

    def __post_init__(self) -> None:
        of_bytes = {"replace": "replaced by U+FFFD", "skip": "left out"}.get(self.data.on_bad_utf8, "")
        self.effects: dict[str, str] = {"utf8": of_bytes}
        self.effects |= {**EFFECTS, "empty": "left out", "line_break": "read as a space"}
        self.effects |= {"too_long": "cut" if self.data.on_too_long == "cut" else "left out"}
        self.effects |= {
            "copy": _describe_choice(self.data.on_copy),
            "duplicate": _describe_choice(self.data.on_duplicate),
        }
        self.spellings: UnicodeVariants = UnicodeVariants(self.data.normalize)

    def note(self, fault: IssueKind, path: str, line: int, detail: str, of: str = "lines") -> None:
        """Counts an issue; the first one of each kind is stored with its place."""
        self._add(Issue(fault, 1, path, line, detail, of, self.effects.get(fault, "kept")))

    def merge(self, later: "Findings") -> None:
        """Adds the findings of later pairs."""
        for finding in later.found.values():
            self._add(finding)
        for fault, lines in later.leaked.items():
            self.leaked.setdefault(fault, set()).update(lines)
        self.spellings.merge(later.spellings)

    def record_repeated(self, count: int, first: tuple[str, int], earlier: tuple[str, int]) -> None:
        """Records duplicates: their number, and the file and line of the first one and of its earlier equal."""
        (path, line), (earlier_path, earlier_line) = first, earlier
        where = "" if earlier_path == path else f" of `{earlier_path}`"
        self._record(Issue("duplicate", count, path, line, f"as line {earlier_line:,}{where}", "pairs"))

    def record_lines(self, text: ParallelText, sources: int, targets: int, place: LineMismatch | None) -> None:
        """Records files with different numbers of lines, or lines that are misaligned by their lengths."""
        sentence = f"{_describe_mismatch(text, place)}\n{_lines_around(text, place)}" if place else ""
        if sources != targets:
            sentence = sentence or "the lengths of the lines do not show where; the end of a file may be missing"
            detail = f"{describe_length_mismatch(text.src, text.tgt, sources, targets)}\n{sentence}"
            self._record(Issue("lines", 1, text.src, place.line if place else 0, detail))
        elif place:
            self._record(Issue("shift", 1, text.src, place.line, sentence))

    def list_in_order(self, held_out: HeldOut) -> tuple[Issue, ...]:
        """Returns all findings in the order of TITLES; a held-out sentence that occurs repeatedly counts once."""
        found = dict(self.found)
        for fault, lines in self.leaked.items():
            found[fault] = replace(found[fault], count=len(lines), of=f"of {len(held_out[fault][1]):,} sentences")
        return tuple(found[fault] for fault in TITLES if fault in found)

    def _record(self, finding: Issue) -> None:
        """Records a finding of a whole text, unless one of its kind exists."""
        self.found.setdefault(finding.fault, replace(finding, effect=self.effects.get(finding.fault, "")))

    def _add(self, finding: Issue) -> None:
        first = self.found.get(finding.fault)
        self.found[finding.fault] = replace(first, count=first.count + finding.count) if first else finding


@dataclass
class InspectionPass:
    """Inspects the pairs of texts one by one: the issues of each, and whether it is used."""

    data: DataConfig
    judge: PairChecker
    told: PairCallback | None = None
    repairs: Repairs | None = None

    undecoded: Sequence[tuple[str, str]] = ()
    """The files and details of bytes that are not UTF-8 in the next pair."""
    spelled: tuple[Side, Side] = ("", "")
    """The sides of the last pair, as a tokenizer reads them; equal sides are equal for a model."""
    pairs: int = 0
    """The number of pairs inspected so far."""
    starts: list[tuple[ParallelText, int]] = field(default_factory=list)
    """The texts inspected so far, each with the number of its first pair."""

    def __post_init__(self) -> None:
        self.findings: Findings = Findings(self.data)
        self.usual: CorpusProfile | None = self.judge.usual

    def use(self, text: ParallelText, line: int, source: Side, target: Side) -> bool:
        """Inspects the next pair. Returns True if it is used, given the pairs before it."""
        if not self.starts or self.starts[-1][0] is not text:
            self.starts.append((text, self.pairs))
        self.pairs += 1
        spelled = self.judge.normalize
        self.spelled = source and spelled(source), target and spelled(target)
        files = text.src, text.tgt_file
        undecoded = [PairIssue("utf8", int(path != text.src), detail) for path, detail in self.undecoded]
        if source is None or target is None:
            if self.told:
                pair = source or "", target or ""
                self.told(text, line, pair, pair, undecoded, ())
            return False
        before, repaired = (source, target), list[IssueKind]()
        if self.repairs:
            source, target, repaired = self.repairs.repair(source, target)
            self.spelled = spelled(source), spelled(target)
        bad = [any(path == file for path, _ in self.undecoded) for file in files]
        flaws = self.judge.check_pair(source, target, (bad[0], bad[1]))
        for flaw in flaws:
            self.findings.note(flaw.fault, files[flaw.side], line, flaw.detail, flaw.of)
            if flaw.line:
                self.findings.leaked.setdefault(flaw.fault, set()).add(flaw.line)
        if "utf8" in self.judge.rules:
            flaws = [*undecoded, *flaws]
        kinds = {flaw.fault for flaw in flaws}
        empty = not all(self.spelled)
        used = not empty and not ("copy" in kinds and self.data.on_copy == "skip")
        if self.usual and used:
            repeated = self._look_back(self.usual, text, line, sound=not flaws)
            flaws = [*flaws, *repeated]
            used = not (repeated and repeated[0].fault == "duplicate" and self.data.on_duplicate == "skip")
        if self.told:
            self.told(text, line, before, (source, target), flaws, repaired)
        if not empty:
            for side, path in list(zip((source, target), files, strict=True))[: 1 if text.alone else 2]:
                self.findings.spellings.look_at(side, path, line)
        return used

    def _look_back(self, usual: CorpusProfile, text: ParallelText, line: int, sound: bool) -> list[PairIssue]:
        """Returns the issue of a duplicate: equal, or nearly equal to a sound pair; or an empty list."""
        number = self.pairs - 1
        if number >= usual.pairs:
            raise DataError(
                "the texts grew while they were being read", "run the same command again when no program writes to them"
            )
        same, nearly = usual.same.first_occurrence(number), usual.nearly.first_occurrence(number) if sound else -1
        usual.same.meet(number)
        fault: IssueKind
        for fault, before in (("duplicate", same), ("near_duplicate", nearly)):
            if before >= 0 and fault in self.judge.rules:
                earlier, start = next((read, start) for read, start in reversed(self.starts) if start <= before)
                where = "" if earlier.src == text.src else f" of `{earlier.src}`"
                flaw = PairIssue(fault, 0, f"as line {before - start + 1:,}{where}", "pairs")
                self.findings.note(fault, text.src, line, flaw.detail, flaw.of)
                return [flaw]
        if sound:
            usual.nearly.meet(number)
        return []


def _describe_mismatch(text: ParallelText, place: LineMismatch) -> str:
    """Returns a description of a mismatch that was found by the line lengths."""
    lacking, other = (text.src, text.tgt) if (place.lacking == "src") == (place.lines > 0) else (text.tgt, text.src)
    lines, between = abs(place.lines), f" (or any from {place.earliest:,} to {place.latest:,})"
    return (
        f"judging by the lengths of the lines, from line {place.line:,} "
        f"on{between if place.latest > place.earliest else ''}"
        + (f" up to about line {place.until - 1:,}" if place.until else "")
        + f" line n of `{lacking}` belongs to line n + {lines:,} of `{other}`: there "
        + (
            f"{lines:,} lines are missing in `{lacking}`, or as many are"
            if lines > 1
            else f"a line is missing in `{lacking}`, or one is"
        )
        + f" too many in `{other}`"
    )


def _lines_around(text: ParallelText, place: LineMismatch) -> str:
    """Returns the lines of both files around a place, in two columns."""
    first = max(place.line - MOST_AROUND, min(place.earliest, place.line - AROUND), 1) - 1
    last = min(place.line + MOST_AROUND, max(place.latest, place.line + AROUND))
    pairs = islice(text.pairs("replace", skip=first), last - first)
    shown = [(shorten(source or ""), shorten(target or "")) for source, target in pairs]
    width = max(len(source) for source, _ in shown)
    return "\n".join(
        f"{'>' if number == place.line else ' '} {number:>9,}  {source:<{width}} | {target}"
        for number, (source, target) in enumerate(shown, start=first + 1)
    )


def _describe_choice(choice: str) -> str:
    return "left out" if choice == "skip" else "kept"
