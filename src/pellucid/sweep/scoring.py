"""Scores a finished run on the whole validation text with beam search, and stores the scores in its folder."""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError
from pellucid.files.budget import MOST_SETTINGS_BYTES, read_bytes
from pellucid.files.reading import NUMBER, read_stored_table
from pellucid.files.writing import write_text
from pellucid.terminal import log_line

SCORES = "validation.json"
TEST_SCORES = "test.json"
RESULT = "result.json"


def find_scores(folder: Path, *beam_size: int | None, name: str = SCORES) -> dict[str, Any] | None:
    """Returns the scores of a finished run, or None if they are not the scores of its model.

    Args:
        beam_size: the requested beam size, None for the recipe's; without this argument any is accepted.
    """
    try:
        table = read_stored_table(folder / name)
        if not (NUMBER.fits(table["bleu"]) and NUMBER.fits(table["chrf"])):
            return None
        same = table["result_sha256"] == _digest(folder) and table["asked_beam_size"] in (
            beam_size or (table["asked_beam_size"],)
        )
        return table if same else None
    except (CheckpointError, KeyError):
        return None


def _digest(folder: Path) -> str:
    return hashlib.sha256(read_bytes(folder / RESULT, MOST_SETTINGS_BYTES)).hexdigest()


def score_run(folder: Path, data_dir: str, beam_size: int | None, device: str = "auto", test: bool = False) -> None:
    """Translates the validation text or the test set of a run with beam search, and writes the scores to its folder.

    Args:
        beam_size: None: the beam size of the run's recipe.

    Raises DataError if the texts are missing or have changed; ConfigError if there is no test set.
    """
    from pellucid.config import RECIPE, Recipe
    from pellucid.data.locate import resolve_paths
    from pellucid.data.prepare import open_corpus
    from pellucid.evaluation.held_out import recipe_test
    from pellucid.evaluation.scores import score_corpus
    from pellucid.tasks.translator import Translator

    recipe = Recipe.load(folder / RECIPE)
    if test:
        files = recipe_test([str(folder)], data_dir=data_dir or None)
        columns = files.read()
        sources, references = columns[files.src or ""], columns[files.refs[0] if files.refs else ""]
    else:
        corpus: Any = open_corpus(resolve_paths(recipe.data, data_dir or None), recipe.task)
        usable = [pair for pair in corpus.valid if pair[0].strip() and pair[1].strip()]  # as training scores them
        sources, references = map(list, zip(*usable, strict=True))
    translator = Translator.load(folder, device)
    if recipe.data.tgt_lang and not test:  # each source already begins with a tag
        translator = Translator(translator.model, translator.tokenizers, replace(translator.decode, source_prefix=()))
    outputs = [found.text for found in translator.translate(sources, beam_size=beam_size)]
    scores = score_corpus(outputs, references)
    table = {
        "result_sha256": _digest(folder), "asked_beam_size": beam_size,
        "beam_size": beam_size or recipe.decode.beam_size, **scores.to_json(),
    }  # fmt: skip
    write_text(folder / (TEST_SCORES if test else SCORES), json.dumps(table, indent=2) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Scores a run. Arguments: run folder, data folder, beam size (0: the recipe's), and which text."""
    from pellucid.errors import PellucidError

    folder, data_dir, beam_size, which = sys.argv[1:] if argv is None else argv
    try:
        score_run(Path(folder), data_dir, int(beam_size) or None, test=which == "test")
    except PellucidError as error:
        log_line(f"error: {error}")
        return error.exit_status
    return 0
