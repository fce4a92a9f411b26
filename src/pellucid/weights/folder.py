"""The model folder: pellucid.json, model.safetensors, the tokenizer's files, config.json, README.md.

Nothing in it is executed. `pellucid.json` describes the model; `config.json` tells other programs what it is. Folders
of the first version have our description in `config.json` and no `pellucid.json`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.config import FIRST_FORMAT, FORMAT, DecodeConfig, ModelConfig
from pellucid.config.tables import from_table, to_table
from pellucid.config.tasks import TASKS, task_of
from pellucid.errors import PYTHON, CheckpointError, ConfigError, did_you_mean, quoted, shown
from pellucid.files.reading import read_settings
from pellucid.files.writing import move_into_place, temporary_folder, write_json, write_text
from pellucid.text.tokenizers import GivenTokenizers, Tokenizers
from pellucid.text.training_text import TrainingText
from pellucid.weights.card import CARD
from pellucid.weights.export.tokenizer_files import write_tokenizer_files

if TYPE_CHECKING:  # what only describes a model is read without PyTorch, which takes more than a second to import
    import torch

    from pellucid.model.families import Model
    from pellucid.model.parts import Parts

DESCRIPTION = "pellucid.json"
CONFIG = "config.json"
CALIBRATION = "calibration.json"
"""The name of a calibration, beside the weights that it is about."""
WEIGHTS = "model.safetensors"
CONVERSION = "conversion.json"
"""The report of a conversion, in the folder that it wrote."""
OWN_TYPE = "pellucid"
"""Pellucid's `model_type` in a config.json."""
SECTIONS = ("model", "tokenizer", "decode")


@dataclass(frozen=True)
class SavedModel:
    """The contents of a model folder, ours or somebody else's."""

    model: "Model"
    tokenizers: Tokenizers | None
    """None where a foreign folder has none."""
    decode: DecodeConfig
    task: str = "translate"
    """The name of a record in `TASKS`."""
    labels: tuple[str, ...] = ()
    """The names of the classes."""
    languages: dict[str, int] = field(default_factory=dict)
    """The codes of languages in the vocabulary of a multilingual model, with their ids."""
    unused: tuple[str, ...] = ()
    """Poolers and heads in a foreign folder that stand beside the model."""
    text: TrainingText | None = None
    """A description of a translator's training lines; None: not known."""


@dataclass(frozen=True)
class Description:
    """The contents of a model folder of ours but for its weights; fields as those of SavedModel."""

    config: ModelConfig
    tokenizers: Tokenizers
    decode: DecodeConfig
    task: str
    labels: tuple[str, ...]
    languages: dict[str, int]
    text: TrainingText | None


