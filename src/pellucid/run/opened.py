"""What a command begins with once its texts are read: its tokenizers and, with a time budget, its plan."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Self

from pellucid.config import ModelConfig, Recipe
from pellucid.data.classified import Labels
from pellucid.data.prepare import Corpus, open_corpus, train_tokenizers
from pellucid.data.running import RunningCorpus
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.decoding.steps import check_ids
from pellucid.errors import CheckpointError
from pellucid.planning.budget import Plan, plan_budget, with_vocabulary
from pellucid.planning.resolved import (
    check_concatenation,
    check_r_drop,
    check_source_end,
    longest_trained_on,
    model_of,
    subword_sampling,
)
from pellucid.process import keep_freed_memory
from pellucid.run.asked import Asked
from pellucid.run.folder import RunFolder
from pellucid.run.mending import lost
from pellucid.run.start import load_start
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights.folder import SavedModel, is_described, read_config

Say = Callable[[str], object]
"""Takes a line for the reader."""


@dataclass(frozen=True)
class Opened:
    """All that can be refused has been looked at, and nothing is written yet."""

    recipe: Recipe
    """That of the plan, where there is one."""
    corpus: Corpus | RunningCorpus
    start: SavedModel | None
    """The model whose weights training begins with; None: random ones, or those of a checkpoint."""
    tokenizers: Tokenizers
    sampling: SubwordSampling | None
    """How training sentences are cut anew, if they are."""
    plan: Plan | None
    labels: Labels | None
    """The classes of a classifier."""
    languages: Mapping[str, int]
    """The codes of languages in the vocabulary, with their ids; most have none."""
    wrong: str = ""
    """What is wrong with the description of the model in the folder of a run that goes on, and is made again."""

    @property
    def model(self) -> ModelConfig:
        """The shape of the model that is trained."""
        return model_of(self.recipe, self.tokenizers, self.labels.names if self.labels else ())

    @classmethod
    def of(cls, asked: Asked, resuming: bool, say: Say) -> Self:
        """Reads the texts, trains the tokenizer and makes the plan.

        Raises ConfigError, DataError for what cannot be trained on, or with these settings.
        """
        recipe, request = asked.recipe, asked.request
        corpus = open_corpus(recipe.data, recipe.task)
        say(corpus.report())
        keep_freed_memory()
        if request is not None:
            assert isinstance(corpus, Corpus)  # a budget is for translators alone
            recipe = with_vocabulary(recipe, request.fixed, corpus)
            corpus = replace(corpus, data=recipe.data)
        wrong = lost(asked.run) if resuming else ""
        if wrong:
            say(f"{wrong}: it is made again from the {'start' if recipe.train.init_from else 'texts'} of the run")
        start = _start(recipe, asked.run, resuming, wrong)
        resuming = resuming and not wrong
        tokenizers = _tokenizers(asked.run.path, corpus, start, resuming, say)
        labels = _labels(asked.run.path, corpus, start, resuming) if recipe.task == "classify" else None
        sampling = subword_sampling(recipe, tokenizers)
        check_concatenation(recipe)
        plan = None
        if request is not None and isinstance(corpus, Corpus):
            plan = plan_budget(recipe, request, corpus, tokenizers, sampling, asked.device)
            recipe = plan.recipe
        check_r_drop(recipe)
        check_source_end(recipe)
        languages = _languages(asked.run.path, start, resuming)
        corpus = _as_long_as_fits(corpus, recipe)
        opened = cls(recipe, corpus, start, tokenizers, sampling, plan, labels, languages, wrong)
        check_ids(recipe.decode, opened.model)
        return opened


def _start(recipe: Recipe, run: RunFolder, resuming: bool, wrong: str) -> SavedModel | None:
    """The model that a run starts from, or whose description it has lost.

    Raises CheckpointError where it is needed for that and not there any more.
    """
    try:
        return load_start(recipe, run, resuming and not wrong)
    except CheckpointError as error:
        if not wrong:
            raise
        raise CheckpointError(
            f"{wrong}, and what it was made from is not there: {error}",
            f"copy the model `{recipe.train.init_from}` back to its place, or start over with --fresh",
        ) from error


def _tokenizers(
    folder: Path, corpus: Corpus | RunningCorpus, start: SavedModel | None, resuming: bool, say: Say
) -> Tokenizers:
    """The run's tokenizers: those of its start, those in its folder when it goes on, else new ones."""
    if start is not None and start.tokenizers is not None:
        return start.tokenizers
    if resuming and is_described(folder):
        return Tokenizers.load(folder, read_config(folder)["tokenizer"])
    say(f"training the tokenizer ({corpus.data.tokenizer})")
    tokenizers = train_tokenizers(corpus, say)
    sizes = " and ".join(f"{size:,}" for size in sorted({tokenizers.source.size, tokenizers.target.size}))
    bounds = {
        corpus.data.vocab_size,
        (not corpus.data.joint and corpus.data.target_vocab_size) or corpus.data.vocab_size,
    }
    say(f"vocabulary: {sizes} (upper bound {' and '.join(f'{bound:,}' for bound in sorted(bounds))})")
    return tokenizers


def _as_long_as_fits(corpus: Corpus | RunningCorpus, recipe: Recipe) -> Corpus | RunningCorpus:
    """The corpus with no longer texts than the model has positions for; a classifier cuts its own."""
    if recipe.task == "classify" or isinstance(corpus, RunningCorpus):
        return corpus
    return replace(corpus, data=replace(corpus.data, max_length=longest_trained_on(recipe)))


def _languages(folder: Path, start: SavedModel | None, resuming: bool) -> Mapping[str, int]:
    """The codes of the model that it starts from, or of the run's folder."""
    if start is not None:
        return start.languages
    return read_config(folder).get("languages", {}) if resuming and is_described(folder) else {}


def _labels(folder: Path, corpus: Corpus | RunningCorpus, start: SavedModel | None, resuming: bool) -> Labels:
    """The classes, in the order of the run's folder, of the model that it starts from where that knows all of them, or
    of the alphabet."""
    # What is cut off the training text for validation may hold all texts of a rare label.
    cut_off = [] if corpus.data.valid_src else corpus.valid
    found = Labels.of(label for _, label in chain(corpus.train(), cut_off))
    if resuming and is_described(folder):
        return Labels(tuple(read_config(folder)["labels"]))
    if start is not None and set(found.names) <= set(start.labels):
        return Labels(start.labels)
    return found
