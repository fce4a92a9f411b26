"""`pellucid train`: from a recipe to a run folder, in one command that also resumes."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from pellucid.config import ModelConfig, Recipe, TrainConfig
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import ConfigError, PellucidError
from pellucid.model.transformer import Transformer
from pellucid.tasks.devices import find_device
from pellucid.text.tokenizers import Tokenizers
from pellucid.training import precision
from pellucid.training.clock import Clock
from pellucid.training.log import RunLog
from pellucid.training.loop import Trainer
from pellucid.training.memory import is_out_of_memory
from pellucid.training.state import Tensors
from pellucid.weights.files import is_disk_failure
from pellucid.weights.folder import CONFIG, WEIGHTS, SavedModel, read_config, save_description
from pellucid.weights.tensors import parameters, save_tensors, set_parameters
from pellucid.workflow.budget import Plan, plan_budget, with_vocabulary
from pellucid.workflow.card import model_card
from pellucid.workflow.changed_texts import changed_texts
from pellucid.workflow.locate import TEXT_FIELDS, locate
from pellucid.workflow.planned import Request, save_plan, stored_plan
from pellucid.workflow.prepare import Corpus, Prepared, open_corpus, prepare, train_tokenizers
from pellucid.workflow.process import keep_freed_memory
from pellucid.workflow.run_folder import RunFolder, RunResult, checkpoints_of
from pellucid.workflow.start import load_start, with_start
from pellucid.workflow.validate import Validator


def train(
    recipe: Recipe | str | Path,
    out: str | Path = "run",
    *,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
    offline: bool = False,
    init_from: str | Path = "",
    budget: str = "",
    started: float | None = None,
    device: str = "auto",
    fresh: bool = False,
    quiet: bool = False,
) -> RunResult:
    """Trains a model into the folder `out`; called again with the same recipe, goes on where the run stands.

    On a finished run it does nothing and says so: `RunResult.already_finished`.

    Args:
        recipe: a Recipe, the name of a shipped one, or a TOML file.
        overrides: `section.key=value` settings that win over a named recipe's; a Recipe has them already.
        data_dir: where the recipe's texts are looked for, after the paths as they are.
        offline: never fetch a recipe's texts from their publisher.
        init_from: a run or model folder whose model training goes on from, as `train.init_from` says.
        budget: how long all of it may take, as in 15m: shape, batches, steps follow from it, where `overrides` do not
            say otherwise.
        started: when the budget began to run, as time.perf_counter() counts; None: now.
        fresh: removes an earlier run from `out` first.

    Raises ConfigError, DataError: a setting or a text that cannot be used, before anything is written or trained;
    PellucidError where the disk is full and the run cannot end without it, or memory does not suffice; Interrupted
    after SIGINT or SIGTERM.
    """
    started = time.perf_counter() if started is None else started
    if not isinstance(recipe, Recipe):
        recipe = Recipe.load(recipe, list(overrides))
    target = find_device(device)
    run = RunFolder(Path(out))
    if init_from:
        recipe = replace(recipe, train=replace(recipe.train, init_from=str(init_from)))
    recipe = with_start(recipe, run, fresh, overrides)
    request = Request.of(recipe, budget, overrides, started) if budget else None
    if request is not None and not fresh and (planned := stored_plan(run, request)) is not None:
        texts: dict[str, Any] = {name: getattr(recipe.data, name) for name in TEXT_FIELDS}
        recipe, request = replace(planned, data=replace(planned.data, **texts)), None
    recipe = _with_precision(recipe, run, fresh, target)
    if run.check(recipe, fresh) and (result := run.result) is not None:
        return replace(result, changed_texts=changed_texts(run.path, recipe.data, data_dir))
    recipe = replace(recipe, data=locate(recipe.data, data_dir, fetch=not offline))
    try:
        with run.locked():
            return _Command(run, request, started, fresh, target, quiet).train(recipe)
    except OSError as error:
        if not is_disk_failure(error):
            raise
        raise run.out_of_room(error) from error
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise PellucidError(
            f"out of memory outside of the steps of training: {str(error).partition(chr(10))[0]}",
            "set a smaller model, or a lower `train.batch_tokens`, which validation takes at a time, too",
        ) from error


def plan(
    recipe: Recipe | str | Path,
    budget: str,
    *,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
    offline: bool = False,
    init_from: str | Path = "",
    device: str = "auto",
) -> Plan:
    """What train() would do with these arguments, without a folder: nothing is written. Raises what train() raises."""
    if not isinstance(recipe, Recipe):
        recipe = Recipe.load(recipe, list(overrides))
    target = find_device(device)
    nowhere = RunFolder(Path())
    if init_from:
        recipe = replace(recipe, train=replace(recipe.train, init_from=str(init_from)))
    recipe = with_start(recipe, nowhere, True, overrides)
    request = Request.of(recipe, budget, overrides)
    recipe = _with_precision(recipe, nowhere, True, target)
    recipe = replace(recipe, data=locate(recipe.data, data_dir, fetch=not offline))
    keep_freed_memory()
    corpus = open_corpus(recipe.data)
    recipe = with_vocabulary(recipe, request.fixed, len(corpus))
    corpus = replace(corpus, data=recipe.data)
    start = load_start(recipe, nowhere, resuming=False)
    tokenizers = start.tokenizers if start else train_tokenizers(corpus)
    return _plan(recipe, request, corpus, tokenizers, target)


def _plan(recipe: Recipe, request: Request, corpus: Corpus, tokenizers: Tokenizers, device: torch.device) -> Plan:
    recipe = replace(recipe, model=resolved_model(recipe.model, tokenizers))
    return plan_budget(recipe, request.fixed, request.seconds, request.started, corpus, tokenizers, device)


@dataclass(frozen=True)
class _Command:
    """One call of train(), in a folder that no other process writes to."""

    run: RunFolder
    request: Request | None
    """What to plan for first; None: the recipe is the plan."""
    started: float
    fresh: bool
    device: torch.device
    quiet: bool

    def train(self, recipe: Recipe) -> RunResult:
        """Goes on with the run in the folder, or begins one."""
        resuming = self.run.check(recipe, self.fresh) and self.request is None
        if resuming and self.run.result is not None:
            return self.run.result
        corpus = open_corpus(recipe.data)
        if not self.quiet:
            print(corpus.report(), file=sys.stderr)
        keep_freed_memory()
        if self.request is not None:
            recipe = with_vocabulary(recipe, self.request.fixed, len(corpus))
            corpus = replace(corpus, data=recipe.data)
        # All that can be refused is refused before an earlier run is removed.
        start = load_start(recipe, self.run, resuming)
        tokenizers = start.tokenizers if start else _tokenizers(self.run.path, corpus, resuming, self.quiet)
        plan = None if self.request is None else _plan(recipe, self.request, corpus, tokenizers, self.device)
        recipe = recipe if plan is None else plan.recipe
        config = resolved_model(recipe.model, tokenizers)
        _check_r_drop(recipe.train, config)
        sampling = _subword_sampling(recipe, config, tokenizers)
        if not resuming:
            self._begin(recipe, plan)
        log = RunLog(self.run.path, recipe.train.steps, self.quiet)
        try:
            prepared = prepare(corpus, tokenizers, self.run.path / "data", log, self.run.has_trained)
            model = _first_model(recipe, config, start, self.device)
            _say_what_trains(model, recipe, log)
            return _Job(recipe, config, self.run, prepared, sampling, log, self._clock(recipe.train)).train(model)
        finally:
            log.close()

    def _begin(self, recipe: Recipe, plan: Plan | None) -> None:
        self.run.begin(recipe)
        if plan is not None and self.request is not None:
            save_plan(self.run, plan, self.request)
            if not self.quiet:
                print(plan, file=sys.stderr)

    def _clock(self, train: TrainConfig) -> Clock | None:
        return Clock(train.budget, train.decay_fraction, self.started) if train.budget else None


@dataclass(frozen=True)
class _Job:
    """A run whose texts are read and whose settings are checked."""

    recipe: Recipe
    config: ModelConfig
    run: RunFolder
    prepared: Prepared
    sampling: SubwordSampling | None
    log: RunLog
    clock: Clock | None

    def train(self, model: Transformer) -> RunResult:
        """Trains to the end, and writes down what the run came to."""
        started = time.perf_counter()
        state = self._trainer(model).train()
        assert state.best_loss is not None  # the last step validates
        result = RunResult(
            folder=str(self.run.path), steps=state.step, tokens=state.tokens, seconds=round(state.seconds, 1),
            best_step=state.best_step, valid_loss=state.best_loss, valid_bleu=state.best_bleu,
            stopped_early=state.stopped_early,
        )  # fmt: skip
        self.run.finish(result)
        self.log.say(f"finished after {time.perf_counter() - started:,.0f} s; the model is in {self.run.path}")
        return result

    def _trainer(self, model: Transformer) -> Trainer:
        train = self.recipe.train
        return Trainer(
            model=model,
            shard=self.prepared.train,
            config=train,
            checkpoints=checkpoints_of(self.run.path, self.recipe),
            log=self.log,
            validate=Validator(model, self.prepared, train),
            keep=self._keep,
            text_of=self._text_of,
            sampling=self.sampling,
            has_start=bool(train.init_from),
            clock=self.clock,
        )

    def _keep(self, weights: Tensors) -> None:
        # What describes the model never changes, and stands only beside weights: so the folder loads at every moment.
        save_tensors(self.run.path / WEIGHTS, weights)
        if not (self.run.path / CONFIG).is_file():
            longest = min(
                self.recipe.decode.max_source_length, self.recipe.data.max_length, self.config.max_positions - 1
            )
            decode = replace(self.recipe.decode, max_source_length=longest)
            card = model_card(self.recipe, self.config)
            save_description(self.run.path, self.config, self.prepared.tokenizers, decode, card)

    def _text_of(self, index: int) -> str:
        """Both sides of a training pair, as the tokenizers write its ids."""
        shard, tokenizers = self.prepared.train, self.prepared.tokenizers
        source = tokenizers.source.decode(shard.source[index].tolist())
        return f"`{source}` and `{tokenizers.target.decode(shard.target[index].tolist())}`"


def _first_model(recipe: Recipe, config: ModelConfig, start: SavedModel | None, device: torch.device) -> Transformer:
    """The model that training begins with: with random weights, which follow from the seed, or those of `start`."""
    torch.manual_seed(recipe.train.seed)
    model = Transformer(config)
    if start is not None:
        set_parameters(model, parameters(start.model), f"`{recipe.train.init_from}`")
    return model.to(device)


def resolved_model(config: ModelConfig, tokenizers: Tokenizers) -> ModelConfig:
    """The model's shape with the sizes and special ids of its tokenizers."""
    target = tokenizers.target
    return replace(
        config,
        src_vocab_size=tokenizers.source.size,
        tgt_vocab_size=target.size,
        pad_id=target.pad_id,
        bos_id=target.bos_id,
        eos_id=target.eos_id,
    )


