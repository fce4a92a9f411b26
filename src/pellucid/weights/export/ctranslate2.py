"""Exports a model as a folder that CTranslate2 loads, through CTranslate2's model specification."""

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import ConfigError, format_install_command
from pellucid.files.writing import replace_atomically, temporary_folder, write_text
from pellucid.model.families import DecoderOnly, Model
from pellucid.model.transformer import Transformer
from pellucid.text.tokenizers import GivenTokenizers, TokenizerPair
from pellucid.weights.activations import ACTIVATIONS
from pellucid.weights.card import CARD
from pellucid.weights.export.calls import make_call
from pellucid.weights.export.card import export_card
from pellucid.weights.export.custom_parts import refuse_parts
from pellucid.weights.export.tokenizer_files import make_id_names, save_sentencepiece, save_tokenizer_files

Quantization = Literal["int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]

NORMS = {
    "self_attn_norm": "self_attention.layer_norm", "cross_attn_norm": "attention.layer_norm",
    "feed_forward_norm": "ffn.layer_norm",
}  # fmt: skip
FEED_FORWARD = {"down_proj": "ffn.linear_1", "up_proj": "ffn.linear_0"}
GATED_FEED_FORWARD = {"down_proj": "ffn.linear_1", "gate_proj": "ffn.linear_0", "up_proj": "ffn.linear_0_noact"}


def to_ctranslate2(
    model: Model,
    tokenizers: GivenTokenizers | None,
    folder: str | Path,
    quantization: Quantization | None = None,
    *,
    decode: DecodeConfig | None = None,
    original: str = "",
) -> Path:
    """Writes `model` for `ctranslate2.Translator`, or a decoder alone for `ctranslate2.Generator`; returns the folder.

    Its words are the tokens of the exported `tokenizer.json` (a separate target vocabulary is in `target/`), with the
    SentencePiece models if there are some; without tokenizers the ids as text. CTranslate2 adds the end token to
    sources, so a source is its tokens; but if `decode` has ids after the end token (`source_suffix`), or no end token
    (`add_source_eos`), a source contains all special tokens.

    Args:
        quantization: the type in which matrices are stored; None: float32.
        original: the card of the model, whose text and front matter go into the new card.

    Raises ConfigError, which names the field, for a model that CTranslate2 cannot express, and if the extra `ct2` is
    not installed.
    """
    refuse_parts(model, "CTranslate2")
    _check(model.config, quantization)
    spec = _specification(model)
    if isinstance(model, Transformer):
        _fill_stack(model.encoder, model.src_embedding, spec.encoder, spec.encoder.embeddings[0], model.config)
    if isinstance(model, Transformer | DecoderOnly):
        _fill_stack(model.decoder, model.tgt_embedding, spec.decoder, spec.decoder.embeddings, model.config)
        _fill_linear(model.output_projection, spec.decoder.projection)
    both = TokenizerPair.from_given(tokenizers)
    _fill_words(spec, both, model.config)
    decode, engine_ends = decode or DecodeConfig(), False
    if model.config.family == "encoder-decoder":
        engine_ends = decode.add_source_eos and not decode.source_suffix
        spec.config.add_source_eos = engine_ends
    spec.validate()
    spec.optimize(quantization=quantization)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with temporary_folder(folder / "ctranslate2") as temporary:
        spec.save(str(temporary))
        for path in sorted(temporary.iterdir()):
            replace_atomically(path, folder / path.name)
    if both:
        save_sentencepiece(both, folder)  # for users who prefer to tokenize with them
        save_tokenizer_files(both, folder, model.config, decode, engine_ends=engine_ends)
    write_text(folder / CARD, export_card(make_call(folder, "ct2", model.config, decode, both), original=original))
    return folder


def _check(config: ModelConfig, quantization: str | None) -> None:
    """Raises ConfigError for the first field whose value CTranslate2 cannot express."""
    paired = config.family == "encoder-decoder"
    allowed: dict[str, tuple[object, ...]] = {
        "num_decoder_layers": tuple(range(1, 1000)),
        "final_norm": (None, False) if config.norm == "post" else (None, True, False),
        "positions": ("sinusoidal", "learned") if paired else ("sinusoidal", "learned", "rotary"),
        "num_kv_heads": (None, config.num_heads) if paired else (None, *range(1, config.num_heads + 1)),
        "head_dim": (None, config.d_model // config.num_heads),
        "num_segments": (0,),
        "cross_query_norm": (False,) if paired and config.qk_norm else (True, False),
        "rotary_factor": (1.0,),
    }
    for name, values in allowed.items():
        value = getattr(config, name)
        if value not in values:
            queries = name == "cross_query_norm"
            raise ConfigError(
                f"`{name}` ({value!r}) is not supported by CTranslate2's model of {_article(config.family)}",
                'convert to "onnx", or train with model.cross_query_norm=false'
                if queries
                else 'convert to "hf" or "onnx"',
            )
    try:
        from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES
    except ImportError as error:
        raise ConfigError(
            "CTranslate2 is not installed", f"install the extra `ct2`: {format_install_command('ct2')}"
        ) from error
    if quantization is not None and quantization not in ACCEPTED_MODEL_TYPES:
        raise ConfigError(f"unknown quantization `{quantization}`", f"choose one of {', '.join(ACCEPTED_MODEL_TYPES)}")


def _article(family: str) -> str:
    return f"an {family}" if family.startswith("enc") else f"a {family}"


def _specification(model: Model) -> Any:
    """Returns CTranslate2's specification of such a model, with no weights yet."""
    from ctranslate2.specs import common_spec, transformer_spec

    config = model.config
    shape: dict[str, Any] = {
        "pre_norm": config.norm == "pre", "no_final_norm": not config.has_final_norm,
        "activation": common_spec.Activation[ACTIVATIONS[config.activation][1]],
        "layernorm_embedding": config.embedding_norm, "ffn_glu": config.gated_feed_forward,
        "rms_norm": config.norm_type == "rms",
        "qk_norm": config.qk_norm,
    }  # fmt: skip
    if isinstance(model, Transformer):
        encoder = transformer_spec.TransformerEncoderSpec(config.num_encoder_layers, config.num_heads, **shape)
        decoder = transformer_spec.TransformerDecoderSpec(config.num_decoder_layers, config.num_heads, **shape)
        spec = transformer_spec.TransformerSpec(encoder, decoder)
    else:
        if config.positions == "rotary":
            shape |= {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": config.rotary_base}
        if config.num_kv_heads not in (None, config.num_heads):
            shape["num_heads_kv"] = config.num_kv_heads
        spec = transformer_spec.TransformerDecoderModelSpec.from_config(
            config.num_decoder_layers, config.num_heads, **shape
        )
    spec.config.layer_norm_epsilon = config.norm_eps
    return spec


def _fill_stack(stack: nn.Module, embedding: nn.Module, target: Any, tokens: Any, config: ModelConfig) -> None:
    """Copies embeddings and layers."""
    tokens.weight = _array(embedding.get_parameter("tokens.weight"))
    target.scale_embeddings = math.sqrt(config.d_model) if config.scale_embeddings else False
    if config.positions == "learned":
        target.position_encodings.encodings = _array(embedding.get_parameter("positions.weight"))
    elif config.positions == "sinusoidal":
        target.position_encodings.encodings = _array(embedding.get_buffer("positions.table"))
    if config.embedding_norm:
        _fill_norm(embedding.get_submodule("norm"), target.layernorm_embedding)
    if config.has_final_norm:
        _fill_norm(stack.get_submodule("norm"), target.layer_norm)
    for layer, part in zip(stack.get_submodule("layers").children(), target.layer, strict=True):
        _fill_layer(layer, part, config)


def _fill_layer(layer: nn.Module, target: Any, config: ModelConfig) -> None:
    _fill_attention(layer.get_submodule("self_attn"), target.self_attention, matrices=(3,))
    crossed = getattr(layer, "cross_attn", None) is not None
    if crossed:
        _fill_attention(layer.get_submodule("cross_attn"), target.attention, matrices=(1, 2))
    for name, place in NORMS.items():
        if crossed or not name.startswith("cross"):
            _fill_norm(layer.get_submodule(name), _get_at(target, place))
    for name, place in (GATED_FEED_FORWARD if config.gated_feed_forward else FEED_FORWARD).items():
        _fill_linear(layer.get_submodule(f"feed_forward.{name}"), _get_at(target, place))


def _fill_attention(attention: nn.Module, target: Any, matrices: tuple[int, ...]) -> None:
    """Copies an attention; `matrices` has the number of query, key and value projections in each target matrix."""
    packing = attention.get_submodule("qkv_proj")
    widths: list[int] = attention.qkv_widths  # type: ignore[assignment]
    start = 0
    for linear, count in zip(target.linear, matrices, strict=False):
        rows = slice(sum(widths[:start]), sum(widths[: start + count]))
        linear.weight = _array(packing.get_parameter("weight")[rows])
        if packing.bias is not None:
            linear.bias = _array(packing.get_parameter("bias")[rows])
        start += count
    _fill_linear(attention.get_submodule("out_proj"), target.linear[-1])
    for name in ("q_norm", "k_norm"):
        if hasattr(target, name):
            _fill_head_norm(attention.get_submodule(name), target, name)


def _fill_head_norm(norm: nn.Module, target: Any, name: str) -> None:
    """Copies a norm of each head's queries or keys, with its own type: the specification assumes a root mean square."""
    from ctranslate2.specs import common_spec

    if isinstance(norm, nn.Identity):  # of queries to a memory
        delattr(target, name)
        return
    setattr(target, name, common_spec.LayerNormSpec(rms_norm=isinstance(norm, nn.RMSNorm)))
    _fill_norm(norm, getattr(target, name))


def _fill_linear(linear: nn.Module, target: Any) -> None:
    target.weight = _array(linear.get_parameter("weight"))
    if linear.bias is not None:
        target.bias = _array(linear.get_parameter("bias"))


def _fill_norm(norm: nn.Module, target: Any) -> None:
    target.gamma = _array(norm.get_parameter("weight"))
    if hasattr(target, "beta"):
        bias = norm.bias
        target.beta = np.zeros_like(target.gamma) if bias is None else _array(norm.get_parameter("bias"))


def _fill_words(spec: Any, tokenizers: TokenizerPair | None, config: ModelConfig) -> None:
    """Registers the vocabularies, and their start, end and unknown words."""
    target = make_id_names(tokenizers, "target", config.tgt_vocab_size)
    if config.family == "encoder-decoder":
        spec.register_source_vocabulary(make_id_names(tokenizers, "source", config.src_vocab_size))
        spec.register_target_vocabulary(target)
        spec.config.decoder_start_token = target[config.bos_id]
    else:
        spec.register_vocabulary(target)
    spec.config.bos_token, spec.config.eos_token = target[config.bos_id], target[config.eos_id]
    spec.config.unk_token = target[tokenizers.target.unk_id if tokenizers else config.eos_id]


def _get_at(target: Any, place: str) -> Any:
    for name in place.split("."):
        target = getattr(target, name)
    return target


def _array(tensor: Tensor) -> npt.NDArray[np.float32]:
    """Returns a copy, since CTranslate2 may change arrays in place."""
    return tensor.detach().float().cpu().numpy().copy()
