"""The model folder: pellucid.json, model.safetensors, the tokenizer's files, config.json, README.md.

Nothing in it is executed. `pellucid.json` describes the model; `config.json` identifies it for other libraries. Folders
of the first version have Pellucid's description in `config.json` and no `pellucid.json`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.config import FIRST_FORMAT, FORMAT, DecodeConfig, ModelConfig
from pellucid.config.tables import from_table, to_table
from pellucid.config.tasks import TASKS, get_task
from pellucid.errors import PYTHON, CheckpointError, ConfigError, did_you_mean, format_quoted, format_value
from pellucid.files.reading import read_settings
from pellucid.files.writing import replace_atomically, temporary_folder, write_json, write_text
from pellucid.text.tokenizers import GivenTokenizers, TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.weights.card import CARD
from pellucid.weights.export.tokenizer_files import write_tokenizer_files

if TYPE_CHECKING:  # reading a description does not need PyTorch, whose import takes more than a second
    import torch

    from pellucid.model.families import Model
    from pellucid.model.parts import Parts

DESCRIPTION = "pellucid.json"
CONFIG = "config.json"
CALIBRATION = "calibration.json"
"""The file name of a calibration, in the folder of its weights."""
WEIGHTS = "model.safetensors"
CONVERSION = "conversion.json"
"""The report of a conversion, in the folder that the conversion wrote."""
OWN_TYPE = "pellucid"
"""Pellucid's `model_type` in a config.json."""
SECTIONS = ("model", "tokenizer", "decode")


@dataclass(frozen=True)
class SavedModel:
    """The contents of a model folder, Pellucid's or Hugging Face's."""

    model: "Model"
    tokenizers: TokenizerPair | None
    """None if a Hugging Face folder has no tokenizer."""
    decode: DecodeConfig
    task: str = "translate"
    """The name of a record in `TASKS`."""
    labels: tuple[str, ...] = ()
    """The names of the classes."""
    languages: dict[str, int] = field(default_factory=dict)
    """The language codes in the vocabulary of a multilingual model, with their ids."""
    unused: tuple[str, ...] = ()
    """Poolers and heads in a Hugging Face folder that the model does not use."""
    text: TrainingTextStats | None = None
    """Statistics of a translator's training lines; None if unknown."""
    head: str = ""
    """The reason why the head of a Hugging Face encoder is not read; empty if there is no head or it is read."""


@dataclass(frozen=True)
class Description:
    """The contents of a Pellucid model folder without its weights; fields as in SavedModel."""

    config: ModelConfig
    tokenizers: TokenizerPair
    decode: DecodeConfig
    task: str
    labels: tuple[str, ...]
    languages: dict[str, int]
    text: TrainingTextStats | None


