"""`pellucid.Run`: one training run, from its settings to its folder; `pellucid.train` does a Run in one call."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pellucid.config import Recipe
from pellucid.data.continuous_text import ContinuousText
from pellucid.data.prepare import Corpus
from pellucid.decoding.steps import NonFiniteLogitsError
from pellucid.errors import ConfigError, PellucidError
from pellucid.files.writing import is_disk_failure
from pellucid.model.families import Model
from pellucid.model.parts import Parts, resolve_parts
from pellucid.planning.budget import Plan
from pellucid.run.folder import RunFolder, RunResult
from pellucid.run.init_from import make_unused_tokenizer_error
from pellucid.run.inputs import TrainingInputs, make_model, read_inputs
from pellucid.run.repair import check_file_types, needs_repair
from pellucid.run.resume import FolderState, find_run
from pellucid.run.session import TrainingSession, begin_run
from pellucid.run.settings import RunSettings, apply_given, decide_settings
from pellucid.tasks.task import find_device
from pellucid.terminal import log_line
from pellucid.text.tokenizers import GivenTokenizers, TokenizerPair
from pellucid.training.events import (
    CheckpointEvent,
    EndEvent,
    Hooks,
    Numbers,
    StepEvent,
    ValidationEvent,
    check_hook,
)
from pellucid.training.failures import is_out_of_memory
from pellucid.training.log import RunLog, SilentLog, log_message
from pellucid.training.loop import Trainer
from pellucid.training.loss import Loss, get_callable_name, make_loss
from pellucid.training.optimizer import Optimizer, make_optimizer
from pellucid.training.ranks import (
    SINGLE_PROCESS,
    DistributedContext,
    LostRankError,
    init_distributed,
    is_distributed,
    local_device,
    report_failure,
)
from pellucid.training.schedule import Schedule
from pellucid.weights.folder import read_config
from pellucid.weights.opening import open_folder

Rate = Callable[[int], float]


class Run:
    """A training run: its settings, its texts, its model and its folder.

        run = pellucid.Run("multi30k-de-en", "run", data_dir="data")
        run.optimizer = torch.optim.SGD(run.model.parameters(), lr=0.1)
        run.on_validation(lambda event: print(event.step, event.loss))
        run.train()

    The constructor validates all arguments and writes nothing; `train` trains into the folder, or resumes the run in
    it. Until then `recipe`, `tokenizers`, `data`, `model`, `loss`, `optimizer` and `schedule` may be read and replaced.
    Running the same script again resumes an interrupted run, to the same weights, bit by bit.
    """

    def __init__(
        self,
        recipe: Recipe | str | Path,
        out: str | Path | None = "run",
        *,
        parts: Parts | None = None,
        overrides: Sequence[str] = (),
        data: Any = None,
        tokenizer: GivenTokenizers | None = None,
        data_dir: str | Path | None = None,
        offline: bool = False,
        init_from: str | Path = "",
        source_language: str | None = None,
        target_language: str | None = None,
        budget: str = "",
        of_recipe: Collection[str] = (),
        started: float | None = None,
        device: str = "auto",
        fresh: bool = False,
        quiet: bool = False,
    ) -> None:
        """Determines all settings, reads the texts and trains the tokenizers in memory.

        Args:
            recipe: a Recipe, the name of a built-in recipe, or a TOML file.
            out: the run's folder; if None, the run can be inspected, but not trained.
            parts: custom modules that replace Pellucid's.
            overrides: `section.key=value` settings, applied to a recipe given by name or file; a Recipe has them
                already.
            data: training data in place of the recipe's texts: an iterable of pairs (source, target) that can be
                iterated over repeatedly, for other tasks of pairs (text, label) or of texts; a data set of Hugging
                Face's `datasets`; or a mapping with such a "train" and optionally a "validation" and a "test".
            tokenizer: a tokenizer for source and target, a pair of tokenizers, or a TokenizerPair, in place of training
                one. With `init_from`, the tokenizer of that model, if its folder does not contain it.
            data_dir: folder in which the recipe's texts are looked for if their paths do not exist.
            offline: never download a recipe's texts.
            init_from: a run or model folder to initialize the weights from (fine-tuning), as `train.init_from`. If
                given here, the learning rate is a twentieth of the recipe's, unless `overrides` set it.
            source_language, target_language: language codes of the texts: those that a multilingual `init_from` is
                trained on, or else the language pair in the model's description. Default: `Recipe.languages`.
            budget: the time that the whole run may take, as in 15m: shape, batches and steps follow from it, unless
                `overrides` set them.
            of_recipe: settings, as `section.key`, that a budget leaves at the recipe's values.
            started: the start of the budget, by time.perf_counter(); if None, now.
            device: "auto", or a device as PyTorch names it.
            fresh: removes an earlier run from `out` when training begins.
            quiet: write nothing to standard error.

        Raises ConfigError, DataError, CheckpointError for settings, texts and models that cannot be used, and for a
        folder with other contents than a run.
        """
        started = time.perf_counter() if started is None else started
        self.folder: RunFolder | None = None if out is None else RunFolder(Path(out))
        """The folder that `train` writes to."""
        resolve_parts(parts)  # raises an error if it is not a Parts, before anything is read
        self.hooks: Hooks = Hooks()
        """The functions that are called during training, as registered by `on_step` and the like."""
        given = TokenizerPair.from_given(tokenizer)
        if self.folder is not None:
            check_file_types(self.folder)
        if not isinstance(recipe, Recipe):
            recipe = Recipe.load(recipe, list(overrides))
        self.device: torch.device = find_device(device)
        """The device that the model is trained on."""
        self.ranks: DistributedContext = SINGLE_PROCESS
        """The processes that train together, started by torchrun: each creates the same Run."""
        if out is not None and is_distributed():
            self.device = local_device(self.device)
            self.ranks = init_distributed(self.device)
        self._quiet: bool = quiet or not self.ranks.is_first
        self._replaced: dict[str, Recipe] = {}
        """The names of the attributes that the script has replaced, each with the recipe before that."""
        self._model: Model | None = None
        self._model_types: dict[str, str] = {}
        """The class of each module of the model as it was built."""
        self._model_key: tuple[object, ...] | None = ()
        """The key of its initial weights; None: the caller has replaced the model."""
        self._loss: Loss | None = None
        self._optimizer: Optimizer | Callable[[Model], Optimizer] | None = None
        self._made_optimizer: Optimizer | None = None
        """The optimizer for the present model and loss, if the caller has passed no optimizer or a function."""
        self._schedule: Rate | None = None
        self._trainer: Trainer | None = None
        self._state = FolderState()
        self._inputs: TrainingInputs | None = None
        asked = RunSettings(
            recipe, parts, given, data, data_dir, offline, (source_language, target_language), fresh, started
        )
        self._settings: RunSettings = decide_settings(
            asked, self.folder, self.device, self.ranks,
            overrides=overrides, init_from=init_from, budget=budget, of_recipe=of_recipe,
        )  # fmt: skip
        self._look_at_folder()
        # The time between creating a run and training it does not count in its budget.
        self._seconds: float = time.perf_counter() - started

    @property
    def parts(self) -> Parts | None:
        """Returns the custom modules."""
        return self._settings.parts

    @property
    def recipe(self) -> Recipe:
        """Returns all settings, after planning if there is a time budget. May be replaced by another recipe."""
        return self._settings.recipe if self._inputs is None else self._inputs.recipe

    @recipe.setter
    def recipe(self, recipe: Recipe) -> None:
        self._begin_replacing("recipe")
        settings = replace(self._settings, recipe=recipe, plan=self.plan)
        self._settings = decide_settings(settings, self.folder, self.device, self.ranks)
        self._made_optimizer = None
        self._look_at_folder()

    @property
    def plan(self) -> Plan | None:
        """Returns the plan for the time budget; None without a budget, and for a run that was planned before."""
        return self._settings.plan if self._inputs is None else self._inputs.plan

    @property
    def data(self) -> Corpus | ContinuousText:
        """Returns the training and validation data. May be replaced by any value of the argument `data`."""
        return self._read_inputs().corpus

    @data.setter
    def data(self, data: Any) -> None:
        self._begin_replacing("data")
        self._settings = apply_given(replace(self._settings, data=data))
        self._look_at_folder()

    @property
    def tokenizers(self) -> TokenizerPair:
        """Returns the tokenizers. May be replaced by any value of the argument `tokenizer`."""
        return self._read_inputs().tokenizers

    @tokenizers.setter
    def tokenizers(self, tokenizers: GivenTokenizers) -> None:
        self._begin_replacing("tokenizers")
        if init_from := self._settings.recipe.train.init_from:
            raise make_unused_tokenizer_error(init_from)
        self._settings = apply_given(replace(self._settings, tokenizers=TokenizerPair.from_given(tokenizers)))
        self._look_at_folder()

    @property
    def model(self) -> Model:
        """Returns the model on its device: before training the initial model, afterwards the one in the folder.

        A resumed run loads the weights of its checkpoint in `train`. May be replaced by another model of the same shape
        and parts, and its weights may be set.
        """
        if self._model is None and self._state.result is not None and self.folder is not None:
            own = "own" in read_config(self.folder.path)["tokenizer"]
            tokenizers = self._settings.tokenizers if own else None
            self._model = open_folder(self.folder.path, self.device, parts=self.parts, tokenizer=tokenizers).model
            self._model_key = ()
        elif self._model is None:
            inputs = self._read_inputs()
            self._model, self._model_key = make_model(inputs, self.parts).to(self.device), inputs.weights_key
            self._model_types = _get_types(self._model)
        return self._model

    @model.setter
    def model(self, model: Model) -> None:
        self._check_open("model")
        self._model_types = _get_types(self.model)
        self._model, self._model_key = model.to(self.device), None
        self._made_optimizer = None  # it has the other model's parameters

    @property
    def loss(self) -> Loss:
        """Returns the loss function: (model, batch) -> Losses(minimised, reported), sums over target tokens."""
        return make_loss(self.recipe.train) if self._loss is None else self._loss

    @loss.setter
    def loss(self, loss: Loss) -> None:
        self._check_open("loss")
        if not callable(loss):
            raise ConfigError(
                f"`loss` is a {type(loss).__name__}, which cannot be called",
                "pass a function (model, batch) -> pellucid.Losses(minimised, reported)",
            )
        self._loss = loss.to(self.device) if isinstance(loss, nn.Module) else loss
        self._made_optimizer = None  # it has the other loss's parameters

    @property
    def optimizer(self) -> Optimizer:
        """Returns the optimizer, whose learning rate the schedule sets.

        May be replaced by another optimizer of the model's parameters, or by a function (model) -> optimizer, which is
        called when training begins.
        """
        given = self._optimizer
        if isinstance(given, Optimizer):
            return given
        if self._made_optimizer is None:
            model = self.model
            made = make_optimizer(model, self.recipe.train, self.loss) if given is None else given(model)
            if made is None:
                raise ConfigError(
                    f"`optimizer` ({get_callable_name(given)}) returned None",
                    "return the optimizer of the model",
                )
            self._made_optimizer = made
        return self._made_optimizer

    @optimizer.setter
    def optimizer(self, optimizer: Optimizer | Callable[[Model], Optimizer]) -> None:
        self._check_open("optimizer")
        if isinstance(optimizer, type):
            kind = optimizer.__name__
            raise ConfigError(
                f"`optimizer` is the class {kind}, not an optimizer",
                f"write `run.optimizer = lambda model: {kind}(model.parameters(), lr=0.1)`",
            )
        if not isinstance(optimizer, Optimizer) and not callable(optimizer):
            raise ConfigError(
                f"`optimizer` is a {type(optimizer).__name__}, not an optimizer",
                "pass a torch.optim.Optimizer, or a function that makes one from a model",
            )
        self._optimizer, self._made_optimizer = optimizer, None

    @property
    def schedule(self) -> Rate:
        """Returns the function from a step, counted from 1, to its learning rate. May be replaced by another function.

        A replacement during training takes effect at the next step. A change of rate that depends on an event is
        restored on resume only if it was made by `event.scale_rate`.
        """
        return Schedule(self.recipe.train, self.recipe.model.d_model) if self._schedule is None else self._schedule

    @schedule.setter
    def schedule(self, schedule: Rate) -> None:
        if not callable(schedule):
            raise ConfigError(
                f"`schedule` is a {type(schedule).__name__}, not a function of the step",
                "pass a function that returns the learning rate of a step, counted from 1, as `lambda step: 0.1 / "
                "step`",
            )
        self._schedule = schedule
        if self._trainer is not None:
            self._trainer.stopping.schedule = schedule

    def on_step(self, f: Callable[[StepEvent], Numbers]) -> Callable[[StepEvent], Numbers]:
        """Registers `f` to be called with a StepEvent after each optimizer step; returns `f`, for use as a decorator.

        Numbers that `f` returns go into that step's line of metrics.jsonl.
        """
        self.hooks.step.append(check_hook(f))
        return f

    def on_validation(self, f: Callable[[ValidationEvent], Numbers]) -> Callable[[ValidationEvent], Numbers]:
        """Registers `f` to be called with a ValidationEvent after each validation; returns `f`, as `on_step` does."""
        self.hooks.validation.append(check_hook(f))
        return f

    def on_checkpoint(self, f: Callable[[CheckpointEvent], Numbers]) -> Callable[[CheckpointEvent], Numbers]:
        """Registers `f` to be called with a CheckpointEvent after each checkpoint; returns `f`, as `on_step` does."""
        self.hooks.checkpoint.append(check_hook(f))
        return f

    def on_end(self, f: Callable[[EndEvent], Numbers]) -> Callable[[EndEvent], Numbers]:
        """Registers `f` to be called with an EndEvent after the model is chosen; returns `f`, as `on_step` does."""
        self.hooks.end.append(check_hook(f))
        return f

    def stop(self) -> None:
        """Ends the run after the current step: validates, saves a checkpoint and chooses the model.

        A hook or another thread may call it. It does nothing if no training is running.
        """
        if self._trainer is not None:
            self._trainer.stop()

    def train(self) -> RunResult:
        """Trains into the folder, or resumes the run in it, and returns the result.

        On a finished run it does nothing and sets `RunResult.already_finished`.

        Raises ConfigError, CheckpointError if a replaced attribute cannot be trained; PellucidError if the disk is full
        and the run cannot finish without more space, or if memory is insufficient; TrainingInterrupted after SIGINT,
        SIGTERM or SIGHUP.
        """
        if self._state.result is not None:
            return self._state.result
        folder = self.folder
        if folder is None:
            raise ConfigError("this run has no folder (`out` is None), so it cannot train", 'give it one: `out="run"`')
        if self._trainer is not None and not folder.has_checkpoints:
            raise ConfigError(
                "this Run was stopped before its first checkpoint, and its weights have changed",
                "make a new Run with the same arguments, which starts over",
            )
        self._read_inputs()
        self.ranks.barrier()  # nothing changes in the folder before all ranks have read it
        with _explain_failures(folder), folder.lock() if self.ranks.is_first else nullcontext():
            resumes, result = self.ranks.broadcast_result(partial(self._look_again, folder))
            if result is not None:
                return result
            if resumes != self._state.resumes:  # another process has begun the run, or started over
                self._state, self._inputs = FolderState(resumes), None
            result = self._train(folder, self._read_inputs())
            self._state = FolderState(True, replace(result, already_finished=True))
        return result

    def _look_again(self, folder: RunFolder) -> tuple[bool, RunResult | None]:
        """Returns True if the run is resumed, and its result if another process has finished it meanwhile."""
        settings = self._settings
        resumes = folder.check(self.recipe, settings.fresh) and settings.request is None
        finished = resumes and not needs_repair(folder)
        return resumes, folder.result if finished else None

    def _look_at_folder(self) -> None:
        """Identifies the run in the folder; reads the inputs if it is still to be trained.

        Raises ConfigError if that run began with other settings, or if the folder contains something else.
        """
        self._inputs = None
        if self.folder is not None:
            names = self._replaced.keys()
            self._state = find_run(self.folder, self._settings, names, self._state, self.ranks.is_first)
        if self._state.result is None and not self._state.is_incomplete:
            self._read_inputs()

    def _read_inputs(self) -> TrainingInputs:
        """Returns the inputs of the training, read at the first call. Writes nothing.

        Raises ConfigError, DataError for texts or settings that cannot be trained with.
        """
        if self._inputs is None:
            with _explain_failures(self.folder):
                run = self.folder if self._state.resumes else None
                inputs = read_inputs(self._settings, run, self.device, self.ranks, self._say)
            if self._model_key not in (None, inputs.weights_key):  # an attribute was replaced after the model was built
                self._model = self._made_optimizer = None
            self._inputs = inputs
        return self._inputs

    def _check_model(self, inputs: TrainingInputs) -> None:
        """Raises ConfigError if the model differs from the folder's description, so that it could not be loaded."""
        model = self.model
        if model.config != inputs.config:
            raise ConfigError(
                f"`model` has another shape ({model.config}) than the run ({inputs.config})",
                "replace `recipe` first, and make the model from `run.model.config`",
            )
        types, made = _get_types(model), self._model_types
        for name in sorted(types.keys() | made.keys()):
            if types.get(name) != made.get(name):
                raise ConfigError(
                    f"`model.{name}` is a {types.get(name, 'missing module')}, not a {made.get(name, 'part')}: the "
                    "run folder would not record it, and the model could not be loaded",
                    "pass a factory for it, as in `pellucid.Run(..., parts=pellucid.Parts(attention=...))`",
                )

    def _check_open(self, name: str) -> None:
        """Raises ConfigError if training has begun, where a replacement would have no effect."""
        if self._trainer is not None:
            raise ConfigError(f"`{name}` cannot be replaced any more: training has begun", "make a new Run")

    def _begin_replacing(self, name: str) -> None:
        """Records that the script replaces the attribute `name`, and the recipe before that."""
        self._check_open(name)
        self._replaced.setdefault(name, self.recipe)

    def _say(self, text: str) -> None:
        log_message(text)
        if not self._quiet:
            log_line(text)

    def _train(self, folder: RunFolder, inputs: TrainingInputs) -> RunResult:
        """Resumes the run in the folder, which is locked by this process, or begins one."""
        started, train, ranks = time.perf_counter(), inputs.recipe.train, self.ranks
        self._check_model(inputs)
        if ranks.is_first and self._state.resumes:
            for name in folder.repair():
                self._say(f"`{folder.path / name}` had changed since it was written; it is written again")
        elif ranks.is_first:
            begin_run(folder, inputs, self._replaced, self._say)
        self._state, self._settings = FolderState(True), replace(self._settings, fresh=False, request=None)
        ranks.barrier()
        log: RunLog = SilentLog(folder.path)
        if ranks.is_first:
            log = RunLog(folder.path, train.steps, self._quiet, train.report_to)
        try:
            session = TrainingSession(folder, inputs, self.model, self.parts, ranks, log)
            # The optimizer of sharded weights is built from this rank's rows.
            optimizer = None if train.fsdp and self._optimizer is None else self.optimizer
            self._trainer = session.make_trainer(
                self._loss, optimizer, self._schedule, self.hooks, began=started - self._seconds
            )
            self._trainer.train()
            result = session.finish(self._trainer)
            log.log_line(f"finished after {time.perf_counter() - started:,.0f} s; the model is in {folder.path}")
            return result
        except Exception as error:
            if not isinstance(error, LostRankError):
                report_failure(str(error) or type(error).__name__)
            raise
        finally:
            log.close()


