"""Exports a model as a folder that the unmodified `transformers` loads."""

import math
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import ConfigError
from pellucid.files.writing import atomic_path, write_json, write_text
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.families import Model
from pellucid.text.foreign_files import CONFIG
from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights.activations import ACTIVATIONS
from pellucid.weights.card import CARD
from pellucid.weights.export import architectures as classes
from pellucid.weights.export.architectures import Architecture
from pellucid.weights.export.calls import make_call
from pellucid.weights.export.card import export_card
from pellucid.weights.export.custom_parts import refuse_parts
from pellucid.weights.export.tokenizer_files import save_tokenizer_files
from pellucid.weights.hugging_face.names import foreign_names
from pellucid.weights.hugging_face.settings import GENERATION
from pellucid.weights.tensors import parameters

NOT_IN_THE_BASE = ("output_projection", "head.class_projection")
"""Modules whose names have no base model prefix in a class with a head."""


def to_hugging_face(
    model: Model,
    tokenizer: Tokenizer | TokenizerPair | None,
    folder: str | Path,
    *,
    decode: DecodeConfig | None = None,
    labels: tuple[str, ...] = (),
    original: str = "",
) -> Path:
    """Writes `model` so that `transformers` loads it; returns the folder.

    Post-norm encoder-decoders become a MarianMTModel, pre-norm ones a PegasusForConditionalGeneration, with embedding
    norms BART or mBART; encoders BERT; decoders GPT-2, Llama or Qwen2. Weights keep their bits. The table of sinusoids
    is stored with them, since the classes' tables order dimensions differently; MarianMTModel's `save_pretrained`
    leaves it out, as README.md in the folder explains.

    Args:
        tokenizer: one for both sides or one per side, written as `tokenizer.json`; two SentencePiece models are written
            for MarianTokenizer. None: no tokenizer.
        decode: the defaults of `generate`.
        labels: the names of a classifier's classes.
        original: the card of the model, whose text and front matter go into the new card.

    Raises ConfigError, which names the field, for a model that no class can express.
    """
    refuse_parts(model, "transformers")
    architecture = choose_architecture(model.config)
    _check(model.config, architecture)
    folder, decode = Path(folder), decode or DecodeConfig()
    if model.config.family == "encoder-decoder" and not decode.add_source_eos:
        raise _refusal("add_source_eos", False, architecture, "tokenizers that append the end token to every source")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(folder / "model.safetensors") as temporary:
        # transformers requires the name of the framework that wrote the file.
        tensors = foreign_tensors(model, architecture)
        temporary.write_bytes(safetensors.torch.save(tensors, metadata={"format": "pt"}))
    if model.config.family != "encoder":
        write_json(folder / GENERATION, generation_table(model.config, decode))
    both = TokenizerPair.from_given(tokenizer)
    if both is not None:
        save_tokenizer_files(both, folder, model.config, decode, marian=True)
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    write_text(folder / CARD, export_card(make_call(folder, "hf", model.config, decode, both), original=original))
    table = _config_table(model.config, architecture, decode, labels) | {"dtype": dtype}
    write_json(folder / CONFIG, table)  # last: without it the folder does not open
    return folder


def choose_architecture(config: ModelConfig) -> Architecture:
    """Returns the class that is closest to `config`."""
    if config.family == "encoder-decoder":
        if config.embedding_norm:
            return classes.BART_GENERATION if config.norm == "post" else classes.MBART_GENERATION
        return classes.MARIAN_MT if config.norm == "post" else classes.PEGASUS_GENERATION
    if config.family == "encoder":
        return classes.BERT_CLASSIFIER if config.num_classes else classes.BERT_STATES
    if config.norm_type == "rms":
        return classes.QWEN2_GENERATION if resolve_fields(config)["qkv_bias"] else classes.LLAMA_GENERATION
    return classes.GPT2_GENERATION


def resolve_fields(config: ModelConfig) -> dict[str, Any]:
    """Returns the fields of `config` with None resolved; heads of the usual number and width are None."""
    table = {name: getattr(config, name) for name in ModelConfig.__dataclass_fields__}
    grouped = config.num_kv_heads not in (None, config.num_heads)
    return table | {
        "final_norm": config.has_final_norm,
        "qkv_bias": config.bias if config.qkv_bias is None else config.qkv_bias,
        "num_kv_heads": config.num_kv_heads if grouped else None,
        "head_dim": None if config.head_width * config.num_heads == config.d_model else config.head_width,
        "kv_heads": config.num_kv_heads or config.num_heads,
        "head_width": config.head_width,
    }


def _check(config: ModelConfig, architecture: Architecture) -> None:
    """Raises ConfigError for the first field that `architecture` cannot express."""
    table = resolve_fields(config)
    for name, value in architecture.needs.items():
        if table[name] != value:
            raise _refusal(name, table[name], architecture, f"{value!r}")
    if config.positions not in architecture.positions:
        raise _refusal("positions", config.positions, architecture, " or ".join(map(repr, architecture.positions)))
    tied = config.tie_embeddings != "none" and config.family != "encoder"
    if config.scale_embeddings and tied and not architecture.scales_embeddings:
        raise _refusal("scale_embeddings", True, architecture, "False if the output projection is tied")


def _refusal(name: str, value: object, architecture: Architecture, allowed: str) -> ConfigError:
    return ConfigError(
        f"`{name}` ({value!r}) is not supported by {architecture.class_name} of transformers, which supports {allowed}",
        "convert to ONNX, which supports every shape, or train with a supported value",
    )


