"""Inspects a corpus of any size from the first line to the last, in constant memory.

The results per pair are in files, 25 bytes per pair during the inspection: in the folder of a cached inspection, which
uses several processes, else in a temporary folder. A cached inspection consists of:

    usable     for each pair, whether it can be used for training
    held_out   whether it is a validation pair instead, if no validation text is given
    trained    whether it is a training pair: usable, and without a source that is held out
    valid.jsonl  the pairs held out
    index.json   the pairs in each text, the findings, the SHA-256 of the files above
"""

import hashlib
import json
import os
import shutil
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.config import DataConfig
from pellucid.data.characters import UnicodeVariants
from pellucid.data.dataset_cache import make_text_modified_error
from pellucid.data.inspection import Findings, Inspection, InspectionPass, PairCallback
from pellucid.data.issues import Issue, IssueKind
from pellucid.data.journal import RECORD, Journal
from pellucid.data.line_mismatch import BLOCK, MOST_BLOCKS, LineMismatch, find_line_mismatch
from pellucid.data.pair_checks import HeldOut, PairChecker
from pellucid.data.parallel import END, ParallelText, Side
from pellucid.data.process_map import ProgressReporter, map_in_processes
from pellucid.data.repairs import Repairs
from pellucid.files.budget import MOST_TOGETHER_BYTES
from pellucid.files.reading import hash_file
from pellucid.files.records import Stamp, is_whole, note_stamps, read_file_stamp
from pellucid.files.writing import fsync, replace_folder, workspace, write_json

FORMAT = "pellucid-inspection/2"  # version 1 compared pairs without normalization
CHUNK, CHUNK_CHARACTERS = 20_000, MOST_TOGETHER_BYTES // 4
"""Pairs per chunk at most, and characters per chunk at most; a chunk ends at the first of the two limits."""
BLOCK_OF_FILES = 1 << 19
"""Pairs whose hashes, or lines whose lengths, are in memory at once."""
MOST_BUCKETS = 1024
GATHERED = {"usable": 1, "hashes": 8, "sources": 8, "src_lengths": 4, "tgt_lengths": 4}
"""Bytes per pair, or per line, in each of the files that the first pass writes."""
MASKS = ("usable", "held_out", "trained")
INDEX, VALID = "index.json", "valid.jsonl"


Choose = Callable[[Inspection, int], npt.NDArray[np.int64]]
"""Called with an inspection and its number of usable pairs; returns the indices, among these, of the pairs to hold out.
Raises DataError for a corpus that cannot be used for training."""
_Noted = tuple[IssueKind, str, int, str, str]


@dataclass
class _Chunk:
    """Consecutive pairs of a text as they were read, and the repairs made by reading."""

    text: int
    first: int
    """The line of the first pair, counted from 1."""
    pairs: list[tuple[Side, Side]]
    undecoded: dict[int, list[tuple[str, str]]]
    """The files and details of bytes that are not UTF-8, by the index of the pair in the chunk."""
    noted: list[_Noted]
    ends: bool
    """True if the text ends with this chunk."""


@dataclass(frozen=True)
class _Seen:
    """The bytes to append to each file for a chunk, and the issues found in it."""

    content: Mapping[str, bytes]
    findings: Findings


def inspect_corpus(
    texts: Sequence[ParallelText],
    data: DataConfig,
    held_out: HeldOut,
    judge: PairChecker | None = None,
    told: PairCallback | None = None,
    repairs: Repairs | None = None,
    choose: Choose | None = None,
) -> Inspection:
    """Reads the texts and checks for all issues in `issues.TITLES`; without `judge`, for the issues that training uses.

    Args:
        judge: checks each pair; with `usual`, it also reports duplicates. If None, the checks of training are used.
        told: is called with each pair in order.
        repairs: are applied before a pair is checked.
        choose: chooses the pairs to hold out; if None, no pairs are held out.

    Raises DataError for unreadable texts: a missing or damaged file, a line that is malformed or, depending on
    `data.on_bad_utf8`, not UTF-8; also raises the errors of `choose`.
    """
    judge = judge or PairChecker(data, held_out)
    with workspace() as place:
        folder = place / "inspection"
        with Journal(folder, FORMAT, tuple(GATHERED)) as journal:
            findings, lines = _gather(
                journal, texts, data, partial(InspectionPass, data, judge, told, repairs), workers=1
            )
        find_repeated = judge.usual is None  # otherwise the pass has found them
        found = _finish(folder, texts, data, held_out, findings, lines, choose, find_repeated)
        used, kept_out, trained = map(np.array, (found.used, found.held_out, found.trained))  # the files will be gone
    return replace(found, used=used, held_out=kept_out, trained=trained)


