"""A budget of several models: what each is given, what is gone on with after a stop, what is refused."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import Recipe
from pellucid.errors import ConfigError, DataError
from pellucid.files.writing import write_json, write_text
from pellucid.planning.duration import parse_duration
from pellucid.run.folder import RunFolder, RunResult
from pellucid.synthetic_data import teachers
from pellucid.synthetic_data.augmentation import SyntheticCorpus
from pellucid.synthetic_data.corpus import NothingLeftError
from pellucid.synthetic_data.distillation import DistilledCorpus
from pellucid.synthetic_data.teachers import TeacherBudget, train_with_teachers
from tests.toy_task import reversed_letters, write_pairs

CORPUS_TOKENS = 1000


@dataclass
class World:
    """Stands for what takes time: trainings that last as long as they are given, and translating."""

    now: float = 0.0
    translating: float = 100.0
    epochs: float = 20.0
    """Those of a teacher."""
    stops_at: str = ""
    """The name of the run that is stopped once, when it begins."""
    given: dict[str, float] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)
    recipes: dict[str, Recipe] = field(default_factory=dict)
    settings: dict[str, list[str]] = field(default_factory=dict)
    further: dict[str, Any] = field(default_factory=dict)
    """The pairs that a run learns beside its corpus."""
    back: dict[str, str] = field(default_factory=dict)
    """The text that each back teacher wrote sources for."""

    def perf_counter(self) -> float:
        return self.now

    def run(self, recipe: Recipe, out: Path, *_: object, budget: str, fresh: bool, **options: Any) -> "Training":
        self.recipes[out.name] = recipe
        self.settings[out.name] = [*options["overrides"]]
        self.further[out.name] = options.get("further")
        return Training(self, recipe, out, parse_duration(budget), fresh)

    def distil(self, folder: Path, *_: Any, **__: Any) -> DistilledCorpus:
        self.now += self.translating
        return DistilledCorpus(folder, folder / "train.de", folder / "train.en", None, None, True, {})

    def augment(self, folder: Path, request: Any, **_: Any) -> SyntheticCorpus:
        if self.stops_at == folder.name:
            self.stops_at = ""
            self.now += 5.0
            raise KeyboardInterrupt
        self.now += self.translating
        self.back[request.models[0]] = request.input
        return SyntheticCorpus(folder, {})


@dataclass
class Training:
    world: World
    recipe: Recipe
    out: Path
    seconds: float
    fresh: bool = False

    def train(self) -> RunResult:
        folder = RunFolder(self.out)
        if folder.result is not None and not self.fresh:
            return folder.result
        self.world.given[self.out.name] = self.seconds
        self.world.seeds[self.out.name] = self.recipe.train.seed
        if self.world.stops_at == self.out.name:
            self.world.stops_at = ""
            raise KeyboardInterrupt
        self.world.now += self.seconds
        self.out.mkdir(parents=True, exist_ok=True)
        write_text(self.out / "recipe.toml", self.recipe.to_toml())
        write_json(self.out / "plan.json", {"facts": {"tokens": CORPUS_TOKENS}})
        tokens = round(self.world.epochs * CORPUS_TOKENS)
        result = RunResult(str(self.out), 10, tokens, self.seconds, 10, 1.0, 30.0 + len(self.world.given))
        folder.finish(result)
        return result


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()
    monkeypatch.setattr(teachers, "time", found)
    monkeypatch.setattr(teachers, "Run", found.run)
    monkeypatch.setattr(teachers, "student_run", found.run)
    monkeypatch.setattr(teachers, "distill_corpus", found.distil)
    monkeypatch.setattr(teachers, "augment", found.augment)
    return found


def split(folder: Path, budget: str = "1h", number: int = 3, **data: Any) -> TeacherBudget:
    src, tgt = write_pairs(folder, reversed_letters(40))
    recipe = Recipe.load("default")
    recipe = replace(recipe, data=replace(recipe.data, src=src, tgt=tgt, **data), train=replace(recipe.train, seed=5))
    return TeacherBudget(recipe=recipe, teachers=number, budget=budget)


def test_each_has_an_equal_part_of_what_translating_leaves(world: World, tmp_path: Path) -> None:
    said: list[str] = []
    result = train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu", log_line=said.append)
    first = 3600 * 0.9 / 4
    reserve = 2 * 3 * first / 20  # two epochs of the first teacher for each of three
    others = (3600 - first - reserve) / 3
    assert world.given == pytest.approx(
        {"1": first, "2": others, "3": others, "run": 3600 - first - 2 * others - 100}, abs=2
    )
    assert world.seeds == {"1": 5, "2": 6, "3": 7, "run": 5}
    assert world.now == pytest.approx(3600, abs=2)
    assert (result.folder, result.already_finished) == (str(tmp_path / "run"), False)
    assert said[0] == "teacher 1 of 3, for 13m30s"
    assert said[-1] == "validation BLEU of the teachers: 31.00, 32.00, 33.00"
    assert train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu").already_finished
    assert len(world.given) == 4, "and nothing is trained again"


def both_ways(folder: Path, budget: str = "1h", back: int = 2, **data: Any) -> TeacherBudget:
    return replace(split(folder, budget, **data), back_teachers=back)


def test_back_teachers_write_sources_for_the_same_targets(world: World, tmp_path: Path) -> None:
    asked = both_ways(tmp_path)
    said: list[str] = []
    train_with_teachers(asked, tmp_path / "run", device="cpu", log_line=said.append)
    first = 3600 * 0.9 / 6
    others = (3600 - first - 2 * 5 * first / 20) / 5
    parts = {"1": first, "2": others, "3": others, "back-1": others, "back-2": others}
    assert world.given == pytest.approx(parts | {"run": 3600 - first - 4 * others - 300}, abs=3)
    assert world.seeds == {"1": 5, "2": 6, "3": 7, "back-1": 5, "back-2": 6, "run": 5}
    src, tgt = asked.recipe.data.src, asked.recipe.data.tgt
    for name, files in [("1", (src, tgt)), ("back-1", (tgt, src))]:
        assert (world.recipes[name].data.src, world.recipes[name].data.tgt) == files
    folder = tmp_path / "run.teachers"
    assert world.back == {str(folder / f"back-{n}"): str(tmp_path / "run.distilled/original.en") for n in (1, 2)}
    pairs = [(folder / f"back-{n}.pairs/train.src", folder / f"back-{n}.pairs/train.tgt") for n in (1, 2)]
    assert world.further["run"] == pairs
    assert said[3] == "back teacher 1 of 2, for 9m18s"
    assert TeacherBudget.load(tmp_path / "run") == replace(asked, recipe=Recipe.load(folder / "recipe.toml"))
    for text in (src, tgt):  # where the texts are gone, a finished run is finished all the same
        Path(str(text)).rename(f"{text}.gone")
    assert TeacherBudget.load(tmp_path / "run") is not None
    for text in (src, tgt):
        Path(f"{text}.gone").rename(str(text))
    with pytest.raises(ConfigError, match="were made with `back_teachers=2`, this command has `back_teachers=0`"):
        train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu", log_line=str)


def test_sizes_of_vocabularies_change_sides(world: World, tmp_path: Path) -> None:
    """What somebody asked for is not planned anew: for the other direction the same sizes, of the other sides."""
    sizes = ("data.vocab_size=300", "data.tgt_vocab_size=400", "model.dropout=0.2")
    asked = both_ways(tmp_path, back=1, joint_vocab=False, vocab_size=300, tgt_vocab_size=400)
    train_with_teachers(replace(asked, overrides=sizes), tmp_path / "run", device="cpu", log_line=str)
    assert world.settings["1"] == [*sizes, "train.seed=5"]
    turned = ["data.tgt_vocab_size=300", "data.vocab_size=400", "model.dropout=0.2", "train.seed=5"]
    assert world.settings["back-1"] == turned
    back = world.recipes["back-1"].data
    assert (back.vocab_size, back.tgt_vocab_size) == (400, 300)


@pytest.mark.parametrize("stopped", ["back-1", "back-1.pairs", "back-2.pairs"])
def test_what_is_stopped_in_the_other_direction_goes_on_within_the_time(
    world: World, tmp_path: Path, stopped: str
) -> None:
    world.stops_at = stopped
    with pytest.raises(KeyboardInterrupt):
        train_with_teachers(both_ways(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    world.now += 5000.0  # between two commands time costs nothing
    train_with_teachers(both_ways(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    assert sum(world.given.values()) + 300 == pytest.approx(3600, abs=3)
    assert len(world.further["run"]) == 2


def test_a_fresh_start_makes_the_other_direction_anew(world: World, tmp_path: Path) -> None:
    train_with_teachers(both_ways(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    record = tmp_path / "run.teachers/back-1.pairs/augmented.json"
    record.parent.mkdir()
    record.touch()
    world.given.clear()
    world.stops_at = "back-1"
    with pytest.raises(KeyboardInterrupt):
        train_with_teachers(both_ways(tmp_path), tmp_path / "run", device="cpu", fresh=True, log_line=str)
    assert not record.exists()
    train_with_teachers(both_ways(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    assert [*world.given] == ["1", "2", "3", "back-1", "back-2", "run"]


def test_a_back_teacher_that_writes_nothing_of_use_is_left_out(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(folder: Path, request: Any, **_: Any) -> SyntheticCorpus:
        if request.models[0].endswith("back-1"):
            raise NothingLeftError("nothing is left of 40 translations: 40 empty")
        return SyntheticCorpus(folder, {})

    monkeypatch.setattr(teachers, "augment", nothing)
    said: list[str] = []
    train_with_teachers(replace(split(tmp_path), back_teachers=2), tmp_path / "run", device="cpu", log_line=said.append)
    assert [pair[0].parent.name for pair in world.further["run"]] == ["back-2.pairs"]
    told = "back-1 are too bad, and are not used: nothing is left of 40"
    assert any(told in line for line in said)


def test_a_record_of_before_there_were_back_teachers_is_gone_on_with(world: World, tmp_path: Path) -> None:
    train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    path = tmp_path / "run.teachers/teachers.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    del record["request"]["back_teachers"]
    write_json(path, record)
    assert train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu").already_finished
    with pytest.raises(ConfigError, match="were made without `back_teachers=`, this command has `back_teachers=2`"):
        train_with_teachers(both_ways(tmp_path), tmp_path / "run", device="cpu")


def test_another_text_is_refused_until_a_fresh_start(world: World, tmp_path: Path) -> None:
    train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    path = tmp_path / "run.teachers/teachers.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    (tmp_path / "other").mkdir()
    other = split(tmp_path / "other")
    assert other.recipe.data.src != split(tmp_path).recipe.data.src
    assert train_with_teachers(other, tmp_path / "run", device="cpu").already_finished, "the same text elsewhere"
    Path(other.recipe.data.files("tgt")[0]).write_text("a\n" * 40, encoding="utf-8")
    with pytest.raises(ConfigError, match="were made of another text than this command's `tgt=`"):
        train_with_teachers(other, tmp_path / "run", device="cpu")
    for name in ("src", "tgt", "valid_src", "valid_tgt"):  # as earlier versions wrote it
        record["request"].pop(name, None)
    write_json(path, record)
    assert train_with_teachers(other, tmp_path / "run", device="cpu").already_finished


def test_where_translating_takes_long_the_run_has_a_third_of_a_teachers_part(world: World, tmp_path: Path) -> None:
    world.translating = 5000.0
    train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    assert world.given["run"] == pytest.approx(world.given["3"] / 3, abs=1)


@pytest.mark.parametrize("stopped", ["1", "2", "run"])
def test_the_same_command_goes_on_with_the_same_parts(world: World, tmp_path: Path, stopped: str) -> None:
    whole = World(translating=world.translating)
    world.stops_at = stopped
    with pytest.raises(KeyboardInterrupt):
        train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    before = dict(world.given)
    begun = TeacherBudget.load(tmp_path / "run")
    assert begun is not None
    assert begun.table == split(tmp_path).table, "what was begun is known from the folder alone"
    train_with_teachers(begun, tmp_path / "run", device="cpu", log_line=str)
    assert {name: world.given[name] for name in before} == before
    assert sum(world.given.values()) <= 3600 - whole.translating + 1


def test_a_plateau_leaves_its_time_to_those_that_come(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Training.train

    def early(training: Training) -> RunResult:
        if training.out.name == "1":
            training.seconds = 60.0
        return train(training)

    monkeypatch.setattr(Training, "train", early)
    train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    assert world.given["2"] == pytest.approx((3600 - 60 - 2 * 3 * 60 / 20) / 3, abs=1)


def test_another_division_is_refused_and_made_by_a_fresh_start(world: World, tmp_path: Path) -> None:
    train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    with pytest.raises(
        ConfigError, match=r"the teachers in `.*run\.teachers` were made with `teachers=3`, this command"
    ):
        train_with_teachers(split(tmp_path, number=2), tmp_path / "run", device="cpu", log_line=str)
    world.given.clear()
    train_with_teachers(split(tmp_path, number=2), tmp_path / "run", device="cpu", fresh=True, log_line=str)
    assert [*world.given] == ["1", "2", "run"]
    assert world.given["1"] == pytest.approx(3600 * 0.9 / 3, abs=1)


@pytest.mark.parametrize("stopped", ["1", "2", "run"])
def test_a_fresh_start_that_is_stopped_goes_on_with_what_is_its_own(world: World, tmp_path: Path, stopped: str) -> None:
    asked = split(tmp_path, "30m", number=2)
    train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    world.stops_at = stopped
    with pytest.raises(KeyboardInterrupt):
        train_with_teachers(asked, tmp_path / "run", device="cpu", fresh=True, log_line=str)
    world.given.clear()
    train_with_teachers(asked, tmp_path / "run", device="cpu", log_line=str)
    names = ["1", "2", "run"]
    assert [*world.given] == names[names.index(stopped) :], "nothing of the earlier training is taken for this one's"


def test_a_fresh_start_on_a_text_that_cannot_be_read_removes_nothing(world: World, tmp_path: Path) -> None:
    asked = split(tmp_path)
    train_with_teachers(asked, tmp_path / "run", device="cpu", log_line=str)
    before = sorted(tmp_path.rglob("*"))
    Path(asked.recipe.data.files("src")[0]).write_bytes(b"\xff\n")
    with pytest.raises(DataError):
        train_with_teachers(asked, tmp_path / "run", device="cpu", fresh=True, log_line=str)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_of_its_own_is_not_one_of_the_teachers_that_are_left_beside_it(world: World, tmp_path: Path) -> None:
    train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu", log_line=str)
    RunFolder(tmp_path / "run").clear()
    Training(world, split(tmp_path).recipe, tmp_path / "run", 60.0).train()
    (tmp_path / "run/model.safetensors").touch()
    assert TeacherBudget.load(tmp_path / "run") is None


def test_a_run_that_began_alone_gets_no_teachers(world: World, tmp_path: Path) -> None:
    Training(world, split(tmp_path).recipe, tmp_path / "run", 60.0).train()
    (tmp_path / "run/model.safetensors").touch()
    with pytest.raises(ConfigError, match="was started without teachers"):
        train_with_teachers(split(tmp_path), tmp_path / "run", device="cpu", log_line=str)


@pytest.mark.parametrize(
    ("number", "budget", "message"),
    [
        (1, "1h", "`teachers=1` must be at least 2"),
        (3, "", "`teachers=3` requires a time budget"),
        (3, "2m", "`budget=2m` leaves 27s for each of 4 training runs"),
    ],
)
def test_what_cannot_be(tmp_path: Path, number: int, budget: str, message: str) -> None:
    with pytest.raises(ConfigError) as found:
        split(tmp_path, budget, number)
    assert message in str(found.value)


def test_back_teachers_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`back_teachers=-1` must be at least 0"):
        both_ways(tmp_path, back=-1)
    with pytest.raises(
        ConfigError, match=r"`back_teachers=2` write sources without tags, but `data\.corpus_tags` marks all"
    ):
        both_ways(tmp_path, corpus_tags=("<a>",))
    with pytest.raises(ConfigError, match=r"`budget=3m` leaves 14s for each of 12 training runs") as found:
        both_ways(tmp_path, "3m", back=8)
    assert found.value.hint == "give at least 6m40s, or use fewer models"
    with pytest.raises(ConfigError, match=r"`data\.test_tgt=` is not given"):  # which nothing else asks for
        both_ways(tmp_path, test_src=str(tmp_path / "train.src"))


def test_one_start_for_all_is_refused(tmp_path: Path) -> None:
    one = split(tmp_path)
    with pytest.raises(
        ConfigError, match="must differ in their initial weights, but `old` would initialize all of them"
    ):
        replace(one, recipe=replace(one.recipe, train=replace(one.recipe.train, init_from="old")))


def test_what_no_student_can_learn_is_said_before_a_teacher_is_trained(world: World, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`data\.corpus_weights`"):
        train_with_teachers(split(tmp_path, corpus_weights=(1.0,)), tmp_path / "run", device="cpu", log_line=str)
    assert not world.given
