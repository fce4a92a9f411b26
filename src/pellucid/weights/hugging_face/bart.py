"""MarianMT, Pegasus, BART, mBART, M2M-100, NLLB: encoder-decoders by one name table, unlike in norms and positions."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.config.model import MOST_IN_POSITIONS
from pellucid.model.positions import sinusoids
from pellucid.weights.hugging_face.family import Family, Tensors
from pellucid.weights.hugging_face.settings import HuggingFaceConfig

FIELDS = {
    "d_model": "d_model", "num_encoder_layers": "encoder_layers", "num_decoder_layers": "decoder_layers",
    "src_vocab_size": "vocab_size", "tgt_vocab_size": "vocab_size", "max_positions": "max_position_embeddings",
    "activation": "activation_function", "dropout": "dropout", "attention_dropout": "attention_dropout",
    "feed_forward_dropout": "activation_dropout", "scale_embeddings": "scale_embedding", "pad_id": "pad_token_id",
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 16,
    "decoder_attention_heads": 16, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "vocab_size": 50265,
    "max_position_embeddings": 1024, "activation_function": "gelu", "dropout": 0.1, "attention_dropout": 0.0,
    "activation_dropout": 0.0, "scale_embedding": False, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
    "tie_word_embeddings": True,
}  # fmt: skip
FIXED = {"positions": "learned"}
OFFSET = 2
"""Rows before position 0 in BART's and mBART's tables."""


def _attention(ours: str, theirs: str) -> dict[str, str | tuple[str, ...]]:
    return {
        f"{ours}.qkv_proj": (f"{theirs}.q_proj", f"{theirs}.k_proj", f"{theirs}.v_proj"),
        f"{ours}.out_proj": f"{theirs}.out_proj",
        f"{ours}_norm": f"{theirs}_layer_norm",
    }


def _layer(stack: str) -> dict[str, str | tuple[str, ...]]:
    layer = f"{stack}.layers.{{i}}"
    return _attention(f"{layer}.self_attn", f"{layer}.self_attn") | {
        f"{layer}.feed_forward.up_proj": f"{layer}.fc1",
        f"{layer}.feed_forward.down_proj": f"{layer}.fc2",
        f"{layer}.feed_forward_norm": f"{layer}.final_layer_norm",
    }


MODULES: dict[str, str | tuple[str, ...]] = {
    "src_embedding.tokens": "encoder.embed_tokens|shared|decoder.embed_tokens",
    "tgt_embedding.tokens": "decoder.embed_tokens|shared|encoder.embed_tokens",
    "src_embedding.positions": "encoder.embed_positions",
    "tgt_embedding.positions": "decoder.embed_positions",
    "src_embedding.norm": "encoder.layernorm_embedding",
    "tgt_embedding.norm": "decoder.layernorm_embedding",
    **_layer("encoder"),
    **_layer("decoder"),
    **_attention("decoder.layers.{i}.cross_attn", "decoder.layers.{i}.encoder_attn"),
    "encoder.norm": "encoder.layer_norm",
    "decoder.norm": "decoder.layer_norm",
    "output_projection": "lm_head",
}
PARAMETERS = {"output_projection.bias": "final_logits_bias"}
HEADS = (r"classification_head\..*", r"qa_outputs\..*")
BUFFERS = (
    r"final_logits_bias",
    r"(encoder|decoder)\.embed_positions\.(_float_tensor|weights)",
    r"(encoder|decoder)\.version",
)


def shape(settings: HuggingFaceConfig, tensors: Tensors) -> dict[str, Any]:
    """Returns heads and widths, which both stacks must share, and the bias on the logits if it is not zero."""
    bias = tensors.get("final_logits_bias")
    return {
        "num_heads": settings.same("encoder_attention_heads", "decoder_attention_heads"),
        "d_ff": max(settings["encoder_ffn_dim"], settings["decoder_ffn_dim"]),
        "output_bias": bias is not None and bool(bias.any()),
    }


def arithmetic(settings: HuggingFaceConfig, tensors: Tensors) -> Tensors:
    """Returns the bias on the logits as a vector, and the feed-forward layers of a narrower stack padded with units
    that give zero.
    """
    found = {"final_logits_bias": tensors["final_logits_bias"].flatten()} if "final_logits_bias" in tensors else {}
    width = max(settings["encoder_ffn_dim"], settings["decoder_ffn_dim"])
    for name, tensor in tensors.items():
        stack, _, part = name.partition(".")
        if stack in ("encoder", "decoder") and (missing := width - settings[f"{stack}_ffn_dim"]):
            if part.endswith(("fc1.weight", "fc1.bias")):
                found[name] = F.pad(tensor, (0, 0) * (tensor.dim() - 1) + (0, missing))
            elif part.endswith("fc2.weight"):
                found[name] = F.pad(tensor, (0, missing))
    return found


def _remove_offset(settings: HuggingFaceConfig, tensors: Tensors) -> Tensors:
    names = [name for name in ("encoder.embed_positions.weight", "decoder.embed_positions.weight") if name in tensors]
    return arithmetic(settings, tensors) | {name: tensors[name][OFFSET:] for name in names}


BART = Family(
    kind="encoder-decoder",
    prefix="model.",
    fields=FIELDS,
    fixed=FIXED | {"norm": "post", "embedding_norm": True},
    defaults=DEFAULTS | {"decoder_start_token_id": 2},
    only={"is_decoder": False},
    modules=MODULES,
    parameters=PARAMETERS,
    heads=HEADS,
    buffers=BUFFERS,
    source_start="bos_token_id",
    shape=shape,
    arithmetic=_remove_offset,
)
MBART = Family(
    kind="encoder-decoder",
    prefix="model.",
    fields=FIELDS,
    fixed=FIXED | {"norm": "pre", "embedding_norm": True, "final_norm": True},
    defaults=DEFAULTS,
    only={"is_decoder": False},
    modules=MODULES,
    parameters=PARAMETERS,
    heads=HEADS,
    buffers=BUFFERS,
    sentences=True,
    shape=shape,
    arithmetic=_remove_offset,
)


POSITIONS = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")
STORED = (r"(encoder|decoder)\.embed_positions\.weight",)


def _find_sinusoids(settings: HuggingFaceConfig, tensors: Tensors) -> dict[str, Any]:
    """Returns the paper's positions if the file's table equals them, so that an exported Pellucid model is restored."""
    length, width = settings["max_position_embeddings"], settings["d_model"]
    stored = [tensors.get(name) for name in POSITIONS]
    if width < 2 or width % 2 or any(each is None or each.shape != (length, width) for each in stored):
        return {}
    table = sinusoids(length, width)
    ours = all(each is not None and torch.equal(each, table) for each in stored)
    return {"positions": "sinusoidal"} if ours else {}


def _marian_shape(settings: HuggingFaceConfig, tensors: Tensors) -> dict[str, Any]:
    one = settings["share_encoder_decoder_embeddings"]
    size = settings["vocab_size"] if one else settings.get("decoder_vocab_size") or settings["vocab_size"]
    return shape(settings, tensors) | _find_sinusoids(settings, tensors) | {"tgt_vocab_size": size}


def _pegasus_shape(settings: HuggingFaceConfig, tensors: Tensors) -> dict[str, Any]:
    return shape(settings, tensors) | _find_sinusoids(settings, tensors)


def _marian_arithmetic(settings: HuggingFaceConfig, tensors: Tensors) -> Tensors:
    """Returns sinusoids, half sines and half cosines, if the file leaves them out."""
    table = half_and_half(settings["max_position_embeddings"], settings["d_model"])
    names = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")
    return arithmetic(settings, tensors) | {name: table for name in names if name not in tensors}


def half_and_half(length: int, d_model: int) -> Tensor:
    """Returns MarianMT's positions, (length, D): the sines of section 3.5 in the first half, cosines in the second."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    column = torch.arange(d_model, dtype=torch.float64)
    angle = position / 10000 ** (2 * torch.div(column, 2, rounding_mode="floor") / d_model)
    return torch.cat([angle[:, 0::2].sin(), angle[:, 1::2].cos()], dim=1).float()


