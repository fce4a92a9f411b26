"""A time budget spent on several models, and on one that learns what they write together.

After some passes over a text a model gains less by further ones than by others like it. The teachers differ in their
seed alone and translate the training text together; the run learns that beside the originals (Freitag et al. 2017,
"Ensemble Distillation for Neural Machine Translation"). Back teachers translate the other way: each writes sources for
the targets, which the run learns as well (Nguyen et al. 2020, "Data Diversification: A Simple Strategy For Neural
Machine Translation"). All lie in `RUN.teachers`, and `teachers.json` there says what each was given and took. What is
finished is not made again, and what was stopped goes on.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from pellucid.augmentation.corpus import RECORD as AUGMENTED
from pellucid.augmentation.corpus import NothingLeftError, augment
from pellucid.augmentation.corpus import Request as BackRequest
from pellucid.augmentation.recipe import mirrored
from pellucid.config import RECIPE, Recipe
from pellucid.data.prepare import TEXTS, open_corpus
from pellucid.distillation.corpus import RECORD, Request, beside, corpus_of, distil
from pellucid.distillation.pieces import Pieces
from pellucid.distillation.record import digests_of_texts
from pellucid.distillation.selection import Selection
from pellucid.distillation.student import check_student, student_run
from pellucid.distillation.teaching import Teaching
from pellucid.errors import ConfigError, argument
from pellucid.files.writing import refusals_in_words, write_text
from pellucid.planning.duration import SHORTEST, parse_duration, say_duration
from pellucid.planning.request import Request as PlanRequest
from pellucid.run.folder import PLAN, RunFolder, RunResult
from pellucid.run.run import Run

NOUN = "teachers"
TRANSLATIONS, STUDENT = "translations", "student"
BACK = "back-{}"
"""Names the run of a back teacher; its pairs lie beside it."""
PAIRS = "pairs"
SIZES = {"data.vocab_size": "data.target_vocab_size", "data.target_vocab_size": "data.vocab_size"}
"""The settings of the vocabularies' sizes, by what they become when source and target change about."""
FIRST_RESERVE = 0.1
"""The part of the budget that is kept for translating until the first teacher has told how fast this machine is."""
EPOCHS_TO_TRANSLATE = 2.0
"""The epochs of its training that take as long as a teacher's part in translating the text."""
LEAST = 1 / 3
"""The part of a teacher's time that the student has, however long translating takes."""


@dataclass(frozen=True, kw_only=True)
class SplitBudget:
    """Says what a time budget is spent on."""

    recipe: Recipe
    """The recipe of all trainings, with the places of its texts."""
    teachers: int
    """Models of the run's direction, which write targets together."""
    budget: str
    """The time that all of it may take, as in 1h."""
    overrides: tuple[str, ...] = ()
    """Settings, as `section.key=value`, that win over a plan."""
    back_teachers: int = 0
    """Models of the other direction, each of which writes sources."""

    def __post_init__(self) -> None:
        if self.teachers < 2:
            raise ConfigError(
                f"{argument('teachers', self.teachers)} must be at least 2: what one model writes alone it knows",
                "3 are usual",
            )
        if self.back_teachers < 0:
            raise ConfigError(
                f"{argument('back_teachers', self.back_teachers)} must be at least 0", "2 are usual beside 3 teachers"
            )
        if not self.budget:
            raise ConfigError(
                f"{argument('teachers', self.teachers)} needs a time to divide among them and the run",
                "name it, as in `budget=1h`",
            )
        if self.recipe.train.init_from:
            raise ConfigError(
                f"{argument('teachers', self.teachers)} differ in the weights that they begin with, and "
                f"`{self.recipe.train.init_from}` would be the start of all",
                "leave one of them out",
            )
        if self.back_teachers and self.recipe.data.tags:
            raise ConfigError(
                f"{argument('back_teachers', self.back_teachers)} write sources without tags, and `data.tags` has all "
                "others marked",
                "leave one of them out",
            )
        if (each := self.first_part) < SHORTEST:
            least = say_duration((self.writers + 1) * SHORTEST / (1 - FIRST_RESERVE))
            raise ConfigError(
                f"`budget={self.budget}` leaves {say_duration(each)} for each of {self.writers + 1} trainings",
                f"give at least {least}, or have fewer models",
            )
        if self.back_teachers:
            mirrored(self.recipe)  # a text without its other side is said before hours of training

    @property
    def writers(self) -> int:
        """Returns how many models there are beside the run."""
        return self.teachers + self.back_teachers

    @property
    def first_part(self) -> float:
        """Returns the seconds of the first teacher; those of the others depend on what it tells of this machine."""
        return parse_duration(self.budget) * (1 - FIRST_RESERVE) / (self.writers + 1)

    def plan(self, device: str = "auto") -> str:
        """Returns what the budget is divided into, and the plan of the first teacher, for a reader."""
        first = say_duration(self.first_part)
        back = f" and {self.back_teachers} of the other direction" if self.back_teachers else ""
        reserve = say_duration(FIRST_RESERVE * parse_duration(self.budget))
        parts = f"{self.teachers} teachers{back} of {first}, about {reserve} to translate, and the run"
        run = Run(self.recipe, None, overrides=self.overrides, budget=first, device=device, quiet=True)
        return f"{self.budget}: {parts}; of the first teacher\n{run.plan}"

    @classmethod
    def begun(cls, out: Path) -> Self | None:
        """Returns what a run's teachers were begun with; None where it has none."""
        folder = teachers_of(out)
        table = Pieces.read(folder, NOUN)
        recipe = RunFolder(out).recipe
        if table is None or (recipe is not None and not _learnt_from(recipe, corpus_of(out))):
            return None
        asked = table["request"]
        with suppress(KeyError, TypeError):
            recipe = Recipe.load(folder / RECIPE)
            return cls(
                recipe=recipe, teachers=asked["teachers"], budget=asked["budget"], overrides=tuple(asked["overrides"]),
                back_teachers=asked.get("back_teachers", 0),
            )  # fmt: skip
        return None

    @property
    def table(self) -> dict[str, Any]:
        """Returns what decides the trainings, as the record has it: the texts by their content."""
        recipe = PlanRequest.of(self.recipe, self.budget, self.overrides).recipe
        return digests_of_texts(self.recipe.data) | {
            "teachers": self.teachers, "back_teachers": self.back_teachers, "budget": self.budget,
            "overrides": [*self.overrides], "recipe": recipe,
        }  # fmt: skip