def save_model(
    folder: Path,
    model: "Model",
    tokenizers: Tokenizers,
    decode: DecodeConfig,
    card: str,
    labels: Sequence[str] = (),
    languages: Mapping[str, int] | None = None,
    text: TrainingText | None = None,
    *,
    task: str = "",
) -> Path:
    """Writes a whole model folder, in place of a model that is there already, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    save_weights(folder, model)
    save_description(folder, model.config, tokenizers, decode, card, labels, languages, text, model.parts, task=task)
    return folder


def save_description(
    folder: Path,
    model: ModelConfig,
    tokenizers: Tokenizers,
    decode: DecodeConfig,
    card: str,
    labels: Sequence[str] = (),
    languages: Mapping[str, int] | None = None,
    text: TrainingText | None = None,
    parts: "Parts | None" = None,
    *,
    task: str = "",
) -> None:
    """Writes all of a model folder but the weights: descriptions, the tokenizer's files, the model card README.md.

    Of `parts` and tokenizers of somebody's own it holds the names: loading asks for them. `task` is the name of what
    the model is for; empty: what its shape says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    description = {
        "format": FORMAT,
        "task": task or task_of(model).name,
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
    write_json(folder / CONFIG, _for_others(model))
    with suppress(ConfigError):  # what the common format cannot express, our own files hold
        write_tokenizer_files(tokenizers, folder, model, decode)
    # Last: before it, the folder does not count as a model.
    write_json(folder / DESCRIPTION, description)


def save_weights(folder: Path, model: "Model") -> None:
    """Writes model.safetensors; replaces an earlier one in one piece."""
    from pellucid.weights.tensors import parameters, save_tensors

    save_tensors(folder / WEIGHTS, parameters(model))


def load_folder(
    folder: Path,
    device: "torch.device",
    dtype: "torch.dtype | None" = None,
    parts: "Parts | None" = None,
    tokenizer: GivenTokenizers | None = None,
) -> SavedModel:
    """Returns the model of a folder in our own format, ready to use; `open_folder` opens those of any.

    Anybody may have written it: what the description asks for is compared with the header of the weights before memory
    is taken for either. Code is never read from it: `parts` and a `tokenizer` of one's own, which it names, are given.

    Raises CheckpointError where it is not a model folder, is damaged, cannot be expressed here, or names parts or a
    tokenizer that are not given; and where some are given that it does not name.
    """
    from pellucid.weights.building import build_unfilled, outline
    from pellucid.weights.tensors import check_stored, load_tensors, read_header, set_parameters

    described = read_description(folder, parts, tokenizer)
    origin = f"`{folder / WEIGHTS}`"
    if parts is None:  # parts that are given are trusted, and may not be able to stand without numbers
        check_stored(outline(described.config), read_header(folder / WEIGHTS), origin)
    tensors = load_tensors(folder / WEIGHTS)
    model = build_unfilled(described.config, parts)
    set_parameters(model, tensors, origin)
    model = model.to(device, dtype).eval()
    return SavedModel(
        model, described.tokenizers, described.decode, described.task, described.labels, described.languages,
        text=described.text,
    )  # fmt: skip


def read_description(
    folder: Path, parts: "Parts | None" = None, tokenizer: GivenTokenizers | None = None
) -> Description:
    """Returns all that a folder of our own format holds but the weights. Raises what `load_folder` raises."""
    table = read_config(folder)
    try:
        config = from_table(ModelConfig, table["model"], "[model]")
        decode = from_table(DecodeConfig, table["decode"], "[decode]")
        text = from_table(TrainingText, table["text"], "`text`") if "text" in table else None
    except ConfigError as error:
        raise CheckpointError(f"`{description_of(folder)}` is damaged: {error}", "copy the folder again") from error
    if parts is not None or "parts" in table:
        check_parts(folder, table, parts)
    _check_tokenizer(folder, table, tokenizer)
    tokenizers = Tokenizers.load(folder, table["tokenizer"], tokenizer)
    if not TASKS[table["task"]].fits(config):
        raise CheckpointError(
            f"`{description_of(folder)}` is damaged: its task is {table['task']!r}, "
            f"its model is for {task_of(config).name!r}",
            "copy the folder again",
        )
    labels, languages = _labels(folder, table, config), _languages(folder, table)
    return Description(config, tokenizers, decode, table["task"], labels, languages, text)


def check_parts(folder: Path, table: Mapping[str, Any], parts: "Parts | None") -> None:
    """Raises CheckpointError, with the line of Python to write, unless `parts` are those that a description names."""
    from pellucid.model.parts import Parts

    recorded = table.get("parts", {})
    known = {field.name for field in fields(Parts)}
    if not isinstance(recorded, dict) or not set(recorded) <= known or not all(map(_is_name, recorded.values())):
        raise CheckpointError(
            f"`{description_of(folder)}` is damaged: its `parts` ({shown(recorded)}) are not names of modules by "
            f"{', '.join(sorted(known))}",
            "copy the folder again",
        )
    given = {} if parts is None else parts.names
    if parts is not None and given.keys() == recorded.keys() and all(map(parts.fits, recorded, recorded.values())):
        return
    if not given and not recorded:
        return
    has = f"has parts that are not Pellucid's ({_told(recorded)})" if recorded else "has no parts of your own"
    wrong = ", ".join(f"{name}={path}" for name, path in given.items())
    raise CheckpointError(
        f"the model in `{folder}` {has}, but {f'{wrong} is' if wrong else 'none are'} given",
        line_to_write(folder, table),
    )


def _check_tokenizer(folder: Path, table: Mapping[str, Any], tokenizer: GivenTokenizers | None) -> None:
    """Raises CheckpointError, with the line of Python to write, where a tokenizer of one's own is not given."""
    own = own_tokenizers(table)
    if own and tokenizer is None:
        raise CheckpointError(
            f"the model in `{folder}` reads text by a tokenizer of its own, `{'`, `'.join(map(shown, own))}`, which is "
            "not in its folder",
            line_to_write(folder, table),
        )


def line_to_write(folder: Path, table: Mapping[str, Any]) -> str:
    """Returns the line of Python by which a folder is opened with the parts and the tokenizer that it names."""
    task = TASKS[table["task"]]
    home = "pellucid" if task.method else task.home
    return in_python(f"{home}.{task.class_name}.load", [folder], table.get("parts", {}), own_tokenizers(table))


def in_python(call: str, given: Sequence[Path], parts: Mapping[str, str], tokenizers: Sequence[str] = ()) -> str:
    """Returns the line of Python of a call with paths, and with parts and tokenizers by their recorded names.

    What was defined in a script is called there as in the script; all else is imported. A tokenizer is made without
    arguments, since nothing records them.
    """
    made = [f"{_in_python(name)}()" if _is_name(name) and "<" not in name else "..." for name in tokenizers]
    arguments = [f'"{path}"' for path in given]
    arguments += [f"parts=pellucid.Parts({_told(parts)})"] if parts else []
    if made:
        arguments.append(f"tokenizer={made[0]}" if len(made) == 1 else f"tokenizer=({', '.join(made)})")
    modules = {_module_of(name) for name in ("pellucid", call, *parts.values(), *tokenizers) if _is_name(name)}
    return f"{PYTHON}import {', '.join(sorted(modules - {'__main__'}))}; {call}({', '.join(arguments)})"


def own_tokenizers(table: Mapping[str, Any]) -> list[str]:
    """Returns the names of the tokenizers of one's own that a description asks for: one, or source and target."""
    tokenizer = table.get("tokenizer")
    own = tokenizer.get("own") if isinstance(tokenizer, dict) else None
    records = own.values() if isinstance(own, dict) else ()
    return [str(record.get("class")) for record in records if isinstance(record, dict)]


def _told(parts: Mapping[str, str]) -> str:
    """Returns parts by their recorded names as the arguments of a call."""
    return ", ".join(f"{name}={_in_python(path)}" for name, path in parts.items())


def _in_python(path: str) -> str:
    """Returns what a script calls a part that was recorded by its name."""
    return "lambda config: ..." if path.endswith("<lambda>") else path.removeprefix("__main__.")


def _module_of(path: str) -> str:
    """Returns the module in a recorded name: what stands before the class, or before the function's own name."""
    names = path.split(".")
    before = list(takewhile(lambda name: not name[:1].isupper(), names))
    return ".".join(before if len(before) < len(names) else names[:-1] or names)


def _is_name(name: object) -> bool:
    """Tells whether a description's name of a part can stand in a line of Python; a lambda has none."""
    return isinstance(name, str) and all(part.isidentifier() for part in name.replace("<lambda>", "_").split("."))


def description_of(folder: Path) -> Path:
    """Returns the file that describes the model of a folder: `pellucid.json`, in folders of version 1 `config.json`."""
    described = folder / DESCRIPTION
    return described if described.exists() else folder / CONFIG


def is_described(folder: Path) -> bool:
    """Tells whether a folder has a description of ours; a config.json for others alone does not count."""
    return (folder / DESCRIPTION).is_file() or "format" in _config(folder)


def is_foreign(folder: Path) -> bool:
    """Tells whether a folder is one of Hugging Face's transformers, by its config.json."""
    if (folder / DESCRIPTION).exists():
        return False
    table = _config(folder)
    return table.get("model_type", OWN_TYPE) != OWN_TYPE and "format" not in table


def _config(folder: Path) -> dict[str, Any]:
    """Returns the table in config.json; an empty one where there is none, and `read_config` says what is wrong."""
    try:
        return read_settings(folder / CONFIG)
    except CheckpointError:
        return {}


def read_config(folder: Path) -> dict[str, Any]:
    """Returns a folder's description, checked as far as its format and its sections.

    Raises CheckpointError where there is none, or it is damaged, or of another version.
    """
    path = description_of(folder)
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
            f"`{folder}` lacks {DESCRIPTION}, which says what its weights mean", "copy the whole folder again"
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
            f"`{path}` has format {quoted(version)} and task {quoted(task)}; "
            f"this version reads {FIRST_FORMAT!r} and {FORMAT!r}, and {tasks}",
            "upgrade pellucid",
        )
    for section in SECTIONS:
        if not isinstance(table.get(section), dict):
            raise CheckpointError(f"`{path}` is damaged: it has no table `{section}`", "copy the folder again")
    return dict(table)


