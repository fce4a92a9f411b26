"""A recipe: the four groups of settings together, as the sections of a TOML file."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from pellucid.config.data import DataConfig
from pellucid.config.decode import DecodeConfig
from pellucid.config.model import ModelConfig
from pellucid.config.tables import Settings, check_fields, from_table, read_tables, split_override, to_table, toml_line
from pellucid.config.tasks import TASKS, TrainedTask
from pellucid.config.train import TrainConfig
from pellucid.errors import ConfigError

SECTIONS: dict[str, type[ModelConfig | DataConfig | TrainConfig | DecodeConfig]] = {
    "model": ModelConfig, "data": DataConfig, "train": TrainConfig, "decode": DecodeConfig,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe(Settings):
    """A whole training: what pellucid.train() takes and a TOML recipe holds."""

    name: str = "custom"
    """The recipe's name."""
    description: str = ""
    """A sentence that says what it trains."""
    time: str = ""
    """The time that it took, and on what machine; empty: not measured."""
    license: str = ""
    """The licence of the model, as hubs call it (apache-2.0, cc-by-4.0): for its card. Empty: the card says nothing."""
    languages: tuple[str, ...] = ()
    """The codes of its languages, for its card. Empty: what the names of the texts end in, as `train.de.gz`."""
    task: TrainedTask = "translate"
    """The use of the model: to write a target for a source, to tell which label a text has, or to go on writing."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig.preset("tiny"))
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.task != "translate" and self.data.tgt_lang:
            raise ConfigError(
                f"`data.src_lang` and `data.tgt_lang` ({', '.join(self.data.files('tgt_lang'))}) are for "
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
        """Returns the recipe of nested tables; [model] may name a `preset`. Raises ConfigError for unknown keys."""
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
        """Returns the recipe of a TOML file or of a shipped name, with `section.key=value` overrides."""
        tables = read_tables(name_or_path)
        for override in overrides or []:
            section, key, value = split_override(override, KEYS)
            table = tables.setdefault(section, {}) if section else tables
            if isinstance(table, dict):  # if not, from_tables() says so
                table[key] = value
        return cls.from_tables(tables)

    def to_toml(self) -> str:
        """Returns the recipe as TOML; from_tables() reads it back equal."""
        lines = [toml_line(key, getattr(self, key)) for key in KEYS[""]]
        for section, cls in SECTIONS.items():
            defaults = {f.name: f.default for f in fields(cls)}
            table = to_table(getattr(self, section)).items()
            said = [toml_line(key, value) for key, value in table if value is not None or defaults[key] is not None]
            lines += ["", f"[{section}]", *said]
        return "\n".join(lines) + "\n"


KEYS = {section: [f.name for f in fields(cls)] for section, cls in SECTIONS.items()}
KEYS["model"].append("preset")
KEYS[""] = [f.name for f in fields(Recipe) if f.name not in SECTIONS]