def _learnt_from(recipe: Recipe, corpus: Path) -> bool:
    """Tells whether a run's text is that of a corpus, wherever both have been moved to."""
    return any(Path(each).parent.name == corpus.name for each in recipe.data.files("src"))


def teachers_of(run: Path) -> Path:
    """Returns the folder of a run's teachers."""
    return beside(run, NOUN)


def train_by_teachers(
    split: SplitBudget,
    out: Path,
    *,
    device: str = "auto",
    fresh: bool = False,
    quiet: bool = False,
    started: float | None = None,
    say: Callable[[str], object] = print,
) -> RunResult:
    """Trains all teachers, has them translate the training text, trains the run `out` on it; returns its result.

    Each teacher has an equal part of the budget, and the run what is left; where translating takes longer than was
    reckoned, the command does too, as the run has a third of a teacher's part in any case.

    Args:
        fresh: makes all of it anew.
        started: when the budget began to run, as time.perf_counter() counts; None: now.
        say: is told what comes next, a line each.

    Raises ConfigError for texts that no student can learn, and where `out` holds a run or teachers of something else;
    what Run and `distil` raise.
    """
    folder = teachers_of(out)
    asked, began = split.table, Pieces.read(folder, NOUN)
    if began is not None and not any(name in began["request"] for name in TEXTS):  # which earlier versions did not note
        asked = {name: value for name, value in asked.items() if name not in TEXTS}
    pieces = Pieces(folder, NOUN, asked) if fresh else Pieces.open(folder, NOUN, asked)
    if STUDENT in pieces.facts and (finished := RunFolder(out).result) is not None:
        return finished
    runs = [folder / str(number) for number in range(1, split.teachers + 1)]
    back_runs = [folder / BACK.format(number) for number in range(1, split.back_teachers + 1)]
    request = Request(
        teachers=tuple(map(str, runs)), data=split.recipe.data, teaching=Teaching(), selection=Selection(),
        ensemble=True,
    )  # fmt: skip
    check_student(split.recipe, out, corpus_of(out), request.teachers, split.budget, device)
    if not fresh and not pieces.facts and RunFolder(out).recipe is not None:
        raise ConfigError(f"the run in `{out}` began without teachers", "name another `out=`, or leave `teachers=` out")
    with refusals_in_words(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / RECIPE, split.recipe.to_toml())
    if fresh:  # what a start anew does not come to before it is stopped is not to be gone on with, either
        open_corpus(split.recipe.data)  # what cannot be read is said before anything is removed
        for earlier in (*runs, *back_runs, out):
            RunFolder(earlier).clear()
        records = [beside(run, PAIRS) / AUGMENTED for run in back_runs]
        for record in (*records, corpus_of(out) / RECORD, folder / f"{NOUN}.json"):
            record.unlink(missing_ok=True)
    course = _Course(split, pieces, device, fresh, quiet, say, time.perf_counter() if started is None else started)
    taught = [course.teach(run, number) for number, run in enumerate(runs)]
    for number, run in enumerate(back_runs):
        course.teach(run, number, back=True)
    distilled = distil(corpus_of(out), request, fresh=fresh, device=device, say=say)
    course.passed(TRANSLATIONS)
    further = [pair for run in back_runs for pair in course.write_sources(run, distilled.original)]
    budget = course.given(STUDENT, max(course.left, LEAST * parse_duration(pieces.facts[runs[-1].name]["budget"])))
    say(f"the run learns what they write{'' if further else ' together'}, for {budget}")
    # The shape was measured once, and is that of all.
    student = replace(Recipe.load(runs[0] / RECIPE), train=split.recipe.train)
    result = student_run(
        student, out, distilled, further=further, overrides=split.overrides, budget=budget, device=device, fresh=fresh,
        quiet=quiet,
    ).train()  # fmt: skip
    course.passed(STUDENT, result)
    if scores := [f"{each.valid_bleu:.2f}" for each in taught if each.valid_bleu is not None]:
        say(f"validation BLEU of the teachers: {', '.join(scores)}")
    return result


