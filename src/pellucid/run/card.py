"""The model card of a run: README.md of its folder, written when it first holds a model, and again at the end."""

from pathlib import Path
from typing import Any

from pellucid.config import TASKS, ModelConfig, Recipe
from pellucid.data.catalogue import catalogue
from pellucid.model.parts import Parts
from pellucid.run.folder import RunResult
from pellucid.weights.card import card, usage

_CODES = """
af am ar as az be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr hu hy id ig is it
ja ka kk km kn ko ku ky li lt lv mg mk ml mn mr ms mt my nb ne nl nn no oc or pa pl ps pt ro ru rw se sh si sk sl so sq
sr sv sw ta te tg th tk tr tt ug uk ur uz vi wa xh yi yo zh zu
"""
CODES = frozenset(_CODES.split())
"""Codes of languages that files of parallel texts end in."""


def model_card(
    recipe: Recipe,
    config: ModelConfig,
    result: RunResult | None = None,
    averaged: int = 0,
    *,
    parts: Parts | None = None,
    chrf: float | None = None,
    signature: str = "",
) -> str:
    """Returns the card, which names no path, host or time.

    Args:
        result: what the run came to; None: it is still training.
        averaged: of how many checkpoints the weights are the mean, where the run did not measure them; 0: its own.
        parts: the modules in it that are not Pellucid's.
        chrf: of the validation text, where it was translated.
        signature: sacreBLEU's of that BLEU.
    """
    data, digest = recipe.data, recipe.train.init_sha256
    task = TASKS[recipe.task]
    sides = ("src", "tgt") if task.targets else ("src",)
    files = [Path(path).name for side in sides for path in data.files(side)]
    rows = {
        "encoder / decoder layers": f"{config.num_encoder_layers} / {config.num_decoder_layers}",
        "d_model, d_ff, heads": f"{config.d_model}, {config.d_ff}, {config.num_heads}",
        "vocabulary": f"{config.src_vocab_size:,} / {config.tgt_vocab_size:,} ({Path(data.tokenizer).name})",
        "trained on": ", ".join(files) or "texts that a program handed over",
        "steps": f"{_steps(result, averaged)}, of about {recipe.train.batch_tokens:,} tokens",
    }
    if parts is not None and parts.names:
        rows["parts of its own"] = ", ".join(f"{name} `{said}`" for name, said in parts.names.items())
    if digest:
        rows["started from"] = f"weights with SHA-256 {digest}"
    metrics = [] if averaged else _metrics(recipe, result, chrf, signature)
    if metrics:
        rows["on the validation text"] = ", ".join(f"{each['name']} {each['value']}" for each in metrics)
    # A bar would end the cell.
    table = "".join(f"| {name} | {value.replace('|', chr(92) + '|')} |\n" for name, value in rows.items())
    head = {
        "library_name": "pellucid",
        "pipeline_tag": task.pipeline_tag,
        "language": languages_of(recipe),
        "license": recipe.license,
        "datasets": _data_sets(recipe),
        "model-index": _index(recipe, metrics),
    }
    body = f"""# {recipe.name}

{recipe.description or f"{task.title} trained with Pellucid."}

| | |
| --- | --- |
{table}
{usage(task)}
"""
    return card(head, body)


def languages_of(recipe: Recipe) -> tuple[str, ...]:
    """Returns the languages that the recipe names, or else those that its files are called by, as in `train.de.gz`."""
    if recipe.languages or recipe.task == "classify":
        return recipe.languages
    if recipe.data.tgt_lang:
        return tuple(dict.fromkeys((*recipe.data.files("src_lang"), *recipe.data.files("tgt_lang"))))
    found = dict[str, None]()
    for path in (*recipe.data.files("src"), *recipe.data.files("tgt")):
        code = Path(path).name.removesuffix(".gz").rpartition(".")[2]
        if code in CODES:
            found[code] = None
    return tuple(found)


def _steps(result: RunResult | None, averaged: int) -> str:
    if averaged:
        return f"the mean of {averaged} checkpoints" + (f" of a run of {result.steps:,}" if result else "")
    if result is None:
        return "still in training"
    best = "" if result.best_step == result.steps else f"those of step {result.best_step:,}"
    kept = result.kept or best
    return f"{result.steps:,}" + (f" (the weights are {kept})" if kept else "")


def _metrics(recipe: Recipe, result: RunResult | None, chrf: float | None, signature: str) -> list[dict[str, Any]]:
    """Returns what validation found, as hubs name it."""
    if result is None:
        return []
    found: list[dict[str, Any]] = []
    if result.valid_bleu is not None:
        how = f"{signature}, greedy".removeprefix(", ")
        found.append({"type": "bleu", "value": round(result.valid_bleu, 2), "name": f"BLEU ({how})"})
    if chrf is not None:
        found.append({"type": "chrf", "value": round(chrf, 2), "name": "chrF2"})
    if result.valid_accuracy is not None:
        found.append({"type": "accuracy", "value": round(result.valid_accuracy, 4), "name": "accuracy"})
    unit = f"a {TASKS[recipe.task].unit}"
    found.append({"type": "loss", "value": round(result.valid_loss, 4), "name": f"loss {unit} (nats)"})
    return found


def _data_sets(recipe: Recipe) -> tuple[str, ...]:
    """Returns published data sets, whose texts lie in folders of their names; of other texts the files' names."""
    published = {file.data_set for file in catalogue().values()}
    paths = [Path(path) for path in recipe.data.files("src")]
    return tuple(dict.fromkeys(path.parent.name if path.parent.name in published else path.name for path in paths))


def _index(recipe: Recipe, metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not metrics:
        return []
    name = ", ".join(Path(path).name for path in recipe.data.files("valid_src")) or "held out of the training text"
    data_set = {"name": f"validation text ({name})", "type": (*_data_sets(recipe), "unknown")[0]}
    result = {"task": {"type": TASKS[recipe.task].pipeline_tag}, "dataset": data_set, "metrics": metrics}
    return [{"name": recipe.name, "results": [result]}]
