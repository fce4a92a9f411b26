"""Tables of keys to configurations and back: TOML files, `--set section.key=value`, and the checks of every field."""

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

from pellucid.errors import ConfigError, did_you_mean, quoted, shown

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
}


class Settings:
    """The base of dataclasses of settings: a name that is not a field's is a ConfigError with the nearest one."""

    __slots__ = ()

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Raises ConfigError for an unknown name, or values without names."""
        if values:
            raise ConfigError(
                f"{cls.__name__} takes its fields by name, not {len(values)} value{'s' * (len(values) > 1)} in order"
            )
        _check_names(cls, named, cls.__name__)
        return super().__new__(cls)


OTHER_NAMES = {
    "lr": "learning_rate", "rate": "learning_rate", "epochs": "steps", "max_steps": "steps", "updates": "steps",
    "warmup": "warmup_steps", "batch_size": "batch_tokens", "clip": "grad_clip", "max_grad_norm": "grad_clip",
    "gradient_accumulation_steps": "accumulate", "smoothing": "label_smoothing", "hidden_size": "d_model",
    "ffn_dim": "d_ff", "n_heads": "num_heads", "heads": "num_heads",
    "beam": "beam_size", "num_beams": "beam_size", "lenpen": "length_penalty",
}  # fmt: skip
"""Our name of a setting, by the name that people who come from elsewhere know it by."""
AN_EPOCH = "an epoch has about as many steps as the corpus has tokens / `train.batch_tokens`"


def meant_setting(key: str, known: Collection[str]) -> str:
    """Returns `"; did you mean `x`?"` for the setting that has another name elsewhere, or else the nearest one."""
    other = OTHER_NAMES.get(key.lower().replace("-", "_"))
    return f"; did you mean `{other}`?" if other in known else did_you_mean(key, known)


def from_table(cls: type[_Config], table: Any, where: str) -> _Config:
    """Returns the dataclass `cls` of a table's keys. Raises ConfigError for an unknown key, naming the nearest."""
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table of keys, not {quoted(table)}")
    _check_names(cls, table, where)
    hints = typing.get_type_hints(cls)
    return cls(**{key: _coerced(value, hints[key]) for key, value in table.items()})


def _check_names(cls: Any, names: Iterable[str], where: str) -> None:
    known = [f.name for f in fields(cls)]
    for key in names:
        if key not in known:
            hint = AN_EPOCH if shown(key) == "epochs" and "steps" in known else f"keys: {', '.join(known)}"
            raise ConfigError(f"unknown key `{shown(key)}` in {where}{meant_setting(shown(key), known)}", hint)


def to_table(config: Any) -> dict[str, Any]:
    """Returns the fields of a configuration as a plain dict, in their order."""
    return {f.name: getattr(config, f.name) for f in fields(config)}


def toml_line(key: str, value: str | bool | int | float | tuple[Any, ...] | None) -> str:
    """Returns `key = value` as TOML, which has no word for None: it is written as "none", and `from_table` knows."""
    text = json.dumps("none" if value is None else value, ensure_ascii=False)
    return f"{key} = {text}".replace("\x7f", "\\u007f")  # JSON allows this control character, TOML does not


