"""The run folder: which run lies in it, and whether it may be gone on with."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from pellucid.config import SECTIONS, Recipe
from pellucid.errors import ConfigError
from pellucid.tables import read_tables, to_table, toml_line
from pellucid.training.state import Checkpoints
from pellucid.weights.files import write_text
from pellucid.workflow.locate import TEXT_FIELDS

RECIPE = "recipe.toml"
RESULT = "result.json"
OWN = (
    "config.json", "model.safetensors", "README.md", RESULT, "metrics.jsonl",
    "tokenizer.model", "tokenizer.json", "source.model", "source.json", "target.model", "target.json",
    "checkpoints/step-*", "data/train", "data/train.partial", "data/valid", "data/valid.partial", "tensorboard",
)  # fmt: skip
"""All that a run writes besides its recipe, as patterns."""
HALF_WRITTEN = tuple(f".{name}.????????" for name in (*OWN, RECIPE, "tokenizers") if "/" not in name)
"""What lies there under its temporary name when the process is killed."""


@dataclass(frozen=True)
class RunResult:
    """What a finished run came to."""

    folder: str
    steps: int
    tokens: int
    seconds: float
    best_step: int
    valid_loss: float
    valid_bleu: float | None
    already_finished: bool = False
    """Whether the run had finished before, and nothing was left to do."""


@dataclass(frozen=True)
class RunFolder:
    """A folder that a training run owns."""

    path: Path

    def check(self, recipe: Recipe, fresh: bool) -> bool:
        """Whether the folder holds a run of this recipe to go on with; else one may begin. Changes nothing.

        Raises ConfigError where it holds a run with other settings that has got somewhere, or things that are no run.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"`{self.path}` is a file, not a folder for a run", "choose another `--out`")
        if not (self.path / RECIPE).is_file():
            if self.path.is_dir() and any(not path.name.startswith(".") for path in self.path.iterdir()):
                raise ConfigError(f"`{self.path}` is not empty and holds no run", "choose another `--out`")
            return False
        if fresh:
            return False
        difference = next(_differences(stored_recipe(self.path), recipe), None)
        if difference and self.has_trained:
            raise ConfigError(
                f"the run in `{self.path}` has `{difference[0]}`, this command `{difference[1]}`",
                "repeat the command that began it, choose another `--out`, or start over with --fresh",
            )
        return difference is None

    def begin(self, recipe: Recipe) -> None:
        """Makes the folder the new run's: what an earlier one has written goes, other files stay."""
        if self.path.is_dir():
            self._clear()
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.path / RECIPE, recipe.to_toml())

    @property
    def has_trained(self) -> bool:
        """Whether there is something to lose: weights or a checkpoint."""
        return (self.path / "model.safetensors").is_file() or any((self.path / "checkpoints").glob("step-*"))

    @property
    def result(self) -> RunResult | None:
        """What the run came to, if it has finished."""
        path = self.path / RESULT
        if not path.is_file():
            return None
        table = json.loads(path.read_text(encoding="utf-8"))
        return RunResult(**table | {"folder": str(self.path), "already_finished": True})

    def finish(self, result: RunResult) -> None:
        """Marks the run as finished. The file names no place."""
        table = asdict(replace(result, folder=""))
        write_text(self.path / RESULT, json.dumps(table, indent=2) + "\n")

    def _clear(self) -> None:
        """Removes what a run has written here, also what one that was killed left half-written, and nothing else."""
        for pattern in (*OWN, *HALF_WRITTEN):
            for path in self.path.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for folder in (self.path / "checkpoints", self.path / "data"):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def _differences(stored: Recipe, asked: Recipe) -> Iterator[tuple[str, str]]:
    """The settings that differ, as `section.key = value` of each side; texts are compared by what is in them."""
    for section, cls in SECTIONS.items():
        before, now = to_table(getattr(stored, section)), to_table(getattr(asked, section))
        for f in fields(cls):
            if before[f.name] != now[f.name] and f.name not in TEXT_FIELDS:
                key = f"{section}.{f.name}"
                yield toml_line(key, before[f.name]), toml_line(key, now[f.name])


def checkpoints_of(folder: Path, recipe: Recipe, average: int | None = None) -> Checkpoints:
    """A run's checkpoints; `average` of them, or as many as the recipe says, make the average."""
    train = recipe.train
    return Checkpoints(folder / "checkpoints", train.save_every, average or train.average, train.steps)


def stored_recipe(folder: Path) -> Recipe:
    """The recipe of a run folder. Raises ConfigError where it holds no run."""
    path = folder / RECIPE
    if not path.is_file():
        raise ConfigError(f"`{folder}` holds no run: no {RECIPE} in it", "name the folder given to `--out`")
    return Recipe.from_tables(read_tables(path))
