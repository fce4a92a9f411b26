"""Spends a time budget on several teachers and on one student that is trained on their ensemble translations.

After some epochs on a text, a model gains less from further epochs than from an ensemble. The teachers differ only in
their seed and translate the training text together; the run is trained on these translations in addition to the
originals (Freitag et al. 2017, "Ensemble Distillation for Neural Machine Translation"). Back teachers translate in the
reverse direction: each writes sources for the targets, and the run is trained on these pairs, too (Nguyen et al. 2020,
"Data Diversification: A Simple Strategy For Neural Machine Translation"). All are stored in `RUN.teachers`, and
`teachers.json` there records the time given to and used by each. Finished trainings are not repeated, and an
interrupted one is resumed.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from pellucid.config import RECIPE, Recipe
from pellucid.config.tables import rename_override
from pellucid.errors import ConfigError, format_argument
from pellucid.files.reading import read_stored_table
from pellucid.files.writing import convert_write_errors, write_text
from pellucid.planning.duration import SHORTEST, format_duration, parse_duration
from pellucid.planning.request import PlanRequest
from pellucid.run.card import find_languages
from pellucid.run.folder import PLAN, RunFolder, RunResult
from pellucid.run.run import Run
from pellucid.synthetic_data.augmentation import AUGMENTED, AugmentRequest, augment
from pellucid.synthetic_data.corpus import NothingLeftError, digests_of_texts
from pellucid.synthetic_data.distillation import (
    DISTILLED,
    DistillRequest,
    distill_corpus,
    get_corpus_folder,
    make_sibling_path,
)
from pellucid.synthetic_data.ledger import TrainingLedger
from pellucid.synthetic_data.mixture import reverse_direction
from pellucid.synthetic_data.selection import TranslationFilter
from pellucid.synthetic_data.student import check_student, student_run
from pellucid.tasks.search_options import SearchOptions

NOUN = "teachers"
TRANSLATIONS, STUDENT = "translations", "student"
BACK = "back-{}"
"""The name of a back teacher's run folder, next to its pairs."""
PAIRS = "pairs"
SIZES = {"data.vocab_size": "data.tgt_vocab_size", "data.tgt_vocab_size": "data.vocab_size"}
"""The settings of the vocabularies' sizes, and their names after source and target are swapped."""
FIRST_RESERVE = 0.1
"""The part of the budget reserved for translating until the first teacher has measured this machine's speed."""
EPOCHS_TO_TRANSLATE = 2.0
"""The epochs of training that take as long as a teacher's part in translating the text."""
LEAST = 1 / 3
"""The student's smallest part of a teacher's time, however long translating takes."""


@dataclass(frozen=True, kw_only=True)
class TeacherBudget:
    """The trainings that share a time budget."""

    recipe: Recipe
    """The recipe of all trainings, with the paths of its texts."""
    teachers: int
    """The number of models of the run's direction, which write targets as an ensemble."""
    budget: str
    """The total time, as in 1h."""
    overrides: tuple[str, ...] = ()
    """Settings, as `section.key=value`, that override a plan."""
    back_teachers: int = 0
    """The number of models of the reverse direction, each of which writes sources."""

    def __post_init__(self) -> None:
        if self.teachers < 2:
            raise ConfigError(
                f"{format_argument('teachers', self.teachers)} must be at least 2: the translations of a single "
                "model give no gain",
                "3 are usual",
            )
        if self.back_teachers < 0:
            raise ConfigError(
                f"{format_argument('back_teachers', self.back_teachers)} must be at least 0",
                "2 are usual with 3 teachers",
            )
        if not self.budget:
            raise ConfigError(
                f"{format_argument('teachers', self.teachers)} requires a time budget for the teachers and the run",
                "set it, as in `budget=1h`",
            )
        if self.recipe.train.init_from:
            raise ConfigError(
                f"{format_argument('teachers', self.teachers)} must differ in their initial weights, but "
                f"`{self.recipe.train.init_from}` would initialize all of them",
                "leave one of them out",
            )
        if self.back_teachers and self.recipe.data.corpus_tags:
            raise ConfigError(
                f"{format_argument('back_teachers', self.back_teachers)} write sources without tags, but "
                f"`data.corpus_tags` "
                "marks all others",
                "leave one of them out",
            )
        if (each := self.first_part) < SHORTEST:
            least = format_duration((self.writers + 1) * SHORTEST / (1 - FIRST_RESERVE))
            raise ConfigError(
                f"`budget={self.budget}` leaves {format_duration(each)} for each of {self.writers + 1} training runs",
                f"give at least {least}, or use fewer models",
            )
        if self.back_teachers:
            reverse_direction(self.recipe)  # raises for a text with one side before hours of training

    @property
    def writers(self) -> int:
        """Returns the number of models in addition to the run."""
        return self.teachers + self.back_teachers

    @property
    def first_part(self) -> float:
        """Returns the seconds of the first teacher, whose measured speed determines the seconds of the others."""
        return parse_duration(self.budget) * (1 - FIRST_RESERVE) / (self.writers + 1)

    def plan(self, device: str = "auto") -> str:
        """Returns a text with the parts of the budget and the plan of the first teacher."""
        first = format_duration(self.first_part)
        back = f" and {self.back_teachers} of the other direction" if self.back_teachers else ""
        reserve = format_duration(FIRST_RESERVE * parse_duration(self.budget))
        parts = f"{self.teachers} teachers{back} of {first}, about {reserve} to translate, and the run"
        run = Run(self.recipe, None, overrides=self.overrides, budget=first, device=device, quiet=True)
        return f"{self.budget}: {parts}; of the first teacher\n{run.plan}"

    @classmethod
    def load(cls, out: Path) -> Self | None:
        """Returns the budget with which a run's teachers were started, or None if it has none."""
        folder = get_teachers_folder(out)
        table = TrainingLedger.read(folder, NOUN)
        recipe = RunFolder(out).recipe
        if table is None or (recipe is not None and not _is_trained_on(recipe, get_corpus_folder(out))):
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
        """Returns the table for the record of everything that determines the trainings: texts by their content."""
        recipe = PlanRequest.from_recipe(self.recipe, self.budget, self.overrides).recipe
        return digests_of_texts(self.recipe.data) | {
            "teachers": self.teachers, "back_teachers": self.back_teachers, "budget": self.budget,
            "overrides": [*map(rename_override, self.overrides)], "recipe": recipe,
        }  # fmt: skip


