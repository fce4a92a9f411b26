"""Resumable appends to several files, with a record of their sizes: after a kill, unrecorded data is truncated.

    with Journal(folder, "what it is made from", ("source.ids", "target.ids")) as journal:
        for place in range(journal.state.get("place", 0), end):
            journal.append("source.ids", ...)
            journal.state["place"] = place + 1
            journal.commit()

The record is written after its data is on disk. It can therefore lag behind the files, but never be ahead of them.
"""

import json
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from pellucid.files.writing import write_text

RECORD = "journal.json"
SECONDS = 5.0
"""Seconds between two records: a kill loses at most this much work."""


class Journal:
    """Appends to the files of a folder; `state` is the data needed to resume."""

    def __init__(self, folder: Path, key: str, names: Sequence[str]) -> None:
        """Opens the folder; creates it again if its key differs from `key` or it is damaged."""
        self.folder: Path = folder
        self.key: str = key
        self.state: dict[str, Any] = {}
        sizes = dict.fromkeys(names, 0)
        try:
            table = json.loads((folder / RECORD).read_text(encoding="utf-8"))
            there = {name: (folder / name).stat().st_size for name in names}
            if table["key"] != key or any(there[name] < table["sizes"][name] for name in names):
                raise ValueError("the record of another journal")
            self.state, sizes = dict(table["state"]), {name: int(table["sizes"][name]) for name in names}
        except (OSError, ValueError, KeyError, TypeError):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.goes_on: bool = bool(self.state)
        """True if there was a state to resume from."""
        self._files: dict[str, BinaryIO] = {}
        for name in names:
            file = self._files[name] = (folder / name).open("ab")
            file.truncate(sizes[name])
            file.seek(0, os.SEEK_END)
        self._recorded = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Not recorded here: after an error, one of the files may be ahead of the others.
        for file in self._files.values():
            with suppress(OSError):
                file.close()

    def append(self, name: str, content: bytes) -> None:
        """Appends to one of the files."""
        self._files[name].write(content)

    def commit(self, at_once: bool = False) -> None:
        """Records the sizes of the files and `state`, which must match them, if SECONDS have passed or `at_once`."""
        if not at_once and time.monotonic() - self._recorded < SECONDS:
            return
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        sizes = {name: file.tell() for name, file in self._files.items()}
        write_text(self.folder / RECORD, json.dumps({"key": self.key, "state": self.state, "sizes": sizes}))
        self._recorded = time.monotonic()

    def finish(self) -> None:
        """Flushes all files to disk and removes the record: the files are complete."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        self._files = {}
        self.state = {}
        (self.folder / RECORD).unlink(missing_ok=True)
