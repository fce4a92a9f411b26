"""A foreign folder, opened: its settings, its weights under our names, its tokenizers, its way to search."""

import logging
from pathlib import Path
from statistics import fmean
from typing import Any

from pellucid.config import DecodeConfig, ModelConfig, Task
from pellucid.config.tables import from_table
from pellucid.config.tasks import task_of, task_of_family
from pellucid.errors import CheckpointError, ConfigError, shown
from pellucid.files.reading import read_settings
from pellucid.model.families import Model
from pellucid.text.foreign import load_foreign_tokenizer, starting_ids
from pellucid.text.language_codes import codes_are_special, language_ids
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizers import Tokenizers
from pellucid.text.training_text import TrainingText
from pellucid.weights.activations import FROM_HUGGING_FACE
from pellucid.weights.building import build_unfilled, outline
from pellucid.weights.folder import SavedModel
from pellucid.weights.hugging_face.catalogue import FAMILIES
from pellucid.weights.hugging_face.family import Family
from pellucid.weights.hugging_face.files import read_weights
from pellucid.weights.hugging_face.generation import decode_settings, special_ids, with_default_languages
from pellucid.weights.hugging_face.hub import find_folder
from pellucid.weights.hugging_face.names import ForeignTensors, check_used, leftover, our_tensors
from pellucid.weights.hugging_face.settings import CONFIG, Settings, read_generation
from pellucid.weights.hugging_face.ties import find_ties
from pellucid.weights.tensors import set_parameters

log: logging.Logger = logging.getLogger(__name__)


def from_hugging_face(
    folder_or_name: str | Path, revision: str | None = None, offline: bool | None = None
) -> tuple[Model, Tokenizer | Tokenizers | None]:
    """Returns a model of Hugging Face's transformers as one of ours, in eval mode, with its tokenizer.

    The tokenizer is one object where both sides share it, `Tokenizers` where each has its own, and None where the
    folder has none. Poolers and heads that the model does not use are logged, by name.

    Args:
        folder_or_name: a folder that holds config.json and weights; or a name on the hub, as `org/model` (extra `hf`).
        revision: of a name: a branch, a tag or a commit.
        offline: of a name: take it from the cache, and fetch nothing; None: where HF_HUB_OFFLINE or
            PELLUCID_OFFLINE says so.

    Raises CheckpointError for a folder that is not a model's, is damaged, or holds what our model cannot express.
    """
    saved = open_foreign_folder(find_folder(folder_or_name, revision, offline))
    both = saved.tokenizers
    return saved.model, both.source if both is not None and both.joint else both


