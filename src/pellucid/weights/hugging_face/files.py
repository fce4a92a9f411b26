"""The weights of a foreign folder: safetensors, whole or in shards, and pickles that hold nothing but tensors."""

import pickle
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid.errors import CheckpointError, shown
from pellucid.files.reading import read_settings
from pellucid.weights.hugging_face.hub import INDEX, PICKLE, SAFETENSORS
from pellucid.weights.pickles import check_archive, check_views
from pellucid.weights.tensors import FLOATS, load_tensors

POINTER = b"version https://git-lfs"
CONVERT = "`convert` writes the same model without a pickle"


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Returns the tensors of a folder by their names in it; floating-point numbers come as float32, all else as it is.

    A pickle is read by PyTorch's restricted loader, which builds tensors and nothing else, and a warning says so.

    Raises CheckpointError where there are no weights, a shard is missing or damaged, or a pickle wants more.
    """
    paths = _weight_files(folder)
    tensors: dict[str, Tensor] = {}
    for path in paths:
        _check_pointer(path)
        tensors |= _read_pickle(path) if path.suffix == ".bin" else load_tensors(path)
    # What is quantised stays so, to be refused by its name where the model asks for it.
    return {name: tensor.float() if tensor.dtype in FLOATS.values() else tensor for name, tensor in tensors.items()}


def _check_pointer(path: Path) -> None:
    """Raises CheckpointError where git-lfs left a text in the place of a file."""
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise CheckpointError(
                f"`{path}` is not the weights, but what git-lfs leaves in their place",
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
        f"no weights in `{folder}`: neither `{SAFETENSORS}` nor `{PICKLE}`, whole or in shards"
        + (f"; `{others[0]}` is of a kind that is not read" if others else ""),
        "copy the whole folder; a file that git-lfs left out is missing, too",
    )


def _shards(index: Path) -> list[Path]:
    """Returns the files that an index names. Raises CheckpointError for one that is missing, or lies elsewhere."""
    where = read_settings(index).get("weight_map")
    if not isinstance(where, dict) or not where or not all(isinstance(name, str) for name in where.values()):
        raise CheckpointError(f"`{index}` is damaged: it has no `weight_map`", "copy the folder again")
    names = sorted(set(where.values()))
    for name in names:
        if name in ("", ".", "..") or set(name) & set("/\\:\0"):
            raise CheckpointError(f"`{index}` names the shard `{shown(name)}`, which must lie in the folder")
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{len(missing)} of the {len(names)} shards that `{index}` names are missing "
            f"(first: `{shown(missing[0])}`)",
            "copy the whole folder",
        )
    return [index.parent / name for name in names]


def _read_pickle(path: Path) -> dict[str, Tensor]:
    warnings.warn(
        f"`{path}` is a pickle; it is read by a loader that builds tensors alone and runs nothing ({CONVERT})",
        stacklevel=2,
    )
    check_archive(path)
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        wanted = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f" (`{wanted[1]}`)" if wanted else ""
        raise CheckpointError(
            f"`{path}` is refused: it wants more than tensors{what}, or is damaged; nothing of it was run",
            "ask its author for `model.safetensors`",
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"`{path}` ({path.stat().st_size:,} bytes) is damaged: {shown(str(error))}", "copy the file again"
        ) from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise CheckpointError(f"`{path}` holds {type(state).__name__}, not a table of tensors", "copy the file again")
    check_views(state, path)
    return {str(name): tensor for name, tensor in state.items()}
