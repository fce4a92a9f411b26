"""A Run is looked at and changed from Python: nothing is written before it trains, and the same script goes on."""

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.config import ModelConfig, Recipe
from pellucid.data.prepare import Corpus, TrainingData
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.files import records
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.families import build_model
from pellucid.model.parts import Parts
from pellucid.run import init_from as start_module
from pellucid.run import session
from pellucid.run.folder import RunFolder, read_stored_recipe
from pellucid.run.run import Run, train
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import TokenizerPair
from pellucid.training.events import StepEvent, ValidationEvent
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.loss import CrossEntropy, Losses
from pellucid.training.schedule import learning_rate
from pellucid.weights.opening import open_folder
from pellucid.weights.tensors import load_tensors
from tests.toy_task import reversed_letters, small_recipe, write_pairs
from tests.unit.run.test_run import at_step, contents, interrupt, metrics

PAIRS = reversed_letters(60)


class Letters:
    """A tokenizer of one's own: letters have ids, spaces have none."""

    size, pad_id, bos_id, eos_id, unk_id = 30, 0, 1, 2, 3

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - 93 if "a" <= letter <= "z" else self.unk_id for letter in text if letter != " "]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(chr(number + 93) for number in ids if number > self.unk_id)


class Halved(MultiHeadAttention):
    """An attention of one's own with Pellucid's parameters."""

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return 0.5 * super().forward(*args, **kwargs)


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return small_recipe(*write_pairs(tmp_path, PAIRS))


