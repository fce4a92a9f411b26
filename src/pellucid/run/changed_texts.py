"""Whether a finished run's texts are still those that it was trained on."""

import json
from pathlib import Path

from pellucid.config import DataConfig
from pellucid.data.lines import fingerprint
from pellucid.data.locate import locate
from pellucid.data.prepare import RECORD
from pellucid.errors import DataError


def changed_texts(run: Path, data: DataConfig, data_dir: str | Path | None = None) -> tuple[str, ...]:
    """The files of `data` whose SHA-256 is not the one that the run has noted, in the order of the settings.

    Texts that are not there any more say nothing, nor does a run without its record. Reading a gigabyte takes about a
    second.
    """
    try:
        noted = json.loads((run / RECORD).read_text(encoding="utf-8"))["sha256"]
        found = locate(data, data_dir)
        return tuple(
            path
            for name, digests in noted.items()
            for number, path in enumerate(found.files(name))
            if fingerprint(path) not in digests[number : number + 1]
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DataError):
        return ()