def inspect_to_folder(
    folder: Path,
    texts: Sequence[ParallelText],
    data: DataConfig,
    held_out: HeldOut,
    choose: Choose,
    workers: int | None = None,
    log_line: Callable[[str], object] = str,
) -> None:
    """Inspects texts into a folder, which exists only when it is complete; an interrupted inspection is resumed.

    Args:
        choose: chooses the pairs to hold out.
        workers: number of worker processes; None: one per core.
        log_line: is called with progress messages.

    Raises DataError for texts that cannot be read or used for training, and for a text that changes in the meantime.
    """
    stamps = _stamps(texts)
    partial_folder = folder.with_name(f"{folder.name}.partial")
    with Journal(partial_folder, FORMAT, tuple(GATHERED)) as journal:
        findings, lines = _gather(journal, texts, data, partial(_make_pass, data, held_out), workers, log_line)
        journal.commit(at_once=True)
        _check_unchanged(texts, stamps)
    try:
        _write_index(partial_folder, _finish(partial_folder, texts, data, held_out, findings, lines, choose))
    except Exception as error:
        if not isinstance(error, OSError):  # caused by the texts, which will have changed next time
            shutil.rmtree(partial_folder, ignore_errors=True)
        raise
    _check_unchanged(texts, stamps)
    replace_folder(partial_folder, folder)


def _make_pass(data: DataConfig, held_out: HeldOut) -> InspectionPass:
    return InspectionPass(data, PairChecker(data, held_out))


def open_inspection(folder: Path, texts: Sequence[ParallelText]) -> Inspection | None:
    """Opens the inspection of these texts that `inspect_to_folder` has written, even if the texts were moved. Returns
    None if it is missing or damaged.

    The masks are memory-mapped.
    """
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        if index["format"] != FORMAT or not is_whole(folder, index["sha256"], folder / "stamps.json"):
            return None
        now = {then: path for before, text in zip(index["texts"], texts, strict=True)
               for then, path in zip(before, (text.src, text.tgt), strict=True) if then}  # fmt: skip
        findings, spellings = (
            tuple(_update_names(Issue(**finding), now) for finding in index[kind]) for kind in ("findings", "spellings")
        )
        with (folder / VALID).open(encoding="utf-8", newline="\n") as file:
            valid = tuple((source, target) for source, target in map(json.loads, file))
        used, held_out, trained = (_map_file(folder / name) for name in MASKS)
        return Inspection(tuple(texts), tuple(index["pairs"]), used, findings, spellings, held_out, trained, valid)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _gather(
    journal: Journal,
    texts: Sequence[ParallelText],
    data: DataConfig,
    make_pass: Callable[[], InspectionPass],
    workers: int | None,
    log_line: Callable[[str], object] = str,
) -> tuple[Findings, list[list[int]]]:
    """Appends the results for each pair to the journal's files. Returns the findings, and the numbers of source lines,
    target lines and pairs in each text.
    """
    state = journal.state or {"text": 0, "line": 0, "lines": [[0, 0, 0] for _ in texts]}
    findings = Findings(data)
    findings.found = {found["fault"]: Issue(**found) for found in state.get("found", ())}
    findings.leaked = {fault: set(numbers) for fault, numbers in state.get("leaked", {}).items()}
    findings.spellings = UnicodeVariants.from_json(data.normalize, state.get("spellings", {}))
    told = ProgressReporter(log_line, "inspection", sum(pairs for _, _, pairs in state["lines"]))
    chunks = _read(texts, data, state["text"], state["line"])
    for chunk, seen in map_in_processes(chunks, partial(_ready, tuple(texts), make_pass), workers):
        _take_in(chunk, seen, findings, journal, state)
        journal.state = state | {
            "found": [asdict(finding) for finding in findings.found.values()],
            "leaked": {fault: sorted(numbers) for fault, numbers in findings.leaked.items()},
            "spellings": findings.spellings.to_json(),
        }
        journal.commit()
        told.hear(sum(pairs for _, _, pairs in state["lines"]))
    return findings, state["lines"]


