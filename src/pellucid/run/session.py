"""The training of a run into its folder: encoded texts, a Trainer, and the files of the model."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pellucid.analysis.aligning_head import head_to_keep
from pellucid.config import RECIPE, Recipe
from pellucid.data.labels import Labels
from pellucid.data.prepare import TrainingData, prepare
from pellucid.evaluation.scores import bleu_signature
from pellucid.files.reading import hash_file
from pellucid.files.writing import write_text
from pellucid.model.families import Model, build_model
from pellucid.model.parts import Parts
from pellucid.model.transformer import Transformer
from pellucid.planning.settings import compute_max_tokens, find_decode_config
from pellucid.properties.guard import find_fault
from pellucid.run.card import find_language_pair, model_card
from pellucid.run.folder import PLAN, REPLACED, RunFolder, RunResult, open_checkpoints
from pellucid.run.inputs import TrainingInputs
from pellucid.run.repair import FILES, check_repair, hash_description
from pellucid.run.resume import PARTS
from pellucid.run.validation import Validator
from pellucid.tasks.languages import set_target_language
from pellucid.tasks.translator import Translator
from pellucid.text.training_text import TrainingTextStats
from pellucid.text.word_forms import WordForms, save_word_forms
from pellucid.training import precision
from pellucid.training.events import Hooks
from pellucid.training.log import RunLog
from pellucid.training.loop import Trainer
from pellucid.training.loss import Loss
from pellucid.training.optimizer import Optimizer, Tensors
from pellucid.training.ranks import DistributedContext
from pellucid.training.schedule import BudgetClock
from pellucid.weights.aligning_head import keep_head
from pellucid.weights.card import CARD
from pellucid.weights.folder import WEIGHTS, is_pellucid_folder, save_description
from pellucid.weights.tensors import load_tensors, save_tensors, set_parameters

CANDIDATES = 3
"""The number of candidates for the model at the end, without an initial model: the best validation and two means."""
MOST_COUNTED = 200_000
"""The most sources, evenly spaced, whose words are counted."""


def begin_run(
    folder: RunFolder, inputs: TrainingInputs, replaced: Mapping[str, Recipe], log_line: Callable[[str], None]
) -> None:
    """Begins a new run in a folder.

    Args:
        replaced: the attributes that the run's script has replaced, in order, each with the recipe before that.
    """
    folder.begin(inputs.recipe)
    if inputs.plan is not None:
        folder.save_plan(inputs.plan)
        log_line(str(inputs.plan))
    if replaced:
        folder.save_replaced(replaced, next(iter(replaced.values())))


class TrainingSession:
    """Trains a model in a folder that this process has locked, in a new or resumed run.

    Encodes the texts, on rank 0 before the others. Raises CheckpointError if the model's description cannot be rebuilt.
    """

    def __init__(
        self,
        folder: RunFolder,
        inputs: TrainingInputs,
        model: Model,
        parts: Parts | None,
        ranks: DistributedContext,
        log: RunLog,
    ) -> None:
        self.folder = folder
        self.inputs = inputs
        self.model = model
        self.parts = parts
        self.ranks = ranks
        self.log = log
        recipe, origin = inputs.recipe, folder.origin
        encode = partial(
            prepare, inputs.corpus, inputs.tokenizers, folder.path / "data", log.log_line, folder.has_trained,
            Labels(inputs.labels) if inputs.labels else None, origin.get("corpus", ""), writes=ranks.is_first,
        )  # fmt: skip
        if ranks.is_first:
            texts = encode()
        ranks.barrier()
        if not ranks.is_first:
            texts = encode()
        self.texts: TrainingData = texts.read_as(find_decode_config(recipe, model.config), model.config).concatenate(
            recipe.data.concatenate, recipe.train.seed, compute_max_tokens(recipe), recipe.data
        )
        self._say_what_trains()
        if parts is not None and parts.names and not folder.has_trained:
            self._check_parts(parts)
        self._origin = {
            RECIPE: origin.get(RECIPE, recipe.to_toml()),
            "corpus": texts.mark,
            **({} if parts is None else {PARTS: parts.names}),
            **{name: text for name in (PLAN, REPLACED) if (text := folder.read(name))},
        }
        if ranks.is_first:
            self._repair_description()

    def make_trainer(
        self,
        loss: Loss | None,
        optimizer: Optimizer | None,
        schedule: Callable[[int], float] | None,
        hooks: Hooks,
        began: float,
    ) -> Trainer:
        """Returns the trainer of the model; an argument that is None is made from the settings.

        Args:
            began: the start of a time budget, by time.perf_counter().
        """
        train, inputs = self.inputs.recipe.train, self.inputs
        validate = Validator(self.model, self.texts, train, self.ranks)
        validate_all, clock = validate.for_all_text(), None
        if train.budget:
            longer = max(1.0, validate_all.config.decode_and_evaluate / max(1, train.decode_and_evaluate))
            choosing = longer * ((CANDIDATES if train.average > 1 else 0) + bool(train.init_from))
            clock = BudgetClock(train.budget, train.decay_fraction, began, validations_after=choosing)
        weights = self.folder.path / WEIGHTS
        return Trainer(
            model=self.model,
            shard=self.texts.train,
            config=train,
            checkpoints=open_checkpoints(self.folder.path, inputs.recipe),
            log=self.log,
            validate=validate,
            validate_all=validate_all,
            publish=self._publish,
            published=lambda: hash_file(weights) if weights.is_file() else None,
            loss=loss,
            optimizer=optimizer,
            schedule=schedule,
            hooks=hooks,
            text_of=self._text_of,
            sampling=inputs.sampling,
            has_start=bool(train.init_from),
            origin=self._origin,
            clock=clock,
            ranks=self.ranks,
        )

    def finish(self, trainer: Trainer) -> RunResult:
        """Writes the result of a finished training; loads the selected weights into the model."""
        folder, recipe, state = self.folder, self.inputs.recipe, trainer.state
        assert state.best_loss is not None  # the last step validates
        result = RunResult(
            folder=str(folder.path), steps=state.step, tokens=state.tokens, seconds=round(state.seconds, 1),
            best_step=state.best_step, valid_loss=state.best_loss, valid_bleu=state.best_bleu,
            stopped_early=state.stopped_early, valid_accuracy=state.best_accuracy, kept=trainer.selection.chosen,
        )  # fmt: skip
        pairs = self.texts.valid_pairs if result.valid_bleu is not None else []
        signature = bleu_signature([target for _, target in pairs]) if pairs else ""
        card = model_card(
            recipe, self.model.config, result, parts=self.parts, chrf=state.best_chrf, signature=signature
        )
        if self.ranks.is_first:
            self._load_published(self.model)
            self._keep_aligning_head()
            save_word_forms(self._count_word_forms(), folder.path)
            write_text(folder.path / CARD, card)
            folder.finish(result)  # last: a run that was stopped before writes its card again
        self.ranks.barrier()
        if not self.ranks.is_first:
            self._load_published(self.model)
        return result

    def _load_published(self, model: Model) -> None:
        """Loads the selected weights into a model, in evaluation mode."""
        path = self.folder.path / WEIGHTS
        set_parameters(model, load_tensors(path), f"`{path}`")
        model.eval()

    def _keep_aligning_head(self) -> None:
        """Finds the aligning head of a translator on the validation set, and stores it in the folder."""
        model = self.model
        if self.inputs.recipe.train.fsdp:  # a trace copies layers, and FSDP's cannot be copied
            self._load_published(model := build_model(self.inputs.config, self.parts))
        if isinstance(model, Transformer):
            translator = Translator(model, self.texts.tokenizers, self.texts.decode)
            keep_head(head_to_keep(translator, self.texts.valid_pairs), self.folder.path)

    def _count_word_forms(self) -> WordForms | None:
        """Counts the words of the sources of a translator; None for sources of several languages."""
        data, source = self.inputs.recipe.data, self.texts.train.source
        if self.inputs.recipe.task != "translate" or len({*data.files("src_lang")}) > 1:
            return None
        tokenizer = self.texts.tokenizers.source
        step = max(1, -(-len(source) // MOST_COUNTED))
        return WordForms.from_lines(tokenizer.decode(source[i].tolist()) for i in range(0, len(source), step))

    def _publish(self, weights: Tensors) -> None:
        """Writes weights as the run's model. Its description never changes, and is only written after weights.

        So the folder loads at every moment.
        """
        folder = self.folder.path
        save_tensors(folder / WEIGHTS, weights)
        keep_head(None, folder)  # the head of a finished run is not of these weights
        if not is_pellucid_folder(folder):
            save_description(folder, **self._description())
            self._origin[FILES] = hash_description(folder)

    def _repair_description(self) -> None:
        """Rebuilds the description of the model if it is damaged, and records the SHA-256 of its files.

        Raises CheckpointError if the result would differ.
        """
        if damage := self.inputs.damage:
            description = self._description()
            check_repair(self.folder, damage, **description)
            save_description(self.folder.path, **description)
        if (self.folder.path / WEIGHTS).is_file() and is_pellucid_folder(self.folder.path):
            self._origin[FILES] = hash_description(self.folder.path)

    def _description(self) -> dict[str, Any]:
        """Returns the description of the model, as arguments of save_description."""
        inputs, texts, recipe = self.inputs, self.texts, self.inputs.recipe
        decode = find_decode_config(recipe, inputs.config)
        if recipe.data.tgt_lang and len(inputs.languages) == 1:  # a caller that opens the folder need not name it
            decode = set_target_language(decode, texts.tokenizers, *inputs.languages)
        return {
            "model": inputs.config,
            "tokenizers": texts.tokenizers,
            "decode": decode,
            "card": model_card(recipe, inputs.config, parts=self.parts),
            "labels": texts.labels,
            "languages": inputs.languages,
            "text": self._training_text() if recipe.task == "translate" else None,
            "parts": self.parts,
        }

    def _training_text(self) -> TrainingTextStats | None:
        """Returns statistics of the training text, with its language pairs.

        A multilingual model has the initial model's pairs, too; a model of one pair has them if its own is unknown.
        """
        recipe, text, start = self.inputs.recipe, self.texts.train.text, self.inputs.start
        earlier = start.model.text.pairs if start is not None and start.model.text is not None else ()
        own = tuple(map("-".join, recipe.data.pairs(len(recipe.data.files("src")))))
        pairs = tuple(dict.fromkeys((*earlier, *own)))
        if not self.inputs.languages and (pair := find_language_pair(recipe)):
            pairs = ("-".join(pair),)
        return replace(text or TrainingTextStats(), pairs=pairs) if pairs else text

    def _text_of(self, index: int) -> str:
        """Returns source and target of a training pair, decoded from ids; for a single text only this."""
        shard, tokenizers, task = self.texts.train, self.texts.tokenizers, self.inputs.recipe.task
        if shard.block:
            return f"`{tokenizers.target.decode(shard.target.ids[index : index + shard.block].tolist())}`"
        source = tokenizers.source.decode(shard.source[index].tolist())
        if task == "classify":
            return f"`{source}` and `{self.texts.labels[int(shard.target[index][0])]}`"
        if task == "generate":
            return f"`{source}`"
        return f"`{source}` and `{tokenizers.target.decode(shard.target[index].tolist())}`"

    def _check_parts(self, parts: Parts) -> None:
        """Warns of custom parts that leak the future or show padding, where the loss looks better than the output."""
        if fault := find_fault(self.model, parts, self.texts.decode):
            self.log.log_line(f"warning: {fault}")

    def _say_what_trains(self) -> None:
        train, device = self.inputs.recipe.train, next(self.model.parameters()).device
        rate = (
            "the paper's learning rate"
            if train.learning_rate is None
            else f"a learning rate of {train.learning_rate:g}"
        )
        start = f", initialized with the weights of {train.init_from}, and {rate}" if train.init_from else ""
        self.log.log_line(f"model: {sum(p.numel() for p in self.model.parameters()):,} parameters on {device}{start}")
        if train.precision == "bfloat16" and (warning := precision.get_precision_warning(device)):
            self.log.log_line(f"warning: {warning}")
