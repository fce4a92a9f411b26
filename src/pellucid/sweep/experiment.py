"""A sweep as a folder: what is done already, the rest of it, and its results."""

import json
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pellucid.config import RECIPE, Recipe
from pellucid.data.lines import fingerprint
from pellucid.data.locate import locate
from pellucid.errors import ConfigError, shown
from pellucid.files.writing import refusals_in_words, write_text
from pellucid.planning.duration import say_duration
from pellucid.run.folder import RunFolder
from pellucid.run.lock import hold
from pellucid.sweep.children import Command, Job, run_jobs
from pellucid.sweep.design import FREE_FACTORS
from pellucid.sweep.file import Sweep, Trial
from pellucid.sweep.interval import Mean
from pellucid.sweep.report import (
    LOW_IS_GOOD,
    TITLES,
    best_setting,
    effects_table,
    means,
    say_interval,
    settings_table,
)
from pellucid.sweep.scoring import SCORES, TEST_SCORES, find_scores
from pellucid.sweep.survey import SurveyedRun, find_runs, survey_run
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.plots.intervals import IntervalRow, plot_intervals

LOGS = "logs"
RESULTS = "results"
BEAM = ("bleu", "chrf")
"""The metrics that need a search over the whole validation set, which training does not do."""

Training = Callable[[Trial, Path], Command]
"""Makes the command that trains a trial into a folder, or goes on there."""


