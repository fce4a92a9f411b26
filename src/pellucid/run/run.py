"""`pellucid.Run`: one training, from its settings to its folder; and `pellucid.train`, which is a Run in one call."""

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pellucid.config import KEYS, RECIPE, Recipe
from pellucid.config.tables import split_override
from pellucid.config.train import Precision
from pellucid.data.classified import Labels
from pellucid.data.given import GivenText, given_texts
from pellucid.data.locate import TEXT_FIELDS, locate
from pellucid.data.prepare import (
    IN_WINDOWS,
    Corpus,
    check_same_texts,
    open_corpus,
    other_texts,
    prepare,
    train_tokenizers,
)
from pellucid.data.prepared import Prepared
from pellucid.data.running import RunningCorpus
from pellucid.decoding.ids import check_ids
from pellucid.decoding.steps import NotANumberError
from pellucid.errors import CheckpointError, ConfigError, PellucidError, shown
from pellucid.evaluation.scores import bleu_signature
from pellucid.files.reading import sha256_of
from pellucid.files.writing import is_disk_failure, write_text
from pellucid.model.families import Model, build_model
from pellucid.model.initialisation import scale_embeddings
from pellucid.model.parts import Parts, parts_or_ours
from pellucid.planning.budget import Plan, plan_budget, with_vocabulary
from pellucid.planning.request import Request
from pellucid.planning.settings import (
    check_settings,
    find_decode_config,
    find_longest,
    find_model_config,
    make_subword_sampling,
)
from pellucid.process import keep_freed_memory
from pellucid.run.card import model_card
from pellucid.run.folder import PLAN, REPLACED, RunFolder, RunResult, checkpoints_of
from pellucid.run.further_languages import longer_tokenizers, with_rows
from pellucid.run.lock import check_free
from pellucid.run.mending import FILES, check_mended, check_places, digest_description, find_loss, must_be_mended
from pellucid.run.start import Start, has_no_effect, with_gentle_rate, with_start
from pellucid.run.validation import Validator
from pellucid.tasks.languages import in_language, own_languages
from pellucid.tasks.task import find_device
from pellucid.text.tokenizers import GivenTokenizers, Tokenizers
from pellucid.text.training_text import TrainingText
from pellucid.training import precision
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
from pellucid.training.log import RunLog, SilentLog, record
from pellucid.training.loop import Trainer
from pellucid.training.loss import Loss, make_loss, name_of
from pellucid.training.optimizer import Optimizer, Tensors, make_optimizer
from pellucid.training.ranks import (
    ALONE,
    LostRankError,
    Ranks,
    is_one_of_several,
    join,
    local_device,
    tell_failure,
)
from pellucid.training.schedule import Clock, Schedule
from pellucid.training.trackers import wanted
from pellucid.weights.card import CARD
from pellucid.weights.folder import (
    WEIGHTS,
    in_python,
    is_described,
    own_tokenizers,
    read_config,
    save_description,
)
from pellucid.weights.opening import open_folder
from pellucid.weights.tensors import load_tensors, parameters, save_tensors, set_parameters

CANDIDATES = 3
"""The number of candidates for the model at the end, beside a start: the best validation and two means."""
CLASSES = "head.class_projection."
"""The parameters that tell classes apart."""
PARTS = "parts"
"""The key, among what a run comes from, of the names of parts that are not Pellucid's."""

Rate = Callable[[int], float]