MARIAN = Family(
    kind="encoder-decoder",
    prefix="model.",
    fields=FIELDS,
    fixed=FIXED | {"norm": "post"},
    defaults=DEFAULTS | {
        "vocab_size": 58101, "pad_token_id": 58100, "eos_token_id": 0, "share_encoder_decoder_embeddings": True,
    },
    only={"is_decoder": False},
    modules=MODULES,
    parameters=PARAMETERS,
    buffers=BUFFERS + STORED,
    decoder_start="pad_token_id",
    sentences=True,
    shape=_marian_shape,
    arithmetic=_marian_arithmetic,
)  # fmt: skip
PEGASUS = Family(
    kind="encoder-decoder",
    prefix="model.",
    fields=FIELDS,
    fixed=FIXED | {"norm": "pre", "final_norm": True},
    defaults=DEFAULTS | {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0},
    only={"is_decoder": False},
    modules=MODULES,
    parameters=PARAMETERS,
    buffers=BUFFERS + STORED,
    decoder_start="pad_token_id",
    shape=_pegasus_shape,
    arithmetic=_marian_arithmetic,
)


def _m2m_100_arithmetic(settings: HuggingFaceConfig, tensors: Tensors) -> Tensors:
    first = settings.require_id("pad_token_id") + 1
    if (first + settings["max_position_embeddings"]) * settings["d_model"] > MOST_IN_POSITIONS:
        raise settings.refuse(
            "pad_token_id", first - 1, "after which its positions begin: their table would be too long"
        )
    table = fairseq_sinusoids(first + settings["max_position_embeddings"], settings["d_model"])[first:]
    names = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")
    return arithmetic(settings, tensors) | dict.fromkeys(names, table)


def fairseq_sinusoids(length: int, d_model: int) -> Tensor:
    """Returns fairseq's positions, (length, D): sines then cosines, of rates that reach 1/10000 at the last column of
    each.

    In single precision throughout, as the models were trained: at position 1,000 double precision differs by 1e-5.
    """
    half = d_model // 2
    rate = torch.exp(torch.arange(half).float() * -(math.log(10000) / max(half - 1, 1)))
    angle = torch.arange(length).float()[:, None] * rate
    return F.pad(torch.cat([angle.sin(), angle.cos()], dim=1), (0, d_model % 2))


M2M_100 = Family(
    kind="encoder-decoder",
    prefix="model.",
    fields=FIELDS,
    fixed=FIXED | {"norm": "pre", "final_norm": True},
    defaults=DEFAULTS | {
        "vocab_size": 128112, "activation_function": "relu", "attention_dropout": 0.1, "scale_embedding": True,
        "decoder_start_token_id": 2,
    },
    only={"is_decoder": False},
    modules=MODULES,
    buffers=BUFFERS,
    sentences=True,
    shape=shape,
    arithmetic=_m2m_100_arithmetic,
)  # fmt: skip
