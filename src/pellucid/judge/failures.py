"""The finding if no way of calling a learner's part is understood: the first difference, or the error."""

from typing import Any

from torch import Tensor

from pellucid.judge.calling import CallError
from pellucid.judge.findings import Finding
from pellucid.judge.mistakes import UNKNOWN
from pellucid.judge.variants import describe_difference


class Failures:
    """Collects errors and differences of several ways of calling a part, of which none is understood."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._difference = ""
        self._error: CallError | None = None

    @property
    def is_empty(self) -> bool:
        """Returns True if nothing was recorded."""
        return not self._difference and self._error is None

    def miss(self, output: Any, expected: Tensor) -> None:
        """Records an output that no variant has, with the place where it differs from the right one."""
        self._difference = self._difference or describe_difference(output, expected)

    def note(self, difference: str) -> None:
        """Records a difference in words."""
        self._difference = self._difference or difference

    def fail(self, error: CallError) -> None:
        """Records an error in the learner's code; it counts only if no way of calling the part works."""
        self._error = self._error or error

    def make_finding(self) -> Finding:
        """Returns that the mistake is unknown. Raises the CallError if every way failed."""
        if self._difference or self._error is None:
            return Finding(self.name, False, (UNKNOWN,), (self._difference,))
        raise self._error
