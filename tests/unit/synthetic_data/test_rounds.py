"""Rounds of back-translation: when they end, what each piece is given, and what cannot be gone through."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pellucid.config import DataConfig, Recipe
from pellucid.errors import ConfigError
from pellucid.files.writing import write_json
from pellucid.planning.duration import format_duration
from pellucid.run.folder import RunFolder
from pellucid.synthetic_data import rounds as module
from pellucid.synthetic_data.augmentation import AugmentRequest, SyntheticCorpus
from pellucid.synthetic_data.corpus import NothingLeftError
from pellucid.synthetic_data.mixture import RealData
from pellucid.synthetic_data.rounds import Round, Rounds, run_rounds
from tests.toy_task import reversed_letters, write_pairs

NOTHING = -1.0
"""Stands for a model whose translations are all left out."""
TEXTS = {"src": "train.src", "tgt": "train.tgt", "valid_src": "valid.src", "valid_tgt": "valid.tgt"}
REAL = RealData(Recipe(data=DataConfig(**TEXTS)))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path, reversed_letters(30))
    write_pairs(tmp_path, reversed_letters(5, seed=2), "valid")


def through(monkeypatch: pytest.MonkeyPatch, *scores: float | None) -> list[tuple[Any, ...]]:
    """Has pieces come to these scores, None where the time is up, and returns what each was asked for."""
    asked: list[tuple[Any, ...]] = []
    left = iter(scores)

    def piece(loop: Any, name: str, _: str, request: AugmentRequest, parallel: RealData, more: int) -> Round | None:
        asked.append((name, request.models, request.input, parallel.recipe.data.src, more))
        score = next(left)
        if score == NOTHING:
            raise NothingLeftError("nothing is left of 5 translations: 5 empty", "look")
        return None if score is None else Round(10, score, loop.folder / name)

    monkeypatch.setattr(module._Loop, "through", piece)
    monkeypatch.setattr(module, "open_teacher", lambda *_: None)
    return asked


def run(rounds: Rounds, **given: Any) -> list[Round]:
    request = AugmentRequest(models=("reverse",), input="train.tgt")
    return run_rounds(Path("r"), replace(request, **given), rounds, REAL, device="cpu", log_line=str)


THREE = Rounds(rounds=3, reverse_input="train.src")


def test_both_ways_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = through(monkeypatch, 10, 11, 12, 13, 14)
    found = run(THREE)
    assert [each.bleu for each in found] == [10, 12, 14]
    assert asked == [
        ("round-1/run", ("reverse",), "train.tgt", "train.src", 5),
        ("round-1/other-run", ("r/round-1/run",), "train.src", "train.tgt", 4),
        ("round-2/run", ("r/round-1/other-run",), "train.tgt", "train.src", 3),
        ("round-2/other-run", ("r/round-2/run",), "train.src", "train.tgt", 2),
        ("round-3/run", ("r/round-2/other-run",), "train.tgt", "train.src", 1),
    ]


@pytest.mark.parametrize(
    ("scores", "rounds", "pieces"),
    [
        ((10, NOTHING), 1, 2),
        ((10, 11, NOTHING), 1, 3),
        ((10, 11, 10), 2, 3),
        ((10, 11, 9), 2, 3),
        ((10, None), 1, 2),
        ((10, 11, None), 1, 3),
        ((10, 9, 12, 9, 11), 3, 5),
    ],
)
def test_when_they_end(
    monkeypatch: pytest.MonkeyPatch, scores: tuple[float | None, ...], rounds: int, pieces: int
) -> None:
    asked = through(monkeypatch, *scores)
    assert (len(run(THREE)), len(asked)) == (rounds, pieces)


def test_the_time_is_up_before_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    through(monkeypatch, None)
    with pytest.raises(ConfigError, match="`budget=5m` is too short"):
        run(replace(THREE, budget="5m"))


def test_each_piece_has_an_equal_part_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece that is gone on with has the time that it was given."""
    clock, given = [0.0], list[str]()

    def made(folder: Path, *_: Any, **__: Any) -> SyntheticCorpus:
        clock[0] += 20
        return SyntheticCorpus(folder, {"pairs": 10})

    class Trained:
        def __init__(self, *_: Any, budget: str, **__: Any) -> None:
            given.append(budget)

        def train(self) -> Any:
            clock[0] += 60
            if len(given) == 1:
                raise KeyboardInterrupt
            return SimpleNamespace(seconds=120.0 if len(given) == 2 else 60.0)  # the first one's before the stop, too

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))  # other threads keep theirs
    for name, value in {"augment": made, "Run": Trained, "write_recipe": str, "open_teacher": str}.items():
        monkeypatch.setattr(module, name, value if name in ("augment", "Run") else lambda *_: None)
    monkeypatch.setattr(module.Recipe, "load", lambda *_: REAL.recipe)
    score: Callable[..., float] = lambda *_: 1.0  # noqa: E731
    monkeypatch.setattr(module._Loop, "_score", score)
    with pytest.raises(KeyboardInterrupt):
        run(replace(THREE, rounds=2, budget="10m"))
    run(replace(THREE, rounds=2, budget="10m"))
    first, second = (600 / 3 - 20) * 0.95, ((600 - 120) / 2 - 20) * 0.95
    third = (600 - 120 - 80 - 20) * 0.95
    assert given == [format_duration(int(seconds)) for seconds in (first, first, second, third)]