class Run:
    """A training: its settings, its texts, its model and its folder.

        run = pellucid.Run("multi30k-de-en", "run", data_dir="data")
        run.optimizer = torch.optim.SGD(run.model.parameters(), lr=0.1)
        run.on_validation(lambda event: print(event.step, event.loss))
        run.train()

    Making one checks all that can be refused and writes nothing; `train` trains into the folder, or goes on where the
    run in it stands. Until then `recipe`, `tokenizers`, `data`, `model`, `loss`, `optimizer` and `schedule` may be
    looked at, and replaced. The same script goes on with a run that was stopped, to the same weights, bit by bit.
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
        """Decides all settings, reads the texts and trains the tokenizers in memory.

        Args:
            recipe: a Recipe, the name of a shipped one, or a TOML file.
            out: the run's folder; None: the run can be looked at, and not trained.
            parts: modules of one's own in place of Pellucid's.
            overrides: `section.key=value` settings that win over a named recipe's; a Recipe has them already.
            data: what to train on in place of the recipe's texts: an iterable of pairs (source, target) that can be
                iterated over again, for other tasks of pairs (text, label) or of texts; a data set of Hugging Face's
                `datasets`; or a mapping with such a "train" and perhaps a "validation" and a "test".
            tokenizer: a tokenizer for both sides, a pair of them, or Tokenizers, in place of one that is trained. Where
                a model is gone on with, it is that model's, which its folder does not hold.
            data_dir: where the recipe's texts are looked for, after the paths as they are.
            offline: never fetch a recipe's texts from their publisher.
            init_from: a run or model folder whose model training goes on from, as `train.init_from` says; named here,
                and where `overrides` do not say otherwise, it trains at a twentieth of the recipe's rate.
            source_language, target_language: codes, where that model translates between many: what the texts are in.
            budget: how long all of it may take, as in 15m: shape, batches, steps follow from it, where `overrides` do
                not say otherwise.
            of_recipe: settings, as `section.key`, that a budget leaves as the recipe has them.
            started: when the budget began to run, as time.perf_counter() counts; None: now.
            device: "auto", or a device as PyTorch names it.
            fresh: removes an earlier run from `out` when training begins.
            quiet: says nothing on standard error.

        Raises ConfigError, DataError, CheckpointError for settings, texts and models that cannot be used, and for a
        folder that holds something else.
        """
        self._started = time.perf_counter() if started is None else started
        self.folder: RunFolder | None = None if out is None else RunFolder(Path(out))
        """The folder that `train` writes to."""
        parts_or_ours(parts)  # refuses what is not a Parts before anything is read
        self.parts = parts
        self.hooks: Hooks = Hooks()
        """The functions that are called while the run trains, as `on_step` and its like have been given it."""
        self._data_dir, self._offline, self._fresh, self._quiet = data_dir, offline, fresh, quiet
        self._languages_given = source_language, target_language
        self._data, self._own_tokenizers = data, Tokenizers.of(tokenizer)
        self._asked_first: Recipe | None = None
        self._replaced: set[str] = set()
        self._start: Start | None = None
        self._request: Request | None = None
        self._result: RunResult | None = None
        self._plan: Plan | None = None
        self._resuming = False
        self._model: Model | None = None
        self._model_made_of: tuple[Any, ...] = ()
        self._loss: Loss | None = None
        self._own_model = False
        self._optimizer: Optimizer | Callable[[Model], Optimizer] | None = None
        self._made_optimizer: Optimizer | None = None
        """The one of the model and the loss as they are, where none was handed over."""
        self._schedule: Rate | None = None
        self._trainer: Trainer | None = None
        if self.folder is not None:
            check_places(self.folder)
        if not isinstance(recipe, Recipe):
            recipe = Recipe.load(recipe, list(overrides))
        self.device: torch.device = find_device(device)
        """The device that the model is trained on."""
        self.ranks: Ranks = ALONE
        """The processes that train together, as torchrun has started them: each makes the same Run."""
        if out is not None and is_one_of_several():
            self.device = local_device(self.device)
            self.ranks = join(self.device)
            self._quiet = quiet or not self.ranks.is_first
        self._of_recipe = of_recipe
        self._settle(recipe, overrides, init_from, budget)
        # What time somebody takes between looking at a run and training it does not count in its budget.
        self._seconds = time.perf_counter() - self._started

    @property
    def recipe(self) -> Recipe:
        """Returns every setting, decided: with a time budget those of the plan. Another recipe may take its place."""
        return self._recipe

    @recipe.setter
    def recipe(self, recipe: Recipe) -> None:
        self._replacing("recipe")
        self._request = self._made_optimizer = None
        self._asked = recipe
        self._settle(recipe)
        if self._plan is not None:
            self._plan = replace(self._plan, recipe=self._recipe)

    @property
    def plan(self) -> Plan | None:
        """Returns what the time budget comes to; None without one, and for a run that was planned before."""
        return self._plan

    @property
    def data(self) -> Corpus | RunningCorpus:
        """Returns the pairs to train and to validate on; what the argument `data` may be can take their place."""
        self._read_texts()
        return self._corpus

    @data.setter
    def data(self, data: Any) -> None:
        self._replacing("data")
        self._data = data
        self._look_at_folder(self._asked)

    @property
    def tokenizers(self) -> Tokenizers:
        """Returns what makes ids of texts; what the argument `tokenizer` may be can take its place."""
        self._read_texts()
        return self._tokenizers

    @tokenizers.setter
    def tokenizers(self, tokenizers: GivenTokenizers) -> None:
        self._replacing("tokenizers")
        if self._asked.train.init_from:
            raise has_no_effect(self._asked.train.init_from)
        self._own_tokenizers = Tokenizers.of(tokenizers)
        self._look_at_folder(self._asked)

    @property
    def model(self) -> Model:
        """Returns the model on its device: before training as it begins, after it as it lies in the folder.

        A run that goes on gets the weights of its checkpoint in `train`. Another model of the same shape and parts may
        take its place, and weights may be set.
        """
        if self._model is None and self._result is not None and self.folder is not None:
            own = "own" in read_config(self.folder.path)["tokenizer"]
            self._model = open_folder(
                self.folder.path, self.device, parts=self.parts, tokenizer=self._own_tokenizers if own else None
            ).model
        elif self._model is None:
            self._model = self._make_model()
            self._types = _types_of(self._model)
        return self._model

    @model.setter
    def model(self, model: Model) -> None:
        self._check_open("model")
        self._types = _types_of(self.model)
        self._model, self._own_model = model.to(self.device), True
        self._made_optimizer = None  # it has the other model's parameters

    @property
    def loss(self) -> Loss:
        """Returns what is minimised: (model, batch) -> Losses(minimised, reported), sums over target tokens."""
        return make_loss(self.recipe.train) if self._loss is None else self._loss

    @loss.setter
    def loss(self, loss: Loss) -> None:
        self._check_open("loss")
        if not callable(loss):
            raise ConfigError(
                f"`loss` is a {type(loss).__name__}, which cannot be called",
                "hand over a function (model, batch) -> pellucid.Losses(minimised, reported)",
            )
        self._loss = loss.to(self.device) if isinstance(loss, nn.Module) else loss
        self._made_optimizer = None  # it has the other loss's parameters

    @property
    def optimizer(self) -> Optimizer:
        """Returns the optimizer, whose rate is the schedule's.

        Another one of the model's parameters may take its place, or a function (model) -> optimizer, which is called
        when training begins.
        """
        given = self._optimizer
        if isinstance(given, Optimizer):
            return given
        if self._made_optimizer is None:
            model = self.model
            made = make_optimizer(model, self.recipe.train, self.loss) if given is None else given(model)
            if made is None:
                raise ConfigError(
                    f"`optimizer` ({name_of(given)}) returned None", "return the optimizer that it makes of the model"
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
                "hand over a torch.optim.Optimizer, or a function that makes one of a model",
            )
        self._optimizer, self._made_optimizer = optimizer, None

    @property
    def schedule(self) -> Rate:
        """Returns what gives the learning rate of a step, counted from 1. Another function may take its place.

        While the run trains, that holds from the next step on. A rate that follows from what a hook has seen is kept
        for a resumption by `event.scale_rate` alone.
        """
        return Schedule(self.recipe.train, self.recipe.model.d_model) if self._schedule is None else self._schedule

    @schedule.setter
    def schedule(self, schedule: Rate) -> None:
        if not callable(schedule):
            raise ConfigError(
                f"`schedule` is a {type(schedule).__name__}, not a function of the step",
                "hand over what gives the rate of a step counted from 1, as `lambda step: 0.1 / step`",
            )
        self._schedule = schedule
        if self._trainer is not None:
            self._trainer.schedule = schedule

    def on_step(self, f: Callable[[StepEvent], Numbers]) -> Callable[[StepEvent], Numbers]:
        """Has `f` called with a StepEvent after each optimizer step; returns `f`, so that it can decorate one.

        Numbers that `f` returns go into that step's line of metrics.jsonl.
        """
        self.hooks.step.append(check_hook(f))
        return f

    def on_validation(self, f: Callable[[ValidationEvent], Numbers]) -> Callable[[ValidationEvent], Numbers]:
        """Has `f` called with a ValidationEvent after each validation; returns `f`, as `on_step` does."""
        self.hooks.validation.append(check_hook(f))
        return f

    def on_checkpoint(self, f: Callable[[CheckpointEvent], Numbers]) -> Callable[[CheckpointEvent], Numbers]:
        """Has `f` called with a CheckpointEvent after each checkpoint; returns `f`, as `on_step` does."""
        self.hooks.checkpoint.append(check_hook(f))
        return f

    def on_end(self, f: Callable[[EndEvent], Numbers]) -> Callable[[EndEvent], Numbers]:
        """Has `f` called with an EndEvent when the run's model has been chosen; returns `f`, as `on_step` does."""
        self.hooks.end.append(check_hook(f))
        return f

    def stop(self) -> None:
        """Ends the run after the step that it is at: it is validated and saved, and the model is chosen.

        A hook may call it, or another thread. Where nothing is training it does nothing.
        """
        if self._trainer is not None:
            self._trainer.stop()

    def train(self) -> RunResult:
        """Trains into the folder, from the start or from where the run in it stands, and returns what it came to.

        On a finished run it does nothing and says so: `RunResult.already_finished`.

        Raises ConfigError, CheckpointError for what has been replaced and cannot be trained; PellucidError where the
        disk is full and the run cannot end without it, or memory does not suffice; Interrupted after SIGINT, SIGTERM or
        SIGHUP.
        """
        if self._result is not None:
            return self._result
        folder = self.folder
        if folder is None:
            raise ConfigError("this run has no folder (`out` is None), so it cannot train", 'give it one: `out="run"`')
        if self._trainer is not None and not folder.has_checkpoints:
            raise ConfigError(
                "this Run was stopped before its first checkpoint, and its weights are not those it began with",
                "make a new Run with the same arguments: it begins again",
            )
        self._read_texts()
        self.ranks.wait()  # nothing changes in the folder before all have looked at it
        with _failures_in_words(folder), folder.locked() if self.ranks.is_first else nullcontext():
            resuming, result = self.ranks.of_first(partial(self._look_again, folder))
            if result is not None:
                return result
            if resuming != self._resuming:  # another process has begun it, or started over
                self._resuming, self._texts_read = resuming, False
                self._read_texts()
            self._result = replace(result := self._train(folder), already_finished=True)
        return result

    def _look_again(self, folder: RunFolder) -> tuple[bool, RunResult | None]:
        """Tells whether the run is gone on with, and its result where another process has finished it meanwhile."""
        resuming = folder.check(self._recipe, self._fresh) and self._request is None
        finished = resuming and not must_be_mended(folder)
        return resuming, folder.result if finished else None

    # Settings, before a text is read

    def _settle(
        self, recipe: Recipe, overrides: Sequence[str] = (), init_from: str | Path = "", budget: str = ""
    ) -> None:
        """Decides every setting that can be decided before a text is read, then looks at the folder and the texts."""
        stored = None if self._fresh or self.folder is None else self.folder.recipe
        if init_from:
            recipe = replace(recipe, train=replace(recipe.train, init_from=str(init_from)))
        recipe, self._start = with_start(
            recipe, self.folder.path if self.folder else None, stored, overrides=overrides,
            languages=self._languages_given, parts=self.parts, tokenizer=self._own_tokenizers, known=self._start,
        )  # fmt: skip
        given = {f"{section}.{key}" for section, key, _ in (split_override(each, KEYS) for each in overrides)}
        # A recipe that names its start itself has its rates for that; those of a budget are the plan's.
        if recipe.train.init_from and not budget and (init_from or "train.init_from" in given):
            recipe = with_gentle_rate(recipe, given, stored)
        self._request = Request.of(recipe, budget, overrides, self._started, self._of_recipe) if budget else None
        if self._request is not None and stored is not None and self.folder is not None:
            planned = self.folder.find_planned(self._request)
            if planned is not None:
                texts: dict[str, Any] = {name: getattr(recipe.data, name) for name in TEXT_FIELDS}
                recipe, self._request = replace(planned, data=replace(planned.data, **texts)), None
        if recipe.train.precision == "auto":  # as the run in the folder has it, else by a measurement
            chosen = stored.train.precision if stored is not None else self.ranks.of_first(self._measured_precision)
            recipe = replace(recipe, train=replace(recipe.train, precision=chosen))
        wanted(recipe.train.log_to)  # what is not installed is said before a text is read
        self._look_at_folder(recipe)

    def _measured_precision(self) -> Precision:
        return "float32" if precision.warning(self.device) else "bfloat16"

    def _look_at_folder(self, recipe: Recipe) -> None:
        """Finds out whether a run in the folder is gone on with, or has finished; reads the texts of one that trains.

        Raises ConfigError for a run that began otherwise, and for a folder of something else.
        """
        own: dict[str, Any] = {}
        if self._data is not None:
            own = dict.fromkeys(TEXT_FIELDS, "")
        if self._own_tokenizers is not None:
            own["tokenizer"] = self._own_tokenizers.source.kind
        self._asked = self._recipe = replace(recipe, data=replace(recipe.data, **own))
        self._given: Mapping[str, GivenText] = {}
        if self._data is not None:
            self._given = given_texts(self._data, self._asked.data, self._asked.task, self._asked.languages)
        folder, pending = self.folder, set[str]()
        self._texts_read, self._result = False, None
        if folder is not None:
            # What the script of the run is still to replace is not yet as it is trained with.
            pending = set() if self._fresh else {*folder.replaced.get("names", ())} - self._replaced
            if not (pending and self._replaced):
                resuming = folder.check(self._asked, self._fresh, asked=bool(pending))
                self._resuming = resuming and self._request is None
            if self._resuming and (result := folder.result) is not None and not must_be_mended(folder):
                if is_described(folder.path):  # else an earlier version's, which had none
                    self._check_parts(folder, read_config(folder.path).get(PARTS, {}))
                    if "tokenizers" not in pending:
                        self._check_tokenizer(folder.path)
                changed = folder.find_changed_texts(self._asked.data, self._data_dir, self._given)
                self._result = replace(result, changed_texts=changed)
                return
            folder.check_place()
            if self.ranks.is_first:
                check_free(folder.path)
            if self._resuming:
                self._check_parts(folder)
        if not (self._resuming and pending):
            self._read_texts()

    # Texts, tokenizers and the plan

    def _read_texts(self) -> None:
        """Reads the texts, trains the tokenizers and makes the plan, unless that is done. Writes nothing.

        Raises ConfigError, DataError for what cannot be trained on, or with these settings.
        """
        if self._texts_read:
            return
        with _failures_in_words(self.folder):
            self._read_texts_again()
        self._texts_read = True

    def _read_texts_again(self) -> None:
        recipe, folder = self._asked, self.folder
        if not self._given:
            if folder is not None and self._resuming and not recipe.data.src and folder.has_given_data:
                raise ConfigError(
                    f"the run in `{folder.path}` began with texts that its script handed over, and none are given",
                    "go on with it by the script that began it: pellucid.Run(..., data=...)",
                )
            recipe = replace(recipe, data=locate(recipe.data, self._data_dir, fetch=not self._offline))
        prepared = None if self._given else Prepared.of(recipe.data, self._say)
        if prepared is not None and folder is not None and self._resuming and folder.has_trained:
            changed = folder.find_changed_texts(recipe.data, digests=prepared.digests)
            if changed:  # said before hours go into what would be made of them
                raise other_texts(folder.path, changed)
        corpus = open_corpus(recipe.data, recipe.task, self._given, prepared)
        if isinstance(corpus, Corpus) and folder is not None and self._resuming and folder.has_trained:
            # It goes on in the ways that it began in, whatever this version takes for large.
            corpus = replace(corpus, began_large=folder.origin.get("corpus", "").endswith(IN_WINDOWS))
        self._say(corpus.report())
        keep_freed_memory()
        if self._request is not None:
            assert isinstance(corpus, Corpus)  # a budget is for translators alone
            recipe = with_vocabulary(recipe, self._request.fixed, corpus)
            corpus = replace(corpus, data=recipe.data)
        self._wrong = find_loss(folder) if folder is not None and self._resuming else ""
        if self._wrong:
            source = "start" if recipe.train.init_from else "texts"
            self._say(f"{self._wrong}: it is made again from the {source} of the run")
        described = folder.path if folder is not None and self._resuming and not self._wrong else None
        if described is not None and not is_described(described):
            described = None
        start = self._first_weights(recipe)
        if start is not None and recipe.data.add_language:
            assert isinstance(corpus, Corpus)  # only translators have languages
            start = with_rows(start, *self.ranks.of_first(partial(longer_tokenizers, start, corpus, self._say)))
        self._tokenizers = self._find_tokenizers(corpus, start, described)
        self._labels = _find_labels(corpus, start, described) if recipe.task == "classify" else None
        self._languages: Mapping[str, int] = read_config(described).get("languages", {}) if described else {}
        if start is not None:
            self._languages = start.model.languages
        if recipe.data.tgt_lang:
            self._languages = own_languages(recipe.data, self._tokenizers, self._languages)
        self._sampling = make_subword_sampling(recipe, self._tokenizers)
        if self._request is not None and isinstance(corpus, Corpus):
            # Measured, and so decided, by the first of several ranks.
            self._plan = self.ranks.of_first(
                partial(
                    plan_budget, recipe, self._request, corpus, self._tokenizers, self._sampling, self.device,
                    self.parts, self.ranks.count,
                )
            )  # fmt: skip
            recipe = self._plan.recipe
        check_settings(recipe)
        if recipe.task != "classify" and isinstance(corpus, Corpus):  # a classifier cuts its own texts
            corpus = replace(corpus, data=replace(corpus.data, max_length=find_longest(recipe)))
        self._recipe, self._corpus, self._begins_with = recipe, corpus, start
        self._config = find_model_config(recipe, self._tokenizers, self._labels.names if self._labels else ())
        check_ids(recipe.decode, self._config)
        if folder is not None and self._resuming and folder.has_trained:
            check_same_texts(corpus, self._tokenizers, folder.path / "data", folder.origin.get("corpus", ""))
        # A model that was looked at before something was replaced is not what training begins with any more.
        names = self._labels.names if self._labels else ()
        made_of = self._config, recipe.train.seed, recipe.train.init_from, recipe.train.init_sha256, names
        if made_of != self._model_made_of and not self._own_model:
            self._model = self._made_optimizer = None
        self._model_made_of = made_of

    def _first_weights(self, recipe: Recipe) -> Start | None:
        """Returns the model whose weights training begins with, or whose description the run has lost.

        None where the run begins with random weights, or has its first checkpoint already. Raises CheckpointError where
        that model is needed and not there any more.
        """
        folder = self.folder
        if not recipe.train.init_from:
            return None
        if self._resuming and not self._wrong and folder is not None and folder.has_checkpoints:
            return None
        if self._start is not None:
            return self._start
        try:
            return Start.of(recipe, self.parts, self._own_tokenizers)
        except CheckpointError as error:
            if not self._wrong:
                raise
            raise CheckpointError(
                f"{self._wrong}, and what it was made from is not there: {error}",
                f"copy the model `{recipe.train.init_from}` back to its place, or start over with `fresh=True`",
            ) from error

    def _find_tokenizers(
        self, corpus: Corpus | RunningCorpus, start: Start | None, described: Path | None
    ) -> Tokenizers:
        """Returns those handed over, those of the start, those in the folder of a run that goes on, or new ones."""
        if self._own_tokenizers is not None:
            return self._own_tokenizers
        if start is not None and start.model.tokenizers is not None:
            return start.model.tokenizers
        if described is not None:
            self._check_tokenizer(described)
            return Tokenizers.load(described, read_config(described)["tokenizer"])
        data = corpus.data
        self._say(f"training the tokenizer ({data.tokenizer})")
        tokenizers = self.ranks.of_first(partial(train_tokenizers, corpus, self._say))
        sizes = " and ".join(f"{size:,}" for size in sorted({tokenizers.source.size, tokenizers.target.size}))
        bounds = {data.vocab_size, (not data.joint and data.target_vocab_size) or data.vocab_size}
        self._say(f"vocabulary: {sizes} (upper bound {' and '.join(f'{bound:,}' for bound in sorted(bounds))})")
        return tokenizers

    # The model

    def _make_model(self) -> Model:
        """Returns the model that training begins with: random weights follow from the seed, others are a start's."""
        self._read_texts()
        train, labels = self._recipe.train, self._labels.names if self._labels else ()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(train.seed)
            model = build_model(self._config, self.parts)
        if train.embedding_scale != 1:
            scale_embeddings(model, train.embedding_scale)
        if self._begins_with is not None:
            tensors = parameters(self._begins_with.model.model)
            if labels and self._begins_with.model.labels != labels:  # what tells other classes apart is new
                tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(CLASSES)}
                tensors = parameters(model) | tensors
            set_parameters(model, tensors, f"`{train.init_from}`")
        return model.to(self.device)

    def _check_model(self) -> None:
        """Raises ConfigError where the model is not what the folder would say of it, so that it could not be loaded."""
        model = self.model
        if model.config != self._config:
            raise ConfigError(
                f"`model` has another shape ({model.config}) than the run ({self._config})",
                "replace `recipe` first, and make the model of `run.model.config`",
            )
        types = _types_of(model)
        for name in sorted(types.keys() | self._types.keys()):
            if types.get(name) != self._types.get(name):
                raise ConfigError(
                    f"`model.{name}` is a {types.get(name, 'missing module')}, not a {self._types.get(name, 'part')}: "
                    "the folder would not say so, and the model could not be loaded",
                    "hand over what makes it, as in `pellucid.Run(..., parts=pellucid.Parts(attention=...))`",
                )

    def _check_parts(self, folder: RunFolder, described: Mapping[str, str] | None = None) -> None:
        """Raises ConfigError where the run in the folder began with other parts.

        `described` are those that a finished run's model was saved with, whose checkpoints may have been removed.
        """
        before, now = folder.origin.get(PARTS, described), {} if self.parts is None else self.parts.names
        if before is None:  # nothing has trained, or an earlier version began the run
            before = {} if folder.origin else now
        for name in sorted({*before, *now}):
            recorded = before.get(name)
            if recorded is None or self.parts is None or not self.parts.fits(name, recorded):
                began, has = (f"`{said}`" if said else "Pellucid's own" for said in (recorded, now.get(name)))
                raise ConfigError(
                    f"the {name} of the run in `{folder.path}` was {began}, and now is {has}",
                    "choose another `out=`, start over with `fresh=True`, or hand over the `parts=` that it began with"
                    f", {self._line_to_write(folder.path, before)}",
                )

    def _check_tokenizer(self, folder: Path) -> None:
        """Raises ConfigError where the model in a folder was saved with a tokenizer of one's own, and none is given."""
        table = read_config(folder)
        if self._own_tokenizers is None and (own := own_tokenizers(table)):
            raise ConfigError(
                f"the run in `{folder}` began with a tokenizer of its own, `{'`, `'.join(map(shown, own))}`, and none "
                "is given",
                "choose another `out=`, start over with `fresh=True`, or hand over the `tokenizer=` that it began with"
                f", {self._line_to_write(folder, table.get(PARTS, {}), own)}",
            )

    def _line_to_write(self, folder: Path, parts: Mapping[str, str], tokenizers: Sequence[str] = ()) -> str:
        """Returns the line of Python that goes on with a run whose folder names parts or a tokenizer."""
        return in_python("pellucid.train", [folder / RECIPE, folder], parts, tokenizers)

    def _check_open(self, name: str) -> None:
        """Raises ConfigError where training has begun, which would not hear of another one."""
        if self._trainer is not None:
            raise ConfigError(f"`{name}` cannot be replaced any more: the run has begun to train", "make a new Run")

    def _replacing(self, name: str) -> None:
        """Notes that the script replaces something, and what it named before it replaced anything."""
        self._check_open(name)
        if self._asked_first is None:
            self._asked_first = self._recipe
        self._replaced.add(name)

    def _say(self, text: str) -> None:
        record(text)
        if not self._quiet:
            print(text, file=sys.stderr)

    # Training

    def _train(self, folder: RunFolder) -> RunResult:
        """Goes on with the run in the folder, which no other process writes to now, or begins one."""
        started, recipe, ranks = time.perf_counter(), self._recipe, self.ranks
        self._check_model()
        if ranks.is_first:
            self._begin(folder)
        self._resuming, self._fresh, self._request = True, False, None
        ranks.wait()
        origin = folder.origin
        log: RunLog = SilentLog(folder.path)
        if ranks.is_first:
            log = RunLog(folder.path, recipe.train.steps, self._quiet, recipe.train.log_to)
        try:
            prepared = partial(
                prepare, self._corpus, self._tokenizers, folder.path / "data", log.say, folder.has_trained,
                self._labels, origin.get("corpus", ""), writes=ranks.is_first,
            )  # fmt: skip
            if ranks.is_first:
                texts = prepared()
            ranks.wait()
            if not ranks.is_first:
                texts = prepared()
            model = self.model
            self._texts = texts.read_as(find_decode_config(recipe, model.config), model.config).concatenated(
                recipe.data.concatenate, recipe.train.seed, find_longest(recipe), recipe.data
            )
            self._say_what_trains(log)
            self._origin = {
                RECIPE: origin.get(RECIPE, recipe.to_toml()),
                "corpus": texts.mark,
                **({} if self.parts is None else {PARTS: self.parts.names}),
                **{name: text for name in (PLAN, REPLACED) if (text := folder.read(name))},
            }
            if ranks.is_first:
                self._describe_again(folder)
            self._trainer = self._make_trainer(folder, log)
            state = self._trainer.train()
            assert state.best_loss is not None  # the last step validates
            result = RunResult(
                folder=str(folder.path), steps=state.step, tokens=state.tokens, seconds=round(state.seconds, 1),
                best_step=state.best_step, valid_loss=state.best_loss, valid_bleu=state.best_bleu,
                stopped_early=state.stopped_early, valid_accuracy=state.best_accuracy, kept=self._trainer.chosen,
            )  # fmt: skip
            pairs = self._texts.valid_pairs if result.valid_bleu is not None else []
            signature = bleu_signature([target for _, target in pairs]) if pairs else ""
            card = model_card(recipe, model.config, result, parts=self.parts, chrf=state.best_chrf, signature=signature)
            if ranks.is_first:
                write_text(folder.path / CARD, card)
                folder.finish(result)  # last: a run that was stopped before writes its card again
            ranks.wait()
            set_parameters(model, load_tensors(folder.path / WEIGHTS), f"`{folder.path / WEIGHTS}`")
            model.eval()
            log.say(f"finished after {time.perf_counter() - started:,.0f} s; the model is in {folder.path}")
            return result
        except Exception as error:
            if not isinstance(error, LostRankError):
                tell_failure(str(error) or type(error).__name__)
            raise
        finally:
            log.close()

    def _begin(self, folder: RunFolder) -> None:
        """Makes the folder that of the run, or sees to it that its files are as they were written."""
        if self._resuming:
            for name in folder.mend():
                self._say(f"`{folder.path / name}` was not as it was written: it is written again")
            return
        folder.begin(self._recipe)
        if self._plan is not None:
            folder.save_plan(self._plan)
            self._say(str(self._plan))
        if self._asked_first is not None:
            folder.save_replaced(self._replaced, self._asked_first)

    def _make_trainer(self, folder: RunFolder, log: RunLog) -> Trainer:
        train, model = self._recipe.train, self.model
        validate = Validator(model, self._texts, train, self.ranks)
        validate_all, clock = validate.of_all(), None
        if train.budget:
            longer = max(1.0, validate_all.config.validate_decode / max(1, train.validate_decode))
            choosing = longer * ((CANDIDATES if train.average > 1 else 0) + bool(train.init_from))
            began = time.perf_counter() - self._seconds
            clock = Clock(train.budget, train.decay_fraction, began, validations_after=choosing)
        weights = folder.path / WEIGHTS
        return Trainer(
            model=model,
            shard=self._texts.train,
            config=train,
            checkpoints=checkpoints_of(folder.path, self._recipe),
            log=log,
            validate=validate,
            validate_all=validate_all,
            publish=partial(self._publish, folder),
            published=lambda: sha256_of(weights) if weights.is_file() else None,
            loss=self._loss,
            # That of sharded weights is made of what is left of them on this rank.
            optimizer=None if train.shard and self._optimizer is None else self.optimizer,
            schedule=self._schedule,
            hooks=self.hooks,
            text_of=self._text_of,
            sampling=self._sampling,
            has_start=bool(train.init_from),
            origin=self._origin,
            clock=clock,
            ranks=self.ranks,
        )

    def _publish(self, folder: RunFolder, weights: Tensors) -> None:
        """Writes weights as the run's model. What describes it never changes, and stands only beside weights.

        So the folder loads at every moment.
        """
        save_tensors(folder.path / WEIGHTS, weights)
        if not is_described(folder.path):
            save_description(folder.path, **self._description())
            self._origin[FILES] = digest_description(folder.path)

    def _describe_again(self, folder: RunFolder) -> None:
        """Writes the description of the model again where something is wrong with it, and notes what there is.

        Raises CheckpointError where it cannot be made as it was.
        """
        if self._wrong:
            description = self._description()
            check_mended(folder, self._wrong, **description)
            save_description(folder.path, **description)
            self._wrong = ""
        if (folder.path / WEIGHTS).is_file() and is_described(folder.path):
            self._origin[FILES] = digest_description(folder.path)

    def _description(self) -> dict[str, Any]:
        """Returns what describes the model, as save_description takes it."""
        decode = find_decode_config(self._recipe, self._config)
        if self._recipe.data.tgt_lang and len(self._languages) == 1:  # whoever opens the folder need not name it
            decode = in_language(decode, self._texts.tokenizers, *self._languages)
        return {
            "model": self._config,
            "tokenizers": self._texts.tokenizers,
            "decode": decode,
            "card": model_card(self._recipe, self._config, parts=self.parts),
            "labels": self._texts.labels,
            "languages": self._languages,
            "text": self._text_trained_on() if self._recipe.task == "translate" else None,
            "parts": self.parts,
        }

    def _text_trained_on(self) -> TrainingText | None:
        """Returns what the lines trained on are, with their pairs of languages, those of the start before them."""
        data, text, start = self._recipe.data, self._texts.train.text, self._begins_with
        earlier = start.model.text.pairs if start is not None and start.model.text is not None else ()
        own = tuple(map("-".join, data.pairs(len(data.files("src")))))
        pairs = tuple(dict.fromkeys((*earlier, *own)))
        return replace(text or TrainingText(), pairs=pairs) if pairs else text

    def _text_of(self, index: int) -> str:
        """Returns both sides of a training pair, as the tokenizers write its ids; of a text alone itself."""
        shard, tokenizers = self._texts.train, self._texts.tokenizers
        if shard.block:
            return f"`{tokenizers.target.decode(shard.target.ids[index : index + shard.block].tolist())}`"
        source = tokenizers.source.decode(shard.source[index].tolist())
        if self._recipe.task == "classify":
            return f"`{source}` and `{self._texts.labels[int(shard.target[index][0])]}`"
        if self._recipe.task == "generate":
            return f"`{source}`"
        return f"`{source}` and `{tokenizers.target.decode(shard.target[index].tolist())}`"

    def _say_what_trains(self, log: RunLog) -> None:
        train = self._recipe.train
        rate = "the paper's rate" if train.learning_rate is None else f"a rate of {train.learning_rate:g}"
        start = f", which begins with the weights of {train.init_from} and {rate}" if train.init_from else ""
        log.say(f"model: {sum(p.numel() for p in self.model.parameters()):,} parameters on {self.device}{start}")
        if train.precision == "bfloat16" and (warning := precision.warning(self.device)):
            log.say(f"warning: {warning}")


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
    """Trains a model into the folder `out`; called again with the same recipe, goes on where the run stands.

    It is `Run(...).train()`: the arguments, and what it raises, are those of both.
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
    """Returns what train() would do within a time budget, without a folder: it is `Run.plan`. Nothing is written."""
    found = Run(
        recipe, None, parts=parts, budget=budget, overrides=overrides, data=data, tokenizer=tokenizer,
        data_dir=data_dir, offline=offline, init_from=init_from, source_language=source_language,
        target_language=target_language, device=device, quiet=True,
    ).plan  # fmt: skip
    assert found is not None  # it was asked for
    return found


@contextmanager
def _failures_in_words(folder: RunFolder | None) -> Iterator[None]:
    """Says what to do where the disk, or memory, does not suffice for a run."""
    try:
        yield
    except OSError as error:
        if folder is None or not is_disk_failure(error):
            raise
        raise folder.out_of_room(error) from error
    except NotANumberError as error:  # while it validates: a step itself is not taken where its loss is not finite
        raise PellucidError(
            "training has diverged: in validation the model's output is not a number",
            "start over with `fresh=True` and a lower `train.learning_rate`, a longer `train.warmup_steps`, or "
            "`train.grad_clip`",
        ) from error
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise PellucidError(
            f"out of memory outside of the steps of training: {str(error).partition(chr(10))[0]}",
            "set a smaller model, or a lower `train.batch_tokens`, which validation takes at a time, too",
        ) from error


def _find_labels(corpus: Corpus | RunningCorpus, start: Start | None, described: Path | None) -> Labels:
    """Returns the classes in the order of the run's folder, of the start where that knows all, or of the alphabet."""
    if described is not None:
        return Labels(tuple(read_config(described)["labels"]))
    # What is cut off the training text for validation may hold all texts of a rare label.
    cut_off = [] if corpus.data.valid_src or "valid" in corpus.given else corpus.valid
    found = Labels.of(label for _, label in chain(corpus.train(), cut_off))
    if start is not None and set(found.names) <= set(start.model.labels):
        return Labels(start.model.labels)
    return found


def _types_of(model: nn.Module) -> dict[str, str]:
    """Returns the class of each module of a model, by the module's name."""
    return {name: f"{type(m).__module__}.{type(m).__qualname__}" for name, m in model.named_modules() if name}
