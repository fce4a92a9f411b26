"""Rejects pickles and archives of weights that claim more than their bytes can hold, before memory is allocated."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from pellucid.errors import CheckpointError, format_value

MOST_UNPACKED = 20
"""The largest allowed ratio of unpacked to packed bytes of an archive; trained weights do not reach 2."""
SMALL = 2**26
"""Bytes that any archive may unpack to: zeros compress well."""
MOST_VIEWS = 8
"""The largest allowed ratio of the tensors' total bytes to the file's bytes: tied embeddings are one tensor under four
names.
"""


def check_archive(path: Path) -> None:
    """Raises CheckpointError if the file is a zip archive that would unpack to far more than its own bytes."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    packed = path.stat().st_size
    if unpacked > max(MOST_UNPACKED * packed, SMALL):
        raise CheckpointError(
            f"`{path}` ({packed:,} bytes) would unpack to {unpacked:,} bytes; the limit is {MOST_UNPACKED} times its "
            "size",
            "save it again, without compression",
        )


def check_views(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raises CheckpointError if tensors of a pickle share their bytes too often: one number can claim a terabyte."""
    packed, total = path.stat().st_size, 0
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise CheckpointError(
                f"`{path}`: `{format_value(name)}` is not a plain tensor", "save its dense, unquantised form"
            )
        total += tensor.numel() * tensor.element_size()
    if total > max(MOST_VIEWS * packed, SMALL):
        raise CheckpointError(
            f"`{path}` ({packed:,} bytes) describes tensors of {total:,} bytes; they are expanded views",
            "save it again, each tensor by `.clone()`",
        )
