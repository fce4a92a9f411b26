"""The settings of a foreign config.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError

CONFIG = "config.json"
GENERATION = "generation_config.json"
TOKENIZER = "tokenizer_config.json"


class Settings:
    """The settings of a file, with its family's defaults for what it leaves out.

    Raises CheckpointError for a setting that is in neither.
    """

    def __init__(self, path: Path, table: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.table = table
        self.defaults = defaults or {}

    def __getitem__(self, name: str) -> Any:
        if name in self.table:
            return self.table[name]
        if name in self.defaults:
            return self.defaults[name]
        raise CheckpointError(f"`{self.path}` has no `{name}`", "copy the folder again")

    def get(self, name: str, default: Any = None) -> Any:
        """The setting, or `default` where it is left out."""
        return self.table.get(name, self.defaults.get(name, default))

    def refuse(self, name: str, value: Any, reason: str) -> CheckpointError:
        """The error for a setting that cannot be expressed."""
        return CheckpointError(f"`{self.path}` has `{name}` = {json.dumps(value)}, {reason}")

    def check_only(self, only: Mapping[str, Any]) -> None:
        """Raises CheckpointError for a setting of `only` that is given and has another value."""
        for name, allowed in only.items():
            value = self.get(name, allowed)
            if value is not None and value != allowed:
                if allowed is None:
                    raise self.refuse(name, value, "which Pellucid does not read")
                raise self.refuse(name, value, f"which Pellucid's model cannot express; it knows {json.dumps(allowed)}")

    def same(self, first: str, second: str) -> Any:
        """The one value of two settings. Raises CheckpointError where they differ."""
        if self[first] != self[second]:
            raise CheckpointError(
                f"`{self.path}` has `{first}` = {self[first]} and `{second}` = {self[second]}; "
                "Pellucid's two stacks are of one width"
            )
        return self[first]


def read_json(path: Path) -> dict[str, Any]:
    """The table of a JSON file. Raises CheckpointError where it is damaged or no table."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"`{path}` is damaged: {error}", "copy the folder again") from error
    if not isinstance(table, dict):
        raise CheckpointError(f"`{path}` is damaged: it is no table of settings", "copy the folder again")
    return table
