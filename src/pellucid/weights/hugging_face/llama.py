"""Llama, Mistral, Qwen2, Qwen3: decoders alone with rotary positions, root-mean-square norms, gated feed-forward."""

from dataclasses import replace
from typing import Any

import torch

from pellucid.errors import CheckpointError
from pellucid.weights.hugging_face.family import Family, Tensors
from pellucid.weights.hugging_face.settings import HuggingFaceConfig

LAYER = "decoder.layers.{i}"


def _shape(settings: HuggingFaceConfig, tensors: Tensors) -> dict[str, Any]:
    attention, mlp = bool(settings["attention_bias"]), bool(settings["mlp_bias"])
    return _rotary(settings) | {"bias": attention or mlp, "qkv_bias": attention}


def _rotary(settings: HuggingFaceConfig) -> dict[str, Any]:
    """Returns the fields of the positions. Raises CheckpointError for an unsupported scaling, or rotation of only a
    part of a head.
    """
    name = next((name for name in ("rope_parameters", "rope_scaling") if settings.get(name)), "rope_parameters")
    rope = settings.get(name) or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ("default", "linear", "llama3"):
        raise settings.refuse(
            f"{name}.rope_type",
            kind,
            "positions that Pellucid's model does not support; it supports default, linear, llama3",
        )
    part = rope.get("partial_rotary_factor", settings.get("partial_rotary_factor"))
    if part not in (None, 1, 1.0):
        raise settings.refuse("partial_rotary_factor", part, "positions that Pellucid's model does not support")
    needed = {"linear": ("factor",), "llama3": ("factor", "high_freq_factor", "low_freq_factor")}.get(kind, ())
    for key in needed:
        if not rope.get(key):
            raise CheckpointError(
                f"`{settings.path}`: `{name}` has {'no' if rope.get(key) is None else 'zero as its'} `{key}`",
                "copy the folder again",
            )
    fields: dict[str, Any] = {"rotary_base": float(rope.get("rope_theta", settings["rope_theta"]))}
    if kind != "default":
        fields["rotary_factor"] = float(rope["factor"])
    if kind == "llama3":  # its two factors first count waves in the training length
        length = rope.get("original_max_position_embeddings", settings["max_position_embeddings"])
        fields["rotary_wavelengths"] = (length / rope["high_freq_factor"], length / rope["low_freq_factor"])
    return fields


def _arithmetic(settings: HuggingFaceConfig, tensors: Tensors) -> Tensors:
    """Returns zeros for the biases that one kind of sublayer has and the other lacks; our model has both or neither."""
    sizes = {"self_attn.o_proj": "hidden_size", "mlp.down_proj": "hidden_size",
             "mlp.gate_proj": "intermediate_size", "mlp.up_proj": "intermediate_size"}  # fmt: skip
    lacking = [n for n in sizes if not settings["mlp_bias" if n.startswith("mlp") else "attention_bias"]]
    return {
        f"layers.{layer}.{name}.bias": torch.zeros(settings[sizes[name]])
        for layer in range(settings["num_hidden_layers"])
        for name in lacking
        if len(lacking) < len(sizes)
    }


