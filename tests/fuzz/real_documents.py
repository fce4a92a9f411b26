"""Real documents through translators that are no models: which are not byte-equal, refused, or broken.

    apt-get source pandoc translate-toolkit && python -m tests.fuzz.real_documents . /usr/share/doc --out table.md

Every file of the folders with the ending of a document is read. An identity must return it byte for byte, an archive
by its members, but for empty translations that are filled. Reversed words, or the translations of `--model RUN`, must
pass the check after writing: a unit that does not keeps its source. The structure that other programs see must be that
of the original (`document_judges`). A document that is refused is counted with its sentence, any other exception is
printed and counted as a fault.
"""

import argparse
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from pellucid.documents.archive import read_archive
from pellucid.documents.document import Document, read_document
from pellucid.documents.kinds import ARCHIVES, kind_by_name
from pellucid.documents.spans import Answer, TextSegment
from pellucid.errors import PellucidError
from pellucid.tasks.document_translation import make_translate
from pellucid.tasks.mark_placement import NEAREST
from pellucid.tasks.translator import Translator
from tests.fuzz.document_judges import find_differences
from tests.unit.documents.stand_ins import identity, reverse_words

Translate = Callable[[Sequence[TextSegment]], Sequence[Answer]]
SECONDS = 300


@dataclass
class Row:
    """The outcome of the documents of a kind."""

    files: int = 0
    units: int = 0
    translated: int = 0
    equal: int = 0
    filled: int = 0
    kept: int = 0
    """Units that keep their source, since their translation would be read as more than text, or has no text."""
    marks: int = 0
    """Marks of the translated segments."""
    moved: int = 0
    """Marks that the alignment could not place: they stand around the nearest word, flagged."""
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def iterate_documents(folders: Sequence[Path], most: int, seed: int, most_bytes: int) -> Iterator[tuple[str, Path]]:
    """Yields the documents of folders, without copies, at most so many of each kind, drawn by a seed."""
    found: dict[str, list[Path]] = defaultdict(list)
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            kind = kind_by_name(path)
            with suppress(OSError):
                if kind and path.is_file() and not path.is_symlink() and 0 < path.stat().st_size <= most_bytes:
                    found[kind].append(path)
    for kind, paths in sorted(found.items()):
        seen = set[bytes]()
        random.Random(seed).shuffle(paths)
        for path in paths:
            digest = sha256(path.read_bytes()).digest()
            if len(seen) < most and digest not in seen:
                seen.add(digest)
                yield kind, path


def try_document(path: Path, row: Row, translate: Translate, has_office: bool = False) -> None:
    """Translates a document and adds the outcome to a row."""
    data = path.read_bytes()
    document = read_document(data, path)
    for part in document.parts:  # labels stay, so that all bytes can be compared
        part.reading.labels = [replace(label, is_own=False) for label in part.reading.labels]
    again, report = document.translate(identity, document.source or "de")
    row.units += len(report.units)
    row.translated += report.translated
    has_filled = any(unit.fills for unit in document.units)
    row.filled += has_filled
    if is_equal(document, data, again):
        row.equal += not has_filled
    elif not has_filled:
        row.faults.append(f"{path}: an identity changes it")

    def count(segments: Sequence[TextSegment]) -> Sequence[Answer]:
        answers = translate(segments)
        for segment, answer in zip(segments, answers, strict=True):
            if answer.text != segment.text:
                row.marks += len(segment.marks)
                row.moved += sum(NEAREST in flag for flag in answer.flags)
        return answers

    changed, report = read_document(data, path).translate(count, "de")
    failed = [unit for unit in report.units if unit.state == "failed" or any("kept" in flag for flag in unit.flags)]
    row.kept += len(failed)
    for unit in failed[:1]:
        print(f"{path}: {unit.place}: {unit.source[:80]!r}: {unit.flags}", file=sys.stderr)
    for result in (again, changed) if has_filled else (changed,):
        row.faults += [f"{path}: {fault}" for fault in find_differences(document.kind, data, result, has_office)]


def is_equal(document: Document, before: bytes, after: bytes) -> bool:
    """Returns True if two documents are equal; archives, if their members are, in their order."""
    if document.kind not in ARCHIVES:
        return before == after
    one, other = read_archive(before, "before"), read_archive(after, "after")
    attributes = ("filename", "date_time", "compress_type", "external_attr", "comment")
    return [*one.data.items()] == [*other.data.items()] and [
        [getattr(info, name) for name in attributes] for info in one.infos
    ] == [[getattr(info, name) for name in attributes] for info in other.infos]


def main() -> int:
    """Tries the documents, and prints a table; returns 1 if there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--most", type=int, default=300, help="documents of a kind (300)")
    parser.add_argument("--bytes", type=int, default=20 * 2**20, help="bytes of a document at most (20 MiB)")
    parser.add_argument("--seed", type=int, default=1, help="the seed by which they are drawn (1)")
    parser.add_argument("--only", nargs="+", default=[], help="the kinds to try")
    parser.add_argument("--model", help="the run folder that translates; default: the words are reversed")
    parser.add_argument("--office", action="store_true", help="LibreOffice is one of the judges")
    parser.add_argument("--out", type=Path, help="the file for the table; default: standard output")
    args = parser.parse_args()
    rows: dict[str, Row] = defaultdict(Row)
    translate = reverse_words if args.model is None else make_translate(Translator.load(args.model))
    begin = time.perf_counter()
    signal.signal(signal.SIGALRM, _stop)
    ranks = Counter[str]()
    documents = list[tuple[int, str, Path]]()
    for kind, path in iterate_documents(args.folders, args.most, args.seed, args.bytes):
        if not args.only or kind in args.only:
            documents.append((ranks[kind], kind, path))
            ranks[kind] += 1
    with suppress(KeyboardInterrupt):  # the table is that of the documents until then, of all kinds
        for _, kind, path in sorted(documents):
            row = rows[kind]
            signal.alarm(SECONDS if args.model is None else 4 * SECONDS)
            try:
                try_document(path, row, translate, args.office)
            except PellucidError as error:
                row.refused[re.sub(r"`[^`]*`|[\d,]+", "_", str(error))[:100]] += 1
                print(f"{path}: {error}", file=sys.stderr)
            except Exception:
                row.faults.append(f"{path}: {traceback.format_exc()}")
            finally:
                signal.alarm(0)
            row.files += 1
    write_table(rows, args.out)
    for row in rows.values():
        for fault in row.faults:
            print(f"fault: {fault}", file=sys.stderr)
    print(f"{time.perf_counter() - begin:.0f} s", file=sys.stderr)
    return int(any(row.faults for row in rows.values()))


def _stop(*_: object) -> None:
    raise TimeoutError("a document takes too long")


def write_table(rows: dict[str, Row], out: Path | None) -> None:
    """Writes the outcomes as a table, and the sentences of the refused documents."""
    lines = [
        "| kind | files | units | translated | equal | filled | refused | units kept | marks | not placed | faults |",
        "| --- " * 11 + "|",
    ]
    for kind, row in sorted(rows.items()):
        cells = [
            kind, row.files, row.units, row.translated, row.equal, row.filled, row.refused.total(), row.kept,
            row.marks, row.moved, len(row.faults),
        ]  # fmt: skip
        lines.append("| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in cells) + " |")
    for kind, row in rows.items():
        lines += [f"- {kind}: {count} times: {said}" for said, count in row.refused.most_common()]
    text = "\n".join(lines) + "\n"
    if out is None:
        print(text, end="")
    else:
        out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
