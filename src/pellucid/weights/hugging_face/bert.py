"""BERT, RoBERTa and XLM-R, DistilBERT: encoders with post-norm, learned positions and a norm on the embeddings."""

from dataclasses import replace
from typing import Any

from pellucid.weights.hugging_face.family import Family, Tensors
from pellucid.weights.hugging_face.settings import HuggingFaceConfig

FIXED: dict[str, object] = {
    "num_decoder_layers": 0, "norm": "post", "embedding_norm": True, "positions": "learned", "scale_embeddings": False,
}  # fmt: skip
LAYER = "encoder.layers.{i}"
HEADS = (r"pooler\..*", r"cls\..*", r"lm_head\..*", r"classifier\..*", r"qa_outputs\..*", r"pre_classifier\..*",
         r"vocab_(transform|layer_norm|projector)\..*")  # fmt: skip

BERT = Family(
    kind="encoder",
    prefix="bert.",
    fields={
        "d_model": "hidden_size", "d_ff": "intermediate_size", "num_heads": "num_attention_heads",
        "num_encoder_layers": "num_hidden_layers", "src_vocab_size": "vocab_size", "tgt_vocab_size": "vocab_size",
        "max_positions": "max_position_embeddings", "num_segments": "type_vocab_size", "activation": "hidden_act",
        "norm_eps": "layer_norm_eps", "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob", "pad_id": "pad_token_id",
    },
    fixed=FIXED,
    defaults={
        "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12,
        "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu",
        "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "pad_token_id": 0,
        "bos_token_id": 101, "eos_token_id": 102,
    },
    only={"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False},
    modules={
        "src_embedding.tokens": "embeddings.word_embeddings",
        "src_embedding.positions": "embeddings.position_embeddings",
        "src_embedding.segments": "embeddings.token_type_embeddings",
        "src_embedding.norm": "embeddings.LayerNorm",
        f"{LAYER}.self_attn.qkv_proj": (
            "encoder.layer.{i}.attention.self.query",
            "encoder.layer.{i}.attention.self.key",
            "encoder.layer.{i}.attention.self.value",
        ),
        f"{LAYER}.self_attn.out_proj": "encoder.layer.{i}.attention.output.dense",
        f"{LAYER}.self_attn_norm": "encoder.layer.{i}.attention.output.LayerNorm",
        f"{LAYER}.feed_forward.up_proj": "encoder.layer.{i}.intermediate.dense",
        f"{LAYER}.feed_forward.down_proj": "encoder.layer.{i}.output.dense",
        f"{LAYER}.feed_forward_norm": "encoder.layer.{i}.output.LayerNorm",
    },
    head={"head.hidden": "pooler.dense", "head.class_projection": "classifier"},
    head_activation="tanh",
    heads=HEADS,
    buffers=(r"embeddings\.(position_ids|token_type_ids)",),
)  # fmt: skip


def _roberta_shape(settings: HuggingFaceConfig, tensors: Tensors) -> dict[str, Any]:
    segments = settings["type_vocab_size"]
    return {
        "max_positions": settings["max_position_embeddings"] - _roberta_offset(settings),
        "num_segments": segments if segments > 1 else 0,
    }


def _roberta_offset(settings: HuggingFaceConfig) -> int:
    """Returns the row of the first position: fairseq counts positions from `pad_id + 1`."""
    return settings.require_id("pad_token_id") + 1


def _roberta_arithmetic(settings: HuggingFaceConfig, tensors: Tensors) -> Tensors:
    """Returns the table of positions from its first row in use, with the vector of a single segment, which all tokens
    get, added.
    """
    name, segments = "embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight"
    if name not in tensors or segments not in tensors:
        return {}
    positions = tensors[name][_roberta_offset(settings) :]
    return {name: positions + tensors[segments] if len(tensors[segments]) == 1 else positions}


ROBERTA = replace(
    BERT,
    prefix="roberta.",
    defaults={**BERT.defaults, "vocab_size": 50265, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
    head={"head.hidden": "classifier.dense", "head.class_projection": "classifier.out_proj"},
    buffers=(*BERT.buffers, r"embeddings\.token_type_embeddings\.weight"),
    shape=_roberta_shape,
    arithmetic=_roberta_arithmetic,
)

DISTILBERT = Family(
    kind="encoder",
    prefix="distilbert.",
    fields={
        "d_model": "dim", "d_ff": "hidden_dim", "num_heads": "n_heads", "num_encoder_layers": "n_layers",
        "src_vocab_size": "vocab_size", "tgt_vocab_size": "vocab_size", "max_positions": "max_position_embeddings",
        "activation": "activation", "dropout": "dropout", "attention_dropout": "attention_dropout",
        "pad_id": "pad_token_id",
    },
    fixed=FIXED | {"norm_eps": 1e-12},
    defaults={
        "dim": 768, "hidden_dim": 3072, "n_heads": 12, "n_layers": 6, "vocab_size": 30522,
        "max_position_embeddings": 512, "activation": "gelu", "dropout": 0.1, "attention_dropout": 0.1,
        "pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102,
    },
    modules={
        "src_embedding.tokens": "embeddings.word_embeddings",
        "src_embedding.positions": "embeddings.position_embeddings",
        "src_embedding.norm": "embeddings.LayerNorm",
        f"{LAYER}.self_attn.qkv_proj": (
            "transformer.layer.{i}.attention.q_lin",
            "transformer.layer.{i}.attention.k_lin",
            "transformer.layer.{i}.attention.v_lin",
        ),
        f"{LAYER}.self_attn.out_proj": "transformer.layer.{i}.attention.out_lin",
        f"{LAYER}.self_attn_norm": "transformer.layer.{i}.sa_layer_norm",
        f"{LAYER}.feed_forward.up_proj": "transformer.layer.{i}.ffn.lin1",
        f"{LAYER}.feed_forward.down_proj": "transformer.layer.{i}.ffn.lin2",
        f"{LAYER}.feed_forward_norm": "transformer.layer.{i}.output_layer_norm",
    },
    head={"head.hidden": "pre_classifier", "head.class_projection": "classifier"},
    head_activation="relu",
    heads=HEADS,
    buffers=(r"embeddings\.position_ids",),
)  # fmt: skip
