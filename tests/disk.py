"""Writes that do not wait for the disk: no test cuts the power, and what is written is there for each process."""

import os
import stat

fsync = os.fsync
"""The system's own."""


def without_waiting() -> None:
    """Has `os.fsync` in this process say of files and folders at once what it would say in the end."""
    os.fsync = _looked_at


def _looked_at(handle: int) -> None:
    """Raises what os.fsync raises for what is not open, or is no file: a pipe has nothing to bring to a disk."""
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        fsync(handle)
