"""Where a recipe's files lie: as given, or in a data directory."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid.config import DataConfig
from pellucid.errors import DataError

TEXT_FIELDS = ("src", "tgt", "valid_src", "valid_tgt", "test_src", "test_tgt")
ENVIRONMENT = "PELLUCID_DATA"


def locate(
    data: DataConfig, data_dir: str | Path | None = None, environment: Mapping[str, str] = os.environ
) -> DataConfig:
    """`data` with the paths of its texts found: as they are, else in `data_dir`, else in PELLUCID_DATA.

    Raises DataError for a text to train or validate on that is nowhere, naming the places.
    """
    folders = [Path(), *(Path(f) for f in (data_dir, environment.get(ENVIRONMENT)) if f)]
    found: dict[str, Any] = {
        name: _find(getattr(data, name), folders, needed=not name.startswith("test")) for name in TEXT_FIELDS
    }
    return replace(data, **found)


def _find(path: str, folders: list[Path], needed: bool) -> str:
    if not path:
        return ""
    candidates = [folder / path for folder in folders]
    for candidate in candidates:
        if candidate.exists():
            return str(candidate)
    if not needed:
        return path
    raise DataError(
        f"no file `{path}`; looked for {', '.join(f'`{c}`' for c in candidates)}",
        f"name the folder that holds it by --data-dir or {ENVIRONMENT}",
    )