def foreign_tensors(model: Model, architecture: Architecture) -> dict[str, Tensor]:
    """Returns the parameters of `model` under the names of `architecture`."""
    config, family = model.config, architecture.family
    modules = {**family.modules, **family.head}
    prefix = family.prefix if architecture is not classes.BERT_STATES else ""
    widths = {
        f"{name}.qkv_proj": m.qkv_widths for name, m in model.named_modules() if isinstance(m, MultiHeadAttention)
    }
    found = {}
    for name, parameter in _all_tensors(model, architecture).items():
        tensor = _fold(name, parameter.detach().cpu(), config, architecture)
        parts = foreign_names(name, modules, family.parameters)
        rows = widths[name.rpartition(".")[0]] if len(parts) > 1 else [len(tensor)]
        for names, part in zip(parts, torch.split(tensor, rows), strict=True):
            # One matrix for all embeddings is called `shared`.
            shared = next((each for each in names if each == "shared.weight"), names[0])
            theirs = shared if config.tie_embeddings == "all" else names[0]
            found[theirs if name.startswith(NOT_IN_THE_BASE) else prefix + theirs] = part.contiguous()
    if config.family == "encoder" and not config.num_segments:  # BERT adds the vector of a segment to each token
        found[f"{prefix}embeddings.token_type_embeddings.weight"] = torch.zeros(1, config.d_model)
    return found


def _all_tensors(model: Model, architecture: Architecture) -> dict[str, Tensor]:
    """Returns the parameters, the tables of sinusoids, which are not parameters, and zeros for biases that only the
    class has.
    """
    sides = ("src_embedding", "tgt_embedding") if model.config.positions == "sinusoidal" else ()
    tables = {f"{s}.positions.weight": model.get_buffer(f"{s}.positions.table") for s in sides if hasattr(model, s)}
    zeros = {
        f"{name}.bias": module.weight.new_zeros(len(module.weight))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is None and name not in NOT_IN_THE_BASE
    }
    return parameters(model) | tables | (zeros if architecture.has_biases else {})


def _fold(name: str, tensor: Tensor, config: ModelConfig, architecture: Architecture) -> Tensor:
    """Returns a parameter's values as the class stores them."""
    module, _, kind = name.rpartition(".")
    if name == "output_projection.bias":
        return tensor[None]
    if module.endswith("positions"):
        return torch.cat([tensor.new_zeros(architecture.position_offset, config.d_model), tensor])
    if module.endswith("embedding.tokens") and config.scale_embeddings and not architecture.scales_embeddings:
        return tensor * math.sqrt(config.d_model)
    if kind == "weight" and module.rpartition(".")[2] in architecture.transposed:
        return tensor.t()
    return tensor


def _config_table(
    config: ModelConfig, architecture: Architecture, decode: DecodeConfig, labels: tuple[str, ...]
) -> dict[str, Any]:
    values = resolve_fields(config) | {"activation": ACTIVATIONS[config.activation][0][0]}
    table: dict[str, Any] = {"architectures": [architecture.class_name], "model_type": architecture.model_type}
    table |= {theirs: values[ours] for ours, theirs in architecture.family.fields.items()}
    table |= {theirs: values[ours] for theirs, ours in architecture.settings.items()} | dict(architecture.fixed)
    table["tie_word_embeddings"] = config.tie_embeddings != "none"
    if architecture is classes.MARIAN_MT:
        table["share_encoder_decoder_embeddings"] = config.tie_embeddings == "all"
    if architecture is classes.BART_GENERATION and not decode.source_prefix:
        table["bos_token_id"] = None  # BART's sources begin with it
    if config.family == "encoder":
        table["type_vocab_size"] = max(1, config.num_segments)
    if config.positions == "rotary":
        table["rope_parameters"] = {"rope_type": "default", "rope_theta": config.rotary_base}
        table["rope_theta"] = config.rotary_base  # for transformers before 5
    if config.num_classes:
        names = labels or tuple(f"LABEL_{i}" for i in range(config.num_classes))
        table["id2label"] = {str(i): name for i, name in enumerate(names)}
        table["label2id"] = {name: i for i, name in enumerate(names)}
    return table


def generation_table(config: ModelConfig, decode: DecodeConfig) -> dict[str, Any]:
    """Returns the settings of `generate`: like Pellucid's search, it ends once a beam has finished and never writes
    padding.
    """
    ends: int | list[int] = [config.eos_id, *decode.end_ids] if decode.end_ids else config.eos_id
    table: dict[str, Any] = {
        "bos_token_id": config.bos_id, "eos_token_id": ends, "pad_token_id": config.pad_id,
        # It counts the start, forced tokens and the end; without a limit it would use 20.
        "max_length": min(
            config.max_positions, decode.max_length + 2 + len(decode.target_prefix) if decode.max_length else 512
        ),
    }  # fmt: skip
    never = {config.pad_id, config.bos_id} - {None, config.eos_id, *decode.end_ids} | {*decode.suppress_tokens}
    if silent := sorted(i for i in never if i is not None):
        table["suppress_tokens"] = silent
    if decode.banned:
        table["bad_words_ids"] = [list(sequence) for sequence in decode.banned]
    if decode.no_repeat_ngram_size:
        table["no_repeat_ngram_size"] = decode.no_repeat_ngram_size
    if decode.min_length:
        paired = config.family == "encoder-decoder"  # it counts forced tokens, but no prompt tokens
        table["min_new_tokens"] = decode.min_length + (len(decode.target_prefix) == 1 and paired)
    if config.family == "encoder-decoder":
        table |= {
            "decoder_start_token_id": config.bos_id, "num_beams": decode.beam_size,
            "length_penalty": decode.length_penalty, "early_stopping": False,
            # A hypothesis at the length limit ends with the end token instead of being truncated.
            "forced_eos_token_id": config.eos_id,
        }  # fmt: skip
        if len(decode.target_prefix) == 1:
            table["forced_bos_token_id"] = decode.target_prefix[0]
    return table
