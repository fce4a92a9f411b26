"""`pellucid info MODEL`: a summary of a model, from its folder."""

from collections.abc import Sequence
from pathlib import Path

from pellucid.config import RECIPE, TASKS, ModelConfig, Recipe
from pellucid.data.prepare import RECORD
from pellucid.engines.choice import explain_torch
from pellucid.engines.compiled.compiling import DURATION, has_compiled_before
from pellucid.errors import PellucidError, escape_message, format_value
from pellucid.files.reading import read_stored_table
from pellucid.run.folder import RunFolder
from pellucid.tasks.task import resolve_model
from pellucid.weights.folder import CONVERSION, SavedModel

MOST_NAMED = 12
"""Maximum number of names in a line."""


def describe(name: str | Path, saved: SavedModel) -> list[str]:
    """Returns lines on task, shape, vocabulary, texts, size, training, validation, conversion and engine."""
    folder = resolve_model(name)
    recipe = _recipe(folder)
    rows = [("task", _task(saved)), ("shape", _shape(saved.model.config)), ("vocabulary", _vocabulary(saved, recipe))]
    if recipe is not None:
        sides = ("src", "tgt") if TASKS[recipe.task].targets else ("src",)
        texts = [Path(path).name for side in sides for path in recipe.data.files(side)]
        rows.append(("recipe", recipe.name + (f": {recipe.description}" if recipe.description else "")))
        rows.append(("texts", f"{_format_names(texts)}{_pairs(folder)}"))
    rows.append(("size", _size(folder, saved)))
    if recipe is not None:
        rows += [("trained", _describe_training(folder, recipe))]
        rows += [("validation", validation)] if (validation := _validation(folder)) else []
    rows += [("converted", converted)] if (converted := _conversion(folder)) else []
    rows += [("engine", _engine(saved))] if saved.task == "translate" else []
    width = max(len(question) for question, _ in rows)
    return [escape_message(f"{question:<{width}}  {answer}".replace("\n", "\\n")) for question, answer in rows]


def _recipe(folder: Path) -> Recipe | None:
    """Returns the recipe of a run; None if it is missing or cannot be read."""
    try:
        return Recipe.load(folder / RECIPE) if (folder / RECIPE).is_file() else None
    except PellucidError:
        return None


def _task(saved: SavedModel) -> str:
    noun = TASKS[saved.task].noun
    pairs = () if saved.text is None else saved.text.pairs
    if pairs:
        return f"{saved.task}: {noun} of {len(pairs)} pair{'s' * (len(pairs) > 1)} of languages, {_format_names(pairs)}"
    if saved.languages:
        codes = sorted(saved.languages)
        return f"{saved.task}: {noun} of {len(codes)} languages, {_format_names(codes)}"
    labels = f": {_format_names(saved.labels)}" if saved.labels else ""
    return f"{saved.task}: {noun}{labels}"


def _format_names(names: Sequence[str]) -> str:
    """Returns the first names of a list, and the number of the others."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(map(format_value, names[:MOST_NAMED])) + more


def _shape(config: ModelConfig) -> str:
    layers = f"{config.num_encoder_layers} encoder and {config.num_decoder_layers} decoder layers"
    sizes = f"d_model {config.d_model:,}, d_ff {config.d_ff:,}, {config.num_heads} heads"
    return f"{layers}, {sizes}, norm {config.norm}, positions {config.positions}"


def _vocabulary(saved: SavedModel, recipe: Recipe | None) -> str:
    config = saved.model.config
    source, target = config.src_vocab_size, config.tgt_vocab_size
    one_side = config.family != "encoder-decoder" or source == target
    size = f"{max(source, target):,}" if one_side else f"{source:,} source and {target:,} target"
    lacking = saved.tokenizers.describe_pieces_without_ids() if saved.tokenizers else ""
    kind = f", {Path(recipe.data.tokenizer).name}" if recipe is not None else ""
    return f"{size} tokens{kind}{'' if saved.tokenizers else ', but no tokenizer in the folder'}" + (
        f"; {lacking}" if lacking else ""
    )


def _pairs(folder: Path) -> str:
    try:
        table = read_stored_table(folder / RECORD)["training"]
        return f"; {table['pairs']:,} pairs, {table['target_tokens']:,} target tokens after cleaning"
    except (ValueError, KeyError, TypeError):
        return ""


def _size(folder: Path, saved: SavedModel) -> str:
    count = sum(parameter.numel() for parameter in saved.model.parameters())
    files = [path for path in folder.glob("*") if path.suffix in (".safetensors", ".bin") and path.is_file()]
    stored = sum(path.stat().st_size for path in files)
    size = f"{stored / 1e6:,.1f} MB" if stored >= 1e6 else f"{stored / 1e3:,.1f} kB"
    return f"{count:,} parameters, {size} on disk" if stored else f"{count:,} parameters"


def _describe_training(folder: Path, recipe: Recipe) -> str:
    result = RunFolder(folder).result
    if result is None:
        return f"not finished: of at most {recipe.train.steps:,} steps of about {recipe.train.batch_tokens:,} tokens"
    early = ", ended early" if result.stopped_early else ""
    return f"{result.steps:,} steps{early}, {result.tokens:,} tokens in {result.seconds:,.0f} s"


def _validation(folder: Path) -> str:
    result = RunFolder(folder).result
    if result is None:
        return ""
    found = [f"loss {result.valid_loss:.3f} per token"]
    if result.valid_bleu is not None:
        found.append(f"BLEU {result.valid_bleu:.2f}, greedy (`evaluate` gives one with its signature)")
    if result.valid_accuracy is not None:
        found.append(f"accuracy {100 * result.valid_accuracy:.2f} %")
    return ", ".join(found) + (f"; it is {result.kept}" if result.kept else "")


def _engine(saved: SavedModel) -> str:
    """Returns the engine that translates with `engine="auto"`, and the reason if it is not the compiled one."""
    reason = explain_torch(saved.model.eval())
    if reason:
        return f"auto is torch: {reason}"
    return "auto is compiled" + ("" if has_compiled_before() else f", after {DURATION} of compiling at its first use")


def _conversion(folder: Path) -> str:
    """Returns the result of verifying a converted folder against its source."""
    table = read_stored_table(folder / CONVERSION)
    if "compared" not in table:
        return ""
    verdict = "equal" if table.get("passed") else "not equal"
    return f"{verdict}, {CONVERSION} says by what" if table["compared"] else "not compared with its origin"