def test_pieces_of_another_request_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    through(monkeypatch, 10, 9, 8)
    run(replace(THREE, rounds=1))
    run(replace(THREE, rounds=1, reverse_input="train.src"))
    for rounds, given, error in (
        (replace(THREE, rounds=1), {"seed": 2}, "were made with `seed=1`, this command has `seed=2`"),
        (
            replace(THREE, rounds=1, reverse_input="valid.src"),
            {},
            "were made of another text than this command's `reverse_input=`",
        ),
    ):
        with pytest.raises(ConfigError) as refused:
            run(rounds, **given)
        assert str(refused.value) == f"the rounds in `r` {error}"
        assert refused.value.hint.endswith("start over with `fresh=True`")


def test_a_text_that_is_not_named_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    through(monkeypatch, 10, 10)
    run(Rounds(rounds=1))
    Path("new").write_text("beside the rounds", encoding="utf-8")
    run(Rounds(rounds=1))
    assert json.loads(Path("r/rounds.json").read_text(encoding="utf-8"))["request"]["reverse_input"] == [""]


def test_other_real_texts_and_another_recipe_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    through(monkeypatch, 10, 9)
    request, rounds = AugmentRequest(models=("reverse",), input="train.tgt"), replace(THREE, rounds=1)
    run(rounds)
    for changed, error in (
        ({"src": "valid.src", "tgt": "valid.tgt"}, "were made of another text than this command's `src=`"),
        ({"vocab_size": 500}, "were made with `recipe="),
    ):
        other = RealData(replace(REAL.recipe, data=replace(REAL.recipe.data, **changed)))  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=error):
            run_rounds(Path("r"), request, rounds, other, log_line=str)
    record = json.loads(Path("r/rounds.json").read_text(encoding="utf-8"))
    for name in ("recipe", *TEXTS):  # as earlier versions wrote it
        del record["request"][name]
    write_json(Path("r/rounds.json"), record)
    run_rounds(Path("r"), request, rounds, other, device="cpu", log_line=str)


def test_a_fresh_start_leaves_nothing_of_the_earlier_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped before its first piece, it is gone on with by the same command without `fresh`."""
    through(monkeypatch, 10)
    run(replace(THREE, rounds=1))
    earlier = Path("r/round-1")
    for name in ("run", "other-run"):
        RunFolder(earlier / name).begin(REAL.recipe)
        (earlier / name / "model.safetensors").touch()
    (earlier / "pairs").mkdir()
    (earlier / "pairs" / "augmented.json").touch()
    (earlier / "run" / "notes.txt").touch()
    through(monkeypatch, None)
    with pytest.raises(ConfigError, match="is too short"):
        run_rounds(
            Path("r"), AugmentRequest(models=("reverse",), input="train.tgt"), THREE, REAL, fresh=True, log_line=str
        )
    assert [str(path.relative_to(earlier)) for path in sorted(earlier.rglob("*")) if path.is_file()] == [
        "run/notes.txt"
    ]


@pytest.mark.parametrize(
    ("rounds", "given", "error"),
    [
        ({"rounds": 0}, {}, "`rounds=0` must be at least 1"),
        ({"rounds": 2}, {}, "`rounds=2` requires text of the other language, too"),
        (
            {"rounds": 3, "reverse_input": "x", "budget": "2m"},
            {},
            "`budget=2m` leaves 24s for each of 5 training runs",
        ),
        ({"rounds": 1}, {"direction": "forward"}, "`rounds` use back-translation, but `direction=forward` is given"),
        ({"rounds": 1}, {"input": "-"}, "standard input can be read only once, and each round reads its text"),
    ],
)
def test_rounds_that_cannot_be(rounds: dict[str, Any], given: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError) as refused:
        run(Rounds(**rounds), **given)
    assert (str(refused.value).startswith(error), bool(refused.value.hint)) == (True, True)
    assert not Path("r").exists()


def test_folders_of_others_and_no_real_pairs() -> None:
    Path("r").mkdir()
    Path("r/thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="`r` is not empty and holds no rounds"):
        run(Rounds(rounds=1))
    with pytest.raises(ConfigError, match="`rounds` also train on real pairs, and none are given"):
        run_rounds(
            Path("q"),
            AugmentRequest(models=("m",), input="train.tgt"),
            Rounds(rounds=1),
            RealData(Recipe()),
            log_line=str,
        )