def _with_precision(recipe: Recipe, run: RunFolder, fresh: bool, device: torch.device) -> Recipe:
    """The recipe with `precision = "auto"` decided: as the run in the folder has it, else by a measurement."""
    if recipe.train.precision != "auto":
        return recipe
    stored = None if fresh else run.recipe
    if stored is not None:
        chosen = stored.train.precision
    else:
        chosen = "float32" if precision.warning(device) else "bfloat16"
    return replace(recipe, train=replace(recipe.train, precision=chosen))


def _check_r_drop(train: TrainConfig, config: ModelConfig) -> None:
    """Raises ConfigError where R-Drop has nothing to compare."""
    if train.r_drop and not (config.dropout or config.attention_dropout or config.feed_forward_dropout):
        raise ConfigError(
            f"`train.r_drop` ({train.r_drop}) compares two passes with different dropout, but the model's dropout is 0",
            "set `model.dropout`, or `train.r_drop = 0`",
        )


def _say_what_trains(model: Transformer, recipe: Recipe, log: RunLog) -> None:
    device, train = model.output_projection.weight.device, recipe.train
    start = f", which begins with the weights of {train.init_from}" if train.init_from else ""
    log.say(f"model: {sum(p.numel() for p in model.parameters()):,} parameters on {device}{start}")
    if train.precision == "bfloat16" and (warning := precision.warning(device)):
        log.say(f"warning: {warning}")


def _subword_sampling(recipe: Recipe, config: ModelConfig, tokenizers: Tokenizers) -> SubwordSampling | None:
    """How training sentences are cut anew, if they are; ConfigError for tokenizers that know one way only."""
    longest = min(recipe.data.max_length, config.max_positions - 1)
    return SubwordSampling.of(tokenizers, recipe.data.subword_sampling, recipe.train.seed, longest)


def _tokenizers(folder: Path, corpus: Corpus, resuming: bool, quiet: bool) -> Tokenizers:
    """The run's tokenizers: those in its folder when it goes on, else new ones."""
    if resuming and (folder / CONFIG).is_file():
        return Tokenizers.load(folder, read_config(folder)["tokenizer"])
    if not quiet:
        print(f"training the tokenizer ({corpus.data.tokenizer})", file=sys.stderr)
    tokenizers = train_tokenizers(corpus)
    if not quiet:
        sizes = " and ".join(f"{size:,}" for size in sorted({tokenizers.source.size, tokenizers.target.size}))
        print(f"vocabulary: {sizes} (upper bound {corpus.data.vocab_size:,})", file=sys.stderr)
    return tokenizers
