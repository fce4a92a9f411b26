"""The state dict that somebody saved: a PyTorch file, safetensors, or NumPy's archive. Nothing in it is executed."""

import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pellucid.errors import CheckpointError, DataError
from pellucid.weights.tensors import load_tensors

KINDS = {
    ".safetensors": "safetensors", ".npz": "NumPy", ".pt": "PyTorch", ".pth": "PyTorch", ".bin": "PyTorch",
    ".ckpt": "PyTorch", ".tar": "PyTorch",
}  # fmt: skip
"""What a file's ending says."""


def load_state_dict(path: Path) -> Mapping[str, Any]:
    """What a file holds, tensors or arrays by name, as it is.

    A pickle is read by PyTorch's restricted loader, which builds tensors and plain values and nothing else.

    Raises DataError where there is no such file, or of another kind; CheckpointError where it is damaged, or wants to
    run something.
    """
    if not path.is_file():
        raise DataError(f"no file `{path}`", "check the path; it is relative to the folder you are in")
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise DataError(
            f"`{path}` is of no kind that is read: {', '.join(KINDS)}",
            "save Keras weights by np.savez, PyTorch's by torch.save(model.state_dict(), ...)",
        )
    if kind == "safetensors":
        return load_tensors(path)
    return _load_arrays(path) if kind == "NumPy" else _load_pickle(path)


def _load_arrays(path: Path) -> Mapping[str, Any]:
    try:
        # np.load would leave a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if archive[name].dtype.kind in "fiu"}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"`{path}` ({path.stat().st_size:,} bytes) is damaged: {error}", "save it again"
        ) from error


def _load_pickle(path: Path) -> Mapping[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about how old files stored their numbers
            state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"`{path}` is refused: it holds more than tensors, or is damaged; nothing in it was run",
            "where you trusted it when you trained it: load it there, then torch.save(model.state_dict(), ...)",
        ) from error
    except Exception as error:  # the bytes of a damaged file decide which
        raise CheckpointError(
            f"`{path}` ({path.stat().st_size:,} bytes) is damaged: {error}", "save it again"
        ) from error
    if not isinstance(state, Mapping):
        raise CheckpointError(f"`{path}` holds a `{type(state).__name__}`, not a state dict", "save model.state_dict()")
    return state
