"""Rounds of back-translation: pairs, a model of them, pairs by that model for the other way, a model of those, again.

Both directions get better by each other's pairs (Hoang et al. 2018, "Iterative back-translation for neural machine
translation") until validation gains nothing more, or the time is up. What each piece took, and what it was given,
stands in `rounds.json`; pieces that are finished are not made again, one that was stopped goes on.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pellucid.augmentation.corpus import RECORD, NothingLeftError, Request, augment
from pellucid.augmentation.recipe import Parallel, mirrored, suggest
from pellucid.config import RECIPE, Recipe
from pellucid.data.lines import existing
from pellucid.data.parallel import held_out_text
from pellucid.data.prepare import open_corpus
from pellucid.distillation.pieces import Pieces
from pellucid.distillation.record import digest_of_text, digests_of_texts
from pellucid.distillation.teaching import open_teacher
from pellucid.errors import ConfigError, argument
from pellucid.files.writing import refusals_in_words
from pellucid.planning.duration import SHORTEST, parse_duration, say_duration
from pellucid.planning.request import Request as PlanRequest
from pellucid.run.folder import RunFolder
from pellucid.run.run import Run
from pellucid.tasks.translator import Translator

NOUN = "rounds"
RESERVED = 0.05
"""The part of a piece's time that is kept for scoring its model."""


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """Says how many rounds there are at most, and what each of them may use."""

    rounds: int
    other_input: str = ""
    """A file of text in the language that the first model writes; empty: none, and the model has no successor."""
    budget: str = ""
    """The time that all of it may take, as in 2h; empty: trainings are as long as their recipes say."""
    overrides: tuple[str, ...] = ()
    """Settings of all trainings, as `section.key=value`."""

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ConfigError(f"{argument('rounds', self.rounds)} must be at least 1", "2 or 3 are usual")
        if self.rounds > 1 and not self.other_input:
            raise ConfigError(
                f"{argument('rounds', self.rounds)} needs text of the other language, too: without it the model that "
                "writes the sources stays as it is, and a second round repeats the first",
                "name it by `other_input=`, or have one round",
            )
        pieces = 2 * self.rounds - 1
        if self.budget and (each := parse_duration(self.budget) / pieces) < SHORTEST:
            raise ConfigError(
                f"`budget={self.budget}` leaves {say_duration(each)} for each of {pieces} trainings",
                f"give at least {say_duration(pieces * SHORTEST)}, and what translating takes; or fewer `rounds=`",
            )

    def table(self, request: Request, recipe: Recipe) -> dict[str, Any]:
        """Returns what decides the pieces, as the record has it: texts and models by their content."""
        texts = {"input": [digest_of_text(request.input)], "other_input": [digest_of_text(self.other_input)]}
        plan = PlanRequest.of(recipe, say_duration(SHORTEST), ())  # whose digest of a recipe is that without its texts
        return {
            **request.table,
            **texts,
            **digests_of_texts(recipe.data),
            "recipe": plan.recipe,
            "overrides": [*self.overrides],
        }


@dataclass(frozen=True)
class Round:
    """A round that came to a model."""

    pairs: int
    """Synthetic pairs that it was trained on, beside the real ones."""
    bleu: float
    """BLEU of the whole text to validate on."""
    run: Path


