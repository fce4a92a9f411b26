"""Texts and their classes: what a classifier reads, and labels as numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pellucid.config import ModelConfig
from pellucid.errors import DataError, did_you_mean


def classifier_input(ids: Sequence[int], config: ModelConfig, second: Sequence[int] | None = None) -> list[int]:
    """Returns a text between start and end token, and of a pair the second one behind it, with an end token of its own.

    What exceeds the model's positions is cut off the end, of a pair off the longer one.
    """
    room = config.max_positions - 2
    if second is None:
        return [config.bos_id, *ids[:room], config.eos_id]
    room -= 1
    first_length, second_length = len(ids), len(second)
    while first_length + second_length > room:
        if first_length > second_length:
            first_length -= 1
        else:
            second_length -= 1
    return [config.bos_id, *ids[:first_length], config.eos_id, *second[:second_length], config.eos_id]


@dataclass(frozen=True)
class Labels:
    """The names of the classes, by number."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, targets: Iterable[str]) -> "Labels":
        """Returns the labels that occur, in the order of the alphabet. Raises DataError for fewer than two."""
        names = tuple(sorted({target.strip() for target in targets}))
        if len(names) < 2:
            raise DataError(
                f"the training text has {len(names)} label{'s' * (len(names) != 1)}"
                f"{''.join(f' (`{name}`)' for name in names)}: there is nothing to tell apart",
                "give one label a line as `data.tgt`, or texts and labels as the columns of a .tsv file",
            )
        return cls(names)

    @property
    def size(self) -> int:
        """Returns how many there are."""
        return len(self.names)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the number of each label, as a sentence of one id; of an empty line as an empty one.

        Raises DataError for an unknown one.
        """
        return [[self._number(line.strip())] if line.strip() else [] for line in lines]

    def _number(self, label: str) -> int:
        if label not in self.names:
            shown = ", ".join(self.names[:20]) + (", ..." if self.size > 20 else "")
            raise DataError(
                f"unknown label `{label}`{did_you_mean(label, self.names)}", f"the training text has: {shown}"
            )
        return self.names.index(label)
