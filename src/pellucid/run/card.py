"""The model card of a run: README.md of its folder, written with the first model and again at the end."""

from pathlib import Path
from typing import Any

from pellucid.config import TASKS, ModelConfig, Recipe
from pellucid.config.data import CODE
from pellucid.data.catalogue import catalogue
from pellucid.model.parts import Parts
from pellucid.run.folder import RunResult
from pellucid.weights.card import card, usage

_CODES = """
af am ar as az be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr hu hy id ig is it
ja ka kk km kn ko ku ky li lt lv mg mk ml mn mr ms mt my nb ne nl nn no oc or pa pl ps pt ro ru rw se sh si sk sl so sq
sr sv sw ta te tg th tk tr tt ug uk ur uz vi wa xh yi yo zh zu
"""
OF_NOBODY = ("default", "your-own")
"""The built-in recipes for the user's texts, whose names and descriptions do not describe the model."""
CODES = frozenset(_CODES.split())
"""Language codes in the names of parallel files."""


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
    """Returns the card, which contains no path, host or time, and no file names except published data sets'.

    Args:
        result: the result of the run; None if it is still training.
        averaged: the number of averaged checkpoints, if the run did not validate the mean; 0: the run's own model.
        parts: the custom modules of the model.
        chrf: chrF on the validation set, if it was translated.
        signature: sacreBLEU's signature of the BLEU.
    """
    data, digest = recipe.data, recipe.train.init_sha256
    task = TASKS[recipe.task]
    sides = ("src", "tgt") if task.targets else ("src",)
    files = [path for side in sides for path in data.files(side)]
    rows = {
        "encoder / decoder layers": f"{config.num_encoder_layers} / {config.num_decoder_layers}",
        "d_model, d_ff, heads": f"{config.d_model}, {config.d_ff}, {config.num_heads}",
        "vocabulary": f"{config.src_vocab_size:,} / {config.tgt_vocab_size:,} ({_get_kind(data.tokenizer)})",
        "trained on": _describe_files(files) or "texts passed by a program",
        "steps": f"{_steps(result, averaged)}, of about {recipe.train.batch_tokens:,} tokens",
    }
    if parts is not None and parts.names:
        rows["custom parts"] = ", ".join(f"{name} `{said}`" for name, said in parts.names.items())
    if digest:
        rows["started from"] = f"weights with SHA-256 {digest}"
    metrics = [] if averaged else _metrics(recipe, result, chrf, signature)
    if metrics:
        rows["on the validation text"] = ", ".join(f"{each['name']} {each['value']}" for each in metrics)
    # A vertical bar would end the cell.
    table = "".join(f"| {name} | {value.replace('|', chr(92) + '|')} |\n" for name, value in rows.items())
    languages = find_languages(recipe)
    own = recipe.name in OF_NOBODY
    pair = f" from {languages[0]} to {languages[1]}" if task.targets == "translations" and len(languages) == 2 else ""
    title = f"{task.title}{pair}" if own else recipe.name
    head = {
        "library_name": "pellucid",
        "pipeline_tag": task.pipeline_tag,
        "language": languages,
        "license": recipe.license,
        "datasets": _data_sets(recipe),
        "model-index": _index(recipe, metrics, title),
    }
    about = "" if own else recipe.description
    body = f"""# {title}

{about or f"{task.title} trained with Pellucid."}

| | |
| --- | --- |
{table}
{usage(task)}
"""
    return card(head, body)


def find_languages(recipe: Recipe) -> tuple[str, ...]:
    """Returns the languages in the recipe, or else in the names of its files, as in `train.de.gz`."""
    if recipe.languages or recipe.task == "classify":
        return recipe.languages
    if recipe.data.tgt_lang:
        return tuple(dict.fromkeys((*recipe.data.files("src_lang"), *recipe.data.files("tgt_lang"))))
    found = dict[str, None]()
    for path in (*recipe.data.files("src"), *recipe.data.files("tgt")):
        code = _find_code(path)
        if code in CODES:
            found[code] = None
    return tuple(found)


def find_language_pair(recipe: Recipe) -> tuple[str, str] | None:
    """Returns the source and target language of a translator of one language pair; None if they are unknown.

    They are the two languages of the recipe, or else the endings of its files' names, as in `train.de` and `train.en`.
    """
    if recipe.task != "translate" or recipe.data.tgt_lang:
        return None
    if recipe.languages:
        pair = recipe.languages
        return (pair[0], pair[1]) if len(pair) == 2 and all(map(CODE.fullmatch, pair)) else None
    sides = [{_find_code(path) for path in recipe.data.files(side)} for side in ("src", "tgt")]
    if any(len(codes) != 1 or not codes <= CODES for codes in sides) or sides[0] == sides[1]:
        return None
    return sides[0].pop(), sides[1].pop()


def _find_code(path: str) -> str:
    """Returns the ending of a text's name before that of its compression: in names of parallel files a code."""
    name = Path(path).name
    return name.removesuffix(".gz").removesuffix(".zst").rpartition(".")[2]


def _steps(result: RunResult | None, averaged: int) -> str:
    if averaged:
        return f"the mean of {averaged} checkpoints" + (f" of a run of {result.steps:,}" if result else "")
    if result is None:
        return "still in training"
    best = "" if result.best_step == result.steps else f"step {result.best_step:,}"
    kept = result.kept or best
    return f"{result.steps:,}" + (f" (the weights are {kept})" if kept else "")


def _metrics(recipe: Recipe, result: RunResult | None, chrf: float | None, signature: str) -> list[dict[str, Any]]:
    """Returns the validation scores in the Hugging Face Hub's format."""
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


def _find_data_set(path: str) -> str:
    """Returns the published data set that contains a file; empty if the file is the user's."""
    folder = Path(path).parent.name
    return folder if folder in {file.data_set for file in catalogue().values()} else ""


def _data_sets(recipe: Recipe) -> tuple[str, ...]:
    """Returns the published data sets among the texts; the names of other files are private."""
    return tuple(dict.fromkeys(filter(None, map(_find_data_set, recipe.data.files("src")))))


def _describe_files(files: list[str]) -> str:
    """Returns the names of the files of published data sets, and mentions others without names."""
    named = [Path(path).name for path in files if _find_data_set(path)]
    return ", ".join([*named, *(["texts of its author"] if len(named) < len(files) else [])])


def _get_kind(tokenizer: str) -> str:
    """Returns the kind of a trained tokenizer; for a tokenizer from a file only this fact."""
    return tokenizer if Path(tokenizer).name == tokenizer and not Path(tokenizer).suffix else "a custom tokenizer"


def _index(recipe: Recipe, metrics: list[dict[str, Any]], title: str) -> list[dict[str, Any]]:
    if not metrics:
        return []
    files = list(recipe.data.files("valid_src"))
    name = _describe_files(files) if files else "held out of the training text"
    data_set = {"name": f"validation text ({name})", "type": (*_data_sets(recipe), "unknown")[0]}
    result = {"task": {"type": TASKS[recipe.task].pipeline_tag}, "dataset": data_set, "metrics": metrics}
    return [{"name": title, "results": [result]}]