def run_rounds(
    folder: Path,
    request: Request,
    rounds: Rounds,
    parallel: Parallel,
    *,
    fresh: bool = False,
    device: str = "auto",
    dtype: str | None = None,
    quiet: bool = False,
    say: Callable[[str], object] = print,
) -> list[Round]:
    """Returns the rounds that were gone through, made first where they are not there; what was begun is gone on with.

    The last one is no better than the one before it, unless there were as many as were asked for, the time was up, or a
    model wrote nothing that is kept.

    Raises ConfigError for requests that cannot be gone through in rounds, and where the time is up before the first
    training; what `augment` and Run raise.
    """
    if request.direction != "back":
        raise ConfigError("`rounds` translate back, and `direction=forward` is given", "leave one of them out")
    if request.input == "-" or rounds.other_input == "-":
        raise ConfigError("standard input can be read once, and each round reads its text", "name a file")
    if not parallel.is_known:
        raise ConfigError("`rounds` train on real pairs, too, and none are known", "name them by `src=` and `tgt=`")
    if folder.exists() and not (folder / f"{NOUN}.json").is_file() and (not folder.is_dir() or any(folder.iterdir())):
        what = "not empty and holds no rounds" if folder.is_dir() else "a file"
        raise ConfigError(f"`{folder}` is {what}, not a folder for them", "name another `out=`")
    asked = rounds.table(request, parallel.recipe)
    began = Pieces.read(folder, NOUN)
    if began is not None and "recipe" not in began["request"]:  # which earlier versions did not note, nor real texts
        asked = {name: value for name, value in asked.items() if name in began["request"]}
    pieces = Pieces(folder, NOUN, asked) if fresh else Pieces.open(folder, NOUN, asked)
    if not pieces.facts:  # a text or a model that cannot be used is said before anything is written
        existing(Path(request.input))
        if rounds.other_input:
            existing(Path(rounds.other_input))
        open_teacher(request.models, request.teaching, device, dtype)
    with refusals_in_words(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        if fresh:  # what a start anew does not come to before it is stopped is not to be gone on with, either
            open_corpus(parallel.recipe.data)  # what cannot be read is said before anything is removed
            for run in folder.glob("round-*/*run"):
                RunFolder(run).clear()
            for record in folder.glob(f"round-*/*pairs/{RECORD}"):
                record.unlink()
        pieces.note("real")
        data, _ = parallel.write(folder)
    ahead = Parallel(replace(parallel.recipe, data=data))
    loop = _Loop(folder, rounds, pieces, fresh, device, dtype, quiet, say)
    found: list[Round] = []
    for number in range(1, rounds.rounds + 1):
        left = 2 * (rounds.rounds - number) + 1
        try:
            gone = loop.through(f"round-{number}/run", f"round-{number}/pairs", request, ahead, left)
        except NothingLeftError as error:
            if not found:
                raise
            say(f"round {number} has nothing to learn: {error}")
            break
        if gone is None:
            break
        found.append(gone)
        say(f"round {number}: BLEU {gone.bleu:.2f} on the text to validate on; the model is in {gone.run}")
        if number > 1 and gone.bleu <= found[-2].bleu:
            say(f"round {number} gains nothing: round {number - 1} had {found[-2].bleu:.2f}")
            break
        if number == rounds.rounds:
            break
        # From here on the models are our own, and translate between two languages.
        own = replace(request.teaching, source_language=None, target_language=None)
        request = replace(request, teaching=own)
        back = replace(request, models=(str(gone.run),), input=rounds.other_input)
        behind = Parallel(mirrored(ahead.recipe))
        try:
            other = loop.through(f"round-{number}/other-run", f"round-{number}/other-pairs", back, behind, left - 1)
        except NothingLeftError as error:
            say(f"no further round: {gone.run} translates too badly yet: {error}")
            break
        if other is None:
            break
        request = replace(request, models=(str(other.run),))
    if not found:
        raise ConfigError(
            f"`budget={rounds.budget}` is too short: {say_duration(pieces.seconds)} went into reading and translating "
            "before the first training",
            "give more, or fewer `rounds=`, or less text; what is translated is kept",
        )
    return found


@dataclass(frozen=True)
class _Loop:
    """All that the pieces have in common."""

    folder: Path
    rounds: Rounds
    pieces: Pieces
    fresh: bool
    device: str
    dtype: str | None
    quiet: bool
    say: Callable[[str], object]

    def through(self, name: str, pairs: str, request: Request, parallel: Parallel, left: int) -> Round | None:
        """Goes through a piece: makes pairs, trains on them and the real ones, and scores; None where the time is up.

        Of the time that is left each of the `left` pieces that are to come has an equal part, translating included.
        """
        began = time.monotonic()
        known = self.pieces.facts.get(name, {})
        out = self.folder / name
        if "bleu" in known and (out / RECIPE).is_file():
            return Round(int(known["pairs"]), float(known["bleu"]), out)
        augmented = augment(
            self.folder / pairs, request, held_out=parallel.held_out("back"), fresh=self.fresh, device=self.device,
            dtype=self.dtype, say=self.say,
        )  # fmt: skip
        suggest(augmented, request, parallel)
        recipe = Recipe.load(self.folder / pairs / RECIPE, [*self.rounds.overrides])
        budget = str(known.get("budget", ""))
        if self.rounds.budget and not budget:
            share = (parse_duration(self.rounds.budget) - self.pieces.seconds) / left
            seconds = (share - (time.monotonic() - began)) * (1 - RESERVED)
            if seconds < SHORTEST:
                self.pieces.note(pairs, seconds=time.monotonic() - began)
                self.say(f"the time is up: {say_duration(max(0.0, seconds))} are left to train {name}")
                return None
            budget = f"{int(seconds)}s"
            self.pieces.note(name, budget=budget)
        self.say(f"{name}: training" + (f" for {say_duration(parse_duration(budget))}" if budget else ""))
        run = Run(
            recipe, out, overrides=self.rounds.overrides, budget=budget, device=self.device, fresh=self.fresh,
            quiet=self.quiet,
        )  # fmt: skip
        trained = run.train().seconds
        bleu = self._score(out, parallel)
        took = max(time.monotonic() - began, trained)  # of a training that went on after a stop, all of it
        self.pieces.note(name, seconds=took, pairs=augmented.counts["pairs"], bleu=bleu)
        return Round(augmented.counts["pairs"], bleu, out)

    def _score(self, run: Path, parallel: Parallel) -> float:
        """Returns the BLEU of a model on the whole text to validate on, which is the same in all rounds."""
        text = held_out_text(parallel.recipe.data, "valid")
        assert text is not None, "some pairs were cut off"
        pairs = [(source, target) for source, target in text.pairs("replace") if source and target]
        translator = Translator.load(run, self.device, self.dtype)
        found = translator.evaluate([source for source, _ in pairs], [target for _, target in pairs])
        return float(found.bleu)
