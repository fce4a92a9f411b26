"""`pellucid train`: from a recipe to a run folder, in one command that also resumes."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pellucid.config import RECIPE, ModelConfig, Recipe
from pellucid.data.prepare import Prepared, prepare
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.decoding.steps import NotANumberError
from pellucid.errors import PellucidError
from pellucid.evaluation.scores import bleu_signature
from pellucid.files.writing import is_disk_failure, write_text
from pellucid.model.transformer import Model, build_model
from pellucid.planning.budget import Plan
from pellucid.planning.resolved import decode_of, longest_trained_on
from pellucid.run.asked import Asked
from pellucid.run.card import model_card
from pellucid.run.changed_texts import changed_texts
from pellucid.run.folder import NOWHERE, PLAN, RunFolder, RunResult, checkpoints_of
from pellucid.run.mending import FILES, check_mended, check_places, described, lost
from pellucid.run.opened import Opened
from pellucid.run.planned import save_plan
from pellucid.run.validate import Validator
from pellucid.training import precision
from pellucid.training.clock import Clock
from pellucid.training.log import RunLog
from pellucid.training.loop import Trainer
from pellucid.training.memory import is_out_of_memory
from pellucid.training.state import Tensors, sha256_of
from pellucid.weights.folder import WEIGHTS, is_described, save_description
from pellucid.weights.tensors import parameters, save_tensors, set_parameters


def train(
    recipe: Recipe | str | Path,
    out: str | Path = "run",
    *,
    overrides: Sequence[str] = (),
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

    On a finished run it does nothing and says so: `RunResult.already_finished`.

    Args:
        recipe: a Recipe, the name of a shipped one, or a TOML file.
        overrides: `section.key=value` settings that win over a named recipe's; a Recipe has them already.
        data_dir: where the recipe's texts are looked for, after the paths as they are.
        offline: never fetch a recipe's texts from their publisher.
        init_from: a run or model folder whose model training goes on from, as `train.init_from` says; named here, and
            where `overrides` do not say otherwise, it trains at a twentieth of the recipe's rate.
        source_language, target_language: codes, where that model translates between many: what the texts are in.
        budget: how long all of it may take, as in 15m: shape, batches, steps follow from it, where `overrides` do not
            say otherwise.
        started: when the budget began to run, as time.perf_counter() counts; None: now.
        fresh: removes an earlier run from `out` first.

    Raises ConfigError, DataError: a setting or a text that cannot be used, before anything is written or trained;
    PellucidError where the disk is full and the run cannot end without it, or memory does not suffice; Interrupted
    after SIGINT, SIGTERM or SIGHUP.
    """
    check_places(RunFolder(Path(out)))
    asked = Asked.of(
        recipe, RunFolder(Path(out)), fresh=fresh, overrides=overrides, init_from=init_from, budget=budget,
        languages=(source_language, target_language), started=started, device=device,
    )  # fmt: skip
    run = asked.run
    if run.check(asked.recipe, fresh) and (result := run.result) is not None and not _must_be_mended(run):
        return replace(result, changed_texts=changed_texts(run.path, asked.recipe.data, data_dir))
    asked = asked.with_texts_found(data_dir, offline)
    with _failures_in_words(run), run.locked():
        return _run(asked, quiet)


def plan(
    recipe: Recipe | str | Path,
    budget: str,
    *,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
    offline: bool = False,
    init_from: str | Path = "",
    source_language: str | None = None,
    target_language: str | None = None,
    device: str = "auto",
) -> Plan:
    """What train() would do with these arguments, without a folder: nothing is written. Raises what train() raises."""
    asked = Asked.of(
        recipe, NOWHERE, overrides=overrides, init_from=init_from, budget=budget,
        languages=(source_language, target_language), device=device,
    )  # fmt: skip
    plan = Opened.of(asked.with_texts_found(data_dir, offline), resuming=False, say=_mute).plan
    assert plan is not None  # it was asked for
    return plan


CANDIDATES = 3
"""From which the model is chosen at the end, beside a start: the best validation and two means."""
CLASSES = "head.class_projection."
"""The parameters that tell classes apart."""


