"""The model folder: config.json, model.safetensors, the tokenizer's files, README.md. Nothing in it is executed."""

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from pellucid.config import FORMAT, DecodeConfig, ModelConfig
from pellucid.errors import CheckpointError, ConfigError, did_you_mean
from pellucid.model.transformer import Transformer
from pellucid.tables import from_table, to_table
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights.files import move_into_place, write_text
from pellucid.weights.tensors import load_tensors, parameters, save_tensors, set_parameters

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
TASK = "translate"
SECTIONS = ("model", "tokenizer", "decode")


@dataclass(frozen=True)
class SavedModel:
    """What a model folder holds."""

    model: Transformer
    tokenizers: Tokenizers
    decode: DecodeConfig


def save_description(folder: Path, model: ModelConfig, tokenizers: Tokenizers, decode: DecodeConfig, card: str) -> None:
    """Writes all of a model folder but the weights: config.json, the tokenizer's files, the model card README.md."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "format": FORMAT,
        "task": TASK,
        "model": to_table(model),
        "tokenizer": _save_tokenizers(folder, tokenizers),
        "decode": to_table(decode),
    }
    write_text(folder / "README.md", card)
    write_text(folder / CONFIG, json.dumps(config, indent=2, ensure_ascii=False) + "\n")


def save_weights(folder: Path, model: Transformer) -> None:
    """Writes model.safetensors; replaces an earlier one in one piece."""
    save_tensors(folder / WEIGHTS, parameters(model))


def load_folder(folder: Path, device: torch.device, dtype: torch.dtype | None = None) -> SavedModel:
    """The model of a folder, ready to use. Raises CheckpointError where the folder is none, or is damaged."""
    table = read_config(folder)
    try:
        config = from_table(ModelConfig, table["model"], "[model]")
        decode = from_table(DecodeConfig, table["decode"], "[decode]")
    except ConfigError as error:
        raise CheckpointError(f"`{folder / CONFIG}` is damaged: {error}", "copy the folder again") from error
    tokenizers = Tokenizers.load(folder, table["tokenizer"])
    tensors = load_tensors(folder / WEIGHTS)
    model = Transformer(config)
    set_parameters(model, tensors, f"`{folder / WEIGHTS}`")
    return SavedModel(model.to(device, dtype).eval(), tokenizers, decode)


def read_config(folder: Path) -> dict[str, Any]:
    """The contents of config.json, checked as far as its format and its sections. Raises CheckpointError for others."""
    path = folder / CONFIG
    if not path.is_file():
        siblings = [p.parent.name for p in folder.parent.glob(f"*/{CONFIG}")]
        reason = (
            f"no {CONFIG} in it" if folder.is_dir() else "it is a file" if folder.is_file() else "it does not exist"
        )
        raise CheckpointError(
            f"`{folder}` is not a model folder: {reason}{did_you_mean(folder.name, siblings)}",
            "a run folder becomes one at its first validation",
        )
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"`{path}` is damaged: {error}", "copy the folder again") from error
    version = table.get("format") if isinstance(table, dict) else None
    if version is None:
        raise CheckpointError(f"`{path}` does not describe a Pellucid model: it has no `format`", "name a model folder")
    if version != FORMAT or table.get("task") != TASK:
        raise CheckpointError(
            f"`{path}` has format {version!r} and task {table.get('task')!r}; this version reads {FORMAT!r}, {TASK!r}",
            "upgrade pellucid",
        )
    for section in SECTIONS:
        if not isinstance(table.get(section), dict):
            raise CheckpointError(f"`{path}` is damaged: it has no table `{section}`", "copy the folder again")
    return dict(table)


def _save_tokenizers(folder: Path, tokenizers: Tokenizers) -> dict[str, object]:
    """Writes the tokenizers' files, each of them whole or not at all, and returns their table."""
    with TemporaryDirectory(prefix=".tokenizers.", dir=folder) as name:
        table = tokenizers.save(Path(name))
        for path in Path(name).iterdir():
            move_into_place(path, folder / path.name)
    return table
