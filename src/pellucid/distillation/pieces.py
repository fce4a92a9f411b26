"""The record of the trainings of one command: what each was given of its time, what it took, what it came to."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pellucid.distillation.record import difference, read_record
from pellucid.errors import ConfigError
from pellucid.files.writing import write_json


@dataclass
class Pieces:
    """A record in a folder, `NOUN.json`, by the name of each training's folder.

    What a training is given is noted before it begins, so that the same command trains the same.
    """

    folder: Path
    noun: str
    """The name of all together, as in `rounds`."""
    request: dict[str, Any]
    """The table of what decides them."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, noun: str, request: dict[str, Any]) -> Self:
        """Returns the record of these trainings, an empty one where none has begun.

        Raises ConfigError where there is one of another request.
        """
        table = cls.read(folder, noun)
        if table is None:
            return cls(folder, noun, request)
        if other := difference(table["request"], request):
            raise ConfigError(
                f"the {noun} in `{folder}` {other}".replace("is of", "are of").replace("was made", "were made"),
                "repeat the command that made them, name another `out=`, or start over with `fresh=True`",
            )
        return cls(folder, noun, request, table["pieces"])

    @staticmethod
    def read(folder: Path, noun: str) -> dict[str, Any] | None:
        """Returns the table of a record, with its `request` and its `pieces`; None where there is none."""
        return read_record(folder / f"{noun}.json", f"pellucid-{noun}/1", {"pieces"})

    @property
    def seconds(self) -> float:
        """Returns the time that finished pieces took."""
        return sum(float(piece.get("seconds", 0.0)) for piece in self.facts.values())

    def note(self, piece: str, **facts: Any) -> None:
        """Writes down facts about a piece beside those that are known."""
        self.facts[piece] = self.facts.get(piece, {}) | facts
        table = {"format": f"pellucid-{self.noun}/1", "request": self.request, "pieces": self.facts}
        write_json(self.folder / f"{self.noun}.json", table)
