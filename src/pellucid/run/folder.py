"""The run folder: which run lies in it, and whether it may be gone on with."""

import errno
import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from pellucid.config import RECIPE, SECTIONS, DataConfig, Recipe
from pellucid.config.tables import read_tables, to_table, toml_line
from pellucid.data.given import GivenText
from pellucid.data.lines import fingerprint
from pellucid.data.locate import TEXT_FIELDS, locate
from pellucid.data.prepare import RECORD
from pellucid.errors import ConfigError, DataError, PellucidError
from pellucid.files.writing import disk_trouble, write_text
from pellucid.planning.budget import Plan
from pellucid.planning.duration import say_duration
from pellucid.planning.request import Request
from pellucid.run.lock import hold
from pellucid.text.special_ids import SETTINGS
from pellucid.training.log import METRICS
from pellucid.training.state import Checkpoints, last_step_saved, newest_state
from pellucid.training.trackers import DATABASE, FOLDERS, GIVEN
from pellucid.weights.card import CARD
from pellucid.weights.export.tokenizer_files import TARGET
from pellucid.weights.folder import CONFIG, DESCRIPTION, WEIGHTS

RESULT = "result.json"
PLAN = "plan.json"
REPLACED = "replaced.json"
STARTING = ".starting-over"
"""Stands while an earlier run is being removed: what is left of it then is not a run."""
OWN = (
    DESCRIPTION, CONFIG, WEIGHTS, CARD, RESULT, PLAN, REPLACED, METRICS,
    RECORD,
    "tokenizer.model", "tokenizer.json", "source.model", "source.json", "target.model", "target.json",
    "vocabulary.json", "numbers.json", SETTINGS, f"{TARGET}/tokenizer.json", f"{TARGET}/{SETTINGS}",
    "checkpoints/step-*", "data/train", "data/train.partial", "data/valid", "data/valid.partial",
    GIVEN, DATABASE, *FOLDERS,
)  # fmt: skip
"""All that a run writes besides its recipe, as patterns."""
HALF_WRITTEN = tuple(f".{name}.????????" for name in (*OWN, RECIPE, "tokenizers") if "/" not in name)
"""The files that lie there under temporary names when the process is killed."""
UNSEEN = ("log_to",)
"""Settings that change nothing of a training: a run may go on with others."""
PLACES = (*TEXT_FIELDS, "init_from", "prepared")
"""Settings that name a place; two runs are compared by what was there."""
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
    """The model's loss in validation, as the other numbers are the model's."""
    valid_bleu: float | None
    stopped_early: bool = False
    """True where `train.patience` or `Run.stop` ended it before its last step."""
    already_finished: bool = False
    """True where the run had finished before, and nothing was left to do."""
    valid_accuracy: float | None = None
    """The part of the validation texts that a classifier got right, 0 to 1."""
    kept: str = ""
    """Names what the model is: the best validation, or the mean of which checkpoints. Empty: an earlier version ended
    it."""
    changed_texts: tuple[str, ...] = ()
    """Texts that are not any more what a run that had finished before was trained on."""


