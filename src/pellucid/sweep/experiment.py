"""Runs a sweep in its folder: finds the runs that are done, trains the rest, and writes the results."""

import json
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pellucid.config import RECIPE, Recipe
from pellucid.data.lines import hash_path
from pellucid.data.locate import resolve_paths
from pellucid.errors import ConfigError, format_value
from pellucid.files.writing import convert_write_errors, write_text
from pellucid.planning.duration import format_duration
from pellucid.run.folder import RunFolder
from pellucid.run.lock import lock_folder
from pellucid.sweep.file import Sweep, Trial
from pellucid.sweep.interval import Mean
from pellucid.sweep.report import (
    LOW_IS_GOOD,
    TITLES,
    best_setting,
    means,
    say_interval,
    settings_table,
)
from pellucid.sweep.run_summaries import RunSummary, find_runs, summarize_run
from pellucid.sweep.scoring import SCORES, TEST_SCORES, find_scores
from pellucid.sweep.subprocesses import Command, Job, run_jobs
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.plots.intervals import IntervalRow, plot_intervals

LOGS = "logs"
RESULTS = "results"
BEAM = ("bleu", "chrf")
"""The metrics that require beam search on the whole validation set, which training does not run."""

Training = Callable[[Trial, Path], Command]
"""Returns the command that trains a trial in a folder, or resumes it there."""


