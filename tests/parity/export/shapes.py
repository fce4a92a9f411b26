"""One small model of every shape that goes out, and what comes near it but cannot."""

from typing import Any

import torch

from pellucid.config import ModelConfig
from pellucid.model.families import Model, build_model

SIZES: dict[str, Any] = {"d_model": 12, "d_ff": 20, "num_heads": 3, "max_positions": 40, "dropout": 0.0}
VOCAB = 31
PAIRED: dict[str, Any] = {
    **SIZES, "src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, "num_encoder_layers": 2, "num_decoder_layers": 3,
    "tie_embeddings": "all",
}  # fmt: skip
LLAMA: dict[str, Any] = {
    **SIZES, "norm": "pre", "norm_type": "rms", "positions": "rotary", "gated_feed_forward": True, "bias": False,
    "activation": "silu", "scale_embeddings": False,
}  # fmt: skip
ENCODER: dict[str, Any] = {**SIZES, "vocab_size": VOCAB, "num_layers": 2, "embedding_norm": True}
DECODER: dict[str, Any] = {**SIZES, "vocab_size": VOCAB, "num_layers": 2, "norm": "pre"}

PAIRS: dict[str, ModelConfig] = {
    "post": ModelConfig(**PAIRED),
    "post, two vocabularies": ModelConfig(
        **PAIRED | {"src_vocab_size": 23, "tie_embeddings": "decoder", "positions": "learned"}, activation="gelu_tanh"
    ),
    "post, untied": ModelConfig(
        **PAIRED | {"src_vocab_size": 23, "tie_embeddings": "none"}, scale_embeddings=False, output_bias=True
    ),
    "pre": ModelConfig(**PAIRED, norm="pre", output_bias=True, pad_id=3, bos_id=3, eos_id=0),
    "pre, learned": ModelConfig(**PAIRED, norm="pre", positions="learned", activation="gelu"),
    "post, embedding norm": ModelConfig(**PAIRED, embedding_norm=True, positions="learned", activation="silu"),
    "pre, embedding norm": ModelConfig(**PAIRED, embedding_norm=True, norm="pre", positions="learned"),
}
ENCODERS: dict[str, ModelConfig] = {
    "BERT": ModelConfig.encoder(
        **ENCODER, positions="learned", scale_embeddings=False, num_segments=2, norm_eps=1e-12, activation="gelu"
    ),
    "BERT, folded": ModelConfig.encoder(**ENCODER, norm_eps=1e-3),
    "classifier": ModelConfig.encoder(
        **ENCODER, positions="learned", scale_embeddings=False, num_segments=1, num_classes=3,
        classifier_activation="tanh",
    ),
}  # fmt: skip
DECODERS: dict[str, ModelConfig] = {
    "GPT-2": ModelConfig.decoder(
        **DECODER, positions="learned", scale_embeddings=False, activation="gelu_tanh", pad_id=None
    ),
    "GPT-2, folded": ModelConfig.decoder(**DECODER, tie_embeddings="none", norm_eps=1e-3),
    "Llama": ModelConfig.decoder(
        vocab_size=VOCAB, num_layers=2, **LLAMA, num_kv_heads=1, head_dim=10, tie_embeddings="none", pad_id=None
    ),
    "Qwen2": ModelConfig.decoder(vocab_size=VOCAB, num_layers=2, **LLAMA, qkv_bias=True, rotary_base=5000.0),
}


def random_model(config: ModelConfig) -> Model:
    """A model in eval mode; biases and norms are random, too, so that a wrong one shows."""
    model = build_model(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model
