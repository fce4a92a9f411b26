"""TensorBoard, which takes a run's numbers once and stops no run; and the guide's hooks for other programs."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pellucid.config import TrainConfig
from pellucid.errors import ConfigError
from pellucid.run.run import Run
from pellucid.training import trackers
from pellucid.training.log import RunLog
from tests.docs.pages import ROOT, Page
from tests.processes import run_python
from tests.toy_task import reversed_letters, small_arguments, small_recipe, write_pairs

GUIDE = Page(ROOT / "docs" / "guides" / "more-of-training.md")
ASKED = ("tensorboard",)


@pytest.mark.parametrize(
    ("switch", "report_to", "found"),
    [
        ("", (), []), ("auto", ("mlflow", "tensorboard"), ["tensorboard"]), ("on", (), ["tensorboard"]),
        ("1", ("mlflow",), ["tensorboard"]), ("OFF", ASKED, []), ("0", (), []), ("auto", ("trackio", "mlflow"), []),
    ],
)  # fmt: skip
def test_what_is_wanted(
    monkeypatch: pytest.MonkeyPatch, switch: str, report_to: tuple[str, ...], found: list[str]
) -> None:
    monkeypatch.setenv("PELLUCID_TENSORBOARD", switch)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert trackers.select_trackers(report_to) == found


def test_what_is_wanted_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"^the run's metrics are to be written to tensorboard, which is not installed$"
    ) as e:
        trackers.select_trackers(ASKED)
    assert "[tensorboard]" in e.value.hint
    monkeypatch.setenv("PELLUCID_TENSORBOARD", "maybe")
    with pytest.raises(ConfigError, match=r"^`PELLUCID_TENSORBOARD` in the environment \(maybe\) must be auto, on or"):
        trackers.select_trackers([])


def test_a_run_says_so_before_it_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(40))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="are to be written to tensorboard, which is not installed"):
        Run(small_recipe(src, tgt, "train.report_to=tensorboard"), tmp_path / "run", device="cpu", quiet=True)
    assert not (tmp_path / "run").exists()


def test_the_setting() -> None:
    assert TrainConfig().report_to == ()
    assert TrainConfig(report_to="tensorboard").report_to == ("tensorboard",)
    with pytest.raises(ConfigError, match=r"^`report_to` \(wandb\) must be tensorboard$"):
        TrainConfig(report_to=("tensorboard", "wandb"))


def test_a_recipe_that_names_programs_of_an_earlier_version_opens_and_warns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = TrainConfig(report_to=("mlflow", "trackio")).report_to
    log = RunLog(tmp_path, 10, report_to=asked)
    log.write("train", 1, loss=0.5)
    log.close()
    told = "warning: `report_to` (mlflow, trackio): only TensorBoard is supported, other trackers are served by hooks\n"
    assert capsys.readouterr().err == told
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


class Writer:
    """Stands in for TensorBoard's."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.given: list[Any] = []
        self.closed = False
        self.error: Exception | None = None

    def add_scalar(self, name: str, value: float, step: int) -> None:
        if self.error is not None:
            raise self.error
        self.given.append((name, value, step))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def boards(monkeypatch: pytest.MonkeyPatch) -> list[Writer]:
    """The writers of each log that the test opens."""
    opened: list[Writer] = []

    def open_writer(folder: str) -> Writer:
        opened.append(Writer(folder))
        return opened[-1]

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = open_writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    return opened


def test_numbers_alone_are_given(tmp_path: Path, boards: list[Writer], capsys: pytest.CaptureFixture[str]) -> None:
    log = RunLog(tmp_path, 10, report_to=ASKED)
    log.write("train", 7, loss=0.5, tokens=9, bleu=None, text="x", worst=float("nan"), each=[1, 2])
    log.write("candidate", 7, loss=0.5)
    log.close()
    assert boards[0].given == [("train/loss", 0.5, 7), ("train/tokens", 9.0, 7)]
    assert boards[0].closed
    assert boards[0].folder == str(tmp_path / "tensorboard")
    assert capsys.readouterr().err == "the run's metrics are also written to tensorboard\n"