def _is_trained_on(recipe: Recipe, corpus: Path) -> bool:
    """Returns True if a run's text is the text of a corpus, even if both were moved."""
    return any(Path(each).parent.name == corpus.name for each in recipe.data.files("src"))


def get_teachers_folder(run: Path) -> Path:
    """Returns the folder of a run's teachers."""
    return make_sibling_path(run, NOUN)


def train_with_teachers(
    split: TeacherBudget,
    out: Path,
    *,
    device: str = "auto",
    fresh: bool = False,
    quiet: bool = False,
    started: float | None = None,
    log_line: Callable[[str], object] = print,
) -> RunResult:
    """Trains all teachers, translates the training text with them, trains the run `out` on it; returns its result.

    Each teacher gets an equal part of the budget, and the run the rest; if translating takes longer than estimated, so
    does the command, since the run gets at least a third of a teacher's part.

    Args:
        fresh: if True, starts all trainings anew.
        started: when the budget began to run, as time.perf_counter() counts; None: now.
        log_line: called with each line of the log.

    Raises ConfigError for texts that no student can be trained on, and if `out` holds another run or other teachers;
    the errors of Run and `distil`.
    """
    folder = get_teachers_folder(out)
    pieces = TrainingLedger.open(folder, NOUN, split.table, fresh=fresh)
    if STUDENT in pieces.facts and (finished := RunFolder(out).result) is not None:
        return finished
    runs = [folder / str(number) for number in range(1, split.teachers + 1)]
    back_runs = [folder / BACK.format(number) for number in range(1, split.back_teachers + 1)]
    request = DistillRequest(
        teachers=tuple(map(str, runs)), data=split.recipe.data, teaching=SearchOptions(), selection=TranslationFilter(),
        ensemble=True,
    )  # fmt: skip
    check_student(split.recipe, out, get_corpus_folder(out), request.teachers, split.budget, device)
    if not fresh and not pieces.facts and RunFolder(out).recipe is not None:
        raise ConfigError(
            f"the run in `{out}` was started without teachers", "choose another `out=`, or leave `teachers=` out"
        )
    with convert_write_errors(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / RECIPE, split.recipe.to_toml())
    if fresh:
        records = [AUGMENTED.get_record(make_sibling_path(run, PAIRS)) for run in back_runs]
        records.append(DISTILLED.get_record(get_corpus_folder(out)))
        pieces.start_over(split.recipe.data, (*runs, *back_runs, out), records)
    course = _Course(split, pieces, device, fresh, quiet, log_line, time.perf_counter() if started is None else started)
    taught = [course.teach(run, number) for number, run in enumerate(runs)]
    for number, run in enumerate(back_runs):
        course.teach(run, number, back=True)
    distilled = distill_corpus(get_corpus_folder(out), request, fresh=fresh, device=device, log_line=log_line)
    course.finish(TRANSLATIONS)
    further = [pair for run in back_runs for pair in course.write_sources(run, distilled.original)]
    least = LEAST * parse_duration(pieces.facts[runs[-1].name]["budget"])
    budget = pieces.choose_budget(STUDENT, max(course.remaining_seconds, least, SHORTEST))
    log_line(f"training the run on their {'' if further else 'ensemble '}translations, for {budget}")
    # The shape was measured once and holds for all trainings. The names of the corpora may lack languages.
    languages = find_languages(split.recipe)
    student = replace(Recipe.load(runs[0] / RECIPE), train=split.recipe.train, languages=languages)
    result = student_run(
        student, out, distilled, further=further, overrides=split.overrides, budget=budget, device=device, fresh=fresh,
        quiet=quiet,
    ).train()  # fmt: skip
    course.finish(STUDENT, result)
    if scores := [f"{each.valid_bleu:.2f}" for each in taught if each.valid_bleu is not None]:
        log_line(f"validation BLEU of the teachers: {', '.join(scores)}")
    return result