@dataclass(frozen=True)
class RunFolder:
    """A folder that a training run owns."""

    path: Path

    def check(self, recipe: Recipe, fresh: bool, *, asked: bool = False) -> bool:
        """Tells whether the folder holds a run of this recipe to go on with; else one may begin. Changes nothing.

        Args:
            fresh: an earlier run counts for nothing.
            asked: the recipe may be the one that the run's script names, before it replaces something of it.

        Raises ConfigError where it holds a run with other settings that has got somewhere, or things that are not a
        run's.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"`{self.path}` is a file, not a folder for a run", "choose another `out=`")
        if (self.path / STARTING).is_file():
            return False
        known = [] if fresh else self._recipes()
        if not known and not (self.path / RECIPE).is_file() and not self.origin:
            if self.path.is_dir() and any(not path.name.startswith(".") for path in self.path.iterdir()):
                raise ConfigError(
                    f"`{self.path}` is not empty and holds no run"
                    + (f": it has checkpoints, but no {RECIPE}" if self.has_checkpoints else ""),
                    f"copy its {RECIPE} back, or choose another `out=`"
                    if self.has_checkpoints
                    else "choose another `out=`",
                )
            return False
        if fresh:
            return False
        known = known or [stored_recipe(self.path)]
        if asked and self.replaced:
            known.append(Recipe.from_tables(tomllib.loads(self.replaced["recipe"])))
        differences = [next(_differences(stored, recipe), None) for stored in known]
        if None in differences:
            return True
        if differences[0] and self.has_trained:
            raise ConfigError(
                f"the run in `{self.path}` {self._began(differences[0])}",
                "repeat the command that began it, choose another `out=`, or start over with `fresh=True`",
            )
        return False

    def check_place(self) -> None:
        """Raises ConfigError where the rights of the folder, or of that in which it would be made, forbid to write.

        What else may be in the way is found when it is made.
        """
        place = next(path for path in (self.path.absolute(), *self.path.absolute().parents) if path.exists())
        wrong = errno.ENOTDIR if not place.is_dir() else 0 if os.access(place, os.W_OK | os.X_OK) else errno.EACCES
        if wrong:
            raise ConfigError(f"cannot write to `{self.path}`: {os.strerror(wrong)}", "choose another `out=`")

    def _recipes(self) -> list[Recipe]:
        """Returns what is known of the run's recipe: recipe.toml, as far as it can be read, and a checkpoint's copy."""
        found = []
        with suppress(ConfigError):
            if (self.path / RECIPE).is_file():
                found.append(Recipe.from_tables(read_tables(self.path / RECIPE)))
        if RECIPE in self.origin:
            found.append(Recipe.from_tables(tomllib.loads(self.origin[RECIPE])))
        return found

    def _began(self, difference: tuple[str, str]) -> str:
        """Says how the run began otherwise than a command asks for, whose settings differ so."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            if difference[0].startswith("train.budget") or (self.path / PLAN).is_file():
                request = json.loads(self.read(PLAN))["request"]
                return f"began with `budget={say_duration(request['seconds'])}`, this command has no budget"
        return f"has `{difference[0]}`, this command `{difference[1]}`"

    @property
    def origin(self) -> dict[str, Any]:
        """The origin of the run, as its newest checkpoint has it.

        It is empty where there is no checkpoint, or an earlier version wrote it.
        """
        origin: dict[str, Any] = newest_state(self.path / "checkpoints").origin
        return origin

    def read(self, name: str) -> str:
        """Returns the text of a JSON file that not every run has: PLAN or REPLACED.

        Where the file is lost, or damaged, it is a checkpoint's copy; where the run has none, it is empty.
        """
        with suppress(OSError, UnicodeDecodeError):
            text = (self.path / name).read_text(encoding="utf-8")
            with suppress(ValueError):
                json.loads(text)
                return text
        return str(self.origin.get(name, ""))

    def find_planned(self, request: Request) -> Recipe | None:
        """Returns the recipe that the run was planned to for the same request; None where nothing has trained yet.

        Raises ConfigError where the run has trained for another request, or for none.
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
            f"the run in `{self.path}` began {began}, this command says {request}",
            "repeat the command that began it, choose another `out=`, or start over with `fresh=True`",
        )

    def _request(self) -> Request | None:
        """Returns the request that the run was planned for; None where it was planned for none."""
        try:
            table = json.loads(self.read(PLAN))["request"]
            return Request(table["seconds"], tuple(table["settings"]), table["recipe"])
        except (ValueError, KeyError, TypeError):
            return None

    def save_plan(self, plan: Plan) -> None:
        """Writes the plan down, before anything is trained, so that the same command finds it again."""
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
        """The parts that the run's script replaces before it trains: "names", and the "recipe" that it names at first.

        Most replace nothing, and have no such table.
        """
        text = self.read(REPLACED)
        table: dict[str, Any] = json.loads(text) if text else {}
        return table

    def save_replaced(self, names: Iterable[str], recipe: Recipe) -> None:
        """Writes down what a script replaces of what it names at first."""
        table = {"names": sorted(names), "recipe": recipe.to_toml()}
        write_text(self.path / REPLACED, json.dumps(table, indent=2) + "\n")

    def mend(self) -> list[str]:
        """Writes recipe.toml and the like again where they are not as the newest checkpoint has them; returns which."""
        mended = []
        for name in (RECIPE, PLAN, REPLACED):
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
        self._remove_run()
        write_text(self.path / RECIPE, recipe.to_toml())
        (self.path / STARTING).unlink(missing_ok=True)

    def clear(self) -> None:
        """Removes a run that there may be, and the folder if nothing else is in it.

        Raises ConfigError where another process holds the folder, or nothing can be written there.
        """
        if not self.path.is_dir():
            return
        with self.locked():
            self._remove_run()
            (self.path / RECIPE).unlink(missing_ok=True)
            (self.path / STARTING).unlink(missing_ok=True)
        _remove_empty([self.path])

    def _remove_run(self) -> None:
        if (self.path / RECIPE).is_file():
            # A process killed in here would leave parts of the earlier run, with which no run can go on.
            (self.path / STARTING).touch()
        self._remove(*OWN, *HALF_WRITTEN)
        for folder in (self.path / "checkpoints", self.path / "data", self.path / "target"):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

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
                stack.enter_context(hold(self.path))
            except (PermissionError, NotADirectoryError, FileNotFoundError) as error:
                raise ConfigError(
                    f"cannot write to `{self.path}`: {error.strerror}", "choose another `out=`"
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
        """True where there is something to lose: weights or a checkpoint."""
        return (self.path / WEIGHTS).is_file() or self.has_checkpoints

    @property
    def has_checkpoints(self) -> bool:
        """True where there is something to resume from."""
        return any((self.path / "checkpoints").glob("step-*"))

    @property
    def result(self) -> RunResult | None:
        """The outcome of the run, if it has finished."""
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

    def find_changed_texts(
        self,
        data: DataConfig,
        data_dir: str | Path | None = None,
        given: Mapping[str, GivenText] | None = None,
        digests: Callable[[Sequence[str]], Mapping[str, str]] | None = None,
    ) -> tuple[str, ...]:
        """Returns the files of `data` whose SHA-256 is not the one that the run has noted, in the settings' order.

        Texts that are not there any more say nothing, nor does a run without its record. Reading a gigabyte takes about
        a second.

        Args:
            data_dir: where the files are looked for.
            given: the texts that were handed over in place of files.
            digests: returns the SHA-256 of files by their paths; None: each file is read.
        """
        try:
            noted = json.loads((self.path / RECORD).read_text(encoding="utf-8"))["sha256"]
            if given:
                sides = {"train": ("src", "tgt"), "valid": ("valid_src", "valid_tgt")}
                now = {
                    part: zip(sides[part], text.digests, strict=True) for part, text in given.items() if part in sides
                }
                changed = {part for part, found in now.items() if any([d] != noted.get(n, [d]) for n, d in found)}
                return tuple(given[part].src for part in sides if part in changed)
            found = locate(data, data_dir)
            now_in = (lambda paths: {path: fingerprint(path) for path in paths}) if digests is None else digests
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
        """True where the run's texts were handed over in Python, so that no setting names them."""
        with suppress(OSError, ValueError, AttributeError):
            return bool(json.loads((self.path / RECORD).read_text(encoding="utf-8")).get("given"))
        return False

    def out_of_room(self, error: OSError) -> PellucidError:
        """Returns the error for a disk that did not take what the run cannot go on without."""
        step = last_step_saved(self.path / "checkpoints")
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


