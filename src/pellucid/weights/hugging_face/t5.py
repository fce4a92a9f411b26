"""T5 (the first version and 1.1) and mT5: relative positions, root-mean-square norms, no biases, heads of any width."""

from dataclasses import replace
from typing import Any

from pellucid.weights.hugging_face.family import Family, Tensors
from pellucid.weights.hugging_face.settings import HuggingFaceConfig

MOST_TOKENS = 1_000_000
"""Relative positions have no last row: memory is the only limit on a text's length."""


def _attention(ours: str, theirs: str, number: int) -> dict[str, str | tuple[str, ...]]:
    sublayer = f"{ours.partition('.')[0]}.block.{{i}}.layer.{number}"
    return {
        f"{ours}.qkv_proj": (f"{sublayer}.{theirs}.q", f"{sublayer}.{theirs}.k", f"{sublayer}.{theirs}.v"),
        f"{ours}.out_proj": f"{sublayer}.{theirs}.o",
        f"{ours}_norm": f"{sublayer}.layer_norm",
    }


def _feed_forward(stack: str, number: int) -> dict[str, str | tuple[str, ...]]:
    ours, sublayer = f"{stack}.layers.{{i}}.feed_forward", f"{stack}.block.{{i}}.layer.{number}"
    return {
        f"{ours}.gate_proj": f"{sublayer}.DenseReluDense.wi_0",
        f"{ours}.up_proj": f"{sublayer}.DenseReluDense.wi_1|{sublayer}.DenseReluDense.wi",
        f"{ours}.down_proj": f"{sublayer}.DenseReluDense.wo",
        f"{ours}_norm": f"{sublayer}.layer_norm",
    }


def _shape(settings: HuggingFaceConfig, tensors: Tensors) -> dict[str, Any]:
    kind = str(settings["feed_forward_proj"])
    gated, activation = kind.startswith("gated-"), kind.removeprefix("gated-")
    layers = settings["num_decoder_layers"]
    return {
        "gated_feed_forward": gated,
        # The authors of version 1.1 wrote "gelu" for its approximation.
        "activation": "gelu_new" if kind == "gated-gelu" else activation,
        "num_decoder_layers": settings["num_layers"] if layers is None else layers,
    }


def _scores(settings: HuggingFaceConfig, tensors: Tensors) -> Tensors:
    """Returns the queries' weights times the scale that the scores lack."""
    width = settings["d_kv"]
    return {name: tensors[name] * width**0.5 for name in tensors if name.endswith("Attention.q.weight")}


def _arithmetic(settings: HuggingFaceConfig, tensors: Tensors) -> Tensors:
    """Returns the same, and the decoder's last norm times the first version's scale of the logits."""
    found = _scores(settings, tensors)
    # Files name it by another setting, or, since transformers 5, by its own.
    scaled = settings.get("scale_decoder_outputs", settings["tie_word_embeddings"] is not False)
    norm = "decoder.final_layer_norm.weight"
    return found | ({norm: tensors[norm] * settings["d_model"] ** -0.5} if scaled and norm in tensors else {})


T5 = Family(
    kind="encoder-decoder",
    prefix="",
    fields={
        "d_model": "d_model", "d_ff": "d_ff", "num_heads": "num_heads", "head_dim": "d_kv",
        "num_encoder_layers": "num_layers", "src_vocab_size": "vocab_size", "tgt_vocab_size": "vocab_size",
        "relative_num_buckets": "relative_attention_num_buckets",
        "relative_max_distance": "relative_attention_max_distance",
        "norm_eps": "layer_norm_epsilon", "dropout": "dropout_rate", "attention_dropout": "dropout_rate",
        "feed_forward_dropout": "dropout_rate", "pad_id": "pad_token_id",
    },
    fixed={
        "norm": "pre", "final_norm": True, "norm_type": "rms", "bias": False, "positions": "relative",
        "max_positions": MOST_TOKENS, "scale_embeddings": False,
    },
    defaults={
        "d_model": 512, "d_ff": 2048, "num_heads": 8, "d_kv": 64, "num_layers": 6, "num_decoder_layers": None,
        "vocab_size": 32128, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
        "layer_norm_epsilon": 1e-6, "dropout_rate": 0.1, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 1,
        "feed_forward_proj": "relu", "tie_word_embeddings": True,
    },
    modules={
        "src_embedding.tokens": "encoder.embed_tokens|shared|decoder.embed_tokens",
        "tgt_embedding.tokens": "decoder.embed_tokens|shared|encoder.embed_tokens",
        "encoder.relative.bias": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
        "decoder.relative.bias": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
        **_attention("encoder.layers.{i}.self_attn", "SelfAttention", 0),
        **_feed_forward("encoder", 1),
        **_attention("decoder.layers.{i}.self_attn", "SelfAttention", 0),
        **_attention("decoder.layers.{i}.cross_attn", "EncDecAttention", 1),
        **_feed_forward("decoder", 2),
        "encoder.norm": "encoder.final_layer_norm",
        "decoder.norm": "decoder.final_layer_norm",
        "output_projection": "lm_head",
    },
    heads=(r"classification_head\..*", r"qa_outputs\..*", r"classifier\..*"),
    # Cross-attention has no distances; the first version's files contain an unused table for it.
    buffers=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
    decoder_start="pad_token_id",
    shape=_shape,
    arithmetic=_arithmetic,
)  # fmt: skip

MT5 = replace(  # its logits have no scale in any version, tied or not
    T5,
    defaults={
        **T5.defaults,
        "d_ff": 1024, "num_heads": 6, "num_layers": 8, "vocab_size": 250112, "feed_forward_proj": "gated-gelu",
    },
    arithmetic=_scores,
)  # fmt: skip