def save_model(
    folder: Path,
    model: "Model",
    tokenizers: TokenizerPair,
    decode: DecodeConfig,
    card: str,
    labels: Sequence[str] = (),
    languages: Mapping[str, int] | None = None,
    text: TrainingTextStats | None = None,
    *,
    task: str = "",
) -> Path:
    """Writes a complete model folder, replacing an existing model, and returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save_weights(folder, model)
    save_description(folder, model.config, tokenizers, decode, card, labels, languages, text, model.parts, task=task)
    return folder


def save_description(
    folder: Path,
    model: ModelConfig,
    tokenizers: TokenizerPair,
    decode: DecodeConfig,
    card: str,
    labels: Sequence[str] = (),
    languages: Mapping[str, int] | None = None,
    text: TrainingTextStats | None = None,
    parts: "Parts | None" = None,
    *,
    task: str = "",
) -> None:
    """Writes all of a model folder except the weights: descriptions, tokenizer files and the model card README.md.

    For custom `parts` and tokenizers it records only the names; loading requires the objects. `task` is the model's
    task; if empty, it follows from the model's shape.
    """
    folder.mkdir(parents=True, exist_ok=True)
    description = {
        "format": FORMAT,
        "task": task or get_task(model).name,
        "model": to_table(model),
        "tokenizer": _save_tokenizers(folder, tokenizers),
        "decode": to_table(decode),
    }
    if labels:
        description["labels"] = list(labels)
    if languages:
        description["languages"] = dict(languages)
    if text is not None:
        description["text"] = to_table(text)
    if parts is not None and parts.names:
        description["parts"] = parts.names
    write_text(folder / CARD, card)
    write_json(folder / CONFIG, _make_public_config(model))
    with suppress(ConfigError):  # Pellucid's files hold what the common format cannot express
        write_tokenizer_files(tokenizers, folder, model, decode, anew=False)
    # Last: before it, the folder does not count as a model.
    write_json(folder / DESCRIPTION, description)


def save_weights(folder: Path, model: "Model") -> None:
    """Writes model.safetensors atomically and replaces an earlier file."""
    from pellucid.weights.tensors import parameters, save_tensors

    save_tensors(folder / WEIGHTS, parameters(model))


def load_folder(
    folder: Path,
    device: "torch.device",
    dtype: "torch.dtype | None" = None,
    parts: "Parts | None" = None,
    tokenizer: GivenTokenizers | None = None,
) -> SavedModel:
    """Returns the model of a folder in Pellucid's format, ready to use; `open_folder` opens all formats.

    The folder is untrusted: the description is compared with the header of the weights before memory is allocated for
    either. Code is never read from it: custom `parts` and a custom `tokenizer` that it names are passed by the caller.

    Raises CheckpointError if it is not a model folder, is damaged, cannot be expressed here, or names parts or a
    tokenizer that are not passed, and if some are passed that it does not name.
    """
    from pellucid.weights.empty_models import build_on_meta, build_uninitialised
    from pellucid.weights.tensors import check_stored, load_tensors, read_header, set_parameters

    described = read_description(folder, parts, tokenizer)
    origin = f"`{folder / WEIGHTS}`"
    if parts is None:  # parts from the caller are trusted, and may not work on the meta device
        check_stored(build_on_meta(described.config), read_header(folder / WEIGHTS), origin)
    tensors = load_tensors(folder / WEIGHTS)
    model = build_uninitialised(described.config, parts)
    set_parameters(model, tensors, origin)
    model = model.to(device, dtype).eval()
    return SavedModel(
        model, described.tokenizers, described.decode, described.task, described.labels, described.languages,
        text=described.text,
    )  # fmt: skip


def read_description(
    folder: Path, parts: "Parts | None" = None, tokenizer: GivenTokenizers | None = None
) -> Description:
    """Returns the contents of a Pellucid model folder without the weights. Raises the errors of `load_folder`."""
    table = read_config(folder)
    try:
        config = from_table(ModelConfig, table["model"], "[model]")
        decode = from_table(DecodeConfig, table["decode"], "[decode]")
        text = from_table(TrainingTextStats, table["text"], "`text`") if "text" in table else None
    except ConfigError as error:
        raise CheckpointError(f"`{find_description(folder)}` is damaged: {error}", "copy the folder again") from error
    if parts is not None or "parts" in table:
        check_parts(folder, table, parts)
    _check_tokenizer(folder, table, tokenizer)
    tokenizers = TokenizerPair.load(folder, table["tokenizer"], tokenizer)
    if not TASKS[table["task"]].fits(config):
        raise CheckpointError(
            f"`{find_description(folder)}` is damaged: its task is {table['task']!r}, "
            f"its model is for {get_task(config).name!r}",
            "copy the folder again",
        )
    labels, languages = _labels(folder, table, config), _languages(folder, table)
    return Description(config, tokenizers, decode, table["task"], labels, languages, text)


def check_parts(folder: Path, table: Mapping[str, Any], parts: "Parts | None") -> None:
    """Raises CheckpointError, with the line of Python to write, unless `parts` are the ones that a description
    names.
    """
    from pellucid.model.parts import Parts

    recorded = table.get("parts", {})
    known = {field.name for field in fields(Parts)}
    if not isinstance(recorded, dict) or not set(recorded) <= known or not all(map(_is_name, recorded.values())):
        raise CheckpointError(
            f"`{find_description(folder)}` is damaged: its `parts` ({format_value(recorded)}) are not names of "
            "modules by "
            f"{', '.join(sorted(known))}",
            "copy the folder again",
        )
    given = {} if parts is None else parts.names
    if parts is not None and given.keys() == recorded.keys() and all(map(parts.fits, recorded, recorded.values())):
        return
    if not given and not recorded:
        return
    has = f"has custom parts ({_format_arguments(recorded)})" if recorded else "has no custom parts"
    wrong = ", ".join(f"{name}={path}" for name, path in given.items())
    raise CheckpointError(
        f"the model in `{folder}` {has}, but {f'{wrong} is' if wrong else 'none are'} given",
        line_to_write(folder, table),
    )


def _check_tokenizer(folder: Path, table: Mapping[str, Any], tokenizer: GivenTokenizers | None) -> None:
    """Raises CheckpointError, with the line of Python to write, if a custom tokenizer is not passed."""
    own = list_custom_tokenizers(table)
    if own and tokenizer is None:
        raise CheckpointError(
            f"the model in `{folder}` uses the custom tokenizer `{'`, `'.join(map(format_value, own))}`, which is "
            "not in its folder",
            line_to_write(folder, table),
        )


def line_to_write(folder: Path, table: Mapping[str, Any]) -> str:
    """Returns the line of Python that opens a folder with the custom parts and tokenizer that it names."""
    task = TASKS[table["task"]]
    home = "pellucid" if task.method else task.home
    return format_python_call(
        f"{home}.{task.class_name}.load", [folder], table.get("parts", {}), list_custom_tokenizers(table)
    )


def format_python_call(
    call: str, given: Sequence[Path], parts: Mapping[str, str], tokenizers: Sequence[str] = ()
) -> str:
    """Returns the line of Python for a call with paths, and with parts and tokenizers by their recorded names.

    Objects defined in a script keep their names there; all others are imported. A tokenizer is constructed without
    arguments, since none are recorded.
    """
    made = [f"{_format_part(name)}()" if _is_name(name) and "<" not in name else "..." for name in tokenizers]
    arguments = [f'"{path}"' for path in given]
    arguments += [f"parts=pellucid.Parts({_format_arguments(parts)})"] if parts else []
    if made:
        arguments.append(f"tokenizer={made[0]}" if len(made) == 1 else f"tokenizer=({', '.join(made)})")
    modules = {_get_module(name) for name in ("pellucid", call, *parts.values(), *tokenizers) if _is_name(name)}
    return f"{PYTHON}import {', '.join(sorted(modules - {'__main__'}))}; {call}({', '.join(arguments)})"


def list_custom_tokenizers(table: Mapping[str, Any]) -> list[str]:
    """Returns the names of the custom tokenizers that a description requires: one, or source and target."""
    tokenizer = table.get("tokenizer")
    own = tokenizer.get("own") if isinstance(tokenizer, dict) else None
    records = own.values() if isinstance(own, dict) else ()
    return [str(record.get("class")) for record in records if isinstance(record, dict)]


def _format_arguments(parts: Mapping[str, str]) -> str:
    """Returns the arguments of a call for parts with recorded names."""
    return ", ".join(f"{name}={_format_part(path)}" for name, path in parts.items())


def _format_part(path: str) -> str:
    """Returns the expression by which a script refers to a part with a recorded name."""
    return "lambda config: ..." if path.endswith("<lambda>") else path.removeprefix("__main__.")


def _get_module(path: str) -> str:
    """Returns the module in a recorded name: the text before the class, or before the function's name."""
    names = path.split(".")
    before = list(takewhile(lambda name: not name[:1].isupper(), names))
    return ".".join(before if len(before) < len(names) else names[:-1] or names)


