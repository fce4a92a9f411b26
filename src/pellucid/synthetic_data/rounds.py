"""Rounds of iterative back-translation: each round trains a model whose translations are the next round's pairs.

Both directions improve by each other's pairs (Hoang et al. 2018, "Iterative back-translation for neural machine
translation") until the validation score no longer rises or the time is used up. The time given to and used by each
training is recorded in `rounds.json`; finished trainings are not repeated, and an interrupted one is resumed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pellucid.config import RECIPE, Recipe
from pellucid.config.tables import rename_override
from pellucid.data.lines import check_text_file
from pellucid.data.parallel import get_held_out_text
from pellucid.errors import ConfigError, format_argument
from pellucid.files.writing import convert_write_errors
from pellucid.planning.duration import SHORTEST, format_duration, parse_duration
from pellucid.planning.request import PlanRequest
from pellucid.run.run import Run
from pellucid.synthetic_data.augmentation import AUGMENTED, AugmentRequest, augment
from pellucid.synthetic_data.corpus import NothingLeftError, check_folder, digest_of_text, digests_of_texts
from pellucid.synthetic_data.ledger import TrainingLedger
from pellucid.synthetic_data.mixture import RealData, reverse_direction, write_recipe
from pellucid.synthetic_data.teacher_translation import open_teacher
from pellucid.tasks.translator import Translator

NOUN = "rounds"
RESERVED = 0.05
"""The part of a training's time that is reserved for scoring its model."""


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """The number of rounds at most, and the inputs and budget of all."""

    rounds: int
    reverse_input: str = ""
    """A file of text in the target language of the first model; if empty, there is no second round."""
    budget: str = ""
    """The total time, as in 2h; if empty, trainings are as long as their recipes say."""
    overrides: tuple[str, ...] = ()
    """Settings of all trainings, as `section.key=value`."""

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ConfigError(f"{format_argument('rounds', self.rounds)} must be at least 1", "2 or 3 are usual")
        if self.rounds > 1 and not self.reverse_input:
            raise ConfigError(
                f"{format_argument('rounds', self.rounds)} requires text of the other language, too: without it the "
                "reverse model stays the same, and a second round repeats the first",
                "name it with `reverse_input=`, or use one round",
            )
        pieces = 2 * self.rounds - 1
        if self.budget and (each := parse_duration(self.budget) / pieces) < SHORTEST:
            raise ConfigError(
                f"`budget={self.budget}` leaves {format_duration(each)} for each of {pieces} training runs",
                f"give at least {format_duration(pieces * SHORTEST)} plus the time of translating, or use fewer "
                "`rounds=`",
            )

    def table(self, request: AugmentRequest, recipe: Recipe) -> dict[str, Any]:
        """Returns the table for the record of everything that determines the trainings: texts and models by their
        content.
        """
        texts = {"input": [digest_of_text(request.input)], "reverse_input": [digest_of_text(self.reverse_input)]}
        plan = PlanRequest.from_recipe(
            recipe, format_duration(SHORTEST), ()
        )  # a recipe's fingerprint excludes its texts
        return {
            **request.table,
            **texts,
            **digests_of_texts(recipe.data),
            "recipe": plan.recipe,
            "overrides": [*map(rename_override, self.overrides)],
        }


@dataclass(frozen=True)
class Round:
    """A round that trained a model."""

    pairs: int
    """Synthetic pairs in the training text, in addition to the real pairs."""
    bleu: float
    """BLEU on the whole validation set."""
    run: Path


