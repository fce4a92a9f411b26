"""The peer in training: torch.nn.Transformer between the embeddings that every tutorial writes around it."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.positions import sinusoids
from pellucid.model.transformer import Transformer


class TorchTransformer(nn.Module):
    """One embedding for source, target and output; sinusoids; dropout where nn.Transformer has it, and on embeddings.

    The target has no mask of its padding: it stands on the right, and without that mask nn.Transformer takes its faster
    causal path.
    """

    positions: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.tgt_vocab_size, config.d_model)
        self.register_buffer("positions", sinusoids(config.max_positions, config.d_model), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = nn.Transformer(
            config.d_model, config.num_heads, config.num_encoder_layers, config.num_decoder_layers,
            config.d_ff, config.dropout, layer_norm_eps=config.norm_eps, batch_first=True,
        )  # fmt: skip

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Logits: (B, S), (B, T) -> (B, T, V)."""
        padding = src == self.config.pad_id  # (B, S) True = not a word, as nn.Transformer wants it
        states = self.transformer(
            self._embed(src), self._embed(tgt_in), src_key_padding_mask=padding, memory_key_padding_mask=padding,
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(tgt_in.size(1), src.device), tgt_is_causal=True,
        )  # fmt: skip
        return F.linear(states, self.embedding.weight)

    def loss(self, src: Tensor, tgt_in: Tensor, tgt_out: Tensor, label_smoothing: float) -> Tensor:
        """The mean over the target's tokens."""
        logits, pad_id = self(src, tgt_in), self.config.pad_id
        assert pad_id is not None
        return F.cross_entropy(
            logits.flatten(0, 1), tgt_out.flatten(), ignore_index=pad_id, label_smoothing=label_smoothing
        )

    def _embed(self, ids: Tensor) -> Tensor:
        x: Tensor = self.embedding(ids) * math.sqrt(self.config.d_model) + self.positions[: ids.size(1)]  # (B, L, D)
        embedded: Tensor = self.dropout(x)
        return embedded


def with_weights_of(model: Transformer) -> TorchTransformer:
    """A TorchTransformer that computes what `model` does: post-norm, with final norms and all embeddings tied."""
    torch_model = TorchTransformer(model.config)
    names = {_torch_name(name): tensor for name, tensor in model.named_parameters()}
    torch_model.load_state_dict(names)
    return torch_model


def _torch_name(name: str) -> str:
    """What nn.Transformer calls a parameter of ours."""
    if name == "src_embedding.tokens.weight":
        return "embedding.weight"
    second, third = ("multihead_attn", "norm3") if name.startswith("decoder") else ("", "norm2")
    renamed = {
        "qkv_proj.": "in_proj_", "cross_attn_norm": "norm2", "self_attn_norm": "norm1", "feed_forward_norm": third,
        "cross_attn": second, "feed_forward.up_proj": "linear1", "feed_forward.down_proj": "linear2",
    }  # fmt: skip
    for ours, theirs in renamed.items():
        name = name.replace(ours, theirs)
    return f"transformer.{name}"


def count_parameters(model: nn.Module) -> int:
    """Each tied matrix counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