def shipped_recipes() -> dict[str, Path]:
    """Returns the names of the recipes that come with the package, with their files."""
    folder = Path(str(resources.files("pellucid") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_tables(name_or_path: str | Path) -> dict[str, Any]:
    """Returns the tables of a TOML file or of a shipped recipe's name. Raises ConfigError where there is neither."""
    shipped = shipped_recipes()
    path = shipped.get(str(name_or_path), Path(name_or_path))
    if not path.is_file():
        raise ConfigError(
            f"no recipe `{name_or_path}`: neither a TOML file nor a shipped recipe"
            f"{did_you_mean(str(name_or_path), shipped)}",
            f"shipped recipes: {', '.join(shipped)}",
        )
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ConfigError(f"`{shown(path)}` is not valid TOML: it is nested too deeply") from None
    except ValueError as error:  # or a number of thousands of digits, which Python does not read
        raise ConfigError(f"`{shown(path)}` is not valid TOML: {shown(str(error))}") from error


def split_override(text: str, keys: Mapping[str, Collection[str]]) -> tuple[str, str, Any]:
    """Returns `train.steps=100` as ("train", "steps", 100); what is not a TOML value is a string.

    Args:
        text: section.key=value, or key=value where the key needs no section.
        keys: the keys of each section; those without a section are under "".

    Raises ConfigError where there is no value, or no such section.
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
        named = key if any(key in keys[owner] for owner in sections) else OTHER_NAMES.get(key.lower(), key)
        given = "N" if key == "epochs" else value
        owners = [f"`{owner}.{named}={given}`" for owner in sections if named in keys[owner]]
        hint = " or ".join(owners) or f"section.key=value; the sections are {', '.join(sections)}"
        if owners and key == "epochs":
            hint += f"; {AN_EPOCH}"
        raise ConfigError(f'`overrides=["{text}"]` names no section', f"write {hint}")
    return section, key, _parsed(value.strip())


@cache
def type_hints(cls: type[Any]) -> dict[str, Any]:
    """Returns the types of a dataclass's fields; they are looked up once, as each translation makes new settings."""
    return typing.get_type_hints(cls)


def check_fields(config: Any) -> None:
    """Raises ConfigError for a field whose value is not of its declared type or choices, or is not a finite number."""
    hints = type_hints(config.__class__)
    for f in fields(config):
        value, hint = getattr(config, f.name), hints[f.name]
        if typing.get_origin(hint) is Literal:
            _check_choice(f.name, value, typing.get_args(hint))
        elif not _fits(value, hint):
            raise ConfigError(f"`{f.name}` must be {_type_name(hint)}, not {quoted(value)}")
        elif not all(math.isfinite(v) for v in _each(value) if isinstance(v, float)):
            raise ConfigError(f"`{f.name}` ({shown(value)}) must be finite")


def check_at_least(config: Any, names: Collection[str], smallest: int) -> None:
    """Raises ConfigError where one of the fields `names` is below `smallest`; None passes."""
    for name in names:
        value = getattr(config, name)
        if value is not None and value < smallest:
            raise ConfigError(f"`{name}` ({shown(value)}) must be at least {smallest}")


def check_at_most(config: Any, largest: Mapping[str, float]) -> None:
    """Raises ConfigError where a field, or a member of one, is above what `largest` allows it; None passes."""
    for name, most in largest.items():
        for value in _each(getattr(config, name)):
            if value is not None and value > most:
                raise ConfigError(f"`{name}` ({shown(value)}) must be at most {most:,}")


def check_probabilities(config: Any, names: Collection[str]) -> None:
    """Raises ConfigError where one of the fields `names` is negative, or 1 and above."""
    for name in names:
        value = getattr(config, name)
        if not 0 <= value < 1:
            raise ConfigError(f"`{name}` ({shown(value)}) must be at least 0 and below 1")


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _coerced(value: Any, hint: Any) -> Any:
    """Returns what TOML cannot say: None as "none", a whole number as a float, a list that cannot change."""
    allowed = _members(hint)
    if value == "none" and types.NoneType in allowed:
        return None
    if isinstance(value, list | tuple):
        lists = [member for member in allowed if typing.get_origin(member) is tuple]
        return tuple(_coerced(item, typing.get_args(lists[0])[0]) for item in value) if lists else value
    if isinstance(value, int) and not isinstance(value, bool) and float in allowed and int not in allowed:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return value


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        listed = ", ".join(f'"{choice}"' for choice in choices)
        told = shown(value)
        raise ConfigError(f'unknown `{name}` "{told}"{did_you_mean(told, choices)}', f"choose one of {listed}")


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    """Tells whether `value` is of the declared type; a whole number is a number, but true and false are not."""
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
