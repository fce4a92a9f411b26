"""`pellucid sweep`."""

from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pellucid.cli.options import Device, flag, optional
from pellucid.terminal import log_line

if TYPE_CHECKING:
    from pathlib import Path

    from pellucid.sweep.experiment import Experiment
    from pellucid.sweep.file import Trial
    from pellucid.sweep.subprocesses import Command


def sweep(
    file: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE", help="TOML file with the settings and seeds to train")
    ],
    /,
    *,
    out: Annotated[
        str, optional("FOLDER", "folder for the runs; the same command resumes there", "`out` of FILE")
    ] = "",
    jobs: Annotated[int | None, optional("N", "number of runs that train in parallel", "`jobs` of FILE, or 1")] = None,
    dry_run: Annotated[bool, flag("print the runs with their state and the expected time, and train nothing")] = False,
    test: Annotated[
        bool, flag("at the end, score the runs of the best setting on the recipe's test set, once")
    ] = False,
    json: Annotated[bool, flag("print one JSON object instead of the tables")] = False,
    device: Device = "auto",
) -> int:
    """Train each setting in FILE with each seed, and print mean and confidence interval of the scores. Each run has a
    run folder, as of `pellucid train`. Finished runs are not trained again, interrupted ones are resumed.

    FILE has a recipe, `out`, `seeds` and either [grid] or [runs.NAME]; docs/guides/experiments.md has examples.

    example: pellucid sweep rates.toml --dry-run
    example: pellucid sweep rates.toml --jobs 2
    """
    from json import dumps
    from pathlib import Path

    from pellucid.errors import escape_message
    from pellucid.sweep.experiment import Experiment
    from pellucid.sweep.file import read_sweep
    from pellucid.sweep.subprocesses import Command

    experiment = Experiment(read_sweep(file, out=out, jobs=jobs))
    for folder in experiment.others():
        log_line(f"warning: run `{folder}` is not in {file}; it is skipped")
    if dry_run:
        _print_plan(experiment)
        return 0
    sweep = experiment.sweep

    def make_command(trial: "Trial", folder: "Path") -> "Command":
        words = ["train", sweep.recipe, "--out", str(folder), "--device", device]
        words += [f"--set={override}" for override in trial.overrides]
        words += [f"--{name.replace('_', '-')}={path}" for name, paths in sweep.texts.items() for path in paths]
        words += [f"--data-dir={sweep.data_dir}"] if sweep.data_dir else []
        return Command("pellucid.cli.main", (*words,))

    experiment.run(make_command, lambda line: log_line(escape_message(line)), test=test)
    print(dumps(experiment.to_json(), indent=2, ensure_ascii=False) if json else experiment.report(), end="")
    if json:
        print()
    log_line(f"wrote {Path(sweep.out, 'results.csv')}, results.json and results.svg")
    if experiment.failures:
        count = len(experiment.failures)
        log_line(f"{count} of {len(sweep.trials)} runs failed: {', '.join(experiment.failures)}")
        log_line("run the same command again to retry them")
        return 1
    return 0


def _print_plan(experiment: "Experiment") -> None:
    """Prints the runs, their state, and an estimate of the time if it is known."""
    from pellucid.planning.duration import format_duration
    from pellucid.sweep.estimate import estimate_seconds
    from pellucid.sweep.table import Column, ReportTable

    sweep, seconds = experiment.sweep, estimate_seconds(experiment)
    keys = list(dict.fromkeys(key for setting in sweep.settings for key in setting.values))
    rows: list[dict[str, Any]] = [
        {"run": trial.name}
        | {key: str(value) for key, value in trial.setting.values.items()}
        | {"state": experiment.state(trial), "seconds": seconds.get(trial.setting.name)}
        for trial in sweep.trials
    ]
    columns = [Column("run", "run"), *(Column(key, key) for key in keys), Column("state", "state")]
    print(ReportTable([*columns, Column("seconds", "about seconds", 0)], rows).write("table"))
    left = [trial for trial in sweep.trials if not experiment.is_trained(trial)]
    known = [seconds[trial.setting.name] for trial in left if trial.setting.name in seconds]
    work = f"{len(left)} of {len(sweep.trials)} runs to train, {sweep.jobs} at a time with {sweep.threads} thread each"
    work = work.replace(" thread each", " threads each") if sweep.threads > 1 else work
    if left and len(known) == len(left):
        work += f": about {format_duration(sum(known) / min(sweep.jobs, len(left)))}, without validation and start"
    elif left:
        work += "; the time is unknown until the first run has finished"
    print(work)
