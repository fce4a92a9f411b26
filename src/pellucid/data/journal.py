"""Files that grow together, and a record of how far they are: what a kill leaves is cut off, and the rest gone on with.

    with Journal(folder, "what it is made from", ("source.ids", "target.ids")) as journal:
        for place in range(journal.state.get("place", 0), end):
            journal.append("source.ids", ...)
            journal.state["place"] = place + 1
            journal.commit()

The record is written after what it speaks of is on the disk. So it may say too little, and never too much.
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
"""The time between two records: as much is lost in a kill, and has to be made again."""


class Journal:
    """Appends to the files of a folder; `state` is what whoever goes on needs to know."""

    def __init__(self, folder: Path, key: str, names: Sequence[str]) -> None:
        """Opens the folder, or makes it anew where it holds something else than `key` names, or is damaged."""
        self.folder: Path = folder
        self.key: str = key
        self.state: dict[str, Any] = {}
        sizes = dict.fromkeys(names, 0)
        try:
            table = json.loads((folder / RECORD).read_text(encoding="utf-8"))
            there = {name: (folder / name).stat().st_size for name in names}
            if table["key"] != key or any(there[name] < table["sizes"][name] for name in names):
                raise ValueError("the record of something else")
            self.state, sizes = dict(table["state"]), {name: int(table["sizes"][name]) for name in names}
        except (OSError, ValueError, KeyError, TypeError):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.goes_on: bool = bool(self.state)
        """True where something was there to go on with."""
        self._files: dict[str, BinaryIO] = {}
        for name in names:
            file = self._files[name] = (folder / name).open("ab")
            file.truncate(sizes[name])
            file.seek(0, os.SEEK_END)
        self._recorded = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Not recorded here: what raised may have left one of the files ahead of the others.
        for file in self._files.values():
            with suppress(OSError):
                file.close()

    def append(self, name: str, content: bytes) -> None:
        """Appends to one of the files."""
        self._files[name].write(content)

    def commit(self, at_once: bool = False) -> None:
        """Records how far the files are, where that is due: with `state`, which must belong to just these contents."""
        if not at_once and time.monotonic() - self._recorded < SECONDS:
            return
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        sizes = {name: file.tell() for name, file in self._files.items()}
        write_text(self.folder / RECORD, json.dumps({"key": self.key, "state": self.state, "sizes": sizes}))
        self._recorded = time.monotonic()

    def finish(self) -> None:
        """Puts all of it on the disk, and removes the record: the files are whole."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        self._files = {}
        self.state = {}
        (self.folder / RECORD).unlink(missing_ok=True)
