"""The two stacks of figure 1: N layers, what tells them distances, and a final norm where there is one."""

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.cache import DecoderCache
from pellucid.model.layers import DecoderLayer, EncoderLayer
from pellucid.model.norm import norm_of
from pellucid.model.positions import RelativePositions


class Encoder(nn.Module):
    """The left stack."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.relative = RelativePositions(config, causal=False)
        self.layers = nn.ModuleList(EncoderLayer.from_config(config) for _ in range(config.num_encoder_layers))
        self.norm = norm_of(config) if config.has_final_norm else None

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, S, D) -> (B, S, D). `mask` is broadcastable to (B, H, S, S)."""
        positions = torch.arange(x.size(1), device=x.device)
        distances = self.relative(positions, positions)
        for layer in self.layers:
            x = layer(x, mask, distances)
        return x if self.norm is None else self.norm(x)


class Decoder(nn.Module):
    """The right stack; without a memory to attend to, it has no cross-attention."""

    def __init__(self, config: ModelConfig, has_memory: bool = True) -> None:
        super().__init__()
        self.relative = RelativePositions(config, causal=True)
        layers = (DecoderLayer.from_config(config, has_memory) for _ in range(config.num_decoder_layers))
        self.layers = nn.ModuleList(layers)
        self.norm = norm_of(config) if config.has_final_norm else None

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None,
        memory_mask: Tensor | None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """(B, T, D), (B, S, D) -> (B, T, D). `mask` is broadcastable to (B, H, T, T), `memory_mask` to (B, H, T, S)."""
        keys = torch.arange(x.size(1), device=x.device) if cache is None else cache.positions
        distances = self.relative(keys[-x.size(1) :], keys)
        for index, layer in enumerate(self.layers):
            x = layer(x, memory, mask, memory_mask, None if cache is None else cache.layers[index], distances)
        return x if self.norm is None else self.norm(x)
