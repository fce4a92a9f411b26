"""Opens a Hugging Face folder: its settings, its weights under Pellucid's names, its tokenizers, its search
settings.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pellucid.config import TASKS, DecodeConfig, ModelConfig, Task
from pellucid.config.data import CODE
from pellucid.config.tables import from_table
from pellucid.config.tasks import get_task, task_of_family
from pellucid.errors import CheckpointError, ConfigError, format_value
from pellucid.files.reading import read_settings
from pellucid.model.families import Model
from pellucid.text.foreign_files import CONFIG, ForeignFiles
from pellucid.text.hugging_face_loading import load_hugging_face_tokenizers
from pellucid.text.language_codes import codes_are_special, language_ids
from pellucid.text.template import Template, read_template
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats
from pellucid.weights.activations import FROM_HUGGING_FACE
from pellucid.weights.empty_models import build_on_meta, build_uninitialised
from pellucid.weights.folder import SavedModel
from pellucid.weights.hugging_face.catalogue import FAMILIES
from pellucid.weights.hugging_face.family import Family
from pellucid.weights.hugging_face.files import read_weights
from pellucid.weights.hugging_face.generation import decode_settings, set_default_target, special_ids
from pellucid.weights.hugging_face.hub import find_folder
from pellucid.weights.hugging_face.names import ForeignTensors, check_used, convert_tensors, list_unused_tensors
from pellucid.weights.hugging_face.settings import HuggingFaceConfig, read_generation
from pellucid.weights.hugging_face.ties import find_ties
from pellucid.weights.tensors import set_parameters

log: logging.Logger = logging.getLogger(__name__)


def from_hugging_face(
    folder_or_name: str | Path, revision: str | None = None, offline: bool | None = None
) -> tuple[Model, Tokenizer | TokenizerPair | None]:
    """Returns a model of Hugging Face's transformers as a Pellucid model, in eval mode, with its tokenizer.

    The tokenizer is one object if both sides share it, a `TokenizerPair` if each has its own, and None if the folder
    has none. Poolers and heads that the model does not use are logged, by name.

    Args:
        folder_or_name: a folder that holds config.json and weights; or a name on the hub, as `org/model` (extra `hf`).
        revision: a branch, a tag or a commit for a name.
        offline: for a name: if True, use only the cache; None: True if HF_HUB_OFFLINE or PELLUCID_OFFLINE is set.

    Raises CheckpointError for a folder that is not a model folder, is damaged, or cannot be expressed as a Pellucid
    model.
    """
    saved = open_hugging_face_folder(find_folder(folder_or_name, revision, offline))
    both = saved.tokenizers
    return saved.model, both.source if both is not None and both.joint else both


def open_hugging_face_folder(folder: Path) -> SavedModel:
    """Returns the model of a folder that transformers wrote, in eval mode, with its tokenizers and search settings.

    Raises CheckpointError as `from_hugging_face` does.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise CheckpointError(f"`{folder}` is not a model folder: no {CONFIG} in it", "name the folder that holds it")
    files = ForeignFiles(folder)
    family = _family(path, files.config)
    settings = HuggingFaceConfig(path, files.config, family.defaults)
    settings.check_only({**family.only, "quantization_config": None})
    generation = read_generation(files)

    tokenizers = load_hugging_face_tokenizers(files)
    languages = language_ids(tokenizers) if tokenizers else {}
    codes = languages if tokenizers is not None and codes_are_special(tokenizers, languages) else {}
    template = _template(files, family, tokenizers, codes)
    special = special_ids(settings, generation, family, tokenizers, template)
    model, unused = _build(settings, family, special, ForeignTensors(read_weights(folder), family.prefix))
    _check_vocabulary(tokenizers, languages, model.config, folder)
    head = _other_head(settings, family, unused)
    if head:
        log.warning("`%s` is opened as an encoder without a head: %s", folder, head)
    if unused:
        told = ", ".join(unused)
        log.warning("`%s`: %d tensors are not part of the model and are not used: %s", folder, len(unused), told)
    return SavedModel(
        model.eval(),
        tokenizers,
        _decode(files, settings, generation, family, template, model.config, codes),
        get_task(model.config).name,
        _labels(files.config, model.config.num_classes),
        languages,
        unused,
        _training_text(files, family, languages),
        head,
    )