@dataclass
class _Course:
    """The trainings one after the other, and the time that is left for them."""

    split: SplitBudget
    pieces: Pieces
    device: str
    fresh: bool
    quiet: bool
    say: Callable[[str], object]
    began: float
    """The time when the piece that is worked on began."""

    def teach(self, out: Path, number: int, *, back: bool = False) -> RunResult:
        """Trains a teacher, or a back teacher; returns what it came to."""
        count = self.split.back_teachers if back else self.split.teachers
        parts = (count if back else self.split.writers) - number + 1
        budget = self.given(out.name, (self.left - self._reserve()) / parts)
        seed = self.split.recipe.train.seed + number
        settings = [*(each for each in self.split.overrides if not each.startswith("train.seed")), f"train.seed={seed}"]
        recipe = replace(self.split.recipe, train=replace(self.split.recipe.train, seed=seed))
        if back:
            recipe, settings = mirrored(recipe), [_other_way(recipe, each) for each in settings]
        self.say(f"{'back teacher' if back else 'teacher'} {number + 1} of {count}, for {budget}")
        result = Run(
            recipe, out, overrides=settings, budget=budget, started=self.began, device=self.device, fresh=self.fresh,
            quiet=self.quiet,
        ).train()  # fmt: skip
        self.passed(out.name, result)
        return result

    def write_sources(self, run: Path, targets: Path) -> list[tuple[Path, Path]]:
        """Returns the pairs of a back teacher's sources and the targets; none where nothing it writes is kept."""
        request = BackRequest(models=(str(run),), input=str(targets), tag="")
        try:
            pairs = augment(beside(run, PAIRS), request, fresh=self.fresh, device=self.device, say=self.say)
            found = [pairs.sides]
        except NothingLeftError as error:
            self.say(f"{run} translates too badly, and the run learns nothing of it: {error}")
            found = []
        self.passed(f"{run.name} {PAIRS}")
        return found

    @property
    def left(self) -> float:
        """Returns the seconds of the budget that no piece has used."""
        gone = time.perf_counter() - self.began
        return parse_duration(self.split.budget) - self.pieces.seconds - gone

    def given(self, piece: str, seconds: float) -> str:
        """Returns the budget of a piece: `seconds`, or what it was given when it began."""
        known = self.pieces.facts.get(piece, {})
        if "budget" not in known:
            self.pieces.note(piece, budget=say_duration(max(seconds, SHORTEST)))
        return str(self.pieces.facts[piece]["budget"])

    def passed(self, piece: str, result: RunResult | None = None) -> None:
        """Notes what a piece took, where that is not known yet; of a training that went on after a stop, all of it."""
        now = time.perf_counter()
        if "seconds" not in self.pieces.facts.get(piece, {}):
            trained = result.seconds if result else 0.0
            self.pieces.note(piece, seconds=round(max(now - self.began, trained), 1))
        self.began = now

    def _reserve(self) -> float:
        """Returns the seconds to keep for translating."""
        with suppress(OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
            first = self.pieces.folder / "1"
            tokens = json.loads((first / PLAN).read_text(encoding="utf-8"))["facts"]["tokens"]
            result = RunFolder(first).result
            if result is not None and "seconds" in self.pieces.facts.get(first.name, {}):  # and is not an earlier one's
                return EPOCHS_TO_TRANSLATE * self.split.writers * result.seconds * tokens / result.tokens
        return FIRST_RESERVE * parse_duration(self.split.budget)


def _other_way(recipe: Recipe, override: str) -> str:
    """Returns a setting as the mirrored recipe has it, where each side has the vocabulary's size of the other."""
    name, _, value = override.partition("=")
    is_size = name.strip() in SIZES and not recipe.data.joint and recipe.data.target_vocab_size
    return f"{SIZES[name.strip()]}={value}" if is_size else override
