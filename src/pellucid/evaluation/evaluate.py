"""A translator's scores on a test set, and systems side by side on the same one."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.config import RECIPE, DataConfig, Recipe
from pellucid.data.lines import read_lines
from pellucid.data.locate import locate_test
from pellucid.data.parallel import ParallelText, held_out_text, holds_both_sides
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.evaluation.scores import References, Scores, score_corpus
from pellucid.evaluation.tokenization import AUTO
from pellucid.tasks.saved import model_folder
from pellucid.tasks.translator import Translator
from pellucid.weights.folder import is_foreign, read_config

COLUMNS, KEYS = DataConfig().tsv_columns, DataConfig().jsonl_keys


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: References,
    *,
    tokenize: str = AUTO,
    ter: bool = False,
    **options: Any,
) -> Scores:
    """Translates `sources` and scores them against `references`, one each or several sets as [first, second].

    Args:
        tokenize: how BLEU cuts text: by the references' script, or by the tokenizer of that name, as score_corpus says.
        ter: whether to compute TER, too.
        options: as Translator.translate takes them.

    Raises DataError where the lists differ in length or are empty, ConfigError for what cannot be set.
    """
    outputs = [translation.text for translation in translator.translate(sources, **options)]
    return score_corpus(outputs, references, tokenize=tokenize, ter=ter)


@dataclass(frozen=True)
class HeldOutFiles:
    """Where a test set lies: its sources, and one file of references or several; or both sides in one file."""

    src: str | None
    refs: tuple[str, ...] = ()
    tsv_columns: tuple[int, ...] = COLUMNS
    jsonl_keys: tuple[str, ...] = KEYS

    def __str__(self) -> str:
        return " and ".join(f"`{path}`" for path in (self.src, *self.refs) if path)

    @property
    def is_one_file(self) -> bool:
        """Whether `src` holds sources and references."""
        return self.src is not None and not self.refs and holds_both_sides(self.src)

    def read(self, others: Sequence[str] = ()) -> dict[str, list[str]]:
        """Returns the lines of all files by path, of `others`, too; of one file with both sides the sources by its
        path and the references by "".

        Raises DataError where they cannot be read, are empty or differ in length.
        """
        if not self.is_one_file or self.src is None:
            return read_columns([*self.refs, *([self.src] if self.src else []), *others])
        pairs = list(ParallelText(self.src, "", self.tsv_columns, self.jsonl_keys).pairs("error"))
        columns = {"": [target or "" for _, target in pairs], self.src: [source or "" for source, _ in pairs]}
        columns |= {path: list(read_lines(path)) for path in others}
        _check_lengths({path: lines for path, lines in columns.items() if path})
        return columns


def recipe_test(systems: Sequence[str], *, data_dir: str | None = None, alone: bool = False) -> HeldOutFiles:
    """Returns where the test set of the recipe lies by which the first of the systems that is a run was trained.

    Args:
        alone: whether it is a text without references, a language model's.

    Raises ConfigError where none is a run, or its recipe names no test set; DataError where the files are nowhere.
    """
    run = next((system for system in systems if Path(system, RECIPE).is_file()), None)
    if run is None:
        raise ConfigError(
            f"`--test` means the test set of a run's recipe, and `{systems[0]}` is no run folder: no {RECIPE} in it",
            "name the files of the test by --src and --ref",
        )
    data = Recipe.load(Path(run, RECIPE)).data
    if not data.test_src:
        raise ConfigError(f"the recipe of `{run}` names no test set (`data.test_src`)", "name its files by --src")
    text = held_out_text(locate_test(data, data_dir), "test", alone=alone)
    assert text is not None, "it has a source"
    return HeldOutFiles(text.src, (text.tgt,) if text.tgt else (), text.tsv_columns, text.jsonl_keys)


def translate_test(
    systems: Sequence[str], test: HeldOutFiles, *, device: str, dtype: str | None, **options: Any
) -> tuple[list[list[str]], list[list[str]]]:
    """Returns what each system makes of a test set, and each set of references.

    Args:
        systems: run or model folders, which translate; or text files of finished translations, one a line.
        options: as Translator.translate takes them, for the systems that are models.

    Raises ConfigError where a system is named twice, or a model has no sources; CheckpointError for a folder that is
    none; DataError where the files cannot be read, are empty or differ in length.
    """
    _check_systems(systems, test.src)
    columns = test.read([*filter(_is_text, systems)])
    sources = columns[test.src] if test.src else []
    outputs = [
        columns[system] if _is_text(system) else _translated(system, sources, device, dtype, options)
        for system in systems
    ]
    return outputs, [columns[ref] for ref in (test.refs or ("",))]


def read_columns(paths: Sequence[str]) -> dict[str, list[str]]:
    """The lines of files of which line n always belongs to the same sentence.

    Raises DataError where they are empty or differ in length, or more than one of them is standard input.
    """
    if paths.count("-") > 1:
        raise DataError("standard input (`-`) can be only one of the files", "name the others")
    columns = {path: list(read_lines(path)) for path in paths}
    _check_lengths(columns)
    return columns


def _check_lengths(columns: dict[str, list[str]]) -> None:
    """Raises DataError where the files differ in length, or are empty."""
    first, *others = columns
    for other in others:
        if len(columns[first]) != len(columns[other]):
            raise DataError(
                f"`{first}` and `{other}` must have as many lines as each other, but `{first}` has "
                f"{len(columns[first]):,} and `{other}` {len(columns[other]):,}",
                "line n of each file must belong to the same sentence; an empty translation is an empty line",
            )
    if not columns[first]:
        names = " and ".join(f"`{path}`" for path in columns)
        raise DataError(f"{names} {'is' if len(columns) == 1 else 'are'} empty", "give a sentence a line")


def _check_systems(systems: Sequence[str], src: str | None) -> None:
    places = [Path(system).resolve() for system in systems]
    for system, place in zip(systems, places, strict=True):
        if places.count(place) > 1:
            raise ConfigError(f"`{system}` is compared with itself", "name another one with --against")
        if not _is_text(system):
            _check_model(system)
            if src is None:
                raise ConfigError(f"the model `{system}` needs sentences to translate", "name their file with --src")


def _check_model(system: str) -> None:
    """Raises CheckpointError for what is no model, before another one translates for minutes."""
    try:
        if not is_foreign(folder := model_folder(system)):
            read_config(folder)
    except CheckpointError as error:
        if Path(system).exists():
            raise
        said = str(error).replace("is not a model folder:", "is neither a model folder nor a file of translations:")
        raise CheckpointError(said, "check the path, to a folder or to a file", error.exit_status) from error


def _is_text(system: str) -> bool:
    """Whether it is a file (or a pipe) of translations rather than a model."""
    return system == "-" or (Path(system).exists() and not Path(system).is_dir())


def _translated(system: str, sources: list[str], device: str, dtype: str | None, options: dict[str, Any]) -> list[str]:
    translator = Translator.load(system, device, dtype)
    if sys.stderr.isatty():
        print(f"translating {len(sources):,} sentences with {system}", file=sys.stderr)
    return [translation.text for translation in translator.translate(sources, **options)]