@contextmanager
def _failures_in_words(run: RunFolder) -> Iterator[None]:
    """Says what to do where the disk, or memory, does not suffice for a run."""
    try:
        yield
    except OSError as error:
        if not is_disk_failure(error):
            raise
        raise run.out_of_room(error) from error
    except NotANumberError as error:  # while it validates: a step itself is not taken where its loss is not finite
        raise PellucidError(
            "training has diverged: in validation the model's output is not a number",
            "start over with --fresh and a lower `train.learning_rate`, a longer `train.warmup_steps`, or "
            "`train.grad_clip`",
        ) from error
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise PellucidError(
            f"out of memory outside of the steps of training: {str(error).partition(chr(10))[0]}",
            "set a smaller model, or a lower `train.batch_tokens`, which validation takes at a time, too",
        ) from error


def _run(asked: Asked, quiet: bool) -> RunResult:
    """Goes on with the run in the folder, which no other process writes to now, or begins one."""
    run, say = asked.run, _mute if quiet else _say
    resuming = run.check(asked.recipe, asked.fresh) and asked.request is None
    if (
        resuming and run.result is not None and not _must_be_mended(run)
    ):  # another process has finished it in the meantime
        return run.result
    # All that can be refused is refused before an earlier run is removed.
    opened = Opened.of(asked, resuming, say)
    if not resuming:
        run.begin(opened.recipe)
        if opened.plan is not None:
            save_plan(run, opened.plan)
            say(str(opened.plan))
    else:
        for name in run.mend():
            say(f"`{run.path / name}` was not as it was written: it is written again")
    train = opened.recipe.train
    log = RunLog(run.path, train.steps, quiet)
    try:
        data = run.path / "data"
        known = run.origin.get("corpus", "")
        prepared = prepare(opened.corpus, opened.tokenizers, data, log.say, run.has_trained, opened.labels, known)
        model = _first_model(opened, asked.device)
        prepared = prepared.read_as(decode_of(opened.recipe, model.config), model.config)
        concatenate, seed = opened.recipe.data.concatenate, opened.recipe.train.seed
        prepared = prepared.concatenated(concatenate, seed, longest_trained_on(opened.recipe))
        _say_what_trains(model, opened.recipe, log)
        origin = {RECIPE: opened.recipe.to_toml() if not resuming else run.origin.get(RECIPE, opened.recipe.to_toml())}
        origin |= {"corpus": prepared.mark} | ({PLAN: run.plan} if run.plan else {})
        job = _Job(opened.recipe, run, prepared, opened.languages, opened.sampling, log, asked.started, origin)
        job.describe_again(model.config, opened.wrong)
        return job.train(model)
    finally:
        log.close()


def _must_be_mended(run: RunFolder) -> bool:
    """Whether a finished run has lost what its checkpoints can make again."""
    return run.has_checkpoints and (not (run.path / WEIGHTS).is_file() or bool(lost(run)))


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _mute(text: str) -> None:
    """For who is not to hear of it."""


