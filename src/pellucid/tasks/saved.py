"""A model folder opened for a task, and what to say where the model in it is for another one."""

import os
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch

from pellucid.config import DecodeConfig
from pellucid.errors import CheckpointError, ConfigError
from pellucid.model.families import Model
from pellucid.tasks.devices import find_device, find_dtype
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights.folder import SavedModel
from pellucid.weights.opening import open_folder

KINDS = {
    "translate": "a translator",
    "classify": "a classifier",
    "generate": "a language model",
    "encode": "an encoder without a head",
}
USES = {
    "translate": "pellucid.Translator, or `pellucid translate`",
    "classify": "pellucid.Classifier, or `pellucid classify`",
    "generate": "pellucid.LanguageModel, or `pellucid generate`",
    "encode": '`pellucid train --init-from` with a recipe of `task = "classify"`, which gives it one',
}


@cache
def _compute_alone_in_forks() -> None:
    """Has a process that is forked off compute in one thread.

    It gets none of its parent's threads, and the library that hands work to them (OpenMP) waits for them for ever.
    """
    if hasattr(os, "register_at_fork"):  # Windows does not fork
        os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


@dataclass(frozen=True)
class ReadyModel:
    """A saved model that has all that its task needs."""

    model: Model
    tokenizers: Tokenizers
    decode: DecodeConfig
    labels: tuple[str, ...]


def load_for(
    task: str,
    folder: str | Path,
    device: str | torch.device,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
) -> ReadyModel:
    """The model of a folder, which must be for `task`.

    Raises CheckpointError where there is none, it is damaged, is for another task, or has no tokenizer.
    """
    return ready(open_model(folder, device, dtype, revision), task, folder)


def open_model(
    folder: str | Path,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
) -> SavedModel:
    """The model of a folder, or of a name on the hub (at a `revision`), whatever it is for."""
    _compute_alone_in_forks()
    return open_folder(model_folder(folder, revision), find_device(str(device)), find_dtype(dtype))


def model_folder(name: str | Path, revision: str | None = None) -> Path:
    """Returns a model's folder; of `org/model`, where no such path can be meant, the one in the hub's cache.

    `org/model@v2` is the model at a branch, a tag or a commit; so is `revision="v2"`, which folders do not have.
    Raises ConfigError for a revision of a folder, CheckpointError where the hub and its cache have no such model.
    """
    from pellucid.weights.hugging_face.hub import find_folder, is_hub_name

    path = Path(name)
    if is_hub_name(name) and "/" in str(name).partition("@")[0] and not path.parent.exists():
        return find_folder(name, revision)
    if revision is not None:
        raise ConfigError(f"`revision` ({revision}) is for a name on the hub, but `{name}` is a folder", "leave it out")
    return path


def ready(saved: SavedModel, task: str, folder: str | Path) -> ReadyModel:
    """The same for a folder that has been read already."""
    if saved.task != task:
        raise CheckpointError(f"`{folder}` holds {KINDS[saved.task]}, not {KINDS[task]}", f"use {USES[saved.task]}")
    if saved.tokenizers is None:
        raise CheckpointError(
            f"the model in `{folder}` has no tokenizer, so it cannot read text", "copy the tokenizer's files into it"
        )
    return ReadyModel(saved.model, saved.tokenizers, saved.decode, saved.labels)
