"""The cache of data derived from large texts: shared by all runs, keyed by the content of the texts.

files.json            the SHA-256 of each text, with its size and time of change at that moment
.lock                 held by the process that prepares data
<digest>/             data derived from certain texts with certain settings
    made-of.json      these texts and settings, for readers
    inspection/       the pairs that are used, and the issues found: see `streamed_inspection`
    tokenizer-<key>/  tokenizers
    ids-<key>/        encoded corpora: see `shards`
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.config import DataConfig
from pellucid.data.download_cache import cache_folder
from pellucid.data.lines import check_text_file, hash_path
from pellucid.errors import DataError
from pellucid.files.lock import lock_or_wait
from pellucid.files.reading import read_stored_table
from pellucid.files.records import is_settled, read_file_stamp
from pellucid.files.writing import describe_disk_error, is_disk_failure, write_json

FILES = "files.json"
LARGE = 1 << 28
"""Bytes: texts of at least this size on the disk, 256 MiB, are cached by default."""


@dataclass(frozen=True)
class DatasetCache:
    """A folder of data derived from large texts."""

    folder: Path
    log_line: Callable[[str], object] = str

    @classmethod
    def for_settings(cls, data: DataConfig, log_line: Callable[[str], object]) -> "DatasetCache | None":
        """Returns the cache in the folder that the settings name, else the user's cache for large texts; None for
        smaller texts.
        """
        if data.cache_dir:
            return cls(Path(data.cache_dir), log_line)
        files = [Path(path) for name in ("src", "tgt") for path in data.files(name)]
        size = sum(read_file_stamp(path)[0] for path in files if path.exists())
        return cls(cache_folder() / "prepared", log_line) if size >= LARGE else None

    def digests(self, paths: Sequence[str]) -> dict[str, str]:
        """Returns the SHA-256 of texts; a stored one if size and time of change are the same.

        Raises DataError for a text that is missing, or changes while it is read.
        """
        files = {str(_there(Path(path)).resolve()): path for path in paths}
        noted = self._read_notes()
        found, missing = {}, []
        for file in files:
            size, changed, digest = noted.get(file, (0, 0, ""))
            if digest and (size, changed) == read_file_stamp(Path(file)):
                found[file] = digest
            else:
                missing.append(file)
        if missing:
            stamps = {file: read_file_stamp(Path(file)) for file in missing}
            with ThreadPoolExecutor(min(8, len(missing))) as pool:
                found |= dict(zip(missing, pool.map(hash_path, missing), strict=True))
            for file in missing:
                if read_file_stamp(Path(file)) != stamps[file]:
                    raise make_text_modified_error(files[file])
            settled = {file: stamps[file] for file in missing if is_settled(stamps[file])}
            if settled:
                with self.lock(self.folder):
                    write_json(
                        self.folder / FILES,
                        self._read_notes() | {f: [*stamp, found[f]] for f, stamp in settled.items()},
                    )
        return {path: found[file] for file, path in files.items()}

    def get_folder(self, made_of: Mapping[str, Any]) -> Path:
        """Returns the folder for data derived from certain texts with certain settings."""
        digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
        return self.folder / digest[:24]

    @contextmanager
    def lock(self, folder: Path) -> Iterator[None]:
        """Locks a folder of the cache for this process; if another process holds it, logs a line and waits.

        Raises DataError if the disk is full, or the folder cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            waiting = f"waiting for another process that is preparing these texts in `{folder}`"
            with lock_or_wait(folder / ".lock", lambda: self.log_line(waiting)):
                yield
        except OSError as error:
            if isinstance(error.filename, str) and not Path(error.filename).absolute().is_relative_to(
                self.folder.absolute()
            ):
                raise
            full = is_disk_failure(error)
            reason = describe_disk_error(error, folder) if full else error.strerror
            raise DataError(
                f"cannot write the prepared texts to `{folder}`: {reason}",
                ("free disk space and run the same command again to continue" if full else "check its permissions")
                + ", or set `data.cache_dir` to another folder",
                exit_status=1 if full else 2,
            ) from error

    def _read_notes(self) -> dict[str, tuple[int, int, str]]:
        try:
            table = read_stored_table(self.folder / FILES)
            return {str(path): (int(size), int(changed), str(sha)) for path, (size, changed, sha) in table.items()}
        except (ValueError, TypeError):
            return {}


def _there(path: Path) -> Path:
    return path if path.is_dir() else check_text_file(path)


def make_text_modified_error(path: str) -> DataError:
    """Returns the error for a text that is modified while it is read."""
    return DataError(
        f"`{path}` changed while it was being read", "wait until it is complete, and run the same command again"
    )