def open_foreign_folder(folder: Path) -> SavedModel:
    """Returns the model of a folder that transformers wrote, in eval mode, with all that a task needs of it.

    Raises CheckpointError as `from_hugging_face` does.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise CheckpointError(f"`{folder}` is not a model folder: no {CONFIG} in it", "name the folder that holds it")
    table = read_settings(path)
    family = _family(path, table)
    settings = Settings(path, table, family.defaults)
    settings.check_only({**family.only, "quantization_config": None})
    generation = read_generation(folder)

    tokenizers = load_foreign_tokenizer(folder)
    special = special_ids(settings, generation, family, tokenizers)
    model, unused = _build(settings, family, special, ForeignTensors(read_weights(folder), family.prefix))
    languages = language_ids(tokenizers) if tokenizers else {}
    _check_vocabulary(tokenizers, languages, model.config, folder)
    if unused:
        told = ", ".join(unused)
        log.warning("`%s`: %d tensors stand beside the model and are not used: %s", folder, len(unused), told)
    return SavedModel(
        model.eval(),
        tokenizers,
        _decode(settings, generation, family, tokenizers, model.config, languages),
        task_of(model.config).name,
        _labels(table, model.config.num_classes),
        languages,
        unused,
        TrainingText(sentence_ends=1.0, several_sentences=0.0) if family.sentences else None,
    )


def _decode(
    settings: Settings,
    generation: dict[str, Any],
    family: Family,
    tokenizers: Tokenizers | None,
    model: ModelConfig,
    languages: dict[str, int],
) -> DecodeConfig:
    """Returns how the model is searched with, between its default languages."""
    folder, special = settings.path.parent, tokenizers is not None and codes_are_special(tokenizers, languages)
    start = starting_ids(folder, tokenizers.target) if tokenizers is not None and family.kind == "decoder" else ()
    code_first = special and model.bos_id not in languages.values()
    decode = decode_settings(settings, generation, family, start, code_first)
    return with_default_languages(decode, folder, model.bos_id, languages) if special else decode


def foreign_task(folder: Path) -> Task:
    """Returns what the model of such a folder is for, by its settings alone: an encoder may or may not tell classes
    apart.

    Raises CheckpointError for a family that is unknown.
    """
    return task_of_family(_family(folder / CONFIG, read_settings(folder / CONFIG)).kind)


def _build(
    settings: Settings, family: Family, special: dict[str, Any], file: ForeignTensors
) -> tuple[Model, tuple[str, ...]]:
    """Returns the model with its weights, and the names of those in the file that stand beside it.

    `special` are our fields of the special tokens. Raises CheckpointError where settings and weights do not agree.
    """
    origin = f"the weights of `{settings.path.parent}`"
    fields = {ours: settings[theirs] for ours, theirs in family.fields.items()} | dict(family.fixed) | special
    fields |= find_ties(settings, file, family) | family.shape(settings, file.tensors)
    head = _head_classes(settings, file, family)
    config = _model_config(settings, family, fields | head)
    bare = outline(config)
    check_used(bare, file, family, bool(head), origin)
    file.tensors |= family.arithmetic(settings, file.tensors)
    tensors = our_tensors(bare, file, family, bool(head), origin)
    model = build_unfilled(config)
    set_parameters(model, tensors, origin)
    return model, leftover(model, file, family, bool(head), origin)


def _family(path: Path, table: dict[str, Any]) -> Family:
    """Returns the family that config.json names. Raises CheckpointError for an unknown one."""
    if "format" in table:
        raise CheckpointError(
            f"`{path.parent}` is a model folder of Pellucid's own, not one of transformers",
            "open it with pellucid.Translator.load, Classifier.load or LanguageModel.load",
        )
    kind = table.get("model_type")
    if "model_type" not in table:  # as folders from before transformers 2.x are
        likely = _likely_type(path, table)
        raise CheckpointError(
            f"`{path}` has no `model_type`, the name of the model's family",
            (f'add "model_type": "{likely}" to it, which its settings look like; ' if likely else "")
            + f"Pellucid opens {', '.join(sorted(FAMILIES))}",
        )
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError(
            f"`{path}` has the unknown `model_type` {shown(kind)}", f"Pellucid opens {', '.join(sorted(FAMILIES))}"
        )
    for layers, other in (("encoder_layers", "decoder_layers"), ("decoder_layers", "encoder_layers")):
        if FAMILIES[kind].kind == "encoder-decoder" and table.get(layers) == 0:
            raise CheckpointError(
                f"`{path}` has `{layers}` = 0: without it a {kind} with {shown(table.get(other))} `{other}` is one "
                "stack alone, and does not translate",
                "copy the folder again, with the config.json of the whole model",
            )
    return FAMILIES[kind]


def _likely_type(path: Path, table: dict[str, Any]) -> str:
    """Returns the family whose name stands in the folder's, or most of whose settings are there; empty where none is
    likely.
    """
    named = [kind for kind in FAMILIES if kind.replace("-", "") in path.parent.name.lower().replace("-", "")]
    if named:
        return max(named, key=len)
    shares = {kind: fmean(name in table for name in family.fields.values()) for kind, family in FAMILIES.items()}
    likely = max(shares, key=lambda kind: shares[kind])
    return likely if shares[likely] > 2 / 3 else ""


def _model_config(settings: Settings, family: Family, fields: dict[str, Any]) -> ModelConfig:
    """Returns our configuration. Raises CheckpointError, in the file's own words where it is about heads and
    activations.
    """
    activation = fields["activation"]
    if activation not in FROM_HUGGING_FACE:
        name = family.fields.get("activation", "feed_forward_proj")
        raise settings.refuse(
            name, settings[name], f"an activation that Pellucid lacks; it has {', '.join(FROM_HUGGING_FACE)}"
        )
    fields["activation"] = FROM_HUGGING_FACE[activation]
    width, heads = fields["d_model"], fields["num_heads"]
    if fields.get("head_dim") is None and isinstance(width, int) and isinstance(heads, int) and heads and width % heads:
        names = family.fields["d_model"], family.fields.get("num_heads", "encoder_attention_heads")
        raise CheckpointError(
            f"`{settings.path}` has `{names[0]}` = {width}, which must be divisible by `{names[1]}` ({heads})",
            "config.json is damaged, or of another model",
        )
    try:
        return from_table(ModelConfig, fields, "[model]")
    except ConfigError as error:
        raise CheckpointError(f"`{settings.path}` describes no model that can be: {error}", error.hint) from error


def _head_classes(settings: Settings, file: ForeignTensors, family: Family) -> dict[str, Any]:
    """Returns our fields of a classification head; none where the file has no whole one, or one of a single class."""
    names = [f"{module}.{kind}" for module in family.head.values() for kind in ("weight", "bias")]
    if not names or any(name not in file.tensors for name in names):
        return {}
    if settings.get("problem_type") not in (None, "single_label_classification"):
        return {}
    classes = file.tensors[f"{family.head['head.class_projection']}.weight"].size(0)
    return {"num_classes": classes, "classifier_activation": family.head_activation} if classes > 1 else {}


def _labels(table: dict[str, Any], count: int) -> tuple[str, ...]:
    """Returns what the classes are called; where nothing says so, as transformers calls them."""
    names = table.get("id2label")
    names = names if isinstance(names, dict) else {}
    return tuple(str(names.get(str(number), f"LABEL_{number}")) for number in range(count))


def _check_vocabulary(
    tokenizers: Tokenizers | None, languages: dict[str, int], config: ModelConfig, origin: Path
) -> None:
    """Raises CheckpointError for a tokenizer with ids that the model has no embedding for.

    Special tokens that no text is cut into may lie beyond it, as the mask of some releases of BART does.
    """
    if tokenizers is None:
        return
    sides = (("source", tokenizers.source, config.src_vocab_size), ("target", tokenizers.target, config.tgt_vocab_size))
    for side, tokenizer, size in sides:
        never_written = set(getattr(tokenizer, "hidden", {}).values()) - set(languages.values())
        if set(range(size, tokenizer.size)) - never_written:
            raise CheckpointError(
                f"the {side} tokenizer of `{origin}` has {tokenizer.size:,} ids, the model's embedding {size:,}",
                "the tokenizer's files and the weights must come from the same model",
            )