def _read(texts: Sequence[ParallelText], data: DataConfig, first: int, skip: int) -> Iterator[_Chunk]:
    """Yields the texts in chunks, starting at pair `skip` of text `first`."""
    for number in range(first, len(texts)):
        noted: list[_Noted] = []
        pairs = texts[number].pairs(data.on_bad_utf8, partial(_note, noted), skip)
        line, ends = skip + 1, False
        while not ends:
            part, undecoded, ends = _take(pairs, noted)
            yield _Chunk(number, line, part, undecoded, noted.copy(), ends)
            noted.clear()
            line += len(part)
        skip = 0


def _take(
    pairs: Iterator[tuple[Side, Side]], noted: Sequence[_Noted]
) -> tuple[list[tuple[Side, Side]], dict[int, list[tuple[str, str]]], bool]:
    """Returns the next pairs, the repairs made by reading, and whether the text ends with them."""
    part: list[tuple[Side, Side]] = []
    undecoded, characters, before = {}, 0, 0
    for pair in pairs:
        if found := [(path, detail) for fault, path, _, detail, _ in noted[before:] if fault == "utf8"]:
            undecoded[len(part)] = found
        part.append(pair)
        before, characters = len(noted), characters + len(pair[0] or "") + len(pair[1] or "")
        if len(part) == CHUNK or characters >= CHUNK_CHARACTERS:
            return part, undecoded, False
    return part, undecoded, True


def _note(noted: list[_Noted], fault: IssueKind, path: str, line: int, detail: str, of: str = "lines") -> None:
    noted.append((fault, path, line, detail, of))


def _ready(texts: Sequence[ParallelText], make_pass: Callable[[], InspectionPass]) -> Callable[[_Chunk], _Seen]:
    pass_ = make_pass()
    return lambda chunk: _look_at(chunk, texts[chunk.text], pass_)


def _look_at(chunk: _Chunk, text: ParallelText, pass_: InspectionPass) -> _Seen:
    """Inspects the pairs of a chunk."""
    pass_.findings = Findings(pass_.data)
    lengths, usable, hashes, sources = (array("I"), array("I")), bytearray(), [], []
    for place, (source, target) in enumerate(chunk.pairs):
        if source != END:
            lengths[0].append(len(source or ""))
        if target != END:
            lengths[1].append(len(target or ""))
        if source != END and target != END:
            pass_.undecoded = chunk.undecoded.get(place, ())
            usable.append(pass_.use(text, chunk.first + place, source, target))
            if not pass_.usual:
                hashes.append(hash_sides(*pass_.spelled))
                sources.append(hash_sides(pass_.spelled[0]))
    content = {
        "usable": bytes(usable), "hashes": b"".join(hashes), "sources": b"".join(sources),
        "src_lengths": lengths[0].tobytes(), "tgt_lengths": lengths[1].tobytes(),
    }  # fmt: skip
    return _Seen(content, pass_.findings)


def hash_sides(*sides: Side) -> bytes:
    """Returns 8 bytes of the BLAKE2 hash of one or two sides, identical across processes and machines."""
    text = "\n".join("\0" if side is None else side for side in sides)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _take_in(chunk: _Chunk, seen: _Seen, findings: Findings, journal: Journal, state: dict[str, Any]) -> None:
    """Adds the results of a chunk to the results so far."""
    for name, content in seen.content.items():
        journal.append(name, content)
    for fault, path, line, detail, of in chunk.noted:
        findings.note(fault, path, line, detail, of)
    findings.merge(seen.findings)
    counts = state["lines"][chunk.text]
    for place, name in enumerate(("src_lengths", "tgt_lengths", "usable")):
        counts[place] += len(seen.content[name]) // GATHERED[name]
    state["text"] = chunk.text + chunk.ends
    state["line"] = 0 if chunk.ends else chunk.first + len(chunk.pairs) - 1