@dataclass(frozen=True)
class _Job:
    """A run whose texts are read and whose settings are checked."""

    recipe: Recipe
    run: RunFolder
    prepared: Prepared
    languages: Mapping[str, int]
    sampling: SubwordSampling | None
    log: RunLog
    started: float
    """When the command began, as time.perf_counter() counts."""
    origin: dict[str, Any]
    """What the run comes from."""

    def describe_again(self, config: ModelConfig, wrong: str) -> None:
        """Writes the description of the model again where something is wrong with it, and notes what there is.

        Raises CheckpointError where it cannot be made as it was.
        """
        if wrong:
            parts = self._description(config)
            check_mended(self.run, wrong, **parts)
            save_description(self.run.path, **parts)
        if (self.run.path / WEIGHTS).is_file() and is_described(self.run.path):
            self.origin[FILES] = described(self.run.path)

    def train(self, model: Model) -> RunResult:
        """Trains to the end, and writes down what the run came to."""
        started = time.perf_counter()
        trainer = self._trainer(model)
        state = trainer.train()
        assert state.best_loss is not None  # the last step validates
        result = RunResult(
            folder=str(self.run.path), steps=state.step, tokens=state.tokens, seconds=round(state.seconds, 1),
            best_step=state.best_step, valid_loss=state.best_loss, valid_bleu=state.best_bleu,
            stopped_early=state.stopped_early, valid_accuracy=state.best_accuracy, kept=trainer.chosen,
        )  # fmt: skip
        pairs = self.prepared.valid_pairs if result.valid_bleu is not None else []
        signature = bleu_signature([target for _, target in pairs]) if pairs else ""
        card = model_card(self.recipe, model.config, result, chrf=state.best_chrf, signature=signature)
        write_text(self.run.path / "README.md", card)
        self.run.finish(result)  # last: a run that was stopped before writes its card again
        self.log.say(f"finished after {time.perf_counter() - started:,.0f} s; the model is in {self.run.path}")
        return result

    def _trainer(self, model: Model) -> Trainer:
        train, validate = self.recipe.train, Validator(model, self.prepared, self.recipe.train)
        validate_all, clock = validate.of_all(), None
        if train.budget:
            longer = max(1.0, validate_all.config.validate_decode / max(1, train.validate_decode))
            choosing = longer * ((CANDIDATES if train.average > 1 else 0) + bool(train.init_from))
            clock = Clock(train.budget, train.decay_fraction, self.started, validations_after=choosing)
        return Trainer(
            model=model,
            shard=self.prepared.train,
            config=train,
            checkpoints=checkpoints_of(self.run.path, self.recipe),
            log=self.log,
            validate=validate,
            validate_all=validate_all,
            keep=partial(self._keep, model.config),
            kept=self._kept,
            text_of=self._text_of,
            sampling=self.sampling,
            has_start=bool(train.init_from),
            origin=self.origin,
            clock=clock,
        )

    def _keep(self, config: ModelConfig, weights: Tensors) -> None:
        # What describes the model never changes, and stands only beside weights: so the folder loads at every moment.
        save_tensors(self.run.path / WEIGHTS, weights)
        if not is_described(self.run.path):
            save_description(self.run.path, **self._description(config))
            self.origin[FILES] = described(self.run.path)

    def _description(self, config: ModelConfig) -> dict[str, Any]:
        """What describes the model, as save_description takes it."""
        return {
            "model": config,
            "tokenizers": self.prepared.tokenizers,
            "decode": decode_of(self.recipe, config),
            "card": model_card(self.recipe, config),
            "labels": self.prepared.labels,
            "languages": self.languages,
            "text": self.prepared.train.text if self.recipe.task == "translate" else None,
        }

    def _kept(self) -> str | None:
        path = self.run.path / WEIGHTS
        return sha256_of(path) if path.is_file() else None

    def _text_of(self, index: int) -> str:
        """Both sides of a training pair, as the tokenizers write its ids; of a text alone itself."""
        shard, tokenizers = self.prepared.train, self.prepared.tokenizers
        if shard.block:
            return f"`{tokenizers.target.decode(shard.target.ids[index : index + shard.block].tolist())}`"
        source = tokenizers.source.decode(shard.source[index].tolist())
        if self.recipe.task == "classify":
            return f"`{source}` and `{self.prepared.labels[int(shard.target[index][0])]}`"
        if self.recipe.task == "generate":
            return f"`{source}`"
        return f"`{source}` and `{tokenizers.target.decode(shard.target[index].tolist())}`"


def _first_model(opened: Opened, device: torch.device) -> Model:
    """The model that training begins with: with random weights, which follow from the seed, or those of a start."""
    train, labels = opened.recipe.train, opened.labels.names if opened.labels else ()
    torch.manual_seed(train.seed)
    model = build_model(opened.model)
    if opened.start is not None:
        tensors = parameters(opened.start.model)
        if labels and opened.start.labels != labels:  # the classes are others: what tells them apart is new
            tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(CLASSES)}
            tensors = parameters(model) | tensors
        set_parameters(model, tensors, f"`{train.init_from}`")
    return model.to(device)


def _say_what_trains(model: Model, recipe: Recipe, log: RunLog) -> None:
    device, train = next(model.parameters()).device, recipe.train
    rate = "the paper's rate" if train.learning_rate is None else f"a rate of {train.learning_rate:g}"
    start = f", which begins with the weights of {train.init_from} and {rate}" if train.init_from else ""
    log.say(f"model: {sum(p.numel() for p in model.parameters()):,} parameters on {device}{start}")
    if train.precision == "bfloat16" and (warning := precision.warning(device)):
        log.say(f"warning: {warning}")