def train(
    recipe: Recipe | str | Path,
    out: str | Path = "run",
    *,
    parts: Parts | None = None,
    overrides: Sequence[str] = (),
    data: Any = None,
    tokenizer: GivenTokenizers | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
    init_from: str | Path = "",
    source_language: str | None = None,
    target_language: str | None = None,
    budget: str = "",
    started: float | None = None,
    device: str = "auto",
    fresh: bool = False,
    quiet: bool = False,
) -> RunResult:
    """Trains a model into the folder `out`; called again with the same recipe, resumes the run.

    Equivalent to `Run(...).train()`, with the same arguments and errors.
    """
    return Run(
        recipe, out, parts=parts, overrides=overrides, data=data, tokenizer=tokenizer, data_dir=data_dir,
        offline=offline, init_from=init_from, source_language=source_language, target_language=target_language,
        budget=budget, started=started, device=device, fresh=fresh, quiet=quiet,
    ).train()  # fmt: skip


def plan(
    recipe: Recipe | str | Path,
    budget: str,
    *,
    parts: Parts | None = None,
    overrides: Sequence[str] = (),
    data: Any = None,
    tokenizer: GivenTokenizers | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
    init_from: str | Path = "",
    source_language: str | None = None,
    target_language: str | None = None,
    device: str = "auto",
) -> Plan:
    """Returns the plan of train() for a time budget, as `Run.plan`, without a folder. Nothing is written."""
    found = Run(
        recipe, None, parts=parts, budget=budget, overrides=overrides, data=data, tokenizer=tokenizer,
        data_dir=data_dir, offline=offline, init_from=init_from, source_language=source_language,
        target_language=target_language, device=device, quiet=True,
    ).plan  # fmt: skip
    assert found is not None  # `budget` was given
    return found


@contextmanager
def _explain_failures(folder: RunFolder | None) -> Iterator[None]:
    """Adds a remedy to the errors of a full disk, of insufficient memory and of divergence."""
    try:
        yield
    except OSError as error:
        if folder is None or not is_disk_failure(error):
            raise
        raise folder.make_disk_full_error(error) from error
    except NonFiniteLogitsError as error:  # in validation: a training step with a non-finite loss is skipped
        raise PellucidError(
            "training has diverged: the model's output in validation is not finite",
            "start over with `fresh=True` and a lower `train.learning_rate`, a longer `train.warmup_steps`, or "
            "`train.grad_clip`",
        ) from error
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise PellucidError(
            f"out of memory outside of the training steps: {str(error).partition(chr(10))[0]}",
            "use a smaller model, or a lower `train.batch_tokens`, which is also the batch size of validation",
        ) from error


def _get_types(model: nn.Module) -> dict[str, str]:
    """Returns the class of each module of a model, by the module's name."""
    return {name: f"{type(m).__module__}.{type(m).__qualname__}" for name, m in model.named_modules() if name}