@dataclass
class _Course:
    """The sequence of trainings, and the time left for them."""

    split: TeacherBudget
    pieces: TrainingLedger
    device: str
    fresh: bool
    quiet: bool
    log_line: Callable[[str], object]
    began: float
    """The start time of the current training."""

    def teach(self, out: Path, number: int, *, back: bool = False) -> RunResult:
        """Trains a teacher, or a back teacher; returns its result."""
        count = self.split.back_teachers if back else self.split.teachers
        parts = (count if back else self.split.writers) - number + 1
        budget = self.pieces.choose_budget(out.name, max((self.remaining_seconds - self._reserve()) / parts, SHORTEST))
        seed = self.split.recipe.train.seed + number
        settings = [*(each for each in self.split.overrides if not each.startswith("train.seed")), f"train.seed={seed}"]
        recipe = replace(self.split.recipe, train=replace(self.split.recipe.train, seed=seed))
        if back:
            recipe, settings = reverse_direction(recipe), [_other_way(recipe, each) for each in settings]
        self.log_line(f"{'back teacher' if back else 'teacher'} {number + 1} of {count}, for {budget}")
        result = Run(
            recipe, out, overrides=settings, budget=budget, started=self.began, device=self.device, fresh=self.fresh,
            quiet=self.quiet,
        ).train()  # fmt: skip
        self.finish(out.name, result)
        return result

    def write_sources(self, run: Path, targets: Path) -> list[tuple[Path, Path]]:
        """Returns the pairs of a back teacher's sources and the targets; empty if none of its translations pass the
        filter.
        """
        request = AugmentRequest(models=(str(run),), input=str(targets), tag="")
        try:
            pairs = augment(
                make_sibling_path(run, PAIRS), request, fresh=self.fresh, device=self.device, log_line=self.log_line
            )
            found = [pairs.sides]
        except NothingLeftError as error:
            self.log_line(f"the translations of {run} are too bad, and are not used: {error}")
            found = []
        self.finish(f"{run.name} {PAIRS}")
        return found

    @property
    def remaining_seconds(self) -> float:
        """Returns the seconds of the budget that no training has used."""
        gone = time.perf_counter() - self.began
        return parse_duration(self.split.budget) - self.pieces.seconds - gone

    def finish(self, piece: str, result: RunResult | None = None) -> None:
        """Records the time of a training if it is not known yet: the whole time of a training that was resumed."""
        now = time.perf_counter()
        if "seconds" not in self.pieces.facts.get(piece, {}):
            trained = result.seconds if result else 0.0
            self.pieces.note(piece, seconds=round(max(now - self.began, trained), 1))
        self.began = now

    def _reserve(self) -> float:
        """Returns the seconds to reserve for translating."""
        with suppress(KeyError, TypeError, ZeroDivisionError):
            first = self.pieces.folder / "1"
            tokens = read_stored_table(first / PLAN)["facts"]["tokens"]
            result = RunFolder(first).result
            if result is not None and "seconds" in self.pieces.facts.get(first.name, {}):  # and is not an earlier one
                return EPOCHS_TO_TRANSLATE * self.split.writers * result.seconds * tokens / result.tokens
        return FIRST_RESERVE * parse_duration(self.split.budget)


def _other_way(recipe: Recipe, override: str) -> str:
    """Returns a setting's name in the reversed recipe, where each side has the vocabulary size of the other."""
    name, _, value = override.partition("=")
    is_size = name.strip() in SIZES and not recipe.data.joint_vocab and recipe.data.tgt_vocab_size
    return f"{SIZES[name.strip()]}={value}" if is_size else override
