"""The student's run: a recipe's shape, the first teacher's vocabulary, a corpus of the teachers' translations."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid.config import KEYS, Recipe
from pellucid.config.tables import split_override
from pellucid.errors import ConfigError
from pellucid.planning.duration import parse_duration
from pellucid.planning.rules import SHAPE_KEYS
from pellucid.planning.settings import check_settings
from pellucid.run.folder import RunFolder
from pellucid.run.init_from import OF_TOKENIZERS
from pellucid.run.lock import check_free
from pellucid.run.run import Run
from pellucid.synthetic_data.distillation import DistilledCorpus
from pellucid.tasks.task import find_device
from pellucid.text.tokenizers import TokenizerPair

OF_A_VOCABULARY = frozenset(f"data.{key}" for key in (*OF_TOKENIZERS, "tgt_vocab_size", "normalize"))
"""Settings that request a separate vocabulary for the student."""
OF_THE_STUDENT = frozenset({"model.dropout"})
"""Settings besides the shape that keep the recipe's values under a budget: a plan's values are for human text."""
OF_VOCABULARIES = frozenset({"data.joint_vocab", "data.vocab_size", "model.tie_embeddings"})
"""Settings that follow from existing vocabularies."""


def check_student(recipe: Recipe, out: Path, corpus: Path, teachers: Sequence[str], budget: str, device: str) -> None:
    """Raises ConfigError for settings, a budget or a run folder that would be rejected only after hours of
    translating.
    """
    for name in teachers:
        if Path(name).resolve() == out.resolve():
            raise ConfigError(f"`{name}` cannot be both the teacher and the student's folder", "choose another `out=`")
    if corpus.resolve() == out.resolve():
        raise ConfigError(f"`{corpus}` cannot be both the corpus and the student's folder", "choose another `corpus=`")
    if recipe.task != "translate":
        raise ConfigError(
            f'a student is a translator, and the recipe has `task = "{recipe.task}"`', "name another recipe"
        )
    if budget:
        parse_duration(budget)
    check_settings(recipe)
    find_device(device)
    folder = RunFolder(out)
    folder.check(recipe, fresh=True)  # a run's own training checks whether it can be resumed
    folder.check_place()
    check_free(out)


def student_run(
    recipe: Recipe,
    out: Path,
    corpus: DistilledCorpus,
    *,
    further: Sequence[tuple[Path, Path]] = (),
    overrides: Sequence[str] = (),
    budget: str = "",
    device: str = "auto",
    fresh: bool = False,
    quiet: bool = False,
) -> Run:
    """Returns the run that trains a student on a corpus, and on `further` pairs, ready to be started or resumed.

    It uses the vocabulary of the first teacher, so that both have the same tokens, unless `overrides` set another one,
    the teacher is multilingual, or the student is initialized from a model. With a budget, the shape and the dropout
    are the recipe's, not the plan's.

    Raises the errors of Run.
    """
    given = {f"{section}.{key}" for section, key, _ in (split_override(each, KEYS) for each in overrides)}
    # The corpus already contains the tags of its texts.
    overrides = [each for each in overrides if split_override(each, KEYS)[:2] != ("data", "corpus_tags")]
    symbols = (*dict.fromkeys((*recipe.data.symbols, *recipe.data.corpus_tags)),)
    texts: dict[str, Any] = {"src": str(corpus.src), "tgt": str(corpus.tgt), "corpus_tags": (), "symbols": symbols}
    if further:
        for side, name in enumerate(("src", "tgt")):
            texts[name] = (texts[name], *(str(pair[side]) for pair in further))
    if corpus.valid is not None:
        texts |= {"valid_src": str(corpus.valid[0]), "valid_tgt": str(corpus.valid[1])}
    recipe = replace(recipe, data=replace(recipe.data, **texts))
    tokenizers = corpus.tokenizers
    if given & OF_A_VOCABULARY or recipe.train.init_from:
        tokenizers = None
    of_recipe = SHAPE_KEYS - {"model.preset"} | OF_THE_STUDENT
    if tokenizers is not None:
        recipe = set_tokenizer_sizes(recipe, tokenizers, corpus.joint)
        of_recipe |= OF_VOCABULARIES
    return Run(
        recipe, out, overrides=overrides, tokenizer=tokenizers, budget=budget, of_recipe=of_recipe, device=device,
        fresh=fresh, quiet=quiet,
    )  # fmt: skip


def set_tokenizer_sizes(recipe: Recipe, tokenizers: TokenizerPair, joint: bool) -> Recipe:
    """Returns the recipe with the settings that follow from existing tokenizers: sizes, and whether both sides share
    one.
    """
    model, data = recipe.model, recipe.data
    size = max(tokenizers.source.size, tokenizers.target.size)
    if not joint and model.tie_embeddings == "all":
        model = replace(model, tie_embeddings="decoder")
    return replace(recipe, model=model, data=replace(data, joint_vocab=joint, vocab_size=size))
