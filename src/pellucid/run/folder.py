"""The run folder: identifies the run that it holds and checks whether it can be resumed."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pellucid.config import RECIPE, SECTIONS, DataConfig, Recipe
from pellucid.config.tables import read_tables, rename_override, to_table, toml_line
from pellucid.data.in_memory import InMemoryText
from pellucid.data.lines import hash_path
from pellucid.data.locate import TEXT_FIELDS, resolve_paths
from pellucid.data.prepare import RECORD
from pellucid.errors import CheckpointError, ConfigError, DataError, PellucidError
from pellucid.files.budget import MOST_SETTINGS_BYTES
from pellucid.files.reading import (
    NOTHING,
    NUMBER,
    SWITCH,
    TEXT,
    WHOLE,
    check_kinds,
    parse_json,
    parse_toml,
    read_stored_table,
    read_text,
)
from pellucid.files.records import find_changed_keys
from pellucid.files.writing import describe_disk_error, write_text
from pellucid.planning.budget import Plan
from pellucid.planning.duration import format_duration
from pellucid.planning.request import PlanRequest
from pellucid.run.lock import lock_folder
from pellucid.text.foreign_files import SETTINGS
from pellucid.text.word_forms import WORD_FORMS
from pellucid.training.log import METRICS
from pellucid.training.state import Checkpoints, last_step_saved, newest_state
from pellucid.training.trackers import DATABASE, FOLDERS, GIVEN
from pellucid.weights.aligning_head import ALIGNING_HEAD
from pellucid.weights.card import CARD
from pellucid.weights.export.tokenizer_files import TARGET
from pellucid.weights.folder import CONFIG, DESCRIPTION, WEIGHTS

RESULT = "result.json"
PLAN = "plan.json"
REPLACED = "replaced.json"
STARTING = ".starting-over"
"""Exists while an earlier run is being removed: the remaining files are not a valid run."""
OWN = (
    DESCRIPTION, CONFIG, WEIGHTS, ALIGNING_HEAD, WORD_FORMS, CARD, RESULT, PLAN, REPLACED, METRICS,
    RECORD,
    "tokenizer.model", "tokenizer.json", "source.model", "source.json", "target.model", "target.json",
    "vocabulary.json", "numbers.json", SETTINGS, f"{TARGET}/tokenizer.json", f"{TARGET}/{SETTINGS}",
    "checkpoints/step-*", "data/train", "data/train.partial", "data/valid", "data/valid.partial",
    GIVEN, DATABASE, *FOLDERS,
)  # fmt: skip
"""All files that a run writes besides its recipe, as patterns."""
HALF_WRITTEN = tuple(f".{name}.????????" for name in (*OWN, RECIPE, "tokenizers") if "/" not in name)
"""The temporary files that remain when the process is killed."""
UNSEEN = ("report_to",)
"""Settings that do not affect training: a run may be resumed with other values."""
PLACES = (*TEXT_FIELDS, "init_from", "cache_dir")
"""Settings that are paths; two runs are compared by the contents."""
PARTIAL = ("checkpoints/step-*.partial", "data/train.partial", "data/valid.partial")


@dataclass(frozen=True)
class RunResult:
    """The outcome of a finished run."""

    folder: str
    steps: int
    tokens: int
    seconds: float
    best_step: int
    valid_loss: float
    """The validation loss of the chosen model, as are the other scores."""
    valid_bleu: float | None
    stopped_early: bool = False
    """True if `train.patience` or `Run.stop` ended it before its last step."""
    already_finished: bool = False
    """True if the run had finished before, and nothing was done."""
    valid_accuracy: float | None = None
    """The accuracy of a classifier on the validation texts, 0 to 1."""
    kept: str = ""
    """The chosen model: the best validation, or the mean of which checkpoints. Empty in runs of earlier versions."""
    changed_texts: tuple[str, ...] = ()
    """Texts that have changed since a run that had finished before was trained on them."""


RESULT_KINDS = {
    "steps": WHOLE, "tokens": WHOLE, "seconds": NUMBER, "best_step": WHOLE, "valid_loss": NUMBER,
    "valid_bleu": NUMBER | NOTHING, "stopped_early": SWITCH, "valid_accuracy": NUMBER | NOTHING, "kept": TEXT,
}  # fmt: skip
"""The kind of each value in result.json."""


@dataclass(frozen=True)
class RunFolder:
    """A folder that a training run owns."""

    path: Path

    def check(self, recipe: Recipe, fresh: bool, *, asked: bool = False) -> bool:
        """Returns True if the folder holds a run of this recipe to resume, False if a run may begin. Changes nothing.

        Args:
            fresh: ignore an earlier run.
            asked: the recipe may be the one that the run's script starts from, before it replaces any of it.

        Raises ConfigError if it holds a run with other settings that has trained, or files that do not belong to a run.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"`{self.path}` is a file, not a folder for a run", "choose another `out=`")
        if (self.path / STARTING).is_file():
            return False
        known = [] if fresh else self._recipes()
        if not known and not (self.path / RECIPE).is_file() and not self.origin:
            if self.path.is_dir() and any(not path.name.startswith(".") for path in self.path.iterdir()):
                raise ConfigError(
                    f"`{self.path}` is not empty and is not a run folder"
                    + (f": it has checkpoints, but no {RECIPE}" if self.has_checkpoints else ""),
                    f"copy its {RECIPE} back, or choose another `out=`"
                    if self.has_checkpoints
                    else "choose another `out=`",
                )
            return False
        if fresh:
            return False
        known = known or [read_stored_recipe(self.path)]
        if asked and self.replaced:
            known.append(Recipe.from_tables(parse_toml(self.replaced["recipe"])))
        differences = [next(_differences(stored, recipe), None) for stored in known]
        if None in differences:
            return True
        if differences[0] and self.has_trained:
            raise ConfigError(
                f"the run in `{self.path}` {self._began(differences[0])}",
                "repeat the command that started it, choose another `out=`, or start over with `fresh=True`",
            )
        return False

    def check_place(self) -> None:
        """Raises ConfigError if the permissions of the folder, or of its nearest existing parent, forbid writing.

        Other obstacles are found when it is created.
        """
        place = next(path for path in (self.path.absolute(), *self.path.absolute().parents) if path.exists())
        wrong = errno.ENOTDIR if not place.is_dir() else 0 if os.access(place, os.W_OK | os.X_OK) else errno.EACCES
        if wrong:
            raise ConfigError(f"cannot write to `{self.path}`: {os.strerror(wrong)}", "choose another `out=`")

    def _recipes(self) -> list[Recipe]:
        """Returns the known copies of the run's recipe: recipe.toml, if it can be read, and a checkpoint's copy."""
        found = []
        with suppress(ConfigError):
            if (self.path / RECIPE).is_file():
                found.append(Recipe.from_tables(read_tables(self.path / RECIPE)))
        if RECIPE in self.origin:
            found.append(Recipe.from_tables(parse_toml(self.origin[RECIPE])))
        return found

    def _began(self, difference: tuple[str, str]) -> str:
        """Returns the text on a setting that differs between the run's start and the command."""
        with suppress(ValueError, KeyError, TypeError):
            if difference[0].startswith("train.budget") or (self.path / PLAN).is_file():
                request = parse_json(self.read(PLAN))["request"]
                return f"was started with `budget={format_duration(request['seconds'])}`, this command has no budget"
        return f"has `{difference[0]}`, this command `{difference[1]}`"

    @property
    def origin(self) -> dict[str, Any]:
        """The origin of the run, from its newest checkpoint.

        It is empty if there is no checkpoint, or an earlier version wrote it.
        """
        origin: dict[str, Any] = newest_state(self.path / "checkpoints").origin
        return origin

    def read(self, name: str) -> str:
        """Returns the text of a JSON file that not every run has: PLAN or REPLACED.

        If the file is missing or damaged, returns a checkpoint's copy; if the run has none, an empty text.
        """
        with suppress(CheckpointError, ValueError):
            text = read_text(self.path / name, MOST_SETTINGS_BYTES)
            parse_json(text)
            return text
        return str(self.origin.get(name, ""))

    def find_planned(self, request: PlanRequest) -> Recipe | None:
        """Returns the recipe that the run was planned with for the same request; None if nothing has been trained yet.

        Raises ConfigError if the run has trained for another request, or without one.
        """
        if self.recipe is None:
            return None
        stored = self._request()
        if stored == request:
            return self.recipe
        if stored is None:
            began = "without a budget"
        else:
            began = f"with {stored}" if str(stored) != str(request) else "from another recipe"
        raise ConfigError(
            f"the run in `{self.path}` was started {began}, this command has {request}",
            "repeat the command that started it, choose another `out=`, or start over with `fresh=True`",
        )

    def _request(self) -> PlanRequest | None:
        """Returns the request that the run was planned for; None if there was none."""
        try:
            table = parse_json(self.read(PLAN))["request"]
            return PlanRequest(
                table["seconds"], tuple(sorted(map(rename_override, table["settings"]))), table["recipe"]
            )
        except (ValueError, KeyError, TypeError):
            return None

    def save_plan(self, plan: Plan) -> None:
        """Writes the plan before training begins, so that the same command finds it again."""
        request = plan.request
        table = {
            "request": {"seconds": request.seconds, "settings": request.settings, "recipe": request.recipe},
            "facts": asdict(plan.facts),
            "tokens_per_second": {name: round(pace.tokens_per_second) for name, pace in plan.paces.items()},
            "tokens": round(plan.tokens),
            "expected_bleu": None if plan.expected_bleu is None else round(plan.expected_bleu, 1),
            "plan": str(plan).splitlines(),
        }
        write_text(self.path / PLAN, json.dumps(table, indent=2) + "\n")

    @property
    def replaced(self) -> dict[str, Any]:
        """The attributes that the run's script replaces before training: "names", and the "recipe" before replacement.

        The table is empty if the script replaces nothing.
        """
        text = self.read(REPLACED)
        table: dict[str, Any] = parse_json(text) if text else {}
        return table

    def save_replaced(self, names: Iterable[str], recipe: Recipe) -> None:
        """Records the names of the replaced attributes, and the recipe before replacement."""
        table = {"names": sorted(names), "recipe": recipe.to_toml()}
        write_text(self.path / REPLACED, json.dumps(table, indent=2) + "\n")

    def repair(self) -> list[str]:
        """Rewrites recipe.toml, PLAN and REPLACED if they differ from the newest checkpoint's; returns their names."""
        repaired = []
        for name in (RECIPE, PLAN, REPLACED):
            text = self.origin.get(name)
            with suppress(OSError):
                if text and (self.path / name).read_bytes() == text.encode():
                    continue
            if text:
                write_text(self.path / name, text)
                repaired.append(name)
        return repaired

    def begin(self, recipe: Recipe) -> None:
        """Begins a new run in the folder: removes the files of an earlier run and keeps others."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._remove_run()
        write_text(self.path / RECIPE, recipe.to_toml())
        (self.path / STARTING).unlink(missing_ok=True)

    def clear(self) -> None:
        """Removes the run, if there is one, and the folder if nothing else is in it.

        Raises ConfigError if another process has locked the folder, or if it is not writable.
        """
        if not self.path.is_dir():
            return
        with self.lock():
            self._remove_run()
            (self.path / RECIPE).unlink(missing_ok=True)
            (self.path / STARTING).unlink(missing_ok=True)
        _remove_empty([self.path])

    def _remove_run(self) -> None:
        if (self.path / RECIPE).is_file():
            # A process killed in here would leave parts of the earlier run, which cannot be resumed.
            (self.path / STARTING).touch()
        self._remove(*OWN, *HALF_WRITTEN)
        for folder in (self.path / "checkpoints", self.path / "data", self.path / "target"):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the folder for this process within the context, and removes partial files on entry and on exit.

        A folder created for the lock is removed if it stays empty. Raises ConfigError if another process has locked it,
        or if it is not writable.
        """
        made = [path for path in (self.path, *self.path.parents) if not path.exists()]
        with ExitStack() as stack:
            stack.callback(_remove_empty, made)
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(lock_folder(self.path))
            except (PermissionError, NotADirectoryError, FileNotFoundError) as error:
                raise ConfigError(
                    f"cannot write to `{self.path}`: {error.strerror}", "choose another `out=`"
                ) from error
            self._sweep()
            stack.callback(self._sweep)
            yield

    @property
    def recipe(self) -> Recipe | None:
        """The recipe of the run in the folder, if it has trained."""
        if (self.path / STARTING).is_file() or not self.has_trained:
            return None
        # The checkpoint's copy is preferred: its SHA-256 was checked.
        known = self._recipes()
        if not known and (self.path / RECIPE).is_file():
            return read_stored_recipe(self.path)
        return known[-1] if known else None

    @property
    def has_trained(self) -> bool:
        """True if the folder has weights or a checkpoint."""
        return (self.path / WEIGHTS).is_file() or self.has_checkpoints

    @property
    def has_checkpoints(self) -> bool:
        """True if there is a checkpoint to resume from."""
        return any((self.path / "checkpoints").glob("step-*"))

    @property
    def result(self) -> RunResult | None:
        """The outcome of the run, if it has finished."""
        try:
            table = {**read_stored_table(self.path / RESULT), "folder": str(self.path), "already_finished": True}
            check_kinds(table, RESULT_KINDS, self.path / RESULT)
            return RunResult(**table)
        except (CheckpointError, TypeError):
            return None  # a damaged file is rewritten from the last checkpoint

    def finish(self, result: RunResult) -> None:
        """Marks the run as finished. The file contains no path."""
        table = asdict(replace(result, folder=""))
        del table["already_finished"], table["changed_texts"]
        write_text(self.path / RESULT, json.dumps(table, indent=2) + "\n")

    def find_changed_texts(
        self,
        data: DataConfig,
        data_dir: str | Path | None = None,
        given: Mapping[str, InMemoryText] | None = None,
        digests: Callable[[Sequence[str]], Mapping[str, str]] | None = None,
    ) -> tuple[str, ...]:
        """Returns the files of `data` whose SHA-256 differs from the run's record, in the settings' order.

        Returns an empty tuple if texts or the record are missing. Reading a gigabyte takes about a second.

        Args:
            data_dir: the folder in which files are looked for.
            given: the texts that were passed in place of files.
            digests: returns the SHA-256 of files by their paths; if None, each file is read.
        """
        try:
            noted = read_stored_table(self.path / RECORD)["sha256"]
            if given:
                sides = {"train": ("src", "tgt"), "valid": ("valid_src", "valid_tgt")}
                now = {
                    part: zip(sides[part], text.digests, strict=True) for part, text in given.items() if part in sides
                }
                changed = {part for part, found in now.items() if any([d] != noted.get(n, [d]) for n, d in found)}
                return tuple(given[part].src for part in sides if part in changed)
            found = resolve_paths(data, data_dir)
            now_in = (lambda paths: {path: hash_path(path) for path in paths}) if digests is None else digests
            sha256 = now_in([path for name in noted for path in found.files(name)])
            return tuple(
                path
                for name, before in noted.items()
                for number, path in enumerate(found.files(name))
                if sha256[path] not in before[number : number + 1]
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, DataError):
            return ()

    @property
    def has_given_data(self) -> bool:
        """True if the run's texts were passed in Python, so that no setting names them."""
        return bool(read_stored_table(self.path / RECORD).get("given"))

    def make_disk_full_error(self, error: OSError) -> PellucidError:
        """Returns the error for a failed write of a file that the run requires."""
        step = last_step_saved(self.path / "checkpoints")
        return PellucidError(
            f"the run in `{self.path}` cannot be written: {describe_disk_error(error, self.path)}"
            + (f"; the last good checkpoint is step {step:,}" if step else "; there is no checkpoint yet"),
            "free space on that disk and run the same command again: it resumes "
            + ("after that step" if step else "from the start")
            + " and ends with the same weights",
        )

    def _sweep(self) -> None:
        """Removes the partial files of a process that was killed or failed."""
        with suppress(OSError):
            self._remove(*HALF_WRITTEN, *PARTIAL)

    def _remove(self, *patterns: str) -> None:
        for pattern in patterns:
            for path in self.path.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _remove_empty(folders: Sequence[Path]) -> None:
    """Removes folders, each within the next, as long as they are empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _differences(stored: Recipe, asked: Recipe) -> Iterator[tuple[str, str]]:
    """Yields the settings that differ, as `section.key = value` of both; not paths: texts are compared by content."""
    for section in SECTIONS:
        before, now = to_table(getattr(stored, section)), to_table(getattr(asked, section))
        for name in find_changed_keys(before, now):
            left_open = name == "precision" and now[name] == "auto"
            if name not in (*PLACES, *UNSEEN) and not left_open:
                key = f"{section}.{name}"
                yield toml_line(key, before[name]), toml_line(key, now[name])


def open_checkpoints(folder: Path, recipe: Recipe, average: int | None = None) -> Checkpoints:
    """Returns a run's checkpoints; `average` of them, by default the recipe's number, are averaged."""
    train = recipe.train
    count = average or train.average
    last, of, kept = train.steps, train.average_strategy, train.keep_every
    return Checkpoints(folder / "checkpoints", train.save_every, count, last, of, kept)


def read_stored_recipe(folder: Path) -> Recipe:
    """Returns the recipe of a run folder.

    Raises ConfigError if it holds no run, or if its recipe cannot be read.
    """
    path = folder / RECIPE
    known = RunFolder(folder)._recipes()
    if known:
        return known[0]
    if not path.is_file():
        raise ConfigError(f"`{folder}` holds no run: no {RECIPE} in it", "name the folder given to `out=`")
    return Recipe.from_tables(read_tables(path))
