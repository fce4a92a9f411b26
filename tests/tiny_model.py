"""A Transformer small enough for many tests, and ids for it."""

from typing import Any

import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.model.transformer import Transformer

SRC_VOCAB_SIZE = 23
TGT_VOCAB_SIZE = 19


def tiny_config(**fields: Any) -> ModelConfig:
    """The paper's model, two layers deep and without dropout; `fields` come on top."""
    sizes = {"src_vocab_size": SRC_VOCAB_SIZE, "tgt_vocab_size": TGT_VOCAB_SIZE, "max_positions": 64}
    widths = {"d_model": 12, "d_ff": 20, "num_heads": 3, "num_encoder_layers": 2, "num_decoder_layers": 2}
    return ModelConfig(**sizes | widths | {"dropout": 0.0} | fields)


def tiny_model(**fields: Any) -> Transformer:
    """The model of `tiny_config`, in eval mode; biases and norms are random too, so that a wrong one shows."""
    model = Transformer(tiny_config(**fields)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def words(vocab_size: int, *shape: int) -> Tensor:
    """Random ids without pad, start and end."""
    return torch.randint(3, vocab_size, shape)


def padded(ids: Tensor, lengths: list[int], pad_id: int = 0) -> Tensor:
    """`ids` (B, L), each row cut to its length and filled up with `pad_id`."""
    beyond = torch.arange(ids.size(1)) >= torch.tensor(lengths)[:, None]
    return ids.masked_fill(beyond, pad_id)
