"""Folders as transformers writes them, made by hand: small, random, and open to any damage."""

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

D, F, VOCAB, POSITIONS = 4, 6, 11, 8

BERT: dict[str, Any] = {
    "model_type": "bert", "vocab_size": VOCAB, "hidden_size": D, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": F, "max_position_embeddings": POSITIONS,
}  # fmt: skip
BART: dict[str, Any] = {
    "model_type": "bart", "vocab_size": VOCAB, "d_model": D, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": F, "decoder_ffn_dim": F,
    "max_position_embeddings": POSITIONS,
}  # fmt: skip
LLAMA: dict[str, Any] = {
    "model_type": "llama", "vocab_size": VOCAB, "hidden_size": D, "intermediate_size": F, "num_hidden_layers": 1,
    "num_attention_heads": 2, "max_position_embeddings": POSITIONS, "tie_word_embeddings": True,
}  # fmt: skip


def _module(name: str, *shape: int) -> dict[str, Tensor]:
    return {f"{name}.weight": torch.randn(shape), f"{name}.bias": torch.randn(shape[0])}


def bert_tensors() -> dict[str, Tensor]:
    """The tensors of a BertModel with a pooler."""
    tensors = {
        "embeddings.word_embeddings.weight": torch.randn(VOCAB, D),
        "embeddings.position_embeddings.weight": torch.randn(POSITIONS, D),
        "embeddings.token_type_embeddings.weight": torch.randn(2, D),
        **_module("embeddings.LayerNorm", D),
        **_module("pooler.dense", D, D),
    }
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            tensors |= _module(f"{layer}.attention.{name}", D, D)
        tensors |= _module(f"{layer}.attention.output.LayerNorm", D) | _module(f"{layer}.intermediate.dense", F, D)
        tensors |= _module(f"{layer}.output.dense", D, F) | _module(f"{layer}.output.LayerNorm", D)
    return tensors


def bart_tensors() -> dict[str, Tensor]:
    """The tensors of a BartModel."""
    tensors = {"shared.weight": torch.randn(VOCAB, D)}
    for stack, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        layer = f"{stack}.layers.0"
        tensors[f"{stack}.embed_positions.weight"] = torch.randn(POSITIONS + 2, D)
        tensors |= _module(f"{stack}.layernorm_embedding", D) | _module(f"{layer}.final_layer_norm", D)
        tensors |= _module(f"{layer}.fc1", F, D) | _module(f"{layer}.fc2", D, F)
        for attention in attentions:
            tensors |= _module(f"{layer}.{attention}_layer_norm", D)
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                tensors |= _module(f"{layer}.{attention}.{name}", D, D)
    return tensors


def llama_tensors() -> dict[str, Tensor]:
    """The tensors of a LlamaForCausalLM with tied embeddings."""
    sizes = {
        "self_attn.q_proj": (D, D), "self_attn.k_proj": (D, D), "self_attn.v_proj": (D, D), "self_attn.o_proj": (D, D),
        "mlp.gate_proj": (F, D), "mlp.up_proj": (F, D), "mlp.down_proj": (D, F), "input_layernorm": (D,),
        "post_attention_layernorm": (D,),
    }  # fmt: skip
    tensors = {f"model.layers.0.{name}.weight": torch.randn(size) for name, size in sizes.items()}
    return tensors | {"model.embed_tokens.weight": torch.randn(VOCAB, D), "model.norm.weight": torch.randn(D)}


def write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> Path:
    """A folder with config.json and model.safetensors, without the latter for `tensors` None."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if tensors is not None:
        safetensors.torch.save_file(tensors, folder / "model.safetensors")
    return folder


def write_shards(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    """The same in two shards with their index."""
    write(folder, config)
    names = list(tensors)
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for shard, members in shards.items():
        safetensors.torch.save_file({name: tensors[name] for name in members}, folder / shard)
    where = {name: shard for shard, members in shards.items() for name in members}
    index = {"metadata": {"total_size": 1}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder
