"""Refuses pickles and archives of weights that claim more than their bytes can hold, before memory is taken."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from pellucid.errors import CheckpointError, shown

MOST_UNPACKED = 20
"""Times its own bytes that an archive may unpack to; trained weights do not reach twice."""
SMALL = 2**26
"""Bytes that any archive may unpack to: zeros pack well."""
MOST_VIEWS = 8
"""Times its own bytes that the tensors of a file may have together: tied embeddings are one and the same four times."""


def check_archive(path: Path) -> None:
    """Raises CheckpointError where a zip archive, if the file is one, would unpack to far more than it has."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    packed = path.stat().st_size
    if unpacked > max(MOST_UNPACKED * packed, SMALL):
        raise CheckpointError(
            f"`{path}` ({packed:,} bytes) would unpack to {unpacked:,} bytes; at most {MOST_UNPACKED} times its bytes "
            "are unpacked",
            "save it again, without compression",
        )


def check_views(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raises CheckpointError where tensors of a pickle repeat their bytes: one number can stand for a terabyte."""
    packed, total = path.stat().st_size, 0
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise CheckpointError(
                f"`{path}`: `{shown(name)}` is not a plain tensor", "save its dense, unquantised form"
            )
        total += tensor.numel() * tensor.element_size()
    if total > max(MOST_VIEWS * packed, SMALL):
        raise CheckpointError(
            f"`{path}` ({packed:,} bytes) describes tensors of {total:,} bytes; they repeat what they hold",
            "save it again, each tensor by `.clone()`",
        )
