"""Loads a saved state dict: a PyTorch file, safetensors, or NumPy's archive. Nothing in it is executed."""

import math
import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pellucid.errors import CheckpointError, DataError, PellucidError, format_value
from pellucid.weights.pickles import check_archive, check_views
from pellucid.weights.tensors import load_tensors

KINDS = {
    ".safetensors": "safetensors", ".npz": "NumPy", ".pt": "PyTorch", ".pth": "PyTorch", ".bin": "PyTorch",
    ".ckpt": "PyTorch", ".tar": "PyTorch",
}  # fmt: skip
"""The kind of a file, by its ending."""
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def load_state_dict(path: Path) -> Mapping[str, Any]:
    """Returns the content of a file, tensors or arrays by name, unchanged.

    A pickle is read by PyTorch's restricted loader, which builds tensors and plain values and nothing else.

    Raises DataError if the file is missing or of another kind; CheckpointError if it is damaged, or a pickle that would
    run code.
    """
    if not path.is_file():
        raise DataError(f"no file `{path}`", "check the path; it is relative to the folder you are in")
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise DataError(
            f"`{path}` is not of a supported kind: {', '.join(KINDS)}",
            "save Keras weights with np.savez, PyTorch weights with torch.save(model.state_dict(), ...)",
        )
    if kind == "safetensors":
        return load_tensors(path)
    return _load_arrays(path) if kind == "NumPy" else _load_pickle(path)


def _load_arrays(path: Path) -> Mapping[str, Any]:
    try:
        check_archive(path)
        with zipfile.ZipFile(path) as archive:
            arrays = {
                entry.filename.removesuffix(".npy"): _read_array(archive, entry)
                for entry in archive.infolist()
                if entry.filename.endswith(".npy")
            }
    except PellucidError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy's parser of headers have a dozen kinds
        raise _make_damaged_error(path, error) from error
    if not arrays:
        raise CheckpointError(f"`{path}` ({path.stat().st_size:,} bytes) has no array", "save it with np.savez")
    return {name: array for name, array in arrays.items() if array is not None}


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> npt.NDArray[Any] | None:
    """Returns an array of an archive; None if it holds no numbers. Raises ValueError if shape and bytes do not fit.

    NumPy itself allocates memory for the shape in the header before it finds that bytes are missing.
    """
    with archive.open(entry) as file:
        read_header = _HEADERS.get(np.lib.format.read_magic(file))
        if read_header is None:
            raise ValueError(f"`{format_value(entry.filename)}` is of an unknown version")
        shape, in_columns, dtype = read_header(file)
        if dtype.kind not in "fiu":
            return None
        size = math.prod(shape) * dtype.itemsize
        if any(length < 0 for length in shape) or size != entry.file_size - file.tell():
            raise ValueError(
                f"`{format_value(entry.filename)}` has the shape {format_value(shape)}, which are {size:,} bytes, and "
                f"{entry.file_size - file.tell():,} bytes of numbers"
            )
        numbers = np.frombuffer(file.read(size), dtype)
        return numbers.reshape(shape, order="F" if in_columns else "C")


def _load_pickle(path: Path) -> Mapping[str, Any]:
    try:
        check_archive(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the number formats of old files
            state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"`{path}` is refused: it holds more than tensors, or is damaged; no code of it was run",
            "load it where you trained it, then torch.save(model.state_dict(), ...)",
        ) from error
    except PellucidError:
        raise
    except Exception as error:  # the bytes of a damaged file decide which
        raise _make_damaged_error(path, error) from error
    if not isinstance(state, Mapping):
        raise CheckpointError(f"`{path}` holds a `{type(state).__name__}`, not a state dict", "save model.state_dict()")
    try:
        tensors = {str(name): value for name, value in _walk(state) if isinstance(value, torch.Tensor)}
    except RecursionError as error:  # a table that holds itself
        raise _make_damaged_error(path, error) from error
    check_views(tensors, path)
    return state


def _walk(table: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Yields the entries of a checkpoint and of its nested tables."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", each) for inner, each in _walk(value))
        else:
            yield name, value


def _make_damaged_error(path: Path, error: Exception) -> CheckpointError:
    reason = format_value(str(error)) or type(error).__name__
    return CheckpointError(f"`{path}` ({path.stat().st_size:,} bytes) is damaged: {reason}", "save it again")
