"""The report of a translation: totals of each file, then each flagged unit or line with its place and reasons."""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import ConfigError, format_argument, format_value
from pellucid.files.writing import check_writable, write_output
from pellucid.tasks.guards import UNTRANSLATED
from pellucid.tasks.translation import Translation

if TYPE_CHECKING:
    from pellucid.documents.document import ReportedUnit

MOST_LISTED = 100_000
"""The most flagged lines that a report lists; further ones are counted."""


def check_report(path: str | Path, others: Sequence[str | Path]) -> None:
    """Raises DataError if a report cannot be written, and ConfigError if it would replace one of the other files."""
    target = check_writable(path)
    for other in others:
        if Path(other) == Path(path) or (target.exists() and Path(other).exists() and os.path.samefile(other, target)):
            raise ConfigError(
                f"{format_argument('report', format_value(Path(path)))} is the input or the output", "name another file"
            )


def write_report(path: str | Path, totals: Mapping[str, Any], flagged: Sequence["ReportedUnit"]) -> None:
    """Writes a report as JSON: the totals, then the flagged units with their places. Raises DataError if it cannot."""
    table = {**totals, "flagged": [asdict(unit) for unit in flagged]}
    write_output(path, json.dumps(table, ensure_ascii=False, indent=1) + "\n")


@dataclass
class FlagCounts:
    """The counts of the lines of a file, or of several."""

    lines: int = 0
    flagged: int = 0
    untranslated: int = 0
    """The flagged lines that are kept as they are, or left empty."""
    reused: int = 0
    """The lines whose translations are those of a memory."""
    aided: int = 0
    """The lines whose translations have terms of a memory."""
    kinds: Counter[str] = field(default_factory=Counter)
    """The lines with each kind of flag."""

    def add(self, found: Sequence[Translation]) -> None:
        """Counts the translations of some lines."""
        self.lines += len(found)
        for one in found:
            names = {flag.name for flag in one.flags}
            self.flagged += bool(names)
            self.untranslated += bool(names & UNTRANSLATED)
            self.kinds.update(names)
            use = one.matches[0].use if one.matches else ""
            self.reused += use == "whole"
            self.aided += use == "terms"

    def format_kinds(self) -> str:
        """Returns the number of lines of each kind, the most frequent kind first."""
        ranked = sorted(self.kinds.items(), key=lambda each: (-each[1], each[0]))
        return ", ".join(f"{count:,} {name}" for name, count in ranked)

    def to_table(self) -> dict[str, Any]:
        """Returns the counts as JSON values."""
        memory = {"reused": self.reused, "with_terms": self.aided} if self.reused or self.aided else {}
        return {
            "lines": self.lines, "flagged": self.flagged, "untranslated": self.untranslated,
            "flags": dict(sorted(self.kinds.items())), **({"memory": memory} if memory else {}),
        }  # fmt: skip


class LineReport:
    """The report of a command that translates the lines of files, and documents."""

    def __init__(self) -> None:
        self.documents: list[dict[str, Any]] = []
        """The reports of documents, as JSON values."""
        self._files: dict[str, FlagCounts] = {}
        self._begun: dict[str, int] = {}
        self._flagged: list[ReportedUnit] = []

    def add(self, name: str, place: int, lines: Sequence[str], found: Sequence[Translation]) -> None:
        """Adds the translations of lines of a file, the first of which has the index `place`."""
        self._begun.setdefault(name, place)
        self._files.setdefault(name, FlagCounts()).add(found)
        for number, (line, one) in enumerate(zip(lines, found, strict=True), start=place + 1):
            if one.flags and len(self._flagged) < MOST_LISTED:
                from pellucid.documents.document import ReportedUnit  # it imports the readers

                state = "failed" if any(flag.name in UNTRANSLATED for flag in one.flags) else "translated"
                flags = tuple(f"{flag.name}: {flag.evidence}" for flag in one.flags)
                self._flagged.append(ReportedUnit(f"{name}:{number}", line, one.text, state, flags))

    def write(self, path: str | Path) -> None:
        """Writes the report. A file that an earlier command began has the number of its first line here."""
        files = []
        for name, counts in self._files.items():
            begun = {"from_line": self._begun[name] + 1} if self._begun[name] else {}
            files.append({"file": name, **begun, **counts.to_table()})
        unlisted = sum(counts.flagged for counts in self._files.values()) - len(self._flagged)
        totals = {"files": files} | ({"documents": self.documents} if self.documents else {})
        write_report(path, totals | ({"unlisted": unlisted} if unlisted else {}), self._flagged)
