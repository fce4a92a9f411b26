"""The record of the trainings of one command: the time given to each, the time used, the result."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pellucid.config import DataConfig
from pellucid.data.prepare import TEXTS, open_corpus
from pellucid.files.reading import TABLE
from pellucid.files.records import RecordFormat
from pellucid.planning.duration import format_duration
from pellucid.run.folder import RunFolder
from pellucid.synthetic_data.corpus import check_request


@dataclass
class TrainingLedger:
    """A record in a folder, `NOUN.json`, by the name of each training's folder.

    The time given to each training is recorded before it starts, so that repeating the command gives the same result.
    """

    folder: Path
    noun: str
    """The name of the trainings together, such as `rounds`."""
    request: dict[str, Any]
    """The table of everything that determines the trainings."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, noun: str, request: dict[str, Any], *, fresh: bool = False) -> Self:
        """Returns the record of these trainings, or an empty record if none has started, or if `fresh`.

        Raises ConfigError if there is a record of another request.
        """
        table = cls.read(folder, noun)
        if table is None or fresh:
            return cls(folder, noun, request)
        stored = table["request"]  # earlier versions recorded neither texts nor recipes
        request = {name: value for name, value in request.items() if name in stored or name not in (*TEXTS, "recipe")}
        check_request(noun, folder, stored, request)
        return cls(folder, noun, request, table["pieces"])

    @staticmethod
    def read(folder: Path, noun: str) -> dict[str, Any] | None:
        """Returns the table of a record, with its `request` and its `pieces`, or None if there is none."""
        return _format(noun).read(folder / f"{noun}.json")

    @property
    def seconds(self) -> float:
        """Returns the time that finished trainings took."""
        return sum(float(piece.get("seconds", 0.0)) for piece in self.facts.values())

    def start_over(self, data: DataConfig, runs: Iterable[Path], records: Iterable[Path]) -> None:
        """Removes earlier runs and the records of earlier corpora, so that an interrupted restart does not resume them.

        Raises the errors of texts before anything is removed.
        """
        open_corpus(data)
        for run in runs:
            RunFolder(run).clear()
        for record in records:
            record.unlink(missing_ok=True)
        self.write()

    def choose_budget(self, piece: str, seconds: float) -> str:
        """Returns the budget of a training: the one recorded when it was started, else `seconds`, which it records."""
        if "budget" not in self.facts.get(piece, {}):
            self.note(piece, budget=format_duration(seconds))
        return str(self.facts[piece]["budget"])

    def note(self, piece: str, **facts: Any) -> None:
        """Adds facts about a training to the record."""
        self.facts[piece] = self.facts.get(piece, {}) | facts
        self.write()

    def write(self) -> None:
        """Writes the record."""
        _format(self.noun).write(self.folder / f"{self.noun}.json", request=self.request, pieces=self.facts)


def _format(noun: str) -> RecordFormat:
    return RecordFormat(f"pellucid-{noun}/1", {"request": TABLE, "pieces": TABLE})
