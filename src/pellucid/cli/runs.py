"""`pellucid runs`."""

from typing import Annotated

import tyro

from pellucid.cli.options import optional
from pellucid.sweep.table import Format
from pellucid.terminal import log_line


def runs(
    folder: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER", help="folder that contains runs, at any depth")
    ],
    /,
    *,
    format: Annotated[
        Format,
        tyro.conf.arg(metavar="NAME", help="output format: table, csv, latex (with booktabs) or json"),
    ] = "table",
    sort: Annotated[
        str | None, optional("COLUMN", "sort by this column, as named by --format csv, the smallest first", "by folder")
    ] = None,
) -> int:
    """List all runs below a folder, one per line: the settings in which the runs differ, steps, scores and time.

    Scores are scores on the validation set: of the model for a finished run, else of the last validation.

    example: pellucid runs experiments
    example: pellucid runs experiments --format csv > runs.csv
    """
    from pathlib import Path

    from pellucid.errors import ConfigError, DataError, did_you_mean, format_argument, format_value
    from pellucid.sweep.run_summaries import find_runs, make_runs_table, summarize_run

    found, damaged = [], 0
    for path in find_runs(folder):
        try:
            found.append(summarize_run(path))
        except DataError as error:
            damaged += 1
            log_line(f"warning: run skipped: {error}")
    if not found:
        why = " that can be read" if damaged else ""
        raise DataError(
            f"there is no run{why} in or below `{format_value(Path(folder))}`", "name a folder that contains runs"
        )
    table = make_runs_table(Path(folder), found)
    if sort is not None:
        keys = [column.key for column in table.columns]
        if sort not in keys:
            raise ConfigError(
                f"{format_argument('sort', sort)} is not a column{did_you_mean(sort, keys)}",
                f"columns: {', '.join(keys)}",
            )
        table.rows.sort(key=lambda row: _place(row.get(sort)))
    written = table.write(format)
    print(written, end="")
    return 0


def _place(value: object) -> tuple[int, float, str]:
    """Returns a sort key: numbers first, then words, then missing values."""
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, value) if isinstance(value, str) else (2, 0.0, "")
