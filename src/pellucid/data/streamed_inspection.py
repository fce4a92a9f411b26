"""The inspection of texts of any size: by several processes, in a memory that does not grow with them.

What `health.inspect` holds in arrays lies in files here, 25 bytes a pair while it is made and 3 when it is done:

    usable     for each pair, whether it can be trained on
    held_out   whether it is validated on instead, where no validation text is given
    trained    whether it is trained on: usable, and without a source that is held out
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
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.config import DataConfig
from pellucid.data.alignment import BLOCK, MOST_BLOCKS, Break, find_break
from pellucid.data.characters import Spellings
from pellucid.data.faults import Fault, Finding
from pellucid.data.health import Inspection, Pass
from pellucid.data.journal import RECORD, Journal
from pellucid.data.judging import HeldOut, Judge
from pellucid.data.parallel import END, ParallelText, Side
from pellucid.data.prepared import Stamp, changed_meanwhile, is_whole, note_stamps, stamp_of
from pellucid.data.side_by_side import Told, worked_on
from pellucid.files.reading import sha256_of
from pellucid.files.writing import flush, write_json

FORMAT = "pellucid-inspection/1"
CHUNK = 20_000
"""Pairs that a process looks at together."""
BLOCK_OF_FILES = 1 << 19
"""Pairs whose hashes, or the lines whose lengths, are in memory together."""
MOST_BUCKETS = 1024
GATHERED = {"usable": 1, "hashes": 8, "sources": 8, "src_lengths": 4, "tgt_lengths": 4}
"""The bytes of a pair, or of a line, in each of the files that the first pass writes."""
MASKS = ("usable", "held_out", "trained")
INDEX, VALID = "index.json", "valid.jsonl"


@dataclass(frozen=True)
class Inspected:
    """An inspection in files, and what is held out of the training by it."""

    inspection: Inspection
    trained: npt.NDArray[np.bool_]
    held_out: npt.NDArray[np.bool_]
    valid: list[tuple[str, str]]
    """The pairs held out."""


@dataclass
class _Stretch:
    """Some pairs of a text as they were read, and what reading has mended in them."""

    text: int
    first: int
    """The line of the first pair, counted from 1."""
    pairs: list[tuple[Side, Side]]
    noted: list[tuple[Fault, str, int, str]]
    ends: bool
    """True where the text ends with it."""


@dataclass(frozen=True)
class _Seen:
    """The bytes to append to each file for a stretch, and the faults found in it."""

    content: Mapping[str, bytes]
    found: tuple[Finding, ...]
    leaked: Mapping[Fault, frozenset[int]]
    spellings: Spellings


def inspect_into(
    folder: Path,
    texts: Sequence[ParallelText],
    data: DataConfig,
    held_out: HeldOut,
    choose: Callable[[Inspection, int], npt.NDArray[np.int64]] | None,
    workers: int | None = None,
    say: Callable[[str], object] = str,
) -> None:
    """Inspects texts into a folder, which is there only when all of it is; what was interrupted is gone on with.

    The findings and the pairs used are those of `health.inspect`.

    Args:
        choose: returns the numbers, among so many usable pairs, of those to hold out; None: none.
        workers: processes beside this one; None: one a core.
        say: is told how far it is.

    Raises DataError for what cannot be read at all or cannot be trained on, and for a text that changes meanwhile.
    """
    stamps = _stamps(texts)
    partial_folder = folder.with_name(f"{folder.name}.partial")
    pass_ = Pass(data, held_out, Judge(data, held_out))
    with Journal(partial_folder, FORMAT, tuple(GATHERED)) as journal:
        state = journal.state or {"text": 0, "line": 0, "lines": [[0, 0, 0] for _ in texts]}
        pass_.found = {found["fault"]: Finding(**found) for found in state.get("found", ())}
        pass_.leaked = {fault: set(numbers) for fault, numbers in state.get("leaked", {}).items()}
        pass_.spellings = Spellings.from_json(data.normalize, state.get("spellings", {}))
        told = Told(say, "inspection", sum(pairs for _, _, pairs in state["lines"]))
        stretches = _read(texts, data, state["text"], state["line"])
        for stretch, seen in worked_on(stretches, partial(_ready, tuple(texts), data, held_out), workers):
            _take_in(stretch, seen, pass_, journal, state)
            journal.state = state | {
                "found": [asdict(finding) for finding in pass_.found.values()],
                "leaked": {fault: sorted(numbers) for fault, numbers in pass_.leaked.items()},
                "spellings": pass_.spellings.to_json(),
            }
            journal.commit()
            told.hear(sum(pairs for _, _, pairs in state["lines"]))
        journal.commit(at_once=True)
        _check_unchanged(texts, stamps)
    try:
        _finish(partial_folder, texts, data, pass_, state["lines"], choose)
    except Exception as error:
        if not isinstance(error, OSError):  # the texts are at fault: they will be others next time
            shutil.rmtree(partial_folder, ignore_errors=True)
        raise
    _check_unchanged(texts, stamps)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial_folder, folder)
    flush(folder.parent)


def open_inspected(folder: Path, texts: Sequence[ParallelText]) -> Inspected | None:
    """Opens what `inspect_into` has made of these texts, wherever they lie now; None where it is not there or damaged.

    The masks are mapped, not read.
    """
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        if index["format"] != FORMAT or not is_whole(folder, index["sha256"], folder / "stamps.json"):
            return None
        now = {then: path for before, text in zip(index["texts"], texts, strict=True)
               for then, path in zip(before, (text.src, text.tgt), strict=True) if then}  # fmt: skip
        findings, spellings = ([_moved(Finding(**f), now) for f in index[kind]] for kind in ("findings", "spellings"))
        with (folder / VALID).open(encoding="utf-8", newline="\n") as file:
            valid = [(source, target) for source, target in map(json.loads, file)]
        usable, held_out, trained = (_mapped(folder / name) for name in MASKS)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    none = np.zeros(0, np.int64)
    inspection = Inspection(tuple(texts), tuple(index["pairs"]), usable, none, none, tuple(findings), tuple(spellings))
    return Inspected(inspection, trained, held_out, valid)


def _read(texts: Sequence[ParallelText], data: DataConfig, first: int, skip: int) -> Iterator[_Stretch]:
    """Yields the texts in stretches, from some pair of some text on."""
    for number in range(first, len(texts)):
        noted: list[tuple[Fault, str, int, str]] = []
        pairs = texts[number].pairs(data.on_bad_utf8, partial(_note, noted), skip)
        line, ends = skip + 1, False
        while not ends:
            part = list(islice(pairs, CHUNK))
            ends = len(part) < CHUNK
            yield _Stretch(number, line, part, noted.copy(), ends)
            noted.clear()
            line += len(part)
        skip = 0


def _note(noted: list[tuple[Fault, str, int, str]], fault: Fault, path: str, line: int, detail: str) -> None:
    noted.append((fault, path, line, detail))


def _ready(texts: Sequence[ParallelText], data: DataConfig, held_out: HeldOut) -> Callable[[_Stretch], _Seen]:
    pass_ = Pass(data, held_out, Judge(data, held_out))
    return lambda stretch: _look_at(stretch, texts[stretch.text], pass_)


def _look_at(stretch: _Stretch, text: ParallelText, pass_: Pass) -> _Seen:
    """Looks at some pairs, each by itself."""
    pass_.found, pass_.leaked, pass_.spellings = {}, {}, Spellings(pass_.data.normalize)
    mended: dict[int, list[tuple[str, int, str]]] = {}
    for fault, path, line, detail in stretch.noted:
        if fault == "utf8":
            mended.setdefault(line, []).append((path, line, detail))
    lengths, usable, hashes, sources = (array("I"), array("I")), bytearray(), [], []
    for line, (source, target) in enumerate(stretch.pairs, start=stretch.first):
        if source != END:
            lengths[0].append(len(source or ""))
        if target != END:
            lengths[1].append(len(target or ""))
        if source != END and target != END:
            pass_.mended = mended.get(line, [])
            usable.append(pass_.use(text, line, source, target))
            hashes.append(hash_of(source, target))
            sources.append(hash_of(source))
    content = {
        "usable": bytes(usable), "hashes": b"".join(hashes), "sources": b"".join(sources),
        "src_lengths": lengths[0].tobytes(), "tgt_lengths": lengths[1].tobytes(),
    }  # fmt: skip
    leaked = {fault: frozenset(numbers) for fault, numbers in pass_.leaked.items()}
    return _Seen(content, tuple(pass_.found.values()), leaked, pass_.spellings)


def hash_of(*sides: Side) -> bytes:
    """Returns 8 bytes of the BLAKE2 hash of one or two sides: the same in each process and on each machine."""
    text = "\n".join("\0" if side is None else side for side in sides)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _take_in(stretch: _Stretch, seen: _Seen, pass_: Pass, journal: Journal, state: dict[str, Any]) -> None:
    """Adds a stretch to what came before it."""
    for name, content in seen.content.items():
        journal.append(name, content)
    for fault, path, line, detail in stretch.noted:
        pass_.note(fault, path, line, detail)
    for finding in seen.found:
        pass_.add(finding)
    for fault, numbers in seen.leaked.items():
        pass_.leaked.setdefault(fault, set()).update(numbers)
    pass_.spellings.merge(seen.spellings)
    counts = state["lines"][stretch.text]
    for place, name in enumerate(("src_lengths", "tgt_lengths", "usable")):
        counts[place] += len(seen.content[name]) // GATHERED[name]
    state["text"] = stretch.text + stretch.ends
    state["line"] = 0 if stretch.ends else stretch.first + len(stretch.pairs) - 1


def _finish(
    folder: Path,
    texts: Sequence[ParallelText],
    data: DataConfig,
    pass_: Pass,
    lines: Sequence[Sequence[int]],
    choose: Callable[[Inspection, int], npt.NDArray[np.int64]] | None,
) -> None:
    """Compares the lines of all texts, and writes what is found, which pairs are trained on and which held out."""
    starts = [0, 0]
    for text, (sources, targets, _) in zip(texts, lines, strict=True):
        if text.tgt:
            pass_.compare(text, sources, targets, _find_break(folder, starts, (sources, targets)))
        starts = [starts[0] + sources, starts[1] + targets]
    counts = tuple(pairs for _, _, pairs in lines)
    total, none = sum(counts), np.zeros(0, np.int64)
    seen = Inspection(tuple(texts), counts, _mapped(folder / "usable"), none, none, ())
    repeated = _find_repeated(folder, total)
    shutil.copyfile(folder / "usable", folder / "kept")  # whoever is killed here begins with the first one again
    if repeated.count:
        pass_.record(seen.of_repeated(repeated.count, repeated.first, repeated.earlier))
        if data.on_duplicate == "skip":
            _leave_out(folder / "kept", repeated.files)
    for path in repeated.files:
        path.unlink()
    inspection = replace(seen, used=_mapped(folder / "kept"), findings=pass_.findings())
    inspection.check()
    chosen = np.zeros(0, np.int64) if choose is None else choose(inspection, _count(inspection.used))
    _hold_out(folder, inspection, chosen)
    with (folder / VALID).open("w", encoding="utf-8", newline="\n") as file:
        if len(chosen):
            for pair in inspection.pairs(_mapped(folder / "held_out"), data.on_bad_utf8):
                file.write(json.dumps(pair, ensure_ascii=False) + "\n")
    (folder / RECORD).unlink(missing_ok=True)  # from here on nothing can be gone on with, but begun again
    for name in set(GATHERED) - set(MASKS):
        (folder / name).unlink()
    os.replace(folder / "kept", folder / "usable")
    for name in (*MASKS, VALID):
        flush(folder / name)
    index: dict[str, Any] = {
        "format": FORMAT,
        "texts": [[text.src, text.tgt] for text in texts],
        "pairs": counts,
        "findings": [finding.to_json() for finding in inspection.findings],
        "spellings": [finding.to_json() for finding in pass_.spellings.findings()],
        "sha256": {name: sha256_of(folder / name) for name in (*MASKS, VALID)},
    }
    note_stamps(folder, index["sha256"], folder / "stamps.json")
    write_json(folder / INDEX, index)


def _find_break(folder: Path, starts: Sequence[int], lines: tuple[int, int]) -> Break | None:
    """Returns the first place where the lengths of the lines fit at another offset; looks at a stretch at a time."""
    most, difference = max(lines), lines[1] - lines[0]
    block = max(BLOCK, -(-min(lines) // MOST_BLOCKS))
    for first in range(0, most, 2 * BLOCK_OF_FILES):
        sides = []
        for name, start, count in zip(("src_lengths", "tgt_lengths"), starts, lines, strict=True):
            size = max(0, min(2 * BLOCK_OF_FILES, count - first))
            sides.append(np.fromfile(folder / name, np.uint32, size, offset=4 * (start + first)))
        whole = most <= 2 * BLOCK_OF_FILES
        found = find_break(sides[0], sides[1], None if whole else difference, BLOCK if whole else block)
        if found is not None:
            until = None if found.until is None else found.until + first
            return replace(
                found, line=found.line + first, earliest=found.earliest + first, latest=found.latest + first,
                until=until,
            )  # fmt: skip
    return None


@dataclass(frozen=True)
class _Repeated:
    """The usable pairs that occurred before: how many, the first of them, the one that it repeats, all in files."""

    count: int
    first: int
    earlier: int
    files: tuple[Path, ...]


def _find_repeated(folder: Path, total: int) -> _Repeated:
    """Finds usable pairs whose hash occurred before: equal hashes meet in one of many small files."""
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
    """Marks the pairs whose numbers stand in the files as not usable."""
    usable = np.memmap(mask, np.bool_, "r+")
    for file in files:
        usable[np.fromfile(file, np.int64)] = False
    usable.flush()


def _hold_out(folder: Path, inspection: Inspection, chosen: npt.NDArray[np.int64]) -> None:
    """Writes which pairs are held out, and which are trained on: those without a source that is held out."""
    usable, total = inspection.used, len(inspection.used)
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
    """Returns the places of the n-th true ones, `wanted` being sorted."""
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


def _mapped(path: Path) -> npt.NDArray[np.bool_]:
    if not path.stat().st_size:  # cannot be mapped
        return np.zeros(0, np.bool_)
    return np.asarray(np.memmap(path, np.bool_, "r"))


def _stamps(texts: Sequence[ParallelText]) -> dict[str, Stamp]:
    return {path: stamp_of(Path(path)) for text in texts for path in (text.src, text.tgt) if path}


def _check_unchanged(texts: Sequence[ParallelText], stamps: Mapping[str, Stamp]) -> None:
    """Raises DataError for a text that is not the file of before any more."""
    for path, stamp in _stamps(texts).items():
        if stamp != stamps[path]:
            raise changed_meanwhile(path)


def _moved(finding: Finding, now: Mapping[str, str]) -> Finding:
    """Returns a finding with the names that the texts have now."""
    path, detail, of = finding.path, finding.detail, finding.of
    for then, name in now.items():
        detail, of = (text.replace(f"`{then}`", f"`{name}`") for text in (detail, of))
    return replace(finding, path=now.get(path, path), detail=detail, of=of)
