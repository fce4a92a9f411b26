"""`pellucid sweep`."""

from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pellucid.cli.options import Device, flag, optional

if TYPE_CHECKING:
    from pathlib import Path

    from pellucid.sweep.children import Command
    from pellucid.sweep.experiment import Experiment
    from pellucid.sweep.file import Trial


def sweep(
    file: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE", help="the TOML file that says what is tried")
    ],
    /,
    *,
    out: Annotated[str, optional("FOLDER", "where the runs go; the same command goes on there", "as FILE says")] = "",
    jobs: Annotated[int | None, optional("N", "runs that train side by side", "as FILE says, or 1")] = None,
    plan: Annotated[
        bool, flag("print the runs, what is done of them and how long the rest may take; train none")
    ] = False,
    test: Annotated[bool, flag("at the end, score the best setting's runs on the recipe's test set, once")] = False,
    json: Annotated[bool, flag("print one JSON object in place of the tables")] = False,
    device: Device = "auto",
) -> int:
    """Train each setting that FILE names with each of its seeds, and print mean and interval of what they respond. Each
    run is a run folder, as of `pellucid train`. What is done is not done again, what was stopped goes on.

    FILE names a recipe, `out`, `seeds` and one of [grid], [runs.NAME] or [screen]; the guide "Experiments" has
    examples.

    example: pellucid sweep rates.toml --plan
    example: pellucid sweep rates.toml --jobs 2
    """
    import sys
    from json import dumps
    from pathlib import Path

    from pellucid.errors import legible
    from pellucid.sweep.children import Command
    from pellucid.sweep.experiment import Experiment
    from pellucid.sweep.file import read_sweep

    experiment = Experiment(read_sweep(file, out=out, jobs=jobs))
    for folder in experiment.others():
        print(f"warning: `{folder}` is a run that {file} does not name; it is left out", file=sys.stderr)
    if plan:
        _print_plan(experiment)
        return 0
    told = experiment.sweep

    def training(trial: "Trial", folder: "Path") -> "Command":
        words = ["train", told.recipe, "--out", str(folder), "--device", device]
        words += [f"--set={override}" for override in trial.overrides]
        words += [f"--{name.replace('_', '-')}={path}" for name, paths in told.texts.items() for path in paths]
        words += [f"--data-dir={told.data_dir}"] if told.data_dir else []
        return Command("pellucid.cli.main", (*words,))

    experiment.run(training, lambda line: print(legible(line), file=sys.stderr, flush=True), test=test)
    print(dumps(experiment.to_json(), indent=2, ensure_ascii=False) if json else experiment.report(), end="")
    if json:
        print()
    print(f"wrote {Path(told.out, 'results.csv')}, results.json and results.svg", file=sys.stderr)
    if experiment.failures:
        count = len(experiment.failures)
        print(f"{count} of {len(told.trials)} runs failed: {', '.join(experiment.failures)}", file=sys.stderr)
        print("the same command tries them again", file=sys.stderr)
        return 1
    return 0


def _print_plan(experiment: "Experiment") -> None:
    """Prints the runs, their state, and an estimate of time where there is one."""
    from pellucid.planning.duration import say_duration
    from pellucid.sweep.estimate import estimate_seconds
    from pellucid.sweep.table import Column, Table

    told, seconds = experiment.sweep, estimate_seconds(experiment)
    keys = list(dict.fromkeys(key for setting in told.settings for key in setting.values))
    rows: list[dict[str, Any]] = [
        {"run": trial.name}
        | {key: str(value) for key, value in trial.setting.values.items()}
        | {"state": experiment.state(trial), "seconds": seconds.get(trial.setting.name)}
        for trial in told.trials
    ]
    columns = [Column("run", "run"), *(Column(key, key) for key in keys), Column("state", "state")]
    print(Table([*columns, Column("seconds", "about seconds", 0)], rows).written("table"))
    left = [trial for trial in told.trials if not experiment.is_trained(trial)]
    known = [seconds[trial.setting.name] for trial in left if trial.setting.name in seconds]
    work = f"{len(left)} of {len(told.trials)} runs to train, {told.jobs} at a time with {told.threads} thread each"
    work = work.replace(" thread each", " threads each") if told.threads > 1 else work
    if left and len(known) == len(left):
        work += f": about {say_duration(sum(known) / min(told.jobs, len(left)))}, without validation and start"
    elif left:
        work += "; how long is not known before one has finished"
    print(work)