@dataclass
class Experiment:
    """Carries a sweep out below its folder. Making one checks what lies there, and writes nothing.

    Raises ConfigError where a run there has other settings than the file, which has been changed since.
    """

    sweep: Sweep
    failures: dict[str, str] = field(default_factory=dict)
    """The complaints of failed runs, by the names of the trials."""

    def __post_init__(self) -> None:
        if self.out.exists() and not self.out.is_dir():
            raise ConfigError(f"`{shown(self.out)}` is a file, not a folder for runs", "choose another `out=`")
        digests = lru_cache(maxsize=None)(fingerprint)  # trials share their texts
        for trial in self.sweep.trials:
            try:
                RunFolder(self.folder(trial)).check(self._asked(trial), fresh=False)
            except ConfigError as error:
                raise ConfigError(
                    f"`{shown(self.sweep.file)}` is not what `{shown(self.folder(trial))}` was trained by: "
                    + str(error).replace("this command", "the file now"),
                    "change it back, remove that folder, or choose another `out=`",
                ) from error
            self._check_texts(trial, digests)

    def _check_texts(self, trial: Trial, digest: Callable[[str], str]) -> None:
        """Raises ConfigError where a finished run was trained on other texts than the sweep has now."""
        if not self.is_trained(trial):
            return
        changed = RunFolder(self.folder(trial)).find_changed_texts(
            trial.recipe.data, self.sweep.data_dir or None, digests=lambda paths: {path: digest(path) for path in paths}
        )
        if changed:
            raise ConfigError(
                f"`{shown(changed[0])}` has changed since `{shown(self.folder(trial))}` was trained on it, and runs on "
                "other texts cannot be compared",
                "put it back, remove that folder, or choose another `out=`",
            )

    @property
    def out(self) -> Path:
        """The folder of all."""
        return Path(self.sweep.out)

    def folder(self, trial: Trial) -> Path:
        """Returns the run folder of a trial."""
        return self.out / trial.name

    def _asked(self, trial: Trial) -> Recipe:
        """Returns what a trial asks for, to be compared with the run that there may be."""
        begun = self.folder(trial) / RECIPE
        if trial.recipe.train.init_from and begun.is_file():  # the model at the start decides settings, too
            return Recipe.load(begun, [*trial.overrides])
        return trial.recipe

    def is_trained(self, trial: Trial) -> bool:
        """Tells whether its training has finished."""
        return RunFolder(self.folder(trial)).result is not None

    def is_done(self, trial: Trial) -> bool:
        """Tells whether nothing is left to do for it."""
        return self.is_trained(trial) and (self.sweep.metric not in BEAM or self._scores(trial) is not None)

    def _scores(self, trial: Trial, name: str = SCORES) -> dict[str, Any] | None:
        return find_scores(self.folder(trial), self.sweep.beam_size, name=name)

    def state(self, trial: Trial) -> str:
        """Returns how far a trial is, for a reader."""
        if self.is_done(trial):
            return "done"
        if self.is_trained(trial):
            return "trained, to be scored"
        return "begun" if RunFolder(self.folder(trial)).has_checkpoints else "to do"

    def others(self) -> list[Path]:
        """Returns the runs below the folder that the file does not plan any more."""
        planned = {self.folder(trial) for trial in self.sweep.trials}
        return [found for found in find_runs(self.out) if found not in planned] if self.out.is_dir() else []

    def surveyed(self) -> dict[str, SurveyedRun]:
        """Returns what the finished runs say, by the names of their trials."""
        return {t.name: survey_run(self.folder(t)) for t in self.sweep.trials if self.is_done(t)}

    def run(self, training: Training, say: Callable[[str], None], *, test: bool = False) -> None:
        """Trains and scores what is not done, then writes results.csv, .json and .svg.

        Args:
            training: the command of a trial.
            say: is given a line whenever a run starts or ends.
            test: at the end, where all runs are done, scores those of the best setting on the recipe's test set.

        A run that fails stands in `failures`, and the others go on. Raises, before the first one starts, ConfigError
        where another process runs in the folder or nothing can be written there, DataError for texts that are nowhere.
        """
        sweep = self.sweep
        if test and (sweep.trials[0].recipe.task != "translate" or not sweep.trials[0].recipe.data.test_src):
            raise ConfigError(
                f"`test=True` needs a translator whose recipe names a test set, and `{sweep.recipe}` is none",
                "set data.test_src and data.test_tgt in [set], or leave it out",
            )
        for trial in {trial.recipe.data: trial for trial in sweep.trials if not self.is_done(trial)}.values():
            locate(trial.recipe.data, sweep.data_dir or None, fetch=True)
        with _held(self.out):
            left = [trial for trial in sweep.trials if not self.is_done(trial)]
            if left:
                self._work(left, training, say)
            if test and not self.failures:
                self._test(say)
            self._write()

    def _work(self, left: Sequence[Trial], training: Training, say: Callable[[str], None]) -> None:
        sweep, by_name = self.sweep, {trial.name: trial for trial in left}
        done, total = len(sweep.trials) - len(left), len(sweep.trials)

        def jobs() -> list[Job]:
            found = []
            for trial in left:
                commands = [] if self.is_trained(trial) else [training(trial, self.folder(trial))]
                if sweep.metric in BEAM:
                    commands.append(self._scoring(trial, "validation"))
                found.append(Job(trial.name, self.out / LOGS / f"{trial.setting.name}.{trial.seed}.log", (*commands,)))
            return found

        def on_start(job: Job) -> None:
            say(f"{job.name}: {'goes on' if self.state(by_name[job.name]) == 'begun' else 'starts'}, log: {job.log}")

        def on_end(job: Job, trouble: str, seconds: float) -> None:
            nonlocal done
            done += 1
            trial = by_name[job.name]
            if not trouble and not self.is_done(trial):
                trouble = "it ended without a result"
            if trouble:
                self.failures[job.name] = trouble
                say(f"[{done}/{total}] {job.name}: failed after {say_duration(seconds)}: {trouble}; {job.log} has more")
                return
            value = survey_run(self.folder(trial)).scores.get(sweep.metric)
            shown_value = "no score" if value is None else f"{TITLES[sweep.metric]} {value:.4f}"
            say(f"[{done}/{total}] {job.name}: {shown_value}, {say_duration(seconds)}")

        run_jobs(jobs(), sweep.jobs, sweep.threads, on_start, on_end)

    def _scoring(self, trial: Trial, which: str) -> Command:
        arguments = (str(self.folder(trial)), self.sweep.data_dir, str(self.sweep.beam_size or 0), which)
        return Command("pellucid.sweep.scoring", arguments)

    def _test(self, say: Callable[[str], None]) -> None:
        """Scores the runs of the setting that validation has chosen on the test set, each once."""
        name = best_setting(self.sweep, self.surveyed())
        trials = {t.name: t for t in self.sweep.trials if t.setting.name == name}
        left = [trial for trial in trials.values() if self._scores(trial, TEST_SCORES) is None]
        jobs = [Job(t.name, self.out / LOGS / f"{name}.{t.seed}.test.log", (self._scoring(t, "test"),)) for t in left]

        def on_end(job: Job, trouble: str, seconds: float) -> None:
            if trouble:
                self.failures[job.name] = trouble
                say(f"{job.name}: could not be scored on the test set: {trouble}")

        if jobs:
            say(f"{name} is best in validation, and is scored on the test set")
            run_jobs(jobs, self.sweep.jobs, self.sweep.threads, lambda job: None, on_end)

    def report(self) -> str:
        """Returns the tables for a terminal, and the sentence that says what they hold."""
        runs = self.surveyed()
        said = [say_interval(self.sweep, runs), "", settings_table(self.sweep, runs).written("table").rstrip("\n")]
        if (effects := effects_table(self.sweep, runs)) is not None:
            mixed = "; each is mixed with interactions of pairs" if len(self.sweep.factors) > FREE_FACTORS else ""
            said += ["", f"main effects, from the first level to the second{mixed}:"]
            said += ["", effects.written("table").rstrip("\n")]
        return "\n".join(said) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Returns all that the sweep found: settings, main effects, single runs and failures."""
        runs = self.surveyed()
        effects = effects_table(self.sweep, runs)
        return {
            "metric": self.sweep.metric,
            "interval": say_interval(self.sweep, runs),
            "settings": settings_table(self.sweep, runs).rows,
            "effects": None if effects is None else effects.rows,
            "runs": [
                {"run": t.name, "setting": t.setting.name, "seed": t.seed, "state": self.state(t)}
                | ({"scores": runs[t.name].scores, "seconds": runs[t.name].seconds} if t.name in runs else {})
                for t in self.sweep.trials
            ],
            "failures": self.failures,
        }

    def _write(self) -> None:
        runs = self.surveyed()
        write_text(self.out / f"{RESULTS}.csv", settings_table(self.sweep, runs).written("csv"))
        write_text(self.out / f"{RESULTS}.json", json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n")
        if (picture := self.picture()) is not None:
            picture.svg(self.out / f"{RESULTS}.svg")

    def picture(self) -> Drawing | None:
        """Draws the settings' means with their intervals, the best above; None where nothing has finished."""
        runs, sweep = self.surveyed(), self.sweep
        found = means(sweep, runs)
        if not found:
            return None
        values: dict[str, list[float]] = {}
        for trial in sweep.trials:
            if trial.name in runs and sweep.metric in runs[trial.name].scores:
                values.setdefault(trial.setting.name, []).append(runs[trial.name].scores[sweep.metric])

        def row(name: str, mean: Mean) -> IntervalRow:
            return IntervalRow(name, (*values[name],), mean.value, mean.half_width)

        sign = 1 if sweep.metric in LOW_IS_GOOD else -1
        rows = [row(name, found[name]) for name in sorted(found, key=lambda name: sign * found[name].value)]
        return plot_intervals(
            rows, title=f"{sweep.file.stem}: {TITLES[sweep.metric]} by setting", unit=TITLES[sweep.metric],
            note=say_interval(sweep, runs),
        )  # fmt: skip


@contextmanager
def _held(folder: Path) -> Any:
    with refusals_in_words(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = hold(folder)
    with lock:
        yield
