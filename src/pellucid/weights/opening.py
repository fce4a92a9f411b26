"""Opens a model folder in Pellucid's format or in the format of Hugging Face's transformers."""

from dataclasses import replace
from pathlib import Path

import torch

from pellucid.errors import CheckpointError, ConfigError
from pellucid.model.parts import Parts
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.weights.folder import DESCRIPTION, SavedModel, check_parts, is_hugging_face_folder, load_folder


def open_folder(
    folder: Path,
    device: torch.device,
    dtype: torch.dtype | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
) -> SavedModel:
    """Returns the model of a folder, Pellucid's or Hugging Face's, ready to use.

    `parts` and `tokenizer` are the custom objects that a Pellucid folder was saved with.

    Raises CheckpointError if it is not a model folder, is damaged, was exported for another engine, or cannot be
    expressed here.
    """
    _refuse_exported(folder)
    if not is_hugging_face_folder(folder):
        return load_folder(folder, device, dtype, parts, tokenizer)
    check_parts(folder, {"task": "translate"}, parts)
    if tokenizer is not None:
        raise ConfigError(f"`tokenizer=` is given, but `{folder}` is not a Pellucid model folder", "leave it out")
    # Imported here, so that opening a Pellucid folder does not import the Hugging Face families.
    from pellucid.weights.hugging_face.opening import open_hugging_face_folder

    saved = open_hugging_face_folder(folder)
    return replace(saved, model=saved.model.to(device, dtype))


def _refuse_exported(folder: Path) -> None:
    """Raises CheckpointError for a folder that was exported for another engine and has no weights in a format read
    here.
    """
    if (folder / DESCRIPTION).exists() or any(folder.glob("*.safetensors")):
        return
    graphs = [*folder.glob("onnx/*.onnx"), *folder.glob("encoder.onnx"), *folder.glob("decoder.onnx")]
    engine = "CTranslate2" if (folder / "model.bin").is_file() else "ONNX Runtime" if graphs else ""
    if engine:
        raise CheckpointError(
            f"`{folder}` holds a model for {engine}, which cannot be converted back",
            "name the folder that it was converted from; its README.md shows how to run it",
        )
