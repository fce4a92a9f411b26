"""The run folder: which run lies in it, and whether it may be gone on with."""

import json
import os
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from pellucid.config import RECIPE, SECTIONS, Recipe
from pellucid.config.tables import read_tables, to_table, toml_line
from pellucid.data.locate import TEXT_FIELDS
from pellucid.errors import ConfigError, PellucidError
from pellucid.files.writing import disk_trouble, write_text
from pellucid.planning.duration import say_duration
from pellucid.run.lock import held
from pellucid.training.state import Checkpoints

RESULT = "result.json"
PLAN = "plan.json"
STARTING = ".starting-over"
"""Stands while an earlier run is being removed: what is left of it then is no run."""
OWN = (
    "pellucid.json", "config.json", "model.safetensors", "README.md", RESULT, PLAN, "metrics.jsonl", "corpus.json",
    "tokenizer.model", "tokenizer.json", "source.model", "source.json", "target.model", "target.json",
    "vocabulary.json", "numbers.json", "tokenizer_config.json", "target/tokenizer.json", "target/tokenizer_config.json",
    "checkpoints/step-*", "data/train", "data/train.partial", "data/valid", "data/valid.partial", "tensorboard",
)  # fmt: skip
"""All that a run writes besides its recipe, as patterns."""
HALF_WRITTEN = tuple(f".{name}.????????" for name in (*OWN, RECIPE, "tokenizers") if "/" not in name)
"""What lies there under its temporary name when the process is killed."""
PLACES = (*TEXT_FIELDS, "init_from")
"""Settings that name a place; two runs are compared by what was there."""
PARTIAL = ("checkpoints/step-*.partial", "data/train.partial", "data/valid.partial")


