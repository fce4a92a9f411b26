"""Beam search over the whole validation text of a finished run, scored once and kept in its folder."""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid.files.writing import write_text

SCORES = "validation.json"
TEST_SCORES = "test.json"
RESULT = "result.json"


def find_scores(folder: Path, *beam_size: int | None, name: str = SCORES) -> dict[str, Any] | None:
    """Returns the scores of a finished run, or None where they are not those of its model.

    Args:
        beam_size: the beam that was asked for, None for the recipe's own; without it any will do.
    """
    try:
        table: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
        float(table["bleu"]), float(table["chrf"])
        same = table["result_sha256"] == _digest(folder) and table["asked_beam_size"] in (
            beam_size or (table["asked_beam_size"],)
        )
        return table if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _digest(folder: Path) -> str:
    return hashlib.sha256((folder / RESULT).read_bytes()).hexdigest()


def score_run(folder: Path, data_dir: str, beam_size: int | None, device: str = "auto", test: bool = False) -> None:
    """Translates the validation text of a run, or its test set, with beam search, and writes the scores down.

    Args:
        beam_size: None: that of the run's recipe.

    Raises DataError where the texts are not there any more, or are others; ConfigError where there is no test set.
    """
    from pellucid.config import RECIPE, Recipe
    from pellucid.data.locate import locate
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
        corpus: Any = open_corpus(locate(recipe.data, data_dir or None), recipe.task)
        usable = [pair for pair in corpus.valid if pair[0].strip() and pair[1].strip()]  # as training scores them
        sources, references = map(list, zip(*usable, strict=True))
    translator = Translator.load(folder, device)
    if recipe.data.tgt_lang and not test:  # a tag stands before each source already
        translator = Translator(translator.model, translator.tokenizers, replace(translator.decode, source_prefix=()))
    outputs = [found.text for found in translator.translate(sources, beam_size=beam_size)]
    scores = score_corpus(outputs, references)
    table = {
        "result_sha256": _digest(folder), "asked_beam_size": beam_size,
        "beam_size": beam_size or recipe.decode.beam_size, **scores.to_json(),
    }  # fmt: skip
    write_text(folder / (TEST_SCORES if test else SCORES), json.dumps(table, indent=2) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Scores the run that the arguments name: its folder, the folder of the data, the beam (0: its own), and which."""
    from pellucid.errors import PellucidError

    folder, data_dir, beam_size, which = sys.argv[1:] if argv is None else argv
    try:
        score_run(Path(folder), data_dir, int(beam_size) or None, test=which == "test")
    except PellucidError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return 0
