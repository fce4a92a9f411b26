"""A peer in decoding: transformers' MarianMTModel with the weights of a Pellucid model."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, MarianConfig, MarianMTModel

from pellucid.config import ModelConfig
from pellucid.decoding.batches import pad
from pellucid.errors import ConfigError
from pellucid.model.transformer import Transformer

# What Marian's architecture fixes.
NEEDED = {
    "norm": "post", "has_final_norm": False, "embedding_norm": False, "positions": "sinusoidal",
    "gated_feed_forward": False,
    "bias": True, "output_bias": False, "tie_embeddings": "all", "norm_eps": 1e-5, "activation": "relu",
}  # fmt: skip


def check_shape(config: ModelConfig) -> None:
    """Raises ConfigError where a model is not of the shape that Marian has."""
    for name, value in NEEDED.items():
        if getattr(config, name) != value:
            raise ConfigError(
                f"the model's `{name}` is {getattr(config, name)!r}, the other engines need {value!r}",
                "train benchmarks/decoding_model.toml",
            )


def marian_config(config: ModelConfig) -> MarianConfig:
    """The sizes and the dropout of a model in Marian's words."""
    return MarianConfig(
        vocab_size=config.tgt_vocab_size, d_model=config.d_model, activation_function=config.activation,
        encoder_layers=config.num_encoder_layers, decoder_layers=config.num_decoder_layers,
        encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff,
        encoder_attention_heads=config.num_heads, decoder_attention_heads=config.num_heads,
        dropout=config.dropout, attention_dropout=config.attention_dropout,
        activation_dropout=config.feed_forward_dropout,
        scale_embedding=config.scale_embeddings, max_position_embeddings=config.max_positions,
        pad_token_id=config.pad_id, bos_token_id=config.bos_id, eos_token_id=config.eos_id,
        decoder_start_token_id=config.bos_id, forced_eos_token_id=None,
    )  # fmt: skip


def to_marian(model: Transformer) -> Any:
    """The MarianMTModel that computes what `model` does; its table of positions is overwritten by ours.

    Marian's own table has all sines before all cosines. Raises ConfigError for a model of another shape.
    """
    config = model.config
    check_shape(config)
    marian = MarianMTModel(marian_config(config))
    found = marian.load_state_dict(marian_weights(model), strict=False)
    rest = {name for name in found.missing_keys if name != "final_logits_bias"}
    assert not rest, rest
    assert not found.unexpected_keys, found.unexpected_keys
    return marian.eval()


def marian_weights(model: Transformer) -> dict[str, Tensor]:
    """The weights of `model` under Marian's names."""
    embedding = model.tgt_embedding.tokens.weight.detach()
    weights = {"model.shared.weight": embedding, "lm_head.weight": embedding}
    for stack in ("encoder", "decoder"):
        weights[f"model.{stack}.embed_tokens.weight"] = embedding
        weights[f"model.{stack}.embed_positions.weight"] = model.get_buffer("tgt_embedding.positions.table")
    for name, tensor in model.named_parameters():
        if name.startswith(("encoder.", "decoder.")):
            weights.update(_layer_weights(name, tensor.detach()))
    return weights


def _layer_weights(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """A layer's parameter under Marian's name; the packed projections under their three."""
    renamed = {
        "self_attn_norm": "self_attn_layer_norm", "cross_attn_norm": "encoder_attn_layer_norm",
        "feed_forward_norm": "final_layer_norm", "cross_attn.": "encoder_attn.",
        "feed_forward.up_proj": "fc1", "feed_forward.down_proj": "fc2",
    }  # fmt: skip
    for ours, theirs in renamed.items():
        name = name.replace(ours, theirs)
    if "qkv_proj" not in name:
        return {f"model.{name}": tensor}
    parts = zip(("q_proj", "k_proj", "v_proj"), tensor.chunk(3), strict=True)
    return {f"model.{name.replace('qkv_proj', part)}": rows for part, rows in parts}


def generate(
    model: Any, config: ModelConfig, sources: Sequence[Sequence[int]], beam_size: int, max_length: int | None = None
) -> list[list[int]]:
    """The best output for each source, by `generate`, as ids without start and end, of at most `max_length` of them.

    `early_stopping` is on: a sentence is done when `beam_size` hypotheses have finished, as in Pellucid and in
    CTranslate2; without it transformers goes on for longer.
    """
    src = pad([[*source, config.eos_id] for source in sources], config.pad_id or 0).to(model.device)
    most = 2 * (src.size(1) - 1) + 50 if max_length is None else max_length
    options = GenerationConfig(
        num_beams=beam_size, do_sample=False, length_penalty=1.0, early_stopping=beam_size > 1,
        max_new_tokens=min(most + 1, config.max_positions - 1),
        pad_token_id=config.pad_id, bos_token_id=config.bos_id, eos_token_id=config.eos_id,
        decoder_start_token_id=config.bos_id,
    )  # fmt: skip
    with torch.inference_mode():
        rows = model.generate(src, attention_mask=src.ne(config.pad_id or 0).long(), generation_config=options)
    return [row[1 : row.index(config.eos_id)] if config.eos_id in row else row[1:] for row in rows.tolist()]