def test_a_resumed_run_gives_each_step_once(tmp_path: Path, boards: list[Writer]) -> None:
    first = RunLog(tmp_path, 10, quiet=True, report_to=ASKED)
    for step in (1, 2, 3):
        first.write("train", step, loss=float(step))
    first.write("validation", 3, loss=9.0)
    first.close()
    second = RunLog(tmp_path, 10, quiet=True, report_to=ASKED)
    second.resume_at(2)
    for step in (3, 4):
        second.write("train", step, loss=float(step))
    assert boards[1].given == [("train/loss", 4.0, 4)]
    record = json.loads((tmp_path / "trackers.json").read_text(encoding="utf-8"))
    assert record["tensorboard"] == {"given": {"train": 4, "validation": 3}}


def test_a_run_that_is_asked_later_gives_all_steps(tmp_path: Path, boards: list[Writer]) -> None:
    first = RunLog(tmp_path, 10, quiet=True)
    for step in (1, 2):
        first.write("train", step, loss=float(step))
    first.close()
    second = RunLog(tmp_path, 10, quiet=True, report_to=ASKED)
    second.resume_at(2)
    second.write("train", 3, loss=3.0)
    assert [step for _, _, step in boards[0].given] == [1, 2, 3]


def test_one_that_fails_ends_nothing_else(
    tmp_path: Path, boards: list[Writer], capsys: pytest.CaptureFixture[str]
) -> None:
    log = RunLog(tmp_path, 10, report_to=ASKED)
    boards[0].error = OSError(28, "No space left on device")
    for step in (1, 2):
        log.write("train", step, loss=0.5)
    assert capsys.readouterr().err.count("warning: tensorboard receives no more metrics: [Errno 28] No space left") == 1
    assert len((tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 2


class Program(ModuleType):
    """Stands in for mlflow or trackio: notes its calls."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls: list[tuple[str, Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda numbers=None, step=None, **given: self.calls.append((name, numbers or given, step))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "logs"), [("mlflow", "log_metrics"), ("trackio", "log")])
def test_the_hooks_of_the_guide_give_each_program_the_numbers(
    name: str, logs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = re.findall(rf"<!-- test: {name} -->\n```py\n(.*?)^```$", GUIDE.text, re.MULTILINE | re.DOTALL)[0]
    recipe = small_recipe(*write_pairs(tmp_path, reversed_letters(80)), "train.steps=4", "train.log_every=1")
    (tmp_path / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    program = Program(name)
    monkeypatch.setitem(sys.modules, name, program)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(GUIDE), "exec"), {})
    steps = [step for call, numbers, step in program.calls if call == logs and "train/loss" in numbers]
    assert steps == [1, 2, 3, 4]
    (metrics,) = (tmp_path / "runs").glob("*/metrics.jsonl")
    lines = map(json.loads, metrics.read_text(encoding="utf-8").splitlines())
    losses = [line["loss"] for line in lines if line["event"] == "train"]
    given = [round(numbers["train/loss"], 4) for _, numbers, _ in program.calls if "train/loss" in numbers]
    assert given == losses
    assert any("valid/loss" in numbers for _, numbers, _ in program.calls)
    assert [call for call, *_ in program.calls][-1] == {"mlflow": "end_run", "trackio": "finish"}[name]


@pytest.mark.foreign
def test_tensorboard_has_the_numbers_of_a_resumed_run(tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(80))
    words = small_arguments(src, tgt, tmp_path / "run", "train.steps=8", "train.save_every=4")
    run = tmp_path / "run"
    for step in (8, 4):
        done = run_python("-m", "pellucid", *words, "--set", "train.report_to=tensorboard")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert "warning" not in done.stderr
        if step == 8:  # as if it had been killed behind step 6
            (run / "result.json").unlink()
            (run / "checkpoints/step-00000008/state.json").unlink()
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    losses = [(line["step"], line["loss"]) for line in lines if line["event"] == "train"]
    assert [step for step, _ in losses] == list(range(1, 9))

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(run / "tensorboard"))
    board.Reload()
    assert [(each.step, pytest.approx(each.value)) for each in board.Scalars("train/loss")] == losses
