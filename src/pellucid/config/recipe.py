"""A recipe: the four groups of settings, as the sections of a TOML file."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from pellucid.config.data import DataConfig
from pellucid.config.decode import DecodeConfig
from pellucid.config.model import ModelConfig
from pellucid.config.tables import (
    SettingsBase,
    check_fields,
    from_table,
    read_tables,
    rename_settings,
    restore_old_names,
    split_override,
    to_table,
    toml_line,
)
from pellucid.config.tasks import TASKS, TrainedTask
from pellucid.config.train import TrainConfig
from pellucid.errors import ConfigError

SECTIONS: dict[str, type[ModelConfig | DataConfig | TrainConfig | DecodeConfig]] = {
    "model": ModelConfig, "data": DataConfig, "train": TrainConfig, "decode": DecodeConfig,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe(SettingsBase):
    """All settings of a training, as an argument of pellucid.train() or as a TOML file."""

    name: str = "custom"
    """The recipe's name."""
    description: str = ""
    """A description of the model in one sentence."""
    time: str = ""
    """The measured training time and the machine; empty: not measured."""
    license: str = ""
    """The license of the model by its name on model hubs (apache-2.0, cc-by-4.0), for the model card. Empty: not stated
    in the card."""
    languages: tuple[str, ...] = ()
    """The language codes of the model, source and target of a translator of one language pair, for pellucid.json and
    the model card. Empty: the endings of the texts' names, as in `train.de.gz`."""
    task: TrainedTask = "translate"
    """translate: write a target for a source; classify: choose a label for a text; generate: continue a text."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig.preset("tiny"))
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.task != "translate" and self.data.tgt_lang:
            raise ConfigError(
                f"`data.src_lang=` and `data.tgt_lang=` ({', '.join(self.data.files('tgt_lang'))}) are for "
                f'`task = "translate"`, not for `task = "{self.task}"`',
                "leave them out",
            )
        task = TASKS[self.task]
        if self.model.family != task.family:
            raise ConfigError(
                f'`task = "{self.task}"` needs {task.stacks}, but `model.num_encoder_layers` is '
                f"{self.model.num_encoder_layers} and `model.num_decoder_layers` {self.model.num_decoder_layers}",
                "give both at least one layer" if task.family == "encoder-decoder" else "set one of them to 0",
            )

    @classmethod
    def from_tables(cls, tables: dict[str, Any]) -> Self:
        """Returns a recipe from nested tables; [model] may name a `preset`. Raises ConfigError for unknown keys."""
        values: dict[str, Any] = {}
        for key, value in tables.items():
            if key == "model" and isinstance(value, dict):
                table = dict(value)
                values[key] = ModelConfig.preset(table.pop("preset", "tiny"), **table)
            elif key in SECTIONS:
                values[key] = from_table(SECTIONS[key], value, f"[{key}]")
            else:
                values[key] = value
        return from_table(cls, values, "the recipe")

    @classmethod
    def load(cls, name_or_path: str | Path, overrides: list[str] | None = None) -> Self:
        """Returns a recipe from a TOML file or from the name of a shipped one, with `section.key=value` overrides."""
        tables = {
            key: rename_settings(key, value) if isinstance(value, dict) else value
            for key, value in read_tables(name_or_path).items()
        }
        for override in overrides or []:
            section, key, value = split_override(override, KEYS)
            table = tables.setdefault(section, {}) if section else tables
            if isinstance(table, dict):  # if not, from_tables() raises an error
                table[key] = value
        return cls.from_tables(tables)

    def to_toml(self, *, old_names: bool = False) -> str:
        """Returns the recipe as TOML, from which from_tables() restores an equal recipe; with `old_names`, for digests,
        with the names of settings in the first version.
        """
        lines = [toml_line(key, getattr(self, key)) for key in KEYS[""]]
        for section, cls in SECTIONS.items():
            defaults = {f.name: f.default for f in fields(cls)}
            table = to_table(getattr(self, section))
            kept = {key: value for key, value in table.items() if value is not None or defaults[key] is not None}
            named = restore_old_names(section, kept) if old_names else kept
            lines += ["", f"[{section}]", *(toml_line(key, value) for key, value in named.items())]
        return "\n".join(lines) + "\n"


KEYS = {section: [f.name for f in fields(cls)] for section, cls in SECTIONS.items()}
KEYS["model"].append("preset")
KEYS[""] = [f.name for f in fields(Recipe) if f.name not in SECTIONS]
