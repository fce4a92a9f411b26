"""Positions that act within self-attention, on the distance between a query and a key.

Rotary positions rotate queries and keys by an angle that grows with their position; relative positions add a number to
each score. The paper has neither.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.cache import DecoderCache, LayerCache


class Distances(NamedTuple):
    """The positions of queries and keys for self-attention, as a rotation or a bias."""

    rotation: tuple[Tensor, Tensor] | None = None
    """Cosine and sine, each (L, K), of the rotation of queries and keys at L positions."""
    bias: Tensor | None = None
    """A number that is added to each score, broadcastable to (B, H, L, M)."""


class RotaryPositions(nn.Module):
    """Queries and keys rotated by angles that grow with their position (Su et al. 2021)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.head_width: int = config.head_width
        self.base: float = config.rotary_base
        self.factor: float = config.rotary_factor
        self.wavelengths: tuple[float, ...] = config.rotary_wavelengths

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Distances:
        """Returns the rotation of queries and new keys, at positions (L,). The keys in a cache are rotated already."""
        return Distances(
            rotation=compute_rotary(query_positions, self.head_width, self.base, self.factor, self.wavelengths)
        )


class RelativePositions(nn.Module):
    """A learned number for each head and each bucket of distances (Raffel et al. 2020, section 2.1)."""

    def __init__(self, config: ModelConfig, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.max_distance: int = config.relative_max_distance
        self.bias: nn.Embedding = nn.Embedding(config.relative_num_buckets, config.num_heads)

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Distances:
        """Returns the bias for queries at positions (L,) and keys at (M,)."""
        buckets = self.buckets(key_positions[None, :] - query_positions[:, None])  # (L, M)
        bias = self.bias(buckets).permute(2, 0, 1)[None]  # (1, H, L, M)
        return Distances(bias=bias)

    def buckets(self, offset: Tensor) -> Tensor:
        """Returns the bucket of each offset of a key from its query.

        Near offsets have a bucket each; farther buckets are wider, logarithmically.
        """
        count, first = self.bias.num_embeddings, torch.zeros_like(offset)
        if self.causal:
            distance = (-offset).clamp(min=0)
        else:
            count //= 2
            first, distance = (offset > 0).long() * count, offset.abs()
        exact = count // 2
        # The clamp avoids log(0); such distances use the exact buckets.
        growth = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        wide = (exact + (growth * (count - exact)).long()).clamp(max=count - 1)
        return first + torch.where(distance < exact, distance, wide)


def make_distances(config: ModelConfig, causal: bool) -> nn.Module | None:
    """Returns the module that computes the Distances of a stack; None if positions are added to the embeddings."""
    if config.positions == "rotary":
        return RotaryPositions(config)
    return RelativePositions(config, causal) if config.positions == "relative" else None


def get_query_key_positions(x: Tensor, cache: LayerCache | DecoderCache | None = None) -> tuple[Tensor, Tensor]:
    """Returns the positions of the queries and keys of self-attention: (B, L, D) -> (L,), (M,).

    Without a cache both are 0, 1, 2 ...; with one the queries are the last of the keys.
    """
    keys = torch.arange(x.size(1), device=x.device) if cache is None else cache.positions
    return keys[-x.size(1) :], keys


def compute_rotary(
    positions: Tensor,
    head_width: int,
    base: float = 10000.0,
    factor: float = 1.0,
    wavelengths: tuple[float, ...] = (),
) -> tuple[Tensor, Tensor]:
    """Returns cosine and sine of the angles of rotary positions (Su et al. 2021): (L,) -> two of (L, K).

    Dimension i is rotated with dimension i + K/2, as in Llama and GPT-NeoX. The angles are computed in single
    precision, as in the programs that trained published weights. Rates are divided by `factor`: all of them (Chen et
    al. 2023), or with two `wavelengths` the rates of longer waves, and in between in part (Llama 3).
    """
    exponent = torch.arange(0, head_width, 2, dtype=torch.float32, device=positions.device) / head_width
    rate = 1.0 / base**exponent
    if wavelengths:
        short, long = wavelengths
        share = (rate / (2 * math.pi) - 1 / long) / (1 / short - 1 / long)  # 1 at the shorter wave, 0 at the longer
        share = share.clamp(0, 1)
        rate = share * rate + (1 - share) * rate / factor
    else:
        rate = rate / factor
    angle = positions.float()[:, None] * rate
    angle = torch.cat([angle, angle], dim=-1)  # (L, K)
    return angle.cos(), angle.sin()


def apply_rotary(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Returns queries or keys (B, H, L, K), rotated by their positions' angles: cosine and sine of `rotation`."""
    cos, sin = (part.to(x.dtype) for part in rotation)  # (L, K)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin
