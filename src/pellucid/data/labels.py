"""Texts and their classes: the input of a classifier, and labels as numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pellucid.config import ModelConfig
from pellucid.errors import DataError, did_you_mean


def classifier_input(ids: Sequence[int], config: ModelConfig, second: Sequence[int] | None = None) -> list[int]:
    """Returns a text between start and end token; for a text pair, followed by the second text and an end token.

    Input beyond the model's positions is truncated at the end; for a pair, at the end of the longer text.
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
    def from_targets(cls, targets: Iterable[str]) -> "Labels":
        """Returns the labels that occur, sorted. Raises DataError for fewer than two."""
        names = tuple(sorted({target.strip() for target in targets}))
        if len(names) < 2:
            raise DataError(
                f"the training text has {len(names)} label{'s' * (len(names) != 1)}"
                f"{''.join(f' (`{name}`)' for name in names)}: a classifier requires at least two labels",
                "use one label per line as `data.tgt`, or texts and labels as the columns of a .tsv file",
            )
        return cls(names)

    @property
    def size(self) -> int:
        """Returns the number of labels."""
        return len(self.names)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the number of each label as a list of one id; an empty list for an empty line.

        Raises DataError for an unknown label.
        """
        return [[self._number(line.strip())] if line.strip() else [] for line in lines]

    def _number(self, label: str) -> int:
        if label not in self.names:
            shown = ", ".join(self.names[:20]) + (", ..." if self.size > 20 else "")
            raise DataError(
                f"unknown label `{label}`{did_you_mean(label, self.names)}", f"the training text has: {shown}"
            )
        return self.names.index(label)