def _training_text(files: ForeignFiles, family: Family, languages: dict[str, int]) -> TrainingTextStats | None:
    """Returns the known facts on the training text: sentences or not, and Marian's language pair."""
    sides = [files.settings.get(name) for name in ("source_lang", "target_lang")]
    named = not languages and all(isinstance(code, str) and CODE.fullmatch(code) for code in sides)
    pairs = ("-".join(map(str, sides)),) if named else ()  # with codes, a side may be a family of languages
    if family.sentences:
        return TrainingTextStats(sentence_ends=1.0, several_sentences=0.0, pairs=pairs)
    return TrainingTextStats(pairs=pairs) if pairs else None


def _template(
    files: ForeignFiles, family: Family, tokenizers: TokenizerPair | None, codes: dict[str, int]
) -> Template | None:
    """Returns the special tokens that the folder's tokenizer adds to a text; None: the family's usual ones."""
    if tokenizers is None:
        return None
    tokenizer = tokenizers.target if family.kind == "decoder" else tokenizers.source
    template = read_template(files, tokenizer, codes, continues=family.kind == "decoder")
    if template == Template() and family.kind != "decoder":
        log.warning(
            "`%s`: the tokenizer adds no special tokens to a text, not even an end token, and the model reads it "
            "without them",
            files.folder,
        )
    return template


def _decode(
    files: ForeignFiles,
    settings: HuggingFaceConfig,
    generation: dict[str, Any],
    family: Family,
    template: Template | None,
    model: ModelConfig,
    codes: dict[str, int],
) -> DecodeConfig:
    """Returns the model's search settings, between its default languages; `codes` are its language codes."""
    code_first = bool(codes) and model.bos_id not in codes.values()
    decode = decode_settings(settings, generation, family, model.eos_id, template, code_first)
    return set_default_target(decode, files, model.bos_id, codes) if codes else decode


def detect_hugging_face_task(folder: Path) -> Task:
    """Returns the task of a folder's model, by its settings alone: an encoder is a classifier if its settings name such
    a class of transformers.

    Raises CheckpointError for a family that is unknown.
    """
    table = read_settings(folder / CONFIG)
    task, names = task_of_family(_family(folder / CONFIG, table).kind), table.get("architectures")
    classifies = isinstance(names, list) and any(str(name).endswith("ForSequenceClassification") for name in names)
    return TASKS["classify"] if task.name == "encode" and classifies else task


def _build(
    settings: HuggingFaceConfig, family: Family, special: dict[str, Any], file: ForeignTensors
) -> tuple[Model, tuple[str, ...]]:
    """Returns the model with its weights, and the names of the file's tensors outside it.

    `special` are the fields of the special tokens. Raises CheckpointError if settings and weights do not agree.
    """
    origin = f"the weights of `{settings.path.parent}`"
    fields = {ours: settings[theirs] for ours, theirs in family.fields.items()} | dict(family.fixed) | special
    fields |= find_ties(settings, file, family) | family.shape(settings, file.tensors)
    head = _head_classes(settings, file, family)
    config = _model_config(settings, family, fields | head)
    bare = build_on_meta(config)
    check_used(bare, file, family, bool(head), origin)
    file.tensors |= family.arithmetic(settings, file.tensors)
    tensors = convert_tensors(bare, file, family, bool(head), origin)
    model = build_uninitialised(config)
    set_parameters(model, tensors, origin)
    return model, list_unused_tensors(model, file, family, bool(head), origin)


def _family(path: Path, table: dict[str, Any]) -> Family:
    """Returns the family that config.json names. Raises CheckpointError for an unknown one."""
    if "format" in table:
        raise CheckpointError(
            f"`{path.parent}` is a Pellucid model folder, not one of transformers",
            "open it with pellucid.Translator.load, Classifier.load or LanguageModel.load",
        )
    kind = table.get("model_type")
    if "model_type" not in table:  # as in folders from before transformers 2.x
        likely = _likely_type(path, table)
        raise CheckpointError(
            f"`{path}` has no `model_type`, the name of the model's family",
            (f'add "model_type": "{likely}" to it, which matches its settings; ' if likely else "")
            + f"Pellucid opens {', '.join(sorted(FAMILIES))}",
        )
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError(
            f"`{path}` has the unknown `model_type` {format_value(kind)}",
            f"Pellucid opens {', '.join(sorted(FAMILIES))}",
        )
    for layers, other in (("encoder_layers", "decoder_layers"), ("decoder_layers", "encoder_layers")):
        if FAMILIES[kind].kind == "encoder-decoder" and table.get(layers) == 0:
            raise CheckpointError(
                f"`{path}` has `{layers}` = 0: without it a {kind} with {format_value(table.get(other))} `{other}` "
                "has only one stack, and does not translate",
                "copy the folder again, with the config.json of the whole model",
            )
    return FAMILIES[kind]


