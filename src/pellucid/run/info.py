"""`pellucid info MODEL`: answers to what a person asks of a model first, from what its folder holds."""

import json
from pathlib import Path

from pellucid.config import RECIPE, TASKS, ModelConfig, Recipe
from pellucid.data.prepare import RECORD
from pellucid.errors import PellucidError
from pellucid.run.folder import RunFolder
from pellucid.tasks.task import model_folder
from pellucid.weights.folder import CONVERSION, SavedModel


def describe(name: str | Path, saved: SavedModel) -> list[str]:
    """Returns a line a question: what it is for, of what shape, trained on what, how large, how good, and when."""
    folder = model_folder(name)
    recipe = _recipe(folder)
    rows = [("task", _task(saved)), ("shape", _shape(saved.model.config)), ("vocabulary", _vocabulary(saved, recipe))]
    if recipe is not None:
        sides = ("src", "tgt") if TASKS[recipe.task].targets else ("src",)
        texts = [Path(path).name for side in sides for path in recipe.data.files(side)]
        rows.append(("recipe", recipe.name + (f": {recipe.description}" if recipe.description else "")))
        rows.append(("texts", f"{', '.join(texts)}{_pairs(folder)}"))
    rows.append(("size", _size(folder, saved)))
    if recipe is not None:
        rows += [("trained", _trained(folder, recipe))]
        rows += [("validation", validation)] if (validation := _validation(folder)) else []
    rows += [("converted", converted)] if (converted := _conversion(folder)) else []
    width = max(len(question) for question, _ in rows)
    return [f"{question:<{width}}  {answer}" for question, answer in rows]


def _recipe(folder: Path) -> Recipe | None:
    """Returns the recipe of a run; None where there is none, or it cannot be read."""
    try:
        return Recipe.load(folder / RECIPE) if (folder / RECIPE).is_file() else None
    except PellucidError:
        return None


def _task(saved: SavedModel) -> str:
    noun = TASKS[saved.task].noun
    if saved.languages:
        pairs = () if saved.text is None else saved.text.pairs
        if pairs:
            return f"{saved.task}: {noun} of {len(pairs)} pair{'s' * (len(pairs) > 1)} of languages, {', '.join(pairs)}"
        codes = sorted(saved.languages)
        more = f" and {len(codes) - 12} more" if len(codes) > 12 else ""
        return f"{saved.task}: {noun} of {len(codes)} languages, {', '.join(codes[:12])}{more}"
    labels = f": {', '.join(saved.labels)}" if saved.labels else ""
    return f"{saved.task}: {noun}{labels}"


def _shape(config: ModelConfig) -> str:
    layers = f"{config.num_encoder_layers} encoder and {config.num_decoder_layers} decoder layers"
    sizes = f"d_model {config.d_model:,}, d_ff {config.d_ff:,}, {config.num_heads} heads"
    return f"{layers}, {sizes}, norm {config.norm}, positions {config.positions}"


def _vocabulary(saved: SavedModel, recipe: Recipe | None) -> str:
    config = saved.model.config
    source, target = config.src_vocab_size, config.tgt_vocab_size
    one_side = config.family != "encoder-decoder" or source == target
    size = f"{max(source, target):,}" if one_side else f"{source:,} source and {target:,} target"
    kind = f", {Path(recipe.data.tokenizer).name}" if recipe is not None else ""
    return f"{size} tokens{kind}{'' if saved.tokenizers else ', but no tokenizer in the folder'}"


def _pairs(folder: Path) -> str:
    try:
        table = json.loads((folder / RECORD).read_text(encoding="utf-8"))["training"]
        return f"; {table['pairs']:,} pairs, {table['target_tokens']:,} target tokens after cleaning"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _size(folder: Path, saved: SavedModel) -> str:
    count = sum(parameter.numel() for parameter in saved.model.parameters())
    files = [path for path in folder.glob("*") if path.suffix in (".safetensors", ".bin") and path.is_file()]
    stored = sum(path.stat().st_size for path in files)
    size = f"{stored / 1e6:,.1f} MB" if stored >= 1e6 else f"{stored / 1e3:,.1f} kB"
    return f"{count:,} parameters, {size} on disk" if stored else f"{count:,} parameters"


def _trained(folder: Path, recipe: Recipe) -> str:
    result = RunFolder(folder).result
    if result is None:
        return f"not finished: of at most {recipe.train.steps:,} steps of about {recipe.train.batch_tokens:,} tokens"
    early = ", ended early" if result.stopped_early else ""
    return f"{result.steps:,} steps{early}, {result.tokens:,} tokens in {result.seconds:,.0f} s"


def _validation(folder: Path) -> str:
    result = RunFolder(folder).result
    if result is None:
        return ""
    found = [f"loss {result.valid_loss:.3f} a token"]
    if result.valid_bleu is not None:
        found.append(f"BLEU {result.valid_bleu:.2f}, greedy (`evaluate` gives one with its signature)")
    if result.valid_accuracy is not None:
        found.append(f"accuracy {100 * result.valid_accuracy:.2f} %")
    return ", ".join(found) + (f"; it is {result.kept}" if result.kept else "")


def _conversion(folder: Path) -> str:
    """Says how a converted folder was compared with what it was made of."""
    try:
        table = json.loads((folder / CONVERSION).read_text(encoding="utf-8"))
        verdict = "equal" if table.get("passed") else "not equal"
        return f"{verdict}, {CONVERSION} says by what" if table["compared"] else "not compared with its origin"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