def run_rounds(
    folder: Path,
    request: AugmentRequest,
    rounds: Rounds,
    parallel: RealData,
    *,
    fresh: bool = False,
    device: str = "auto",
    dtype: str | None = None,
    quiet: bool = False,
    log_line: Callable[[str], object] = print,
) -> list[Round]:
    """Returns the completed rounds. Runs them if they do not exist and resumes an interrupted command.

    The last round is no better than the one before it, unless the number of rounds or the time was used up, or none of
    a model's translations passed the filter.

    Raises ConfigError for requests that cannot be run in rounds, and if the time is used up before the first training;
    the errors of `augment` and Run.
    """
    if request.direction != "back":
        raise ConfigError("`rounds` use back-translation, but `direction=forward` is given", "leave one of them out")
    if request.input == "-" or rounds.reverse_input == "-":
        raise ConfigError("standard input can be read only once, and each round reads its text", "name a file")
    if not parallel.is_known:
        raise ConfigError(
            "`rounds` also train on real pairs, and none are given", "name the real pairs with `src=` and `tgt=`"
        )
    check_folder(folder, f"{NOUN}.json", "rounds")
    pieces = TrainingLedger.open(folder, NOUN, rounds.table(request, parallel.recipe), fresh=fresh)
    if not pieces.facts:  # raise errors of texts and models before anything is written
        check_text_file(Path(request.input))
        if rounds.reverse_input:
            check_text_file(Path(rounds.reverse_input))
        open_teacher(request.models, request.teaching, device, dtype)
    with convert_write_errors(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            records = map(AUGMENTED.get_record, folder.glob("round-*/*pairs"))
            pieces.start_over(parallel.recipe.data, folder.glob("round-*/*run"), records)
        pieces.note("real")
        data, _ = parallel.write(folder)
    ahead = RealData(replace(parallel.recipe, data=data))
    loop = _Loop(folder, rounds, pieces, fresh, device, dtype, quiet, log_line)
    found: list[Round] = []
    for number in range(1, rounds.rounds + 1):
        left = 2 * (rounds.rounds - number) + 1
        try:
            gone = loop.through(f"round-{number}/run", f"round-{number}/pairs", request, ahead, left)
        except NothingLeftError as error:
            if not found:
                raise
            log_line(f"round {number} has no training data: {error}")
            break
        if gone is None:
            break
        found.append(gone)
        log_line(f"round {number}: BLEU {gone.bleu:.2f} on the validation text; the model is in {gone.run}")
        if number > 1 and gone.bleu <= found[-2].bleu:
            log_line(f"round {number} is no improvement: round {number - 1} had {found[-2].bleu:.2f}")
            break
        if number == rounds.rounds:
            break
        # From here on the models are Pellucid's, with one language pair.
        own = replace(request.teaching, source_language=None, target_language=None)
        request = replace(request, teaching=own)
        back = replace(request, models=(str(gone.run),), input=rounds.reverse_input)
        reverse_data = RealData(reverse_direction(ahead.recipe))
        try:
            other = loop.through(
                f"round-{number}/other-run", f"round-{number}/other-pairs", back, reverse_data, left - 1
            )
        except NothingLeftError as error:
            log_line(f"no further round: the translations of {gone.run} are too bad: {error}")
            break
        if other is None:
            break
        request = replace(request, models=(str(other.run),))
    if not found:
        raise ConfigError(
            f"`budget={rounds.budget}` is too short: {format_duration(pieces.seconds)} were used for reading and "
            "translating before the first training",
            "increase the budget, or use fewer `rounds=` or less text; finished translations are kept",
        )
    return found


@dataclass(frozen=True)
class _Loop:
    """The state shared by all rounds."""

    folder: Path
    rounds: Rounds
    pieces: TrainingLedger
    fresh: bool
    device: str
    dtype: str | None
    quiet: bool
    log_line: Callable[[str], object]

    def through(self, name: str, pairs: str, request: AugmentRequest, parallel: RealData, left: int) -> Round | None:
        """Runs one round: makes pairs, trains on them and the real pairs, and scores; returns None if the time is used
        up.

        Each of the `left` remaining rounds gets an equal part of the remaining time, including translation.
        """
        began = time.monotonic()
        known = self.pieces.facts.get(name, {})
        out = self.folder / name
        if "bleu" in known and (out / RECIPE).is_file():
            return Round(int(known["pairs"]), float(known["bleu"]), out)
        augmented = augment(
            self.folder / pairs, request, held_out=parallel.read_held_out("back"), fresh=self.fresh, device=self.device,
            dtype=self.dtype, log_line=self.log_line,
        )  # fmt: skip
        write_recipe(augmented, request, parallel)
        recipe = Recipe.load(self.folder / pairs / RECIPE, [*self.rounds.overrides])
        budget = str(known.get("budget", ""))
        if self.rounds.budget and not budget:
            share = (parse_duration(self.rounds.budget) - self.pieces.seconds) / left
            seconds = (share - (time.monotonic() - began)) * (1 - RESERVED)
            if seconds < SHORTEST:
                self.pieces.note(pairs, seconds=time.monotonic() - began)
                self.log_line(f"out of time: {format_duration(max(0.0, seconds))} left to train {name}")
                return None
            budget = self.pieces.choose_budget(name, int(seconds))
        self.log_line(f"{name}: training" + (f" for {format_duration(parse_duration(budget))}" if budget else ""))
        run = Run(
            recipe, out, overrides=self.rounds.overrides, budget=budget, device=self.device, fresh=self.fresh,
            quiet=self.quiet,
        )  # fmt: skip
        trained = run.train().seconds
        bleu = self._score(out, parallel)
        took = max(time.monotonic() - began, trained)  # the whole time of a training that was resumed
        self.pieces.note(name, seconds=took, pairs=augmented.counts["pairs"], bleu=bleu)
        return Round(augmented.counts["pairs"], bleu, out)

    def _score(self, run: Path, parallel: RealData) -> float:
        """Returns a model's BLEU on the whole validation set, which is the same in all rounds."""
        text = get_held_out_text(parallel.recipe.data, "valid")
        assert text is not None, "some pairs were split off"
        pairs = [(source, target) for source, target in text.pairs("replace") if source and target]
        translator = Translator.load(run, self.device, self.dtype)
        found = translator.evaluate([source for source, _ in pairs], [target for _, target in pairs])
        return float(found.bleu)
