"""Making again what a run's folder has lost: nobody else has a copy of it.

Each checkpoint's state.json keeps what the run comes from: its recipe and its plan as they were written, a fingerprint
of texts, settings and tokenizers, and the SHA-256 of the files that describe the model. From these, the command and the
texts, all that lies beside the checkpoints is written again, and it must come out as it was.
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
from pellucid.files.reading import sha256_of
from pellucid.run.folder import OWN, RunFolder
from pellucid.run.lock import LOCK
from pellucid.text.tokenizers import Tokenizers
from pellucid.training.trackers import FOLDERS
from pellucid.weights.folder import CONFIG, DESCRIPTION, WEIGHTS, read_config, save_description

FILES = "files"
"""The key, among what a run comes from, of the SHA-256 of the files that describe its model."""


def digest_description(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file that describes a folder's model, but for the card, which people may edit."""
    table = read_config(folder)
    names = [DESCRIPTION, CONFIG, *table["tokenizer"].get("files", {}).values()]
    return {name: sha256_of(folder / name) for name in names if (folder / name).is_file()}


def find_loss(run: RunFolder) -> str:
    """Returns what is wrong with the files that describe a run's model; empty where all is as it was written."""
    marks = run.origin.get(FILES)
    if not marks:
        return _unreadable(run.path) if (run.path / WEIGHTS).is_file() and run.has_checkpoints else ""
    for name, digest in marks.items():
        path = run.path / name
        if not path.is_file():
            return f"`{path}` is not there any more"
        if sha256_of(path) != digest:
            return f"`{path}` is not as it was written"
    return ""


def _unreadable(folder: Path) -> str:
    """Returns what cannot be read of a model's description, in a run that an earlier version began."""
    try:
        Tokenizers.load(folder, read_config(folder)["tokenizer"])
    except CheckpointError as error:
        return str(error)
    return ""


def must_be_mended(run: RunFolder) -> bool:
    """Tells whether a finished run has lost what its checkpoints can make again."""
    return run.has_checkpoints and (not (run.path / WEIGHTS).is_file() or bool(find_loss(run)))


def check_mended(run: RunFolder, what: str, **description: Any) -> None:
    """Raises CheckpointError where the description is not the one that the run began with.

    Args:
        what: what `find_loss` has said.
        description: what save_description takes beside a folder.
    """
    marks = run.origin.get(FILES)
    if not marks:
        return
    with TemporaryDirectory() as name:
        save_description(Path(name), **description)
        found = digest_description(Path(name))
    other = sorted(name for name in marks if found.get(name) != marks[name])
    if other:
        raise CheckpointError(
            f"{what}, and what the command and the texts give for `{'` and `'.join(other)}` is not what it was",
            "copy the file from elsewhere, finish the run with the version that began it, or start over with "
            "`fresh=True`",
        )


def check_places(run: RunFolder) -> None:
    """Raises ConfigError where a folder, a pipe, or a link that leads to itself lies where the run has a file."""
    for name in (LOCK, RECIPE, *(name for name in OWN if "*" not in name and not name.startswith("data/"))):
        path = run.path / name
        try:
            if not os.path.lexists(path) or path.is_file() or name in FOLDERS:
                continue
            os.stat(path)
        except OSError as error:
            if error.errno != errno.ELOOP:
                continue
            raise ConfigError(f"`{path}` is a link that leads to itself", _MOVE) from error
        if path.is_dir():
            raise ConfigError(f"`{path}` is a folder, and the run has a file there", _MOVE)
    for path in run.path.rglob("*"):  # to open a pipe is to wait for whoever is at its other end
        with suppress(OSError):
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise ConfigError(f"`{path}` is a pipe or a device, and the run has files", _MOVE)


_MOVE = "move it away and give the same command again, or choose another `out=`"
