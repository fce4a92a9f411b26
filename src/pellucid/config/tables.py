"""Converts tables to configurations and back: TOML files, `--set section.key=value`, and the checks of all fields."""

import json
import math
import tomllib
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self

from pellucid.errors import CheckpointError, ConfigError, did_you_mean, format_quoted, format_value
from pellucid.files.budget import MOST_SETTINGS_BYTES
from pellucid.files.reading import parse_toml, read_text

_Config = typing.TypeVar("_Config")

_TYPE_NAMES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string",
    types.NoneType: '"none"',
    tuple[str, ...]: "a list of strings",
    tuple[int, ...]: "a list of whole numbers",
    tuple[float, ...]: "a list of numbers",
    tuple[tuple[int, ...], ...]: "a list of lists of whole numbers",
}


class SettingsBase:
    """The base class of settings: an unknown field name raises a ConfigError that names the nearest field."""

    __slots__ = ()

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Raises ConfigError for an unknown field name, or for positional arguments."""
        if values:
            raise ConfigError(
                f"{cls.__name__} takes its fields by name, not {len(values)} value{'s' * (len(values) > 1)} in order"
            )
        _check_names(cls, named, cls.__name__)
        return super().__new__(cls)


OLD_NAMES: Mapping[str, Mapping[str, str]] = {
    "data": {
        "weights": "corpus_weights", "weights_from": "corpus_weights_from", "temperature": "sampling_temperature",
        "prepared": "cache_dir", "joint": "joint_vocab", "target_vocab_size": "tgt_vocab_size",
        "tokenizer_pairs": "tokenizer_sample_size", "added_pieces": "max_new_pieces",
        "subword_sampling": "subword_regularization", "tags": "corpus_tags",
    },
    "model": {
        "gated": "gated_feed_forward", "relative_buckets": "relative_num_buckets",
        "relative_distance": "relative_max_distance",
    },
    "train": {
        "recompute": "gradient_checkpointing", "shard": "fsdp", "best_by": "best_metric",
        "validate_decode": "decode_and_evaluate", "log_to": "report_to", "average_of": "average_strategy",
        "embedding_scale": "embedding_init_scale",
    },
    "decode": {
        "source_end": "add_source_eos", "suppress": "suppress_tokens", "no_repeat_ngram": "no_repeat_ngram_size",
    },
    "sampling": {"epsilon": "epsilon_cutoff"},
}  # fmt: skip
"""The names of settings in earlier versions, by section, with today's names. Files and overrides may have either."""
OLD_VALUES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("data", "text"): {"running": "continuous"}, ("train", "schedule"): {"stable": "wsd"},
}  # fmt: skip
"""The values of settings in earlier versions, by section and setting, with today's values."""
OLD_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "against": ("baseline", "foil"), "alternatives": ("next_token_alternatives",),
    "bare_source": ("source_without_bos",),
    "copies": ("add_copies",), "diverse_groups": ("beam_groups",), "diversity": ("diversity_penalty",),
    "draws": ("num_samples",), "gold_from_one": ("gold_one_based",), "guards": ("drop_flagged",),
    "kills": ("num_kills",),
    "last": ("num_checkpoints",), "line_terms": ("constraints",), "max_foreign": ("max_other_script",),
    "minutes": ("max_minutes",), "normalize": ("length_normalize",), "of": ("strategy",),
    "other_input": ("reverse_input",),
    "pairs": ("text_pairs",), "plan": ("dry_run",), "rare": ("rare_below",), "unended_source": ("source_without_eos",),
    "walk": ("shapes",), "without": ("skip_rules",), "without_originals": ("teacher_only",), "words": ("merge_words",),
}  # fmt: skip
"""The names of other options and parameters in earlier versions, with today's names: one, or one of each command."""
OTHER_NAMES = {
    "lr": "learning_rate", "rate": "learning_rate", "epochs": "steps", "max_steps": "steps", "updates": "steps",
    "warmup": "warmup_steps", "batch_size": "batch_tokens", "clip": "grad_clip", "max_grad_norm": "grad_clip",
    "gradient_accumulation_steps": "accumulate", "smoothing": "label_smoothing", "hidden_size": "d_model",
    "ffn_dim": "d_ff", "n_heads": "num_heads", "heads": "num_heads", "lr_scheduler": "schedule",
    "lr_scheduler_type": "schedule", "checkpoint_activations": "gradient_checkpointing",
    "activation_checkpointing": "gradient_checkpointing", "metric_for_best_model": "best_metric",
    "best_checkpoint_metric": "best_metric", "optimized_metric": "best_metric", "log_with": "report_to",
    "joined_dictionary": "joint_vocab", "share_vocab": "joint_vocab", "shared_vocab": "joint_vocab",
    "nwordstgt": "tgt_vocab_size", "input_sentence_size": "tokenizer_sample_size",
    "bpe_dropout": "subword_regularization",
    "subword_alpha": "subword_regularization", "data_cache_dir": "cache_dir", "is_gated_act": "gated_feed_forward",
    "relative_attention_num_buckets": "relative_num_buckets",
    "relative_attention_max_distance": "relative_max_distance", "add_eos_token": "add_source_eos",
    "beam": "beam_size", "num_beams": "beam_size", "lenpen": "length_penalty", "nbest": "n_best",
    "num_return_sequences": "n_best", "block_ngram_repeat": "no_repeat_ngram_size", "num_beam_groups": "beam_groups",
    "diverse_beam_groups": "beam_groups", "diverse_beam_strength": "diversity_penalty",
    "random_sampling_temp": "temperature", "sampling_topk": "top_k", "sampling_topp": "top_p",
}  # fmt: skip
"""Pellucid's name of a setting or an option, by its name in other libraries."""
AN_EPOCH = "an epoch has about as many steps as the corpus has tokens / `train.batch_tokens`"


