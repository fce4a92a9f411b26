"""The student's run: a recipe's shape, the first teacher's vocabulary, a corpus of the teachers' translations."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid.config import KEYS, Recipe
from pellucid.config.tables import split_override
from pellucid.distillation.corpus import Distilled
from pellucid.errors import ConfigError
from pellucid.planning.duration import parse_duration
from pellucid.planning.rules import SHAPE_KEYS
from pellucid.planning.settings import check_settings
from pellucid.run.folder import RunFolder
from pellucid.run.lock import check_free
from pellucid.run.run import Run
from pellucid.run.start import OF_TOKENIZERS
from pellucid.tasks.task import find_device
from pellucid.text.tokenizers import Tokenizers

OF_A_VOCABULARY = frozenset(f"data.{key}" for key in (*OF_TOKENIZERS, "target_vocab_size", "normalize"))
"""Settings that ask for a vocabulary of the student's own."""
OF_THE_STUDENT = frozenset({"model.dropout"})
"""Settings that a budget leaves as the recipe has them, beside the shape: a plan's are for text that people wrote."""
OF_VOCABULARIES = frozenset({"data.joint", "data.vocab_size", "model.tie_embeddings"})
"""Settings that follow from vocabularies that are there."""


def check_student(recipe: Recipe, out: Path, corpus: Path, teachers: Sequence[str], budget: str, device: str) -> None:
    """Raises ConfigError for what would be refused after hours of translating: settings, a budget, the run's folder."""
    for name in teachers:
        if Path(name).resolve() == out.resolve():
            raise ConfigError(f"`{name}` cannot be the teacher and the student's own folder", "choose another `out=`")
    if corpus.resolve() == out.resolve():
        raise ConfigError(f"`{corpus}` cannot be the corpus and the student's own folder", "choose another `corpus=`")
    if recipe.task != "translate":
        raise ConfigError(
            f'a student is a translator, and the recipe has `task = "{recipe.task}"`', "name another recipe"
        )
    if budget:
        parse_duration(budget)
    check_settings(recipe)
    find_device(device)
    folder = RunFolder(out)
    folder.check(recipe, fresh=True)  # of a run there its own training says whether it may be gone on with
    folder.check_place()
    check_free(out)


def student_run(
    recipe: Recipe,
    out: Path,
    corpus: Distilled,
    *,
    further: Sequence[tuple[Path, Path]] = (),
    overrides: Sequence[str] = (),
    budget: str = "",
    device: str = "auto",
    fresh: bool = False,
    quiet: bool = False,
) -> Run:
    """Returns the run that trains a student on a corpus, and on `further` pairs, to be begun or gone on with.

    It takes the vocabulary of the first teacher, so that both write the same pieces; unless `overrides` ask for
    another, the teacher translates between many languages, or the student starts from a model. With a budget, the
    shape and the dropout are the recipe's, and not the plan's.

    Raises what Run raises.
    """
    given = {f"{section}.{key}" for section, key, _ in (split_override(each, KEYS) for each in overrides)}
    # The corpus has the tags of its texts in it, whoever has asked for them.
    overrides = [each for each in overrides if split_override(each, KEYS)[:2] != ("data", "tags")]
    symbols = (*dict.fromkeys((*recipe.data.symbols, *recipe.data.tags)),)
    texts: dict[str, Any] = {"src": str(corpus.src), "tgt": str(corpus.tgt), "tags": (), "symbols": symbols}
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
        recipe = with_vocabulary_of(recipe, tokenizers, corpus.joint)
        of_recipe |= OF_VOCABULARIES
    return Run(
        recipe, out, overrides=overrides, tokenizer=tokenizers, budget=budget, of_recipe=of_recipe, device=device,
        fresh=fresh, quiet=quiet,
    )  # fmt: skip


def with_vocabulary_of(recipe: Recipe, tokenizers: Tokenizers, joint: bool) -> Recipe:
    """Returns the recipe with what follows from tokenizers that are there: sizes, and whether both sides share one."""
    model, data = recipe.model, recipe.data
    size = max(tokenizers.source.size, tokenizers.target.size)
    if not joint and model.tie_embeddings == "all":
        model = replace(model, tie_embeddings="decoder")
    return replace(recipe, model=model, data=replace(data, joint=joint, vocab_size=size))