def _is_name(name: object) -> bool:
    """Returns True if a part's recorded name can be used in a line of Python; a lambda has no such name."""
    return isinstance(name, str) and all(part.isidentifier() for part in name.replace("<lambda>", "_").split("."))


def find_description(folder: Path) -> Path:
    """Returns the file that describes a folder's model: `pellucid.json`, or `config.json` in folders of version 1."""
    described = folder / DESCRIPTION
    return described if described.exists() else folder / CONFIG


def is_pellucid_folder(folder: Path) -> bool:
    """Returns True if a folder has a Pellucid description; a config.json for other libraries alone does not count."""
    return (folder / DESCRIPTION).is_file() or "format" in _config(folder)


def is_hugging_face_folder(folder: Path) -> bool:
    """Returns True if a folder was written by Hugging Face's transformers, by its config.json."""
    if (folder / DESCRIPTION).exists():
        return False
    table = _config(folder)
    return table.get("model_type", OWN_TYPE) != OWN_TYPE and "format" not in table


def _config(folder: Path) -> dict[str, Any]:
    """Returns the table in config.json, or an empty table if there is none: `read_config` then raises the error."""
    try:
        return read_settings(folder / CONFIG)
    except CheckpointError:
        return {}


def read_config(folder: Path) -> dict[str, Any]:
    """Returns a folder's description after a check of its format and sections.

    Raises CheckpointError if there is no description, or if it is damaged or of another version.
    """
    path = find_description(folder)
    if not path.is_file():
        siblings = [p.parent.name for name in (DESCRIPTION, CONFIG) for p in folder.parent.glob(f"*/{name}")]
        reason = (
            f"no {DESCRIPTION} in it"
            if folder.is_dir()
            else "it is a file"
            if folder.is_file()
            else "it does not exist"
        )
        inside = sorted({p.parent for name in (DESCRIPTION, CONFIG) for p in folder.glob(f"*/{name}")})
        meant = f"; did you mean `{inside[0]}`?" if inside else did_you_mean(folder.name, siblings)
        raise CheckpointError(
            f"`{folder}` is not a model folder: {reason}{meant}", _where_models_are(folder), exit_status=2
        )
    table = read_settings(path)
    version = table.get("format")
    if version is None and table.get("model_type") == OWN_TYPE:
        raise CheckpointError(
            f"`{folder}` lacks {DESCRIPTION}, which describes its weights", "copy the whole folder again"
        )
    if version is None:
        raise CheckpointError(
            f"`{path}` does not describe a model: it has neither Pellucid's `format` nor Hugging Face's `model_type`",
            "name a model folder",
        )
    task = table.get("task")
    if version not in (FORMAT, FIRST_FORMAT) or not isinstance(task, str) or task not in TASKS:
        tasks = ", ".join(map(repr, TASKS))
        raise CheckpointError(
            f"`{path}` has format {format_quoted(version)} and task {format_quoted(task)}; "
            f"this version supports {FIRST_FORMAT!r} and {FORMAT!r}, and {tasks}",
            "upgrade pellucid",
        )
    for section in SECTIONS:
        if not isinstance(table.get(section), dict):
            raise CheckpointError(f"`{path}` is damaged: it has no table `{section}`", "copy the folder again")
    return dict(table)