@dataclass
class Experiment:
    """Runs a sweep below its folder. The constructor checks the contents of the folder and writes nothing.

    Raises ConfigError if a run there has other settings than the file, which has been changed since.
    """

    sweep: Sweep
    failures: dict[str, str] = field(default_factory=dict)
    """The errors of failed runs, by the names of the trials."""

    def __post_init__(self) -> None:
        if self.out.exists() and not self.out.is_dir():
            raise ConfigError(f"`{format_value(self.out)}` is a file, not a folder for runs", "choose another `out=`")
        digests = lru_cache(maxsize=None)(hash_path)  # trials share their texts
        for trial in self.sweep.trials:
            try:
                RunFolder(self.folder(trial)).check(self._make_recipe(trial), fresh=False)
            except ConfigError as error:
                raise ConfigError(
                    f"`{format_value(self.sweep.file)}` differs from the settings that "
                    f"`{format_value(self.folder(trial))}` was trained with: "
                    + str(error).replace("this command", "the file now"),
                    "change it back, remove that folder, or choose another `out=`",
                ) from error
            self._check_texts(trial, digests)

    def _check_texts(self, trial: Trial, digest: Callable[[str], str]) -> None:
        """Raises ConfigError if a finished run was trained on other texts than the sweep has now."""
        if not self.is_trained(trial):
            return
        changed = RunFolder(self.folder(trial)).find_changed_texts(
            trial.recipe.data, self.sweep.data_dir or None, digests=lambda paths: {path: digest(path) for path in paths}
        )
        if changed:
            raise ConfigError(
                f"`{format_value(changed[0])}` has changed since `{format_value(self.folder(trial))}` was trained on "
                "it, and runs on different texts are not comparable",
                "restore it, remove that folder, or choose another `out=`",
            )

    @property
    def out(self) -> Path:
        """The folder of the sweep."""
        return Path(self.sweep.out)

    def folder(self, trial: Trial) -> Path:
        """Returns the run folder of a trial."""
        return self.out / trial.name

    def _make_recipe(self, trial: Trial) -> Recipe:
        """Returns the recipe of a trial, for comparison with an existing run."""
        begun = self.folder(trial) / RECIPE
        if trial.recipe.train.init_from and begun.is_file():  # the initial model determines settings, too
            return Recipe.load(begun, [*trial.overrides])
        return trial.recipe

    def is_trained(self, trial: Trial) -> bool:
        """Returns True if the training of a trial has finished."""
        return RunFolder(self.folder(trial)).result is not None

    def is_done(self, trial: Trial) -> bool:
        """Returns True if a trial is trained and, if the metric requires it, scored."""
        return self.is_trained(trial) and (self.sweep.metric not in BEAM or self._scores(trial) is not None)

    def _scores(self, trial: Trial, name: str = SCORES) -> dict[str, Any] | None:
        return find_scores(self.folder(trial), self.sweep.beam_size, name=name)

    def state(self, trial: Trial) -> str:
        """Returns the progress of a trial as text."""
        if self.is_done(trial):
            return "done"
        if self.is_trained(trial):
            return "trained, not scored"
        return "begun" if RunFolder(self.folder(trial)).has_checkpoints else "to do"

    def others(self) -> list[Path]:
        """Returns the runs below the folder that the file no longer plans."""
        planned = {self.folder(trial) for trial in self.sweep.trials}
        return [found for found in find_runs(self.out) if found not in planned] if self.out.is_dir() else []

    def summarize_runs(self) -> dict[str, RunSummary]:
        """Returns the summaries of the finished runs, by the names of their trials."""
        return {t.name: summarize_run(self.folder(t)) for t in self.sweep.trials if self.is_done(t)}

    def run(self, training: Training, log_line: Callable[[str], None], *, test: bool = False) -> None:
        """Trains and scores the remaining trials, then writes results.csv, .json and .svg.

        Args:
            training: returns the command of a trial.
            log_line: called with a line whenever a run starts or ends.
            test: if True, scores the runs of the best setting on the recipe's test set after all runs are done.

        A failed run is listed in `failures`, and the others continue. Raises, before the first run starts, ConfigError
        if another process runs in the folder or the folder is not writable, and DataError for missing texts.
        """
        sweep = self.sweep
        if test and (sweep.trials[0].recipe.task != "translate" or not sweep.trials[0].recipe.data.test_src):
            raise ConfigError(
                f"`test=True` requires a translator whose recipe names a test set, and `{sweep.recipe}` is not one",
                "set data.test_src and data.test_tgt in [set], or leave it out",
            )
        for trial in {trial.recipe.data: trial for trial in sweep.trials if not self.is_done(trial)}.values():
            resolve_paths(trial.recipe.data, sweep.data_dir or None, fetch=True)
        with _lock_folder(self.out):
            left = [trial for trial in sweep.trials if not self.is_done(trial)]
            if left:
                self._work(left, training, log_line)
            if test and not self.failures:
                self._test(log_line)
            self._write()

    def _work(self, left: Sequence[Trial], training: Training, log_line: Callable[[str], None]) -> None:
        sweep, by_name = self.sweep, {trial.name: trial for trial in left}
        done, total = len(sweep.trials) - len(left), len(sweep.trials)

        def jobs() -> list[Job]:
            found = []
            for trial in left:
                commands = [] if self.is_trained(trial) else [training(trial, self.folder(trial))]
                if sweep.metric in BEAM:
                    commands.append(self._make_scoring_command(trial, "validation"))
                found.append(Job(trial.name, self.out / LOGS / f"{trial.setting.name}.{trial.seed}.log", (*commands,)))
            return found

        def on_start(job: Job) -> None:
            log_line(
                f"{job.name}: {'resumes' if self.state(by_name[job.name]) == 'begun' else 'starts'}, log: {job.log}"
            )

        def on_end(job: Job, trouble: str, seconds: float) -> None:
            nonlocal done
            done += 1
            trial = by_name[job.name]
            if not trouble and not self.is_done(trial):
                trouble = "it ended without a result"
            if trouble:
                self.failures[job.name] = trouble
                log_line(
                    f"[{done}/{total}] {job.name}: failed after {format_duration(seconds)}: {trouble}; {job.log} has "
                    "more"
                )
                return
            value = summarize_run(self.folder(trial)).scores.get(sweep.metric)
            shown_value = "no score" if value is None else f"{TITLES[sweep.metric]} {value:.4f}"
            log_line(f"[{done}/{total}] {job.name}: {shown_value}, {format_duration(seconds)}")

        run_jobs(jobs(), sweep.jobs, sweep.threads, on_start, on_end)

    def _make_scoring_command(self, trial: Trial, which: str) -> Command:
        arguments = (str(self.folder(trial)), self.sweep.data_dir, str(self.sweep.beam_size or 0), which)
        return Command("pellucid.sweep.scoring", arguments)

    def _test(self, log_line: Callable[[str], None]) -> None:
        """Scores the runs of the setting with the best validation score on the test set, each once."""
        name = best_setting(self.sweep, self.summarize_runs())
        trials = {t.name: t for t in self.sweep.trials if t.setting.name == name}
        left = [trial for trial in trials.values() if self._scores(trial, TEST_SCORES) is None]
        jobs = [
            Job(t.name, self.out / LOGS / f"{name}.{t.seed}.test.log", (self._make_scoring_command(t, "test"),))
            for t in left
        ]

        def on_end(job: Job, trouble: str, seconds: float) -> None:
            if trouble:
                self.failures[job.name] = trouble
                log_line(f"{job.name}: could not be scored on the test set: {trouble}")

        if jobs:
            log_line(f"{name} is best in validation; scoring it on the test set")
            run_jobs(jobs, self.sweep.jobs, self.sweep.threads, lambda job: None, on_end)

    def report(self) -> str:
        """Returns the tables for a terminal, and the sentence that explains them."""
        runs = self.summarize_runs()
        said = [say_interval(self.sweep, runs), "", settings_table(self.sweep, runs).write("table").rstrip("\n")]
        return "\n".join(said) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Returns all results of the sweep: settings, single runs and failures."""
        runs = self.summarize_runs()
        return {
            "metric": self.sweep.metric,
            "interval": say_interval(self.sweep, runs),
            "settings": settings_table(self.sweep, runs).rows,
            "runs": [
                {"run": t.name, "setting": t.setting.name, "seed": t.seed, "state": self.state(t)}
                | ({"scores": runs[t.name].scores, "seconds": runs[t.name].seconds} if t.name in runs else {})
                for t in self.sweep.trials
            ],
            "failures": self.failures,
        }

    def _write(self) -> None:
        runs = self.summarize_runs()
        write_text(self.out / f"{RESULTS}.csv", settings_table(self.sweep, runs).write("csv"))
        write_text(self.out / f"{RESULTS}.json", json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n")
        if (picture := self.picture()) is not None:
            picture.svg(self.out / f"{RESULTS}.svg")

    def picture(self) -> Drawing | None:
        """Draws the settings' means with their intervals, the best at the top; None if no run has finished."""
        runs, sweep = self.summarize_runs(), self.sweep
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
def _lock_folder(folder: Path) -> Any:
    with convert_write_errors(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(folder)
    with lock:
        yield
