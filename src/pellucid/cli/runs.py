"""`pellucid runs`."""

from typing import Annotated

import tyro

from pellucid.cli.options import optional
from pellucid.sweep.table import Format


def runs(
    folder: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER", help="a folder that runs lie in, at any depth")
    ],
    /,
    *,
    format: Annotated[
        Format,
        tyro.conf.arg(metavar="NAME", help="table, csv, latex (of booktabs) or json"),
    ] = "table",
    sort: Annotated[
        str | None, optional("COLUMN", "by which column, the smallest first, as --format csv names it", "the folders")
    ] = None,
) -> int:
    """List all runs below a folder: the settings in which they differ, steps, scores and time, a line each.

    Scores are those of the validation set: of the model where a run has finished, else of its last validation.

    example: pellucid runs experiments
    example: pellucid runs experiments --format csv > runs.csv
    """
    import sys
    from pathlib import Path

    from pellucid.errors import ConfigError, DataError, argument, did_you_mean, shown
    from pellucid.sweep.survey import find_runs, survey_run, survey_table

    found, damaged = [], 0
    for path in find_runs(folder):
        try:
            found.append(survey_run(path))
        except DataError as error:
            damaged += 1
            print(f"warning: left out: {error}", file=sys.stderr)
    if not found:
        why = ": what is there cannot be read" if damaged else ""
        raise DataError(f"there is no run in or below `{shown(Path(folder))}`{why}", "name a folder that runs lie in")
    table = survey_table(Path(folder), found)
    if sort is not None:
        keys = [column.key for column in table.columns]
        if sort not in keys:
            raise ConfigError(
                f"{argument('sort', sort)} is no column{did_you_mean(sort, keys)}", f"columns: {', '.join(keys)}"
            )
        table.rows.sort(key=lambda row: _place(row.get(sort)))
    written = table.written(format)
    print(written, end="")
    return 0


def _place(value: object) -> tuple[int, float, str]:
    """Returns a key that orders numbers, then words, then what is missing."""
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, value) if isinstance(value, str) else (2, 0.0, "")
