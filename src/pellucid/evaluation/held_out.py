"""The files of a test set, and their parallel lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.config import RECIPE, DataConfig, Recipe
from pellucid.data.lines import read_lines
from pellucid.data.locate import locate_test
from pellucid.data.parallel import ParallelText, get_held_out_text, holds_both_sides
from pellucid.errors import ConfigError, DataError

COLUMNS, KEYS = DataConfig().tsv_columns, DataConfig().jsonl_keys


@dataclass(frozen=True)
class HeldOutFiles:
    """The files of a test set: sources and one or more files of references; or one file with both sides."""

    src: str | None
    refs: tuple[str, ...] = ()
    tsv_columns: tuple[int, ...] = COLUMNS
    jsonl_keys: tuple[str, ...] = KEYS

    def __str__(self) -> str:
        return " and ".join(f"`{path}`" for path in (self.src, *self.refs) if path)

    @property
    def is_one_file(self) -> bool:
        """True if `src` holds sources and references."""
        return self.src is not None and not self.refs and holds_both_sides(self.src)

    def read(self, others: Sequence[str] = ()) -> dict[str, list[str]]:
        """Returns the lines of all files and of `others`, by path.

        For one file with both sides, the key of the sources is its path, and the key of the references is "".

        Raises ConfigError if references are given in addition to a file with both sides; DataError if files cannot be
        read, are empty or differ in length.
        """
        if self.src is not None and self.refs and holds_both_sides(self.src):
            raise ConfigError(
                f"`{self.src}` holds both sides, but `{self.refs[0]}` is also given as references",
                "leave `ref=` out, or name a file of sources alone",
            )
        if not self.is_one_file or self.src is None:
            return read_columns([*self.refs, *([self.src] if self.src else []), *others])
        pairs = list(ParallelText(self.src, "", self.tsv_columns, self.jsonl_keys).pairs("error"))
        columns = {"": [target or "" for _, target in pairs], self.src: [source or "" for source, _ in pairs]}
        columns |= {path: list(read_lines(path)) for path in others}
        _check_lengths({path: lines for path, lines in columns.items() if path})
        return columns


def recipe_test(systems: Sequence[str], *, data_dir: str | None = None, alone: bool = False) -> HeldOutFiles:
    """Returns the test set in the recipe of the first system that is a run.

    Args:
        alone: if True, the test set is a text without references, for a language model.

    Raises ConfigError if no system is a run, or its recipe names no test set; DataError if the files are missing.
    """
    run = next((system for system in systems if Path(system, RECIPE).is_file()), None)
    if run is None:
        raise ConfigError(
            f"`test=True` requires a run folder, and `{systems[0]}` is not one: it has no {RECIPE}",
            "name the test files with `src=` and `ref=`",
        )
    data = Recipe.load(Path(run, RECIPE)).data
    if not data.test_src:
        raise ConfigError(
            f"the recipe of `{run}` names no test set (`data.test_src`)", "name the test files with `src=`"
        )
    text = get_held_out_text(locate_test(data, data_dir), "test", alone=alone)
    assert text is not None, "it has a source"
    return HeldOutFiles(text.src, (text.tgt,) if text.tgt else (), text.tsv_columns, text.jsonl_keys)


def read_columns(paths: Sequence[str]) -> dict[str, list[str]]:
    """Returns the lines of files by path; line n of each must belong to the same sentence.

    Raises DataError if files are empty or differ in length, or if more than one is standard input.
    """
    if paths.count("-") > 1:
        raise DataError("standard input (`-`) can be only one of the files", "name the others")
    columns = {path: list(read_lines(path)) for path in paths}
    _check_lengths(columns)
    return columns


def _check_lengths(columns: dict[str, list[str]]) -> None:
    """Raises DataError if the files differ in length or are empty."""
    first, *others = columns
    for other in others:
        if len(columns[first]) != len(columns[other]):
            raise DataError(
                f"`{first}` and `{other}` must have the same number of lines, but `{first}` has "
                f"{len(columns[first]):,} and `{other}` {len(columns[other]):,}",
                "line n of each file must belong to the same sentence; an empty translation is an empty line",
            )
    if not columns[first]:
        names = " and ".join(f"`{path}`" for path in columns)
        raise DataError(f"{names} {'is' if len(columns) == 1 else 'are'} empty", "use one sentence per line")