def _remove_empty(folders: Sequence[Path]) -> None:
    """Removes folders, each within the next, as long as they are empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _differences(stored: Recipe, asked: Recipe) -> Iterator[tuple[str, str]]:
    """Yields the settings that differ, as `section.key = value` of each side; texts are compared by their content."""
    for section, cls in SECTIONS.items():
        before, now = to_table(getattr(stored, section)), to_table(getattr(asked, section))
        for f in fields(cls):
            left_open = f.name == "precision" and now[f.name] == "auto"
            if before[f.name] != now[f.name] and f.name not in (*PLACES, *UNSEEN) and not left_open:
                key = f"{section}.{f.name}"
                yield toml_line(key, before[f.name]), toml_line(key, now[f.name])


def checkpoints_of(folder: Path, recipe: Recipe, average: int | None = None) -> Checkpoints:
    """Returns a run's checkpoints; `average` of them, or as many as the recipe says, make the average."""
    train = recipe.train
    count = average or train.average
    last, of, kept = train.steps, train.average_of, train.keep_every
    return Checkpoints(folder / "checkpoints", train.save_every, count, last, of, kept)


def stored_recipe(folder: Path) -> Recipe:
    """Returns the recipe of a run folder.

    Raises ConfigError where it holds no run, or one whose recipe cannot be read.
    """
    path = folder / RECIPE
    known = RunFolder(folder)._recipes()
    if known:
        return known[0]
    if not path.is_file():
        raise ConfigError(f"`{folder}` holds no run: no {RECIPE} in it", "name the folder given to `out=`")
    return Recipe.from_tables(read_tables(path))