def suggest_name(key: str, known: Collection[str]) -> str:
    """Returns the name among `known` of a setting or option by its name in earlier versions or other libraries;
    otherwise an empty string.
    """
    name = key.lower().replace("-", "_")
    old = (names[name] for names in OLD_NAMES.values() if name in names)
    candidates = (*old, *OLD_OPTIONS.get(name, ()), OTHER_NAMES.get(name, ""))
    return next((candidate for candidate in candidates if candidate in known), "")


def suggest_setting(key: str, known: Collection[str]) -> str:
    """Returns `"; did you mean `x`?"` for a setting known by this name elsewhere, or else the nearest one."""
    other = suggest_name(key, known)
    return f"; did you mean `{other}`?" if other else did_you_mean(key, known)


def rename_settings(section: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a section's table in which the names and values of earlier versions are replaced by the current ones.

    Raises ConfigError if a setting is in the table under both names.
    """
    names, found = OLD_NAMES.get(section, {}), dict[str, Any]()
    for key, value in table.items():
        name = names.get(key, key)
        if name in found:
            old = key if key != name else next(old for old, new in names.items() if new == name)
            raise ConfigError(
                f"`{section}.{name}` is given twice: `{old}` is its name in earlier versions", f"leave out `{old}`"
            )
        values = OLD_VALUES.get((section, name), {})
        found[name] = values.get(value, value) if isinstance(value, str) else value
    return found


def rename_setting(name: str) -> str:
    """Returns `section.key` with today's name of the setting."""
    section, _, key = name.rpartition(".")
    new = OLD_NAMES.get(section, {}).get(key)
    return name if new is None else f"{section}.{new}"


def rename_override(text: str) -> str:
    """Returns `section.key=value` with today's name of the setting; the value is not changed."""
    name, equals, value = text.partition("=")
    return f"{rename_setting(name.strip())}{equals}{value}"


def restore_old_names(section: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a section's table with the names and values of the first version, from which digests are computed: a
    digest of an earlier version then still fits.
    """
    names = {new: old for old, new in OLD_NAMES.get(section, {}).items()}
    values = {
        name: {new: old for old, new in renamed.items()} for (of, name), renamed in OLD_VALUES.items() if of == section
    }
    return {
        names.get(key, key): values[key].get(value, value) if key in values else value for key, value in table.items()
    }


def rename_options(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the recorded request of a command with today's names of its options."""
    first = {old: new[0] for old, new in OLD_OPTIONS.items()}
    names = {**first, **OLD_NAMES["decode"], **OLD_NAMES["sampling"]}
    found = {names.get(key, key): value for key, value in request.items()}
    if isinstance(sampling := found.get("sampling"), Mapping):
        found["sampling"] = rename_settings("sampling", sampling)
    return found


def from_table(cls: type[_Config], table: Any, where: str) -> _Config:
    """Returns an instance of the dataclass `cls` from a table, whose keys may have the names of earlier versions.

    Raises ConfigError for an unknown key, and for a setting under both of its names.
    """
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table of keys, not {format_quoted(table)}")
    table = rename_settings(where.strip("[]"), table)
    _check_names(cls, table, where)
    hints = typing.get_type_hints(cls)
    return cls(**{key: _coerce(value, hints[key]) for key, value in table.items()})


def _check_names(cls: Any, names: Iterable[str], where: str) -> None:
    known = [f.name for f in fields(cls)]
    for key in names:
        if key not in known:
            hint = AN_EPOCH if format_value(key) == "epochs" and "steps" in known else f"keys: {', '.join(known)}"
            raise ConfigError(
                f"unknown key `{format_value(key)}` in {where}{suggest_setting(format_value(key), known)}", hint
            )


def to_table(config: Any) -> dict[str, Any]:
    """Returns the fields of a configuration as a dict, in their order."""
    return {f.name: getattr(config, f.name) for f in fields(config)}


def toml_line(key: str, value: str | bool | int | float | tuple[Any, ...] | None) -> str:
    """Returns `key = value` as TOML. TOML has no null value: None is written as "none", which `from_table` reads."""
    text = json.dumps("none" if value is None else value, ensure_ascii=False)
    return f"{key} = {text}".replace("\x7f", "\\u007f")  # JSON allows this control character, TOML does not


def list_shipped_recipes() -> dict[str, Path]:
    """Returns the names of the shipped recipes, with their files."""
    folder = Path(str(resources.files("pellucid") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_tables(name_or_path: str | Path) -> dict[str, Any]:
    """Returns the tables of a TOML file or of a shipped recipe. Raises ConfigError if neither exists."""
    shipped = list_shipped_recipes()
    path = shipped.get(str(name_or_path), Path(name_or_path))
    if not path.is_file():
        raise ConfigError(
            f"no recipe `{name_or_path}`: neither a TOML file nor a shipped recipe"
            f"{did_you_mean(str(name_or_path), shipped)}",
            f"shipped recipes: {', '.join(shipped)}",
        )
    try:
        return parse_toml(read_text(path.resolve(), MOST_SETTINGS_BYTES))
    except CheckpointError as error:
        raise ConfigError(f"`{format_value(path)}` is not valid TOML: {error}") from error
    except ValueError as error:  # or a number with thousands of digits, which Python refuses
        raise ConfigError(f"`{format_value(path)}` is not valid TOML: {format_value(str(error))}") from error


def split_override(text: str, keys: Mapping[str, Collection[str]]) -> tuple[str, str, Any]:
    """Returns `train.steps=100` as ("train", "steps", 100); a value that is not valid TOML is a string.

    A name or value of earlier versions becomes today's.

    Args:
        text: section.key=value, or key=value for a key without a section.
        keys: the keys of each section; keys without a section are under "".

    Raises ConfigError if the value is missing, or the section is unknown.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f'`overrides=["{text}"]` has no value', "write `section.key=value`, as in train.steps=500")
    section, _, key = name.strip().rpartition(".")
    sections = [known for known in keys if known]
    if section not in keys:
        raise ConfigError(
            f'unknown section `{section}` in `overrides=["{text}"]`{did_you_mean(section, sections)}',
            f"sections: {', '.join(sections)}",
        )
    if not section and key not in keys[""]:
        every = {name for owner in sections for name in keys[owner]}
        named = key if key in every else suggest_name(key, every) or key
        given = "N" if key == "epochs" else value
        owners = [f"`{owner}.{named}={given}`" for owner in sections if named in keys[owner]]
        hint = " or ".join(owners) or f"section.key=value; the sections are {', '.join(sections)}"
        if owners and key == "epochs":
            hint += f"; {AN_EPOCH}"
        raise ConfigError(f'`overrides=["{text}"]` names no section', f"write {hint}")
    ((key, parsed),) = rename_settings(section, {key: _parse_value(value.strip())}).items()
    return section, key, parsed


@cache
def type_hints(cls: type[Any]) -> dict[str, Any]:
    """Returns the types of a dataclass's fields; cached, since each translation creates settings."""
    return typing.get_type_hints(cls)


def check_fields(config: Any) -> None:
    """Raises ConfigError for a field whose value does not have its declared type or choices, or is not finite."""
    hints = type_hints(config.__class__)
    for f in fields(config):
        value, hint = getattr(config, f.name), hints[f.name]
        if typing.get_origin(hint) is Literal:
            _check_choice(f.name, value, typing.get_args(hint))
        elif not _fits(value, hint):
            raise ConfigError(f"`{f.name}` must be {_type_name(hint)}, not {format_quoted(value)}")
        elif not all(math.isfinite(v) for v in _each(value) if isinstance(v, float)):
            raise ConfigError(f"`{f.name}` ({format_value(value)}) must be finite")


def check_at_least(config: Any, names: Collection[str], smallest: int) -> None:
    """Raises ConfigError if one of the fields `names` is below `smallest`; None is allowed."""
    for name in names:
        value = getattr(config, name)
        if value is not None and value < smallest:
            raise ConfigError(f"`{name}` ({format_value(value)}) must be at least {smallest}")


def check_at_most(config: Any, largest: Mapping[str, float]) -> None:
    """Raises ConfigError if a field, or an item of one, is above its value in `largest`; None is allowed."""
    for name, most in largest.items():
        for value in _each(getattr(config, name)):
            if value is not None and value > most:
                raise ConfigError(f"`{name}` ({format_value(value)}) must be at most {most:,}")


def check_probabilities(config: Any, names: Collection[str]) -> None:
    """Raises ConfigError if one of the fields `names` is negative or at least 1."""
    for name in names:
        value = getattr(config, name)
        if not 0 <= value < 1:
            raise ConfigError(f"`{name}` ({format_value(value)}) must be at least 0 and below 1")


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _coerce(value: Any, hint: Any) -> Any:
    """Converts a TOML value to the field's type: "none" to None, a whole number to float, a list to a tuple."""
    allowed = _members(hint)
    if value == "none" and types.NoneType in allowed:
        return None
    if isinstance(value, list | tuple):
        lists = [member for member in allowed if typing.get_origin(member) is tuple]
        return tuple(_coerce(item, typing.get_args(lists[0])[0]) for item in value) if lists else value
    if isinstance(value, int) and not isinstance(value, bool) and float in allowed and int not in allowed:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return value


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        listed = ", ".join(f'"{choice}"' for choice in choices)
        text = format_value(value)
        raise ConfigError(f'unknown `{name}` "{text}"{did_you_mean(text, choices)}', f"choose one of {listed}")


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    """Returns True if `value` has the declared type; an int is allowed as a float, but a bool is not a number."""
    for member in _members(hint):
        if typing.get_origin(member) is tuple:
            if isinstance(value, tuple) and all(_fits(item, typing.get_args(member)[0]) for item in value):
                return True
            continue
        if member is float and isinstance(value, int | float) and not isinstance(value, bool):
            return True
        if type(value) is member or (member not in (int, float, bool) and isinstance(value, member)):
            return True
    return False


def _type_name(hint: Any) -> str:
    return " or ".join(_TYPE_NAMES.get(member, getattr(member, "__name__", str(member))) for member in _members(hint))
