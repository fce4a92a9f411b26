"""A model folder opened, whoever wrote it: our own format, or that of Hugging Face's transformers."""

from dataclasses import replace
from pathlib import Path

import torch

from pellucid.errors import CheckpointError, ConfigError
from pellucid.model.parts import Parts
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.weights.folder import DESCRIPTION, SavedModel, check_parts, is_foreign, load_folder


def open_folder(
    folder: Path,
    device: torch.device,
    dtype: torch.dtype | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
) -> SavedModel:
    """Returns the model of a folder, ours or one of Hugging Face's transformers, ready to use.

    `parts` and `tokenizer` are those of one's own that a folder of ours was saved with.

    Raises CheckpointError where it is not a model's folder, is damaged, was written for another engine, or holds what
    cannot be expressed here.
    """
    _refuse_exported(folder)
    if not is_foreign(folder):
        return load_folder(folder, device, dtype, parts, tokenizer)
    check_parts(folder, {"task": "translate"}, parts)
    if tokenizer is not None:
        raise ConfigError(f"`tokenizer=` is given, but `{folder}` is not a folder of Pellucid's own", "leave it out")
    # Here, so that whoever opens a folder of our own does not wait for the foreign families.
    from pellucid.weights.hugging_face.opening import open_foreign_folder

    saved = open_foreign_folder(folder)
    return replace(saved, model=saved.model.to(device, dtype))


def _refuse_exported(folder: Path) -> None:
    """Raises CheckpointError for a folder that was written for another engine, and holds no weights as we read them."""
    if (folder / DESCRIPTION).exists() or any(folder.glob("*.safetensors")):
        return
    graphs = [*folder.glob("onnx/*.onnx"), *folder.glob("encoder.onnx"), *folder.glob("decoder.onnx")]
    engine = "CTranslate2" if (folder / "model.bin").is_file() else "ONNX Runtime" if graphs else ""
    if engine:
        raise CheckpointError(
            f"`{folder}` holds a model for {engine}, which is not converted back",
            "name the folder that it was converted from; its README.md says how to run it",
        )
