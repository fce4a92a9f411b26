"""The run folder: which run lies in it, and whether it may be gone on with."""

import json
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from pellucid.config import SECTIONS, Recipe
from pellucid.errors import ConfigError, PellucidError
from pellucid.tables import read_tables, to_table
from pellucid.weights.files import write_text

OWN = ("config.json", "model.safetensors", "README.md", "recipe.toml", "result.json", "metrics.jsonl",
       "checkpoints", "data", "tensorboard", "tokenizer.*", "source.*", "target.*")  # fmt: skip


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


@dataclass(frozen=True)
class RunFolder:
    """A folder that a training run owns."""

    path: Path

    def claim(self, recipe: Recipe, fresh: bool) -> bool:
        """Makes the folder this recipe's; returns whether it holds a run of it already.

        Raises ConfigError where it holds a run with other settings, or things that are no run.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"`{self.path}` is a file, not a folder for a run", "choose another `--out`")
        if fresh:
            self._clear()
        stored = self.path / "recipe.toml"
        if stored.is_file():
            self._check_same(Recipe.from_tables(read_tables(stored)), recipe)
            return True
        if self.path.is_dir() and any(self.path.iterdir()):
            raise ConfigError(f"`{self.path}` is not empty and holds no run", "choose another `--out`")
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(stored, recipe.to_toml())
        return False

    @property
    def result(self) -> RunResult | None:
        """What the run came to, if it has finished."""
        path = self.path / "result.json"
        return RunResult(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def finish(self, result: RunResult) -> None:
        """Marks the run as finished."""
        write_text(self.path / "result.json", json.dumps(asdict(result) | {"folder": ""}, indent=2) + "\n")

    def _clear(self) -> None:
        """Removes what a run has written here, and nothing else."""
        if not (self.path / "recipe.toml").is_file():
            return
        for pattern in OWN:
            for path in self.path.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _check_same(self, stored: Recipe, asked: Recipe) -> None:
        for section in SECTIONS:
            before, now = to_table(getattr(stored, section)), to_table(getattr(asked, section))
            for f in fields(SECTIONS[section]):
                if before[f.name] != now[f.name]:
                    raise ConfigError(
                        f"the run in `{self.path}` has `{section}.{f.name}` = {before[f.name]!r}, "
                        f"this command {now[f.name]!r}",
                        "repeat the command that began it, choose another `--out`, or start over with --fresh",
                    )


def checkpoints_of(folder: Path, recipe: Recipe) -> tuple[Path, int, int]:
    """Where a run's checkpoints lie, how often one is due, and how many make the average."""
    return folder / "checkpoints", recipe.train.save_every, recipe.train.average


def stored_recipe(folder: Path) -> Recipe:
    """The recipe of a run folder. Raises PellucidError where it holds no run."""
    path = folder / "recipe.toml"
    if not path.is_file():
        raise PellucidError(f"`{folder}` holds no run: no recipe.toml in it", "name the folder given to `--out`")
    return Recipe.from_tables(read_tables(path))