def _likely_type(path: Path, table: dict[str, Any]) -> str:
    """Returns the family whose name is in the folder's, or most of whose settings are present; "" if none is."""
    named = [kind for kind in FAMILIES if kind.replace("-", "") in path.parent.name.lower().replace("-", "")]
    if named:
        return max(named, key=len)
    shares = {kind: fmean(name in table for name in family.fields.values()) for kind, family in FAMILIES.items()}
    likely = max(shares, key=lambda kind: shares[kind])
    return likely if shares[likely] > 2 / 3 else ""


def _model_config(settings: HuggingFaceConfig, family: Family, fields: dict[str, Any]) -> ModelConfig:
    """Returns the model configuration. Raises CheckpointError, with the file's names for heads and activations."""
    activation = fields["activation"]
    if activation not in FROM_HUGGING_FACE:
        name = family.fields.get("activation", "feed_forward_proj")
        raise settings.refuse(
            name,
            settings[name],
            f"an activation that Pellucid does not support; it supports {', '.join(FROM_HUGGING_FACE)}",
        )
    fields["activation"] = FROM_HUGGING_FACE[activation]
    width, heads = fields["d_model"], fields["num_heads"]
    if fields.get("head_dim") is None and isinstance(width, int) and isinstance(heads, int) and heads and width % heads:
        names = family.fields["d_model"], family.fields.get("num_heads", "encoder_attention_heads")
        raise CheckpointError(
            f"`{settings.path}` has `{names[0]}` = {width}, which must be divisible by `{names[1]}` ({heads})",
            "config.json is damaged, or belongs to another model",
        )
    try:
        return from_table(ModelConfig, fields, "[model]")
    except ConfigError as error:
        raise CheckpointError(f"`{settings.path}` describes an invalid model: {error}", error.hint) from error


def _head_classes(settings: HuggingFaceConfig, file: ForeignTensors, family: Family) -> dict[str, Any]:
    """Returns the fields of a classification head; empty if the file has no complete head, or one of a single class."""
    names = [f"{module}.{kind}" for module in family.head.values() for kind in ("weight", "bias")]
    if not names or any(name not in file.tensors for name in names):
        return {}
    if settings.get("problem_type") not in (None, "single_label_classification"):
        return {}
    classes = file.tensors[f"{family.head['head.class_projection']}.weight"].size(0)
    return {"num_classes": classes, "classifier_activation": family.head_activation} if classes > 1 else {}


def _other_head(settings: HuggingFaceConfig, family: Family, unused: Sequence[str]) -> str:
    """Returns the function of a classification head that is not read because it does not choose one of several
    classes.
    """
    if not family.head or not any(name.rpartition(".")[0] in family.head.values() for name in unused):
        return ""
    kind, labels = settings.get("problem_type"), settings.table.get("id2label")
    names = settings.table.get("architectures")
    if kind == "multi_label_classification":
        return (
            "its head computes an independent probability for each label (`problem_type` = multi_label_classification)"
        )
    if kind == "regression" or (isinstance(labels, dict) and len(labels) == 1):
        return "its head computes one number (`problem_type` = regression, or a single label), not a class"
    if isinstance(names, list) and any(str(name).endswith("ForSequenceClassification") for name in names):
        return "its head is not the classification head of its family"
    return ""


def _labels(table: dict[str, Any], count: int) -> tuple[str, ...]:
    """Returns the names of the classes, by default as in transformers."""
    names = table.get("id2label")
    names = names if isinstance(names, dict) else {}
    return tuple(str(names.get(str(number), f"LABEL_{number}")) for number in range(count))


def _check_vocabulary(
    tokenizers: TokenizerPair | None, languages: dict[str, int], config: ModelConfig, origin: Path
) -> None:
    """Raises CheckpointError for a tokenizer with ids that the model has no embedding for.

    Special tokens that no text contains may have such ids, as the mask of some releases of BART.
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
