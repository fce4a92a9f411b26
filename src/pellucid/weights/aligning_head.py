"""The attention head of a translator that aligns words: found once on validation text and stored with its weights."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pellucid.config import ModelConfig
from pellucid.errors import CheckpointError, format_value
from pellucid.files.reading import read_settings
from pellucid.files.writing import write_json

ALIGNING_HEAD = "aligning_head.json"
"""The file, in the folder of the weights that it describes."""
FORMAT = "pellucid-aligning-head/1"
IN_TRACE = "aligning_"
"""The prefix of the keys for layer, head and row among the facts about the model in a trace."""

Row = Literal["writes", "reads"]
"""The step whose attention weights align a target token: the step that writes the token, or the step that reads it."""


@dataclass(frozen=True, slots=True)
class AligningHead:
    """The cross-attention head whose links agree best in both directions, with the data that it was found on."""

    layer: int
    """The decoder layer, from 0."""
    head: int
    """The head in that layer, from 0."""
    row: Row
    share: float
    """The share of links that are equal in both directions, 0 to 1."""
    sentences: int
    """The number of validation sentences that it was found on."""

    def save(self, folder: Path) -> None:
        """Writes the head into a model folder and replaces an earlier file."""
        write_json(folder / ALIGNING_HEAD, {"format": FORMAT, **asdict(self)})

    @classmethod
    def load(cls, folder: Path, config: ModelConfig) -> Self | None:
        """Reads the head from a model folder; returns None if the folder has none, as in earlier versions.

        Raises CheckpointError if the file is damaged or names a head that the model does not have.
        """
        path = folder / ALIGNING_HEAD
        if not path.is_file():
            return None
        table = read_settings(path)
        values = {field.name: table.get(field.name) for field in fields(cls)}
        limits = {"layer": config.num_decoder_layers, "head": config.num_heads, "sentences": None}
        wrong = [name for name, limit in limits.items() if not _counts(values[name], limit)]
        wrong += [] if values["row"] in get_args(Row) else ["row"]
        wrong += [] if isinstance(values["share"], int | float) and 0 <= values["share"] <= 1 else ["share"]
        if table.get("format") != FORMAT or wrong:
            what = (
                f"`{wrong[0]}` is {format_value(values[wrong[0]])}"
                if wrong
                else f"`format` is {format_value(table.get('format'))}"
            )
            raise CheckpointError(f"`{path}` is damaged: its {what}", "remove it, and the head is searched again")
        return cls(**values)  # type: ignore[arg-type]

    def to_trace_facts(self) -> dict[str, str | int]:
        """Returns the head's entries for the facts about the model in a trace."""
        return {f"{IN_TRACE}layer": self.layer, f"{IN_TRACE}head": self.head, f"{IN_TRACE}row": self.row}


def keep_head(head: AligningHead | None, folder: Path) -> None:
    """Writes a head next to the weights that it describes; None removes the file of other weights."""
    if head is None:
        (folder / ALIGNING_HEAD).unlink(missing_ok=True)
    else:
        head.save(folder)


def head_in_trace(model: Mapping[str, Any], layers: int, heads: int) -> tuple[int, int, Row] | None:
    """Returns the layer, head and row that a trace's model names, or None if it names none that the trace has."""
    layer, head, row = (model.get(f"{IN_TRACE}{name}") for name in ("layer", "head", "row"))
    if _counts(layer, layers) and _counts(head, heads) and row in get_args(Row):
        return layer, head, row  # type: ignore[return-value]
    return None


def _counts(value: object, limit: int | None) -> bool:
    """Returns True if a value is an integer from 0 and below the limit."""
    return type(value) is int and value >= 0 and (limit is None or value < limit)