LLAMA = Family(
    kind="decoder",
    prefix="model.",
    fields={
        "d_model": "hidden_size", "d_ff": "intermediate_size", "num_heads": "num_attention_heads",
        "num_kv_heads": "num_key_value_heads", "head_dim": "head_dim", "num_decoder_layers": "num_hidden_layers",
        "src_vocab_size": "vocab_size", "tgt_vocab_size": "vocab_size", "max_positions": "max_position_embeddings",
        "activation": "hidden_act", "norm_eps": "rms_norm_eps", "attention_dropout": "attention_dropout",
    },
    fixed={
        "num_encoder_layers": 0, "norm": "pre", "final_norm": True, "norm_type": "rms", "positions": "rotary",
        "gated_feed_forward": True, "scale_embeddings": False, "dropout": 0.0,
    },
    defaults={
        "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, "num_key_value_heads": None,
        "head_dim": None, "num_hidden_layers": 32, "vocab_size": 32000, "max_position_embeddings": 2048,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "attention_dropout": 0.0, "rope_theta": 10000.0,
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False, "bos_token_id": 1,
        "eos_token_id": 2,
    },
    modules={
        "tgt_embedding.tokens": "embed_tokens",
        f"{LAYER}.self_attn_norm": "layers.{i}.input_layernorm",
        f"{LAYER}.self_attn.qkv_proj": (
            "layers.{i}.self_attn.q_proj", "layers.{i}.self_attn.k_proj", "layers.{i}.self_attn.v_proj",
        ),
        f"{LAYER}.self_attn.out_proj": "layers.{i}.self_attn.o_proj",
        f"{LAYER}.feed_forward_norm": "layers.{i}.post_attention_layernorm",
        f"{LAYER}.feed_forward.gate_proj": "layers.{i}.mlp.gate_proj",
        f"{LAYER}.feed_forward.up_proj": "layers.{i}.mlp.up_proj",
        f"{LAYER}.feed_forward.down_proj": "layers.{i}.mlp.down_proj",
        "decoder.norm": "norm",
        "output_projection": "lm_head",
    },
    heads=(r"score\..*", r"qa_outputs\..*", r"classifier\..*"),
    buffers=(r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",),
    shape=_shape,
    arithmetic=_arithmetic,
)  # fmt: skip


def _qwen2_shape(settings: HuggingFaceConfig, tensors: Tensors) -> dict[str, Any]:
    """Raises CheckpointError, besides, if a layer attends only to a window of its past."""
    kinds = settings.get("layer_types")
    if kinds and set(kinds) != {"full_attention"}:
        raise settings.refuse("layer_types", sorted(set(kinds)), "attention that Pellucid's model does not support")
    first = settings.get("max_window_layers", 28)
    if not kinds and settings.get("use_sliding_window") and first < settings["num_hidden_layers"]:
        raise settings.refuse("use_sliding_window", True, "attention that Pellucid's model does not support")
    return _rotary(settings)


def _mistral_shape(settings: HuggingFaceConfig, tensors: Tensors) -> dict[str, Any]:
    """Raises CheckpointError, besides, for an attention window shorter than the longest text."""
    window = settings["sliding_window"]
    if window is not None and window < settings["max_position_embeddings"]:
        raise settings.refuse(
            "sliding_window", window,
            "a sliding window, which Pellucid's model does not support; for texts that fit into it, set "
            f"`max_position_embeddings` to {window}",
        )  # fmt: skip
    return _rotary(settings)


MISTRAL = replace(
    LLAMA,
    fixed={**LLAMA.fixed, "bias": False},
    defaults={
        **LLAMA.defaults,
        "intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 131072, "sliding_window": 4096,
    },
    shape=_mistral_shape,
    arithmetic=lambda settings, tensors: {},
)  # fmt: skip

QWEN2 = replace(
    LLAMA,
    fixed={**LLAMA.fixed, "bias": False, "qkv_bias": True},
    defaults={
        **LLAMA.defaults,
        "intermediate_size": 22016, "num_key_value_heads": 32, "vocab_size": 151936,
        "max_position_embeddings": 32768, "bos_token_id": 151643, "eos_token_id": 151643,
    },
    shape=_qwen2_shape,
    arithmetic=lambda settings, tensors: {},
)  # fmt: skip


def _qwen3_shape(settings: HuggingFaceConfig, tensors: Tensors) -> dict[str, Any]:
    """Raises CheckpointError as Qwen2's does."""
    return _qwen2_shape(settings, tensors) | _shape(settings, tensors)


QWEN3 = replace(
    LLAMA,
    fixed={**LLAMA.fixed, "qk_norm": True},
    defaults={
        **LLAMA.defaults,
        "intermediate_size": 22016, "num_key_value_heads": 32, "head_dim": 128, "vocab_size": 151936,
        "max_position_embeddings": 32768, "bos_token_id": 151643, "eos_token_id": 151645,
    },
    modules={
        **LLAMA.modules,
        f"{LAYER}.self_attn.q_norm": "layers.{i}.self_attn.q_norm",
        f"{LAYER}.self_attn.k_norm": "layers.{i}.self_attn.k_norm",
    },
    shape=_qwen3_shape,
)  # fmt: skip