def _where_models_are(folder: Path) -> str:
    """Returns what to do about a name at which there is no model."""
    if folder.is_dir():
        return "a run folder becomes one at its first validation"
    if folder.exists() or len(folder.parts) != 1 or folder.suffix:
        return "check the path; a model is a folder"
    return "check the path; a model of Hugging Face's hub is named `org/model`, and needs the extra `hf`"


def _for_others(model: ModelConfig) -> dict[str, Any]:
    """Returns our config.json, which tells other programs whose model it is, and its sizes by their usual names."""
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
    """Returns the names of the classes. Raises CheckpointError where there are not as many names as classes."""
    labels = table.get("labels", [])
    if not isinstance(labels, list) or len(labels) != config.num_classes:
        raise CheckpointError(
            f"`{description_of(folder)}` is damaged: its `labels` ({shown(labels)}) must name {config.num_classes} "
            "classes",
            "copy the folder again",
        )
    return tuple(str(label) for label in labels)


def _languages(folder: Path, table: dict[str, Any]) -> dict[str, int]:
    """Returns the codes of languages, with their ids. Raises CheckpointError where they are something else."""
    languages = table.get("languages", {})
    if not isinstance(languages, dict) or not all(type(number) is int for number in languages.values()):
        raise CheckpointError(
            f"`{description_of(folder)}` is damaged: its `languages` are not a table of ids", "copy the folder again"
        )
    return dict(languages)


def _save_tokenizers(folder: Path, tokenizers: Tokenizers) -> dict[str, object]:
    """Writes the tokenizers' files, each of them whole or not at all, and returns their table."""
    with temporary_folder(folder / "tokenizers") as beside:
        table = tokenizers.save(beside)
        for path in beside.iterdir():
            move_into_place(path, folder / path.name)
    return table
