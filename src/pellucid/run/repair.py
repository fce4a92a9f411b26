"""Repairs a run folder: rebuilds missing or damaged files, of which there is no other copy.

Each checkpoint's state.json has the origin of the run: its recipe and plan as written, a fingerprint of texts, settings
and tokenizers, and the SHA-256 of the files that describe the model. From the origin, the command and the texts, all
files other than the checkpoints are written again, and must be identical.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pellucid.config import RECIPE
from pellucid.errors import CheckpointError, ConfigError
from pellucid.files.reading import hash_file
from pellucid.files.records import find_damaged
from pellucid.run.folder import OWN, RunFolder
from pellucid.run.lock import LOCK
from pellucid.text.tokenizers import TokenizerPair
from pellucid.training.trackers import FOLDERS
from pellucid.weights.folder import CONFIG, DESCRIPTION, WEIGHTS, read_config, save_description

FILES = "files"
"""The key, in the origin of a run, of the SHA-256 of the files that describe its model."""


def hash_description(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file that describes a folder's model, except for the card, which users may edit."""
    table = read_config(folder)
    names = [DESCRIPTION, CONFIG, *table["tokenizer"].get("files", {}).values()]
    return {name: hash_file(folder / name) for name in names if (folder / name).is_file()}


def find_missing_file(run: RunFolder) -> str:
    """Returns the defect of the files that describe a run's model; empty if there is none."""
    marks = run.origin.get(FILES)
    if not marks:
        return _unreadable(run.path) if (run.path / WEIGHTS).is_file() and run.has_checkpoints else ""
    name = find_damaged(run.path, marks)
    if name is None:
        return ""
    path = run.path / name
    return f"`{path}` has changed since it was written" if path.is_file() else f"`{path}` is missing"


def _unreadable(folder: Path) -> str:
    """Returns the error of reading a model's description, in a run that an earlier version began."""
    try:
        TokenizerPair.load(folder, read_config(folder)["tokenizer"])
    except CheckpointError as error:
        return str(error)
    return ""


def needs_repair(run: RunFolder) -> bool:
    """Returns True if a finished run has lost files that its checkpoints can rebuild."""
    return run.has_checkpoints and (not (run.path / WEIGHTS).is_file() or bool(find_missing_file(run)))


def check_repair(run: RunFolder, what: str, **description: Any) -> None:
    """Raises CheckpointError if the description differs from the one that the run began with.

    Args:
        what: the result of `find_missing_file`.
        description: the arguments of save_description other than the folder.
    """
    marks = run.origin.get(FILES)
    if not marks:
        return
    with TemporaryDirectory() as name:
        save_description(Path(name), **description)
        found = hash_description(Path(name))
    other = sorted(name for name in marks if found.get(name) != marks[name])
    if other:
        raise CheckpointError(
            f"{what}, and rebuilding it gives other contents for `{'` and `'.join(other)}`",
            "restore the file from a copy, finish the run with the version that started it, or start over with "
            "`fresh=True`",
        )


def check_file_types(run: RunFolder) -> None:
    """Raises ConfigError if a folder, a pipe, or a link to itself is at the path of one of the run's files."""
    for name in (LOCK, RECIPE, *(name for name in OWN if "*" not in name and not name.startswith("data/"))):
        path = run.path / name
        try:
            if not os.path.lexists(path) or path.is_file() or name in FOLDERS:
                continue
            os.stat(path)
        except OSError as error:
            if error.errno != errno.ELOOP:
                continue
            raise ConfigError(f"`{path}` is a link to itself", _MOVE) from error
        if path.is_dir():
            raise ConfigError(f"`{path}` is a folder, but the run requires a file there", _MOVE)
    for path in run.path.rglob("*"):  # opening a pipe blocks until another process opens its other end
        with suppress(OSError):
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise ConfigError(f"`{path}` is a pipe or a device, but the run requires regular files", _MOVE)


_MOVE = "move it away and run the same command again, or choose another `out=`"
