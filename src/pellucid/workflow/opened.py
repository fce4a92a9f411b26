"""What a command begins with once its texts are read: its tokenizers and, with a time budget, its plan."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from pellucid.config import Recipe
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights.folder import CONFIG, SavedModel, read_config
from pellucid.workflow.asked import Asked
from pellucid.workflow.budget import Plan, plan_budget, with_vocabulary
from pellucid.workflow.prepare import Corpus, open_corpus, train_tokenizers
from pellucid.workflow.process import keep_freed_memory
from pellucid.workflow.resolved import check_r_drop, subword_sampling
from pellucid.workflow.start import load_start

Say = Callable[[str], object]
"""Takes a line for the reader."""


@dataclass(frozen=True)
class Opened:
    """All that can be refused has been looked at, and nothing is written yet."""

    recipe: Recipe
    """That of the plan, where there is one."""
    corpus: Corpus
    start: SavedModel | None
    """The model whose weights training begins with; None: random ones, or those of a checkpoint."""
    tokenizers: Tokenizers
    sampling: SubwordSampling | None
    """How training sentences are cut anew, if they are."""
    plan: Plan | None

    @classmethod
    def of(cls, asked: Asked, resuming: bool, say: Say) -> Self:
        """Reads the texts, trains the tokenizer and makes the plan.

        Raises ConfigError, DataError for what cannot be trained on, or with these settings.
        """
        recipe, request = asked.recipe, asked.request
        corpus = open_corpus(recipe.data)
        say(corpus.report())
        keep_freed_memory()
        if request is not None:
            recipe = with_vocabulary(recipe, request.fixed, len(corpus))
            corpus = replace(corpus, data=recipe.data)
        start = load_start(recipe, asked.run, resuming)
        tokenizers = start.tokenizers if start else _tokenizers(asked.run.path, corpus, resuming, say)
        sampling = subword_sampling(recipe, tokenizers)
        plan = None
        if request is not None:
            plan = plan_budget(recipe, request, corpus, tokenizers, sampling, asked.device)
            recipe = plan.recipe
        check_r_drop(recipe)
        return cls(recipe, corpus, start, tokenizers, sampling, plan)


def _tokenizers(folder: Path, corpus: Corpus, resuming: bool, say: Say) -> Tokenizers:
    """The run's tokenizers: those in its folder when it goes on, else new ones."""
    if resuming and (folder / CONFIG).is_file():
        return Tokenizers.load(folder, read_config(folder)["tokenizer"])
    say(f"training the tokenizer ({corpus.data.tokenizer})")
    tokenizers = train_tokenizers(corpus)
    sizes = " and ".join(f"{size:,}" for size in sorted({tokenizers.source.size, tokenizers.target.size}))
    say(f"vocabulary: {sizes} (upper bound {corpus.data.vocab_size:,})")
    return tokenizers