@dataclass(frozen=True)
class RunResult:
    """What a finished run came to."""

    folder: str
    steps: int
    tokens: int
    seconds: float
    best_step: int
    valid_loss: float
    """Of the model, as are the other numbers of validation."""
    valid_bleu: float | None
    stopped_early: bool = False
    """Whether `train.patience` ended it before its last step."""
    already_finished: bool = False
    """Whether the run had finished before, and nothing was left to do."""
    valid_accuracy: float | None = None
    """Of a classifier: the part of the validation texts that it got right, 0 to 1."""
    kept: str = ""
    """What the model is: the best validation, or the mean of which checkpoints. Empty: a version ended it that did not
    say so."""
    changed_texts: tuple[str, ...] = ()
    """Texts that are not any more what a run that had finished before was trained on."""


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
        if (self.path / STARTING).is_file():
            return False
        known = [] if fresh else self._recipes()
        if not known and not (self.path / RECIPE).is_file() and not self.origin:
            if self.path.is_dir() and any(not path.name.startswith(".") for path in self.path.iterdir()):
                raise ConfigError(
                    f"`{self.path}` is not empty and holds no run"
                    + (f": it has checkpoints, but no {RECIPE}" if self.has_checkpoints else ""),
                    f"copy its {RECIPE} back, or choose another `--out`"
                    if self.has_checkpoints
                    else "choose another `--out`",
                )
            return False
        if fresh:
            return False
        differences = [next(_differences(stored, recipe), None) for stored in known or [stored_recipe(self.path)]]
        if None in differences:
            return True
        if differences[0] and self.has_trained:
            raise ConfigError(
                f"the run in `{self.path}` {self._began(differences[0])}",
                "repeat the command that began it, choose another `--out`, or start over with --fresh",
            )
        return False

    def _recipes(self) -> list[Recipe]:
        """What is known of the run's recipe: recipe.toml, as far as it can be read, and a checkpoint's copy."""
        found = []
        with suppress(ConfigError):
            if (self.path / RECIPE).is_file():
                found.append(Recipe.from_tables(read_tables(self.path / RECIPE)))
        if RECIPE in self.origin:
            found.append(Recipe.from_tables(tomllib.loads(self.origin[RECIPE])))
        return found

    def _began(self, difference: tuple[str, str]) -> str:
        """How the run began otherwise than a command asks for, whose settings differ so."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            if difference[0].startswith("train.budget") or (self.path / PLAN).is_file():
                request = json.loads(self.plan)["request"]
                return f"began with `--budget {say_duration(request['seconds'])}`, this command has no budget"
        return f"has `{difference[0]}`, this command `{difference[1]}`"

    @property
    def origin(self) -> dict[str, Any]:
        """What the run comes from, as its newest checkpoint has it; empty where there is none, or an earlier version
        wrote it."""
        origin: dict[str, Any] = Checkpoints(self.path / "checkpoints", 1, 1).newest_state().origin
        return origin

    @property
    def plan(self) -> str:
        """The text of the plan of a run with a time budget; where the file is lost, a checkpoint's copy, or nothing."""
        with suppress(OSError, UnicodeDecodeError):
            text = (self.path / PLAN).read_text(encoding="utf-8")
            with suppress(ValueError):
                json.loads(text)
                return text
        return str(self.origin.get(PLAN, ""))

    def mend(self) -> list[str]:
        """Writes recipe.toml and the plan again where they are not as the newest checkpoint has them; returns which."""
        mended = []
        for name in (RECIPE, PLAN):
            text = self.origin.get(name)
            with suppress(OSError):
                if text and (self.path / name).read_bytes() == text.encode():
                    continue
            if text:
                write_text(self.path / name, text)
                mended.append(name)
        return mended

    def begin(self, recipe: Recipe) -> None:
        """Makes the folder the new run's: what an earlier one has written goes, other files stay."""
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / RECIPE).is_file():
            # A process killed in here would leave parts of the earlier run, with which no run can go on.
            (self.path / STARTING).touch()
        self._remove(*OWN, *HALF_WRITTEN)
        for folder in (self.path / "checkpoints", self.path / "data", self.path / "target"):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        write_text(self.path / RECIPE, recipe.to_toml())
        (self.path / STARTING).unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the folder for this process, from before anything is written to the end, and sweeps it on both ends.

        A folder made for the lock goes again if it stays empty. Raises ConfigError where another process holds it, or
        nothing can be written there.
        """
        made = [path for path in (self.path, *self.path.parents) if not path.exists()]
        with ExitStack() as stack:
            stack.callback(_remove_empty, made)
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(held(self.path))
            except (PermissionError, NotADirectoryError, FileNotFoundError) as error:
                raise ConfigError(
                    f"cannot write to `{self.path}`: {error.strerror}", "choose another `--out`"
                ) from error
            self._sweep()
            stack.callback(self._sweep)
            yield

    @property
    def recipe(self) -> Recipe | None:
        """The recipe of a run here that has got somewhere, if there is one."""
        if (self.path / STARTING).is_file() or not self.has_trained:
            return None
        # The checkpoint's copy first: it is known to be as it was written.
        known = self._recipes()
        if not known and (self.path / RECIPE).is_file():
            return stored_recipe(self.path)
        return known[-1] if known else None

    @property
    def has_trained(self) -> bool:
        """Whether there is something to lose: weights or a checkpoint."""
        return (self.path / "model.safetensors").is_file() or self.has_checkpoints

    @property
    def has_checkpoints(self) -> bool:
        """Whether there is something to resume from."""
        return any((self.path / "checkpoints").glob("step-*"))

    @property
    def result(self) -> RunResult | None:
        """What the run came to, if it has finished."""
        try:
            table = json.loads((self.path / RESULT).read_text(encoding="utf-8"))
            return RunResult(**{**table, "folder": str(self.path), "already_finished": True})
        except (FileNotFoundError, ValueError, TypeError):
            return None  # a damaged one is written anew, from the last checkpoint

    def finish(self, result: RunResult) -> None:
        """Marks the run as finished. The file names no place."""
        table = asdict(replace(result, folder=""))
        del table["already_finished"], table["changed_texts"]
        write_text(self.path / RESULT, json.dumps(table, indent=2) + "\n")

    def out_of_room(self, error: OSError) -> PellucidError:
        """The error for a disk that did not take what the run cannot go on without."""
        step = Checkpoints(self.path / "checkpoints", 1, 1).last_step_saved
        return PellucidError(
            f"the run in `{self.path}` cannot be written: {disk_trouble(error, self.path)}"
            + (f"; the last good checkpoint is step {step:,}" if step else "; there is no checkpoint yet"),
            "make room on that disk and give the same command again: it goes on "
            + ("after that step" if step else "from the start")
            + " and ends in the same weights",
        )

    def _sweep(self) -> None:
        """Removes what was left half-written here by a process that was killed, or could not end its work."""
        with suppress(OSError):
            self._remove(*HALF_WRITTEN, *PARTIAL)

    def _remove(self, *patterns: str) -> None:
        for pattern in patterns:
            for path in self.path.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


NOWHERE = RunFolder(Path(os.devnull, "run"))
"""The folder of what is only planned: nothing lies there, and nothing can be written there."""


def _remove_empty(folders: Sequence[Path]) -> None:
    """Removes folders, each within the next, as long as they are empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _differences(stored: Recipe, asked: Recipe) -> Iterator[tuple[str, str]]:
    """The settings that differ, as `section.key = value` of each side; texts are compared by what is in them."""
    for section, cls in SECTIONS.items():
        before, now = to_table(getattr(stored, section)), to_table(getattr(asked, section))
        for f in fields(cls):
            if before[f.name] != now[f.name] and f.name not in PLACES:
                key = f"{section}.{f.name}"
                yield toml_line(key, before[f.name]), toml_line(key, now[f.name])


def checkpoints_of(folder: Path, recipe: Recipe, average: int | None = None) -> Checkpoints:
    """A run's checkpoints; `average` of them, or as many as the recipe says, make the average."""
    train = recipe.train
    count = average or train.average
    last, of, kept = train.steps, train.average_of, train.keep_every
    return Checkpoints(folder / "checkpoints", train.save_every, count, last, of, kept)


def stored_recipe(folder: Path) -> Recipe:
    """The recipe of a run folder. Raises ConfigError where it holds no run, or one whose recipe cannot be read."""
    path = folder / RECIPE
    known = RunFolder(folder)._recipes()
    if known:
        return known[0]
    if not path.is_file():
        raise ConfigError(f"`{folder}` holds no run: no {RECIPE} in it", "name the folder given to `--out`")
    return Recipe.from_tables(read_tables(path))