def _where_models_are(folder: Path) -> str:
    """Returns the hint for a path at which there is no model."""
    if folder.is_dir():
        return "a run folder becomes one at its first validation"
    if folder.exists() or len(folder.parts) != 1 or folder.suffix:
        return "check the path; a model is a folder"
    return "check the path; a model on the Hugging Face hub is named `org/model`, and requires the extra `hf`"


def _make_public_config(model: ModelConfig) -> dict[str, Any]:
    """Returns config.json, which gives other libraries the model's type, and its sizes by their usual names."""
    return {
        "model_type": OWN_TYPE,
        "library_name": OWN_TYPE,
        "is_encoder_decoder": model.family == "encoder-decoder",
        "vocab_size": model.tgt_vocab_size,
        "hidden_size": model.d_model,
        "intermediate_size": model.d_ff,
        "num_attention_heads": model.num_heads,
        "num_hidden_layers": model.num_encoder_layers or model.num_decoder_layers,
        "max_position_embeddings": model.max_positions,
        "pad_token_id": model.pad_id,
        "bos_token_id": model.bos_id,
        "eos_token_id": model.eos_id,
    }


def _labels(folder: Path, table: dict[str, Any], config: ModelConfig) -> tuple[str, ...]:
    """Returns the names of the classes. Raises CheckpointError if their number differs from the number of classes."""
    labels = table.get("labels", [])
    if not isinstance(labels, list) or len(labels) != config.num_classes:
        raise CheckpointError(
            f"`{find_description(folder)}` is damaged: its `labels` ({format_value(labels)}) must name "
            f"{config.num_classes} "
            "classes",
            "copy the folder again",
        )
    return tuple(str(label) for label in labels)


def _languages(folder: Path, table: dict[str, Any]) -> dict[str, int]:
    """Returns the language codes with their ids. Raises CheckpointError if they are malformed."""
    languages = table.get("languages", {})
    if not isinstance(languages, dict) or not all(type(number) is int for number in languages.values()):
        raise CheckpointError(
            f"`{find_description(folder)}` is damaged: its `languages` are not a table of ids", "copy the folder again"
        )
    return dict(languages)


def _save_tokenizers(folder: Path, tokenizers: TokenizerPair) -> dict[str, object]:
    """Writes each of the tokenizers' files atomically, and returns their table."""
    with temporary_folder(folder / "tokenizers") as temporary:
        table = tokenizers.save(temporary)
        for path in temporary.iterdir():
            replace_atomically(path, folder / path.name)
    return table
