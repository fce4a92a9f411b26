"""Reads the weights of a Hugging Face folder: safetensors, as one file or in shards, and pickles of tensors only."""

import pickle
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid.errors import CheckpointError, format_value
from pellucid.files.reading import read_settings
from pellucid.weights.hugging_face.hub import INDEX, PICKLE, SAFETENSORS
from pellucid.weights.pickles import check_archive, check_views
from pellucid.weights.tensors import FLOATS, load_tensors

POINTER = b"version https://git-lfs"
CONVERT = "`convert` writes the same model without a pickle"


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Returns the tensors of a folder by their names in it, floating-point numbers as float32, other types unchanged.

    A pickle is read by PyTorch's restricted loader, which builds only tensors, and a warning says so.

    Raises CheckpointError if there are no weights, a shard is missing or damaged, or a pickle contains other objects.
    """
    paths = _weight_files(folder)
    tensors: dict[str, Tensor] = {}
    for path in paths:
        _check_pointer(path)
        tensors |= _read_pickle(path) if path.suffix == ".bin" else load_tensors(path)
    # Quantized tensors stay so, to be rejected by name if the model requires them.
    return {name: tensor.float() if tensor.dtype in FLOATS.values() else tensor for name, tensor in tensors.items()}


def _check_pointer(path: Path) -> None:
    """Raises CheckpointError if a file is a git-lfs pointer."""
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise CheckpointError(
                f"`{path}` is a git-lfs pointer instead of the weights",
                "run `git lfs pull` in the folder",
            )


def _weight_files(folder: Path) -> list[Path]:
    for name in (SAFETENSORS, PICKLE):
        if (folder / name).is_file():
            return [folder / name]
        if (folder / f"{name}{INDEX}").is_file():
            return _shards(folder / f"{name}{INDEX}")
    others = sorted(path.name for path in folder.glob("*") if path.suffix in (".h5", ".msgpack", ".gguf", ".onnx"))
    raise CheckpointError(
        f"no weights in `{folder}`: neither `{SAFETENSORS}` nor `{PICKLE}`, as one file or in shards"
        + (f"; `{others[0]}` has an unsupported format" if others else ""),
        "copy the whole folder, including the files in git-lfs",
    )


def _shards(index: Path) -> list[Path]:
    """Returns the files that an index names. Raises CheckpointError for a file that is missing or in another folder."""
    where = read_settings(index).get("weight_map")
    if not isinstance(where, dict) or not where or not all(isinstance(name, str) for name in where.values()):
        raise CheckpointError(f"`{index}` is damaged: it has no `weight_map`", "copy the folder again")
    names = sorted(set(where.values()))
    for name in names:
        if name in ("", ".", "..") or set(name) & set("/\\:\0"):
            raise CheckpointError(f"`{index}` names the shard `{format_value(name)}`, which must be in the folder")
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{len(missing)} of the {len(names)} shards that `{index}` names are missing "
            f"(first: `{format_value(missing[0])}`)",
            "copy the whole folder",
        )
    return [index.parent / name for name in names]


def _read_pickle(path: Path) -> dict[str, Tensor]:
    warnings.warn(
        f"`{path}` is a pickle; it is read by a loader that builds only tensors and runs no code ({CONVERT})",
        stacklevel=2,
    )
    check_archive(path)
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        wanted = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f" (`{wanted[1]}`)" if wanted else ""
        raise CheckpointError(
            f"`{path}` is refused: it requires more than tensors{what}, or is damaged; no code of it was run",
            "ask its author for `model.safetensors`",
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"`{path}` ({path.stat().st_size:,} bytes) is damaged: {format_value(str(error))}", "copy the file again"
        ) from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise CheckpointError(f"`{path}` holds {type(state).__name__}, not a table of tensors", "copy the file again")
    check_views(state, path)
    return {str(name): tensor for name, tensor in state.items()}