def weights(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def test_making_and_looking_writes_nothing(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    assert (run.plan, run.recipe.train, type(run.data)) == (None, recipe.train, Corpus)
    assert (run.tokenizers.source.size, run.model.config.src_vocab_size) == (12, 12)
    assert run.loss == CrossEntropy(recipe.train.label_smoothing)
    assert isinstance(run.optimizer, torch.optim.AdamW)
    assert [run.schedule(step) for step in (1, 6)] == [learning_rate(step, recipe.train, 16) for step in (1, 6)]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_looking_changes_nothing_of_what_is_trained(recipe: Recipe, tmp_path: Path) -> None:
    train(recipe, tmp_path / "plain", device="cpu", quiet=True)
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    first = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    assert torch.equal(torch.random.get_rng_state(), before), "random numbers of one's own go on"
    assert run.optimizer is run.optimizer
    assert len(run.data) == len(list(run.data.train()))
    torch.manual_seed(recipe.train.seed)
    for name, tensor in build_model(run.model.config).state_dict().items():
        torch.testing.assert_close(first[name], tensor, rtol=0, atol=0)
    result = run.train()
    assert (result.steps, result.already_finished) == (6, False)
    assert weights(tmp_path / "run") == weights(tmp_path / "plain")
    assert run.train().already_finished


@pytest.mark.slow
def test_what_was_looked_at_follows_what_is_replaced_later(recipe: Recipe, tmp_path: Path) -> None:
    other = replace(recipe, train=replace(recipe.train, seed=recipe.train.seed + 1, weight_decay=0.5))
    train(other, tmp_path / "other", device="cpu", quiet=True)
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    assert run.model.training
    assert run.optimizer.param_groups[0]["weight_decay"] == recipe.train.weight_decay
    run.recipe = other
    assert run.optimizer.param_groups[0]["weight_decay"] == 0.5
    run.train()
    assert weights(tmp_path / "run") == weights(tmp_path / "other")


def test_the_model_follows_the_scale_of_the_embeddings(recipe: Recipe) -> None:
    run = Run(recipe, None, device="cpu", quiet=True)
    whole = run.model.state_dict()["src_embedding.tokens.weight"]
    run.recipe = replace(recipe, train=replace(recipe.train, embedding_init_scale=0.25))
    assert torch.equal(run.model.state_dict()["src_embedding.tokens.weight"], whole * 0.25)


def test_encoding_the_texts_counts_in_the_time_budget(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(recipe, train=replace(recipe.train, budget=1e5, schedule="wsd", learning_rate=0.01))
    encode, encoded = session.prepare, list[float]()

    def note(*args: Any, **options: Any) -> TrainingData:
        encoded.append(time.perf_counter())
        return encode(*args, **options)

    monkeypatch.setattr(session, "prepare", note)
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    run.on_step(lambda event: event.stop())
    run.train()
    assert run._trainer is not None
    assert run._trainer.stopping.clock is not None
    assert run._trainer.stopping.clock.started < encoded[0]


def test_a_loss_that_is_replaced_late_has_its_parameters_trained(recipe: Recipe) -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

    run = Run(recipe, None, device="cpu", quiet=True)
    assert run.optimizer.param_groups
    run.loss = loss = Scaled()
    assert any(p is loss.scale for group in run.optimizer.param_groups for p in group["params"])


@pytest.mark.parametrize("looked", [True, False])
def test_a_maker_of_optimizers_outlives_a_model_of_another_shape(recipe: Recipe, looked: bool) -> None:
    run = Run(recipe, None, device="cpu", quiet=True)
    run.optimizer = lambda model: torch.optim.SGD(model.parameters(), lr=0.1)
    assert not looked or run.optimizer.param_groups
    run.recipe = replace(recipe, model=replace(recipe.model, d_ff=24))
    assert isinstance(run.optimizer, torch.optim.SGD)
    assert [*run.optimizer.param_groups[0]["params"]] == [*run.model.parameters()]


def test_an_optimizer_of_another_model_is_refused_and_not_left_out(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    run.optimizer = torch.optim.SGD(run.model.parameters(), lr=0.1)
    run.model = build_model(run.model.config)
    with pytest.raises(ConfigError, match=r"parameters of `optimizer` \(SGD\) do not belong to the model$"):
        run.train()


@pytest.mark.slow
def test_hooks_see_the_optimizer_that_trains(recipe: Recipe, tmp_path: Path) -> None:
    run, seen = Run(recipe, tmp_path / "run", device="cpu", quiet=True), list[tuple[float, float]]()

    @run.on_step
    def look(event: StepEvent) -> None:
        seen.append((run.optimizer.param_groups[0]["lr"], event.learning_rate))

    run.train()
    assert seen
    assert all(rate == told for rate, told in seen)


@pytest.mark.slow
def test_after_training_the_model_is_that_of_the_folder(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    run.train()
    stored = load_tensors(tmp_path / "run" / "model.safetensors")
    assert not run.model.training
    for name, parameter in run.model.named_parameters():
        torch.testing.assert_close(parameter.detach(), stored.get(name, parameter.detach()), rtol=0, atol=0)
    translated = [t.text for t in Translator(run.model, run.tokenizers).translate(["a b c", "h"], beam_size=1)]
    assert translated == [
        t.text for t in Translator.load(tmp_path / "run", "cpu").translate(["a b c", "h"], beam_size=1)
    ]


def test_of_a_finished_run_the_texts_are_not_needed(finished_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished_run, tmp_path / "run")
    before = contents(folder)
    run = Run(
        replace(read_stored_recipe(folder), data=replace(read_stored_recipe(folder).data, src="gone")),
        folder,
        device="cpu",
    )
    assert not run.model.training
    assert run.train().already_finished
    assert contents(folder) == before


def test_without_a_folder_there_is_no_training(recipe: Recipe) -> None:
    run = Run(recipe, None, device="cpu", quiet=True)
    assert sum(p.numel() for p in run.model.parameters()) > 0
    with pytest.raises(ConfigError, match=r"^this run has no folder \(`out` is None\), so it cannot train$"):
        run.train()


def test_a_run_that_somebody_trains_is_refused_when_it_is_made(recipe: Recipe, tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path / "run").lock(),
        pytest.raises(ConfigError, match=r"^another process .* is training in"),
    ):
        Run(recipe, tmp_path / "run", quiet=True)


@pytest.mark.parametrize(("place", "said"), [("x/run", "Not a directory"), ("locked/run", "Permission denied")])
def test_a_place_that_cannot_be_written_is_refused_before_a_text_is_read(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, said: str
) -> None:
    (tmp_path / "x").touch()
    (tmp_path / "locked").mkdir()
    # Of root's rights there is nothing that it lacks.
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "locked")
    monkeypatch.setattr("pellucid.run.inputs.open_corpus", lambda *_: pytest.fail("a text was read"))
    with pytest.raises(ConfigError, match=f"^cannot write to `{tmp_path / place}`: {said}$"):
        Run(recipe, tmp_path / place, quiet=True)


@pytest.mark.slow
def test_the_same_run_goes_on_after_an_interruption(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(recipe, tmp_path / "unbroken", device="cpu", quiet=True)
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    with monkeypatch.context() as patch:
        at_step(3, interrupt, patch)
        with pytest.raises(TrainingInterrupted):
            run.train()
    assert run.train().steps == 6
    assert weights(tmp_path / "run") == weights(tmp_path / "unbroken")


@pytest.mark.slow
def test_hooks_tell_steer_and_write_numbers(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    steps: list[StepEvent] = []
    validations: list[ValidationEvent] = []
    ended: list[int] = []

    @run.on_step
    def noted(event: StepEvent) -> dict[str, float]:
        steps.append(event)
        if event.step == 4:
            run.stop()
        return {"twice": 2 * event.loss}

    run.on_validation(validations.append)
    run.on_end(lambda event: ended.append(event.step))
    result = run.train()
    assert (result.steps, result.stopped_early, ended) == (4, True, [4])
    assert [event.step for event in validations] == [3, 4]
    lines = {line["step"]: line for line in metrics(tmp_path / "run") if line["event"] == "train"}
    assert [lines[event.step]["twice"] for event in steps] == [2 * event.loss for event in steps]
    assert [event.learning_rate for event in steps] == [run.schedule(step) for step in (1, 2, 3, 4)]


@pytest.mark.slow
def test_a_schedule_may_be_replaced_while_the_run_trains(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    rates = []

    def lowered(event: StepEvent) -> None:
        rates.append(event.learning_rate)
        if event.step == 2:
            run.schedule = lambda step: 1e-5 * step

    run.on_step(lowered)
    run.train()
    assert rates[2:] == pytest.approx([3e-5, 4e-5, 5e-5, 6e-5])


def doubled(model: nn.Module, batch: Any) -> Losses:
    """A loss of one's own."""
    found = CrossEntropy()(model, batch)  # type: ignore[arg-type]
    return Losses(2 * found.minimised, found.reported)


def script(recipe: Recipe, out: Path, what: str, quiet: bool = True) -> Run:
    """What a program does with a run before it trains."""
    if what == "data":
        run = Run(recipe, out, device="cpu", quiet=quiet)
        run.data = reversed_letters(70, seed=4)
        return run
    if what == "given data":
        return Run(recipe, out, data=reversed_letters(70, seed=4), device="cpu", quiet=quiet)
    if what == "given tokenizer":
        return Run(recipe, out, tokenizer=Letters(), device="cpu", quiet=quiet)
    if what == "parts":
        return Run(recipe, out, parts=Parts(attention=Halved.from_config), device="cpu", quiet=quiet)
    run = Run(recipe, out, device="cpu", quiet=quiet)
    if what == "tokenizers":
        run.tokenizers = (Letters(), Letters())
        run.recipe = replace(run.recipe, model=replace(run.recipe.model, tie_embeddings="decoder"))
    if what == "recipe":
        run.recipe = replace(run.recipe, train=replace(run.recipe.train, learning_rate=2e-2))
    if what == "recipe and data":
        run.recipe = replace(run.recipe, train=replace(run.recipe.train, learning_rate=2e-2))
        run.data = {"train": reversed_letters(70, seed=4), "validation": PAIRS[:5]}
    if what == "model":
        with torch.no_grad():
            run.model.encoder.layers[0].feed_forward_norm.weight.mul_(0.5)  # type: ignore[union-attr]
    if what == "loss":
        run.loss = doubled
    if what == "optimizer":
        run.optimizer = torch.optim.SGD(run.model.parameters(), lr=0.1, momentum=0.9)
    if what == "optimizer's maker":
        run.optimizer = lambda model: torch.optim.Adagrad(model.parameters())
    if what == "schedule":
        run.schedule = lambda step: 1e-2 / step
    return run


WAYS = [
    "data", "given data", "given tokenizer", "tokenizers", "parts", "recipe", "recipe and data", "model", "loss",
    "optimizer", "optimizer's maker", "schedule",
]  # fmt: skip
QUICK = ("recipe and data", "model")
"""Those that every run of the tests tries; `make slow` tries the others."""


@pytest.mark.parametrize("what", [pytest.param(way, marks=() if way in QUICK else pytest.mark.slow) for way in WAYS])
def test_what_is_replaced_is_trained_and_the_same_script_goes_on(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    script(recipe, tmp_path / "unbroken", what).train()
    train(recipe, tmp_path / "plain", device="cpu", quiet=True)
    assert weights(tmp_path / "unbroken") != weights(tmp_path / "plain"), "else nothing was replaced"
    for step in (2, 5):
        with monkeypatch.context() as patch:
            at_step(step, interrupt, patch)
            with pytest.raises(TrainingInterrupted):
                script(recipe, tmp_path / "run", what).train()
    assert script(recipe, tmp_path / "run", what).train().steps == 6
    assert weights(tmp_path / "run") == weights(tmp_path / "unbroken")
    assert script(recipe, tmp_path / "run", what).train().already_finished


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("data", DataError, "the texts differ from those that the run in `{run}` was started with"),
        ("given tokenizer", ConfigError, 'the run in `{run}` has `data.tokenizer = "own"`, this command'),
        ("parts", ConfigError, "the attention of the run in `{run}` was `tests.unit.run.test_run_replaced.Halved."
         "from_config`, and now is the built-in one"),
        ("recipe", ConfigError, "the run in `{run}` has `train.learning_rate = 0.02`, this command"),
        ("loss", CheckpointError, "the loss of the run in `{run}` was `doubled`, and now is that of the settings"),
        ("optimizer", CheckpointError, "the optimizer of the run in `{run}` was `SGD`, and now is that of the"),
        ("schedule", CheckpointError, "the schedule of the run in `{run}` was `"),
    ],
)  # fmt: skip
def test_a_script_that_no_longer_replaces_it_is_refused(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, error: type[Exception], message: str
) -> None:
    run = tmp_path / "run"
    monkeypatch.setattr(records, "JUST_NOW", 3600.0)  # or a slow machine notes the stamps of files in between
    with monkeypatch.context() as patch:
        at_step(4, interrupt, patch)
        with pytest.raises(TrainingInterrupted):
            script(recipe, run, what).train()
    before = contents(run)
    with pytest.raises(error) as caught:
        train(recipe, run, device="cpu", quiet=True)
    assert str(caught.value).startswith(message.format(run=run))
    assert contents(run) == before


@pytest.mark.slow
@pytest.mark.parametrize("what", ["parts", "given tokenizer"])
def test_a_finished_run_is_not_opened_without_what_its_model_needs(recipe: Recipe, tmp_path: Path, what: str) -> None:
    """As an unfinished one: its folder is a model's, which nobody could open without."""
    run = tmp_path / "run"
    script(recipe, run, what).train()
    before = contents(run)
    shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    shutil.copytree(run, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "checkpoints")
    told, given = {
        "parts": ("the attention of the run in `{run}` was `tests.unit.run.test_run_replaced.Halved.from_config`, and "
                  "now is the built-in one", "parts=pellucid.Parts(attention=tests.unit.run.test_run_replaced.Halved."
                  "from_config)"),
        "given tokenizer": ("the run in `{run}` was started with the custom tokenizer "
                            "`tests.unit.run.test_run_replaced.Letters`, and none is given",
                            "tokenizer=tests.unit.run.test_run_replaced.Letters()"),
    }[what]  # fmt: skip
    for folder in (run, tmp_path / "copy"):
        with pytest.raises(ConfigError) as caught:
            train(folder / "recipe.toml", folder, device="cpu", quiet=True)
        assert str(caught.value) == told.format(run=folder)
        assert caught.value.hint.endswith(f'; pellucid.train("{folder / "recipe.toml"}", "{folder}", {given})')
        names: dict[str, Any] = {}
        exec(caught.value.hint.partition("from Python: ")[2].replace("pellucid.train", "found = pellucid.train"), names)
        assert names["found"].already_finished
    assert contents(run) == before


@pytest.mark.slow
def test_pairs_from_python_train_as_files_do(recipe: Recipe, tmp_path: Path) -> None:
    train(recipe, tmp_path / "files", device="cpu", quiet=True)
    empty = replace(recipe, data=replace(recipe.data, src="", tgt=""))
    train(empty, tmp_path / "given", data=PAIRS, device="cpu", quiet=True)
    assert weights(tmp_path / "given") == weights(tmp_path / "files")
    stored = json.loads((tmp_path / "given" / "corpus.json").read_text(encoding="utf-8"))
    assert (stored["given"], stored["texts"]) == (True, [{"src": "data", "tgt": "data", "pairs": 60}])
    again = train(empty, tmp_path / "given", data=[*PAIRS[1:], ("a", "b")], device="cpu", quiet=True)
    assert (again.already_finished, again.changed_texts) == (True, ("data",))
    assert train(empty, tmp_path / "given", data=PAIRS, device="cpu", quiet=True).changed_texts == ()


@pytest.mark.slow
def test_a_command_cannot_go_on_with_texts_of_a_script(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        at_step(4, interrupt, patch)
        with pytest.raises(TrainingInterrupted):
            train(recipe, run, data=PAIRS, device="cpu", quiet=True)
    with pytest.raises(ConfigError, match=r"was started with texts passed in memory, and none are given$") as error:
        train(read_stored_recipe(run), run, device="cpu", quiet=True)
    assert "pellucid.Run(..., data=...)" in error.value.hint


@pytest.mark.slow
def test_a_tokenizer_of_ones_own_is_named_in_the_folder(recipe: Recipe, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run", tokenizer=Letters(), device="cpu", quiet=True)
    with pytest.raises(CheckpointError, match="Letters") as error:
        Translator.load(tmp_path / "run", "cpu")
    assert "tokenizer=" in error.value.hint
    run = Run(recipe, tmp_path / "run", tokenizer=Letters(), device="cpu", quiet=True)
    assert Translator(run.model, TokenizerPair(Letters())).translate(["a b"])[0].score < 0


def test_a_module_that_is_swapped_by_hand_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    run.model.encoder.layers[0].self_attn = Halved.from_config(run.model.config)  # type: ignore[union-attr]
    with pytest.raises(ConfigError) as error:
        run.train()
    assert str(error.value) == (
        "`model.encoder.layers.0.self_attn` is a tests.unit.run.test_run_replaced.Halved, not a "
        "pellucid.model.attention.MultiHeadAttention: the run folder would not record it, and the model could not be "
        "loaded"
    )
    assert "parts=pellucid.Parts(attention=...)" in error.value.hint
    assert not (tmp_path / "run").exists()


def test_a_model_of_another_shape_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    run.model = build_model(replace(run.model.config, d_ff=64))
    with pytest.raises(ConfigError, match=r"^`model` has another shape \(ModelConfig\(.*d_ff=64"):
        run.train()


def test_an_optimizer_of_another_model_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    """It would train nothing, and the settings' own in its place would train what nobody asked for."""
    for number, replaced in enumerate(("model", "tokenizers")):
        run = Run(recipe, tmp_path / f"{number}", device="cpu", quiet=True)
        run.optimizer = torch.optim.SGD(run.model.parameters(), lr=0.1)
        setattr(run, replaced, build_model(run.model.config) if replaced == "model" else Letters())
        assert isinstance(run.optimizer, torch.optim.SGD)
        with pytest.raises(
            ConfigError, match=r"^35 of the 35 parameters of `optimizer` \(SGD\) do not belong to the model$"
        ):
            run.train()


@pytest.mark.slow
def test_a_maker_of_optimizers_is_asked_for_one_of_each_model(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    run.optimizer = lambda model: torch.optim.SGD(model.parameters(), lr=0.1)
    first = run.optimizer
    assert run.optimizer is first
    run.model = build_model(run.model.config)
    assert run.optimizer is not first
    held: list[Any] = []
    run.on_step(lambda event: held.append(run.optimizer))
    before = [parameter.clone() for parameter in run.optimizer.param_groups[0]["params"]]
    optimizer = run.optimizer
    run.train()
    assert all(one is optimizer for one in held), "a hook sees what trains"
    assert any(not torch.equal(*two) for two in zip(before, optimizer.param_groups[0]["params"], strict=True))


class Learned(nn.Module):
    """A loss with a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, model: nn.Module, batch: Any) -> Losses:
        found = CrossEntropy()(model, batch)  # type: ignore[arg-type]
        return Losses(found.minimised * self.weight.exp() - batch.num_tokens * self.weight, found.reported)


@pytest.mark.slow
def test_an_optimizer_that_was_looked_at_follows_loss_and_recipe(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    assert run.optimizer.param_groups[0]["weight_decay"] == 0
    run.recipe = replace(run.recipe, train=replace(run.recipe.train, weight_decay=0.5))
    assert run.optimizer.param_groups[0]["weight_decay"] == 0.5
    loss = Learned()
    run.loss = loss
    run.train()
    assert loss.weight.item() != 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("loss", "`loss` is a int, which cannot be called"),
        ("optimizer", "`optimizer` is a int, not an optimizer"),
        ("schedule", "`schedule` is a int, not a function of the step"),
    ],
)
def test_what_cannot_be_called_is_refused_at_once(recipe: Recipe, name: str, message: str) -> None:
    run = Run(recipe, None, device="cpu", quiet=True)
    with pytest.raises(ConfigError) as error:
        setattr(run, name, 3)
    assert str(error.value) == message


def test_parts_that_are_not_parts_are_refused_at_once(recipe: Recipe) -> None:
    with pytest.raises(ConfigError, match=r"^`parts` is a dict, not a pellucid\.Parts$"):
        Run(recipe, None, parts={"norm": nn.LayerNorm}, device="cpu", quiet=True)  # type: ignore[arg-type]


def test_an_optimizer_that_is_a_class_is_refused_at_once(recipe: Recipe) -> None:
    run = Run(recipe, None, device="cpu", quiet=True)
    with pytest.raises(ConfigError, match=r"^`optimizer` is the class SGD, not an optimizer$") as error:
        run.optimizer = torch.optim.SGD  # type: ignore[assignment]
    assert error.value.hint == "write `run.optimizer = lambda model: SGD(model.parameters(), lr=0.1)`"


def test_a_function_that_makes_no_optimizer_does_not_train_with_the_settings(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    run.optimizer = lambda model: None  # type: ignore[assignment,return-value]
    with pytest.raises(ConfigError, match=r"^`optimizer` \(.*<lambda>\) returned None$"):
        run.train()


@pytest.mark.parametrize("moment", ["step", "validation", "checkpoint", "end"])
def test_a_hook_that_cannot_be_called_is_refused_at_once(recipe: Recipe, moment: str) -> None:
    run = Run(recipe, None, device="cpu", quiet=True)
    with pytest.raises(ConfigError, match=r"^a hook is a int, which cannot be called$"):
        getattr(run, f"on_{moment}")(3)


@pytest.mark.parametrize("name", ["loss", "optimizer", "model"])
def test_what_training_would_not_hear_of_is_refused(recipe: Recipe, tmp_path: Path, name: str) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    run.on_step(lambda event: setattr(run, name, getattr(run, name)))
    with pytest.raises(ConfigError, match=f"^`{name}` cannot be replaced any more: training has begun$"):
        run.train()


@pytest.mark.slow
def test_a_model_that_is_handed_over_is_trained(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)
    torch.manual_seed(99)
    mine = build_model(run.model.config)
    run.model = mine
    run.train()
    assert run.model is mine
    train(recipe, tmp_path / "plain", device="cpu", quiet=True)
    assert weights(tmp_path / "run") != weights(tmp_path / "plain")


def test_what_has_begun_to_train_is_not_replaced(recipe: Recipe, tmp_path: Path) -> None:
    run = Run(recipe, tmp_path / "run", device="cpu", quiet=True)

    def late(event: StepEvent) -> None:
        run.recipe = recipe

    run.on_step(late)
    with pytest.raises(ConfigError, match=r"^`recipe` cannot be replaced any more: training has begun$"):
        run.train()


@pytest.mark.slow
def test_parts_are_in_the_folder_and_needed_to_open_it(recipe: Recipe, tmp_path: Path) -> None:
    parts = Parts(attention=Halved.from_config)
    run = Run(recipe, tmp_path / "run", parts=parts, device="cpu", quiet=True)
    run.train()
    with pytest.raises(CheckpointError, match="Halved"):
        open_folder(tmp_path / "run", run.device)
    saved = open_folder(tmp_path / "run", run.device, parts=parts)
    pair = ["a b c"], ["c b a"]
    assert saved.tokenizers is not None
    assert Translator(saved.model, saved.tokenizers).score(*pair) == Translator(run.model, run.tokenizers).score(*pair)
    again = Run(recipe, tmp_path / "run", parts=parts, device="cpu", quiet=True)
    assert Translator(again.model, saved.tokenizers).score(*pair) == Translator(run.model, run.tokenizers).score(*pair)


@pytest.mark.slow
def test_a_model_to_start_from_is_read_and_hashed_once(
    finished_run: Path, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("open_folder", "hash_weights"):
        act = getattr(start_module, name)

        def counted(*args: Any, name: str = name, act: Any = act, **kwargs: Any) -> Any:
            calls.append(name)
            return act(*args, **kwargs)

        monkeypatch.setattr(start_module, name, counted)
    run = Run(recipe, tmp_path / "run", init_from=finished_run, device="cpu", quiet=True)
    assert run.tokenizers.source.size == run.model.config.src_vocab_size
    run.train()
    assert sorted(calls) == ["hash_weights", "open_folder"]


@pytest.mark.slow
def test_a_model_with_a_tokenizer_of_ones_own_is_started_from(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tmp_path / "first"
    train(recipe, first, tokenizer=Letters(), device="cpu", quiet=True)
    with pytest.raises(CheckpointError, match="Letters`, which is not in its folder"):
        Run(recipe, tmp_path / "run", init_from=first, device="cpu", quiet=True)

    def started(out: str) -> Run:
        return Run(recipe, tmp_path / out, init_from=first, tokenizer=Letters(), device="cpu", quiet=True)

    started("unbroken").train()
    with monkeypatch.context() as patch:
        at_step(4, interrupt, patch)
        with pytest.raises(TrainingInterrupted):
            started("run").train()
    first.rename(tmp_path / "gone")
    started("run").train()
    assert weights(tmp_path / "run") == weights(tmp_path / "unbroken") != weights(tmp_path / "gone")
    Translator.load(tmp_path / "run", "cpu", tokenizer=Letters())


def test_a_tokenizer_beside_a_model_to_start_from_is_refused(
    finished_run: Path, recipe: Recipe, tmp_path: Path
) -> None:
    message = r"^`tokenizer=` has no effect: the run uses the tokenizer of `"
    with pytest.raises(ConfigError, match=message):
        Run(recipe, tmp_path / "run", init_from=finished_run, tokenizer=Letters(), quiet=True)
    run = Run(recipe, tmp_path / "run", init_from=finished_run, device="cpu", quiet=True)
    with pytest.raises(ConfigError, match=message):
        run.tokenizers = Letters()


@pytest.mark.slow
def test_a_model_with_a_tokenizer_of_ones_own_is_gone_on_with(recipe: Recipe, tmp_path: Path) -> None:
    train(recipe, tmp_path / "first", tokenizer=(Letters(), Letters()), device="cpu", quiet=True)
    with pytest.raises(CheckpointError, match="uses the custom tokenizer"):
        Run(recipe, tmp_path / "run", init_from=tmp_path / "first", quiet=True)
    for _ in range(2):  # the second time, its folder is gone
        both = (Letters(), Letters())
        result = train(
            recipe, tmp_path / "run", init_from=tmp_path / "first", tokenizer=both, device="cpu", quiet=True
        )  # fmt: skip
        shutil.rmtree(tmp_path / "first", ignore_errors=True)
    assert result.already_finished
    translator = Translator.load(tmp_path / "run", "cpu", tokenizer=(Letters(), Letters()))
    assert Translator(translator.model, Letters()).translate(["a b"])[0].text


@pytest.mark.slow
def test_the_plan_of_a_budget_is_looked_at_and_its_recipe_replaced(recipe: Recipe, tmp_path: Path) -> None:
    settings = ["train.steps=6", "model.d_model=16", "train.decode_and_evaluate=4"]

    def planned() -> Run:
        run = Run(recipe, tmp_path / "run", budget="1m", overrides=settings, device="cpu", quiet=True)
        run.recipe = replace(run.recipe, train=replace(run.recipe.train, label_smoothing=0.2))
        return run

    run = planned()
    assert run.plan is not None
    assert run.plan.recipe == run.recipe
    assert not (tmp_path / "run").exists()
    run.train()
    assert read_stored_recipe(tmp_path / "run").train.label_smoothing == 0.2
    assert planned().train().already_finished


def test_the_shape_is_that_of_the_tokenizers(recipe: Recipe) -> None:
    run = Run(recipe, None, tokenizer=Letters(), device="cpu", quiet=True)
    assert isinstance(run.model.config, ModelConfig)
    assert (run.model.config.src_vocab_size, run.recipe.data.tokenizer) == (30, "own")