def _finish(
    folder: Path,
    texts: Sequence[ParallelText],
    data: DataConfig,
    held_out: HeldOut,
    findings: Findings,
    lines: Sequence[Sequence[int]],
    choose: Choose | None,
    find_repeated: bool = True,
) -> Inspection:
    """Finds misaligned lines and duplicates in all texts, and chooses the pairs to hold out."""
    starts = [0, 0]
    for text, (sources, targets, _) in zip(texts, lines, strict=True):
        if text.tgt:
            findings.record_lines(text, sources, targets, _find_break(folder, starts, (sources, targets)))
        starts = [starts[0] + sources, starts[1] + targets]
    counts = tuple(pairs for _, _, pairs in lines)
    none = np.zeros(sum(counts), np.bool_)
    found = Inspection(tuple(texts), counts, none, (), findings.spellings.findings(), none, none, ())
    shutil.copyfile(folder / "usable", folder / "kept")  # a run killed from here on starts again from `usable`
    if find_repeated:
        repeated = _find_repeated(folder, len(none))
        if repeated.count:
            findings.record_repeated(repeated.count, found.place(repeated.first), found.place(repeated.earlier))
            if data.on_duplicate == "skip":
                _leave_out(folder / "kept", repeated.files)
        for path in repeated.files:
            path.unlink()
    used = _map_file(folder / "kept")
    found = replace(found, used=used, trained=used, findings=findings.list_in_order(held_out))
    if choose is None:
        return found
    chosen = choose(found, _count(used))
    _hold_out(folder, used, chosen)
    found = replace(found, held_out=_map_file(folder / "held_out"), trained=_map_file(folder / "trained"))
    return replace(found, valid=tuple(found.pairs(found.held_out, data.on_bad_utf8))) if len(chosen) else found


def _write_index(folder: Path, found: Inspection) -> None:
    """Writes the index and removes the files that are no longer needed."""
    with (folder / VALID).open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(pair, ensure_ascii=False) + "\n" for pair in found.valid)
    (folder / RECORD).unlink(missing_ok=True)  # from here on it cannot be resumed, only restarted
    for name in set(GATHERED) - set(MASKS):
        (folder / name).unlink()
    os.replace(folder / "kept", folder / "usable")
    for name in (*MASKS, VALID):
        fsync(folder / name)
    index: dict[str, Any] = {
        "format": FORMAT,
        "texts": [[text.src, text.tgt] for text in found.texts],
        "pairs": found.counts,
        "findings": [finding.to_json() for finding in found.findings],
        "spellings": [finding.to_json() for finding in found.spellings],
        "sha256": {name: hash_file(folder / name) for name in (*MASKS, VALID)},
    }
    note_stamps(folder, index["sha256"], folder / "stamps.json")
    write_json(folder / INDEX, index)


