"""Downloads models by name from Hugging Face's hub into its cache (extra `hf`), and only the files that are read."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pellucid.config.environment import is_offline
from pellucid.errors import CheckpointError, ConfigError, format_install_command, format_value

SAFETENSORS = "model.safetensors"
PICKLE = "pytorch_model.bin"
INDEX = ".index.json"
SETTINGS = ["*.json", "*.txt", "*.model", "*.spm", "*.bpe"]
"""Settings and tokenizers. The names of tokenizers' files have few endings and many beginnings."""
WEIGHTS = [SAFETENSORS, f"{SAFETENSORS}{INDEX}", "model-*-of-*.safetensors"]
PICKLES = [PICKLE, f"{PICKLE}{INDEX}", "pytorch_model-*-of-*.bin"]

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(@[\w./-]+)?")


def is_hub_name(name: str | Path) -> bool:
    """Returns True if this may be the name of a model on the hub, and not an existing path.

    `model` or `org/model`; `@` and a branch, a tag or a commit may follow.
    """
    text = str(name)
    return _NAME.fullmatch(text) is not None and ".." not in text and not Path(name).exists()


def find_folder(folder_or_name: str | Path, revision: str | None = None, offline: bool | None = None) -> Path:
    """Returns the folder itself, or the one in the cache that holds the model of this name.

    Raises CheckpointError if there is neither.
    """
    if not is_hub_name(folder_or_name):
        folder = Path(folder_or_name)
        if not folder.exists():
            raise CheckpointError(
                f"`{format_value(folder)}` is not a model folder: it does not exist",
                "name a folder, or `org/model`",
                exit_status=2,
            )
        return folder
    return fetch(str(folder_or_name), revision, offline)


def fetch(name: str, revision: str | None = None, offline: bool | None = None) -> Path:
    """Returns the cached folder of the model `name`, with its settings, its tokenizer's files and one kind of weights.

    Raises CheckpointError if it cannot be downloaded, ConfigError if the extra `hf` is not installed or two revisions
    are named.
    """
    name, _, at = name.partition("@")
    if revision and at and revision != at:
        raise ConfigError(f"`{name}@{at}` names a revision, but `revision` is `{revision}`", "leave one of them out")
    revision = revision or at or None
    snapshot = _snapshot_function(name)
    if offline is None:
        offline = is_offline()

    def take(patterns: list[str]) -> Path:
        try:
            return Path(snapshot(name, revision=revision, allow_patterns=patterns, local_files_only=offline))
        except Exception as error:  # the hub's client and its transport raise a dozen kinds
            where = "the cache of the hub has" if offline else "the hub gives"
            raise CheckpointError(
                f"`{name}` is not a local folder, and {where} no such model"
                f"{f' at `{revision}`' if revision else ''}: {str(error).strip().splitlines()[0]}",
                "check the name; a downloaded model opens without a network",
                exit_status=2,
            ) from error

    folder = take(SETTINGS + WEIGHTS)
    if not any((folder / weights).is_file() for weights in WEIGHTS[:2]):
        folder = take(SETTINGS + PICKLES)
    return folder


def _snapshot_function(name: str) -> Callable[..., Any]:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ConfigError(
            f"`{name}` is not a local folder; a name on the hub requires the extra `hf`", format_install_command("hf")
        ) from error
    fetching: Callable[..., Any] = snapshot_download
    return fetching
