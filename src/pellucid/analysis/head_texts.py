"""The sentences that heads are judged by: those of two files, or those that a run itself was tested on."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from pellucid.config import DataConfig, Task
from pellucid.config.tasks import TrainedTask
from pellucid.data.lines import read_lines
from pellucid.data.parallel import ParallelText, held_out_text, holds_both_sides
from pellucid.data.prepare import open_corpus
from pellucid.errors import ConfigError, DataError
from pellucid.evaluation.held_out import read_columns
from pellucid.run.folder import stored_recipe
from pellucid.tasks.task import model_folder

PASSAGE = 400
"""Of how many characters at least, in whole lines, the passages are that a running text is cut into."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Sentences with their translations or labels; of a language model each text twice."""

    pairs: list[tuple[str, str]]
    origin: str
    """Where they are from, for the reader."""
    running: bool = False
    """Whether they are passages of one running text."""

    def some(self, count: int) -> "Texts":
        """At most `count` of them, spread evenly over all."""
        places = np.linspace(0, len(self.pairs) - 1, min(count, len(self.pairs))).round().astype(int)
        return Texts([self.pairs[place] for place in places], self.origin, self.running)


def given_texts(task: Task, src: str, tgt: str | None, running: bool = False) -> Texts:
    """The texts of `src` with the translations or labels of `tgt`, line by line, or both from the columns of `src`.

    Raises ConfigError where one of them is missing or not wanted, DataError for files that cannot be read, are empty or
    differ in length.
    """
    if not task.targets:
        if tgt is not None:
            raise ConfigError(f"the model reads the texts of --src alone, not `--tgt {tgt}`", "leave --tgt out")
        return _checked(_alone(read_lines(src), running), f"`{src}`", running)
    if tgt is not None:
        columns = read_columns([src, tgt])
        return _checked(zip(columns[src], columns[tgt], strict=True), f"`{src}`")
    if holds_both_sides(src):
        data = DataConfig()
        return _checked(_whole(ParallelText(src, "", data.tsv_columns, data.jsonl_keys)), f"`{src}`")
    raise ConfigError(f"the {task.targets} of `{src}` are not given", "name their file with --tgt")


def own_texts(model: str | Path, task: Task) -> Texts:
    """What the run in a folder was tested on; without a test set, what it was validated on.

    Raises ConfigError where the folder is no run's, or its texts are not there any more.
    """
    hint = "name texts with --src" + (" and --tgt" if task.targets else "")
    if not task.trained_on:
        raise ConfigError(f"`{model}` has no texts of its own", hint)
    try:
        data = stored_recipe(model_folder(model)).data
    except ConfigError as error:
        raise ConfigError(f"`{model}` is no run with texts of its own", hint) from error
    if not data.files("src"):
        raise ConfigError(f"the texts of the run `{model}` were handed over by a script", hint)
    if missing := [path for path in (*data.files("src"), *data.files("tgt")) if not Path(path).exists()]:
        raise ConfigError(f"the texts of the run `{model}` are not there: no `{missing[0]}`", hint)
    running = not task.targets and data.text == "running"
    test = held_out_text(data, "test", alone=not task.targets)
    if test is not None and Path(test.src).is_file():
        pairs = _alone((text for text, _ in _whole(test)), running) if not task.targets else _whole(test)
        return _checked(pairs, f"the run's test set, `{test.src}`", running)
    valid = open_corpus(data, cast(TrainedTask, task.name)).valid
    if running:
        valid = _alone((line for chunk, _ in valid for line in chunk.splitlines()), running)
    return _checked(valid, "the run's validation set", running)


def _whole(text: ParallelText) -> Iterator[tuple[str, str]]:
    return ((source or "", target or "") for source, target in text.pairs("replace"))


def _alone(lines: Iterable[str], running: bool) -> Iterator[tuple[str, str]]:
    """Each text as its own target: lines, or passages of a running text."""
    if not running:
        yield from ((line, line) for line in lines)
        return
    passage = ""
    for line in lines:
        passage += f"{line}\n"
        if len(passage) >= PASSAGE:
            yield passage, passage
            passage = ""
    if passage:
        yield passage, passage


def _checked(pairs: Iterable[tuple[str, str]], origin: str, running: bool = False) -> Texts:
    """Without empty ones. Raises DataError where none is left."""
    found = [(source, target) for source, target in pairs if source.strip() and target.strip()]
    if not found:
        raise DataError(f"there is no text in {origin}", "give a text with --src")
    return Texts(found, origin, running)