def _find_break(folder: Path, starts: Sequence[int], lines: tuple[int, int]) -> LineMismatch | None:
    """Returns the first place from which the line lengths match at another offset; reads one chunk at a time."""
    most, difference = max(lines), lines[1] - lines[0]
    block = max(BLOCK, -(-min(lines) // MOST_BLOCKS))
    for first in range(0, most, 2 * BLOCK_OF_FILES):
        sides = []
        for name, start, count in zip(("src_lengths", "tgt_lengths"), starts, lines, strict=True):
            size = max(0, min(2 * BLOCK_OF_FILES, count - first))
            sides.append(np.fromfile(folder / name, np.uint32, size, offset=4 * (start + first)))
        whole = most <= 2 * BLOCK_OF_FILES
        found = find_line_mismatch(sides[0], sides[1], None if whole else difference, BLOCK if whole else block)
        if found is not None:
            until = None if found.until is None else found.until + first
            return replace(
                found, line=found.line + first, earliest=found.earliest + first, latest=found.latest + first,
                until=until,
            )  # fmt: skip
    return None


@dataclass(frozen=True)
class _Repeated:
    """The duplicates among the usable pairs: their count, the first one, its earlier equal, and files with all."""

    count: int
    first: int
    earlier: int
    files: tuple[Path, ...]


def _find_repeated(folder: Path, total: int) -> _Repeated:
    """Finds usable pairs whose hash occurred before: equal hashes are in the same bucket file."""
    buckets = min(MOST_BUCKETS, max(1, -(-total // BLOCK_OF_FILES)))
    record = np.dtype([("hash", np.uint64), ("number", np.int64)])
    for bucket in range(buckets):
        (folder / f"bucket.{bucket}").unlink(missing_ok=True)
    for first in range(0, total, BLOCK_OF_FILES):
        size = min(BLOCK_OF_FILES, total - first)
        numbers = np.flatnonzero(np.fromfile(folder / "usable", np.bool_, size, offset=first))
        rows = np.empty(len(numbers), record)
        rows["hash"] = np.fromfile(folder / "hashes", np.uint64, size, offset=8 * first)[numbers]
        rows["number"] = numbers + first
        places = rows["hash"] % np.uint64(buckets)
        rows = rows[np.argsort(places, kind="stable")]
        ends = np.cumsum(np.bincount(places.astype(np.int64), minlength=buckets))
        for bucket, part in enumerate(np.split(rows, ends[:-1])):
            with (folder / f"bucket.{bucket}").open("ab") as file:
                file.write(part.tobytes())
    count, first, earlier, files = 0, total, total, []
    for bucket in range(buckets):
        path, found = folder / f"bucket.{bucket}", folder / f"repeated.{bucket}"
        rows = np.fromfile(path, record) if path.exists() else np.empty(0, record)
        rows = rows[np.argsort(rows["hash"], kind="stable")]
        equal = rows["hash"][1:] == rows["hash"][:-1]
        repeated = rows[1:][equal]
        path.unlink(missing_ok=True)
        repeated["number"].tofile(found)
        files.append(found)
        count += len(repeated)
        if len(repeated) and (least := int(repeated["number"].min())) < first:
            same = repeated["hash"][repeated["number"] == least][0]
            first, earlier = least, int(rows["number"][rows["hash"] == same].min())
    return _Repeated(count, first, earlier, tuple(files))


def _leave_out(mask: Path, files: Sequence[Path]) -> None:
    """Marks the pairs whose numbers are listed in the files as not usable."""
    usable = np.memmap(mask, np.bool_, "r+")
    for file in files:
        usable[np.fromfile(file, np.int64)] = False
    usable.flush()


def _hold_out(folder: Path, usable: npt.NDArray[np.bool_], chosen: npt.NDArray[np.int64]) -> None:
    """Writes the masks of the held-out pairs and of the training pairs, which have no source that is held out."""
    total = len(usable)
    numbers = np.sort(_nth(usable, np.sort(chosen)))
    sources = np.array([_hash_at(folder, number) for number in numbers.tolist()], np.uint64)
    with (folder / "held_out").open("wb") as held_out, (folder / "trained").open("wb") as trained:
        for first in range(0, total, BLOCK_OF_FILES):
            size = min(BLOCK_OF_FILES, total - first)
            held = np.zeros(size, np.bool_)
            held[numbers[(numbers >= first) & (numbers < first + size)] - first] = True
            held.tofile(held_out)
            own = np.fromfile(folder / "sources", np.uint64, size, offset=8 * first)
            (usable[first : first + size] & ~np.isin(own, sources)).tofile(trained)


def _nth(mask: npt.NDArray[np.bool_], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the indices of the n-th true elements for each n in `wanted`, which is sorted."""
    found, before = [], 0
    for start in range(0, len(mask), BLOCK_OF_FILES):
        places = np.flatnonzero(mask[start : start + BLOCK_OF_FILES])
        low, high = np.searchsorted(wanted, [before, before + len(places)])
        found.append(places[wanted[low:high] - before] + start)
        before += len(places)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _hash_at(folder: Path, number: int) -> int:
    return int(np.fromfile(folder / "sources", np.uint64, 1, offset=8 * number)[0])


def _count(mask: npt.NDArray[np.bool_]) -> int:
    return sum(
        int(np.count_nonzero(mask[start : start + BLOCK_OF_FILES])) for start in range(0, len(mask), BLOCK_OF_FILES)
    )


def _map_file(path: Path) -> npt.NDArray[np.bool_]:
    if not path.stat().st_size:  # an empty file cannot be mapped
        return np.zeros(0, np.bool_)
    return np.asarray(np.memmap(path, np.bool_, "r"))


def _stamps(texts: Sequence[ParallelText]) -> dict[str, Stamp]:
    return {path: read_file_stamp(Path(path)) for text in texts for path in (text.src, text.tgt) if path}


def _check_unchanged(texts: Sequence[ParallelText], stamps: Mapping[str, Stamp]) -> None:
    """Raises DataError if a text has been modified."""
    for path, stamp in _stamps(texts).items():
        if stamp != stamps[path]:
            raise make_text_modified_error(path)


def _update_names(finding: Issue, now: Mapping[str, str]) -> Issue:
    """Returns a finding with the current names of the texts."""
    path, detail, of = finding.path, finding.detail, finding.of
    for then, name in now.items():
        detail, of = (text.replace(f"`{then}`", f"`{name}`") for text in (detail, of))
    return replace(finding, path=now.get(path, path), detail=detail, of=of)
