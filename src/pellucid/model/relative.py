"""Positions that act within self-attention, on the distance between a query and a key.

Rotary positions turn queries and keys by an angle that grows with their place; relative positions add a number to each
score. The paper has neither.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError
from pellucid.model.cache import DecoderCache, LayerCache
from pellucid.model.parts import OURS, Parts
from pellucid.model.positions import AddedPositions


class Distances(NamedTuple):
    """Tells self-attention where its queries and keys stand, by a rotation or a bias."""

    rotation: tuple[Tensor, Tensor] | None = None
    """Cosine and sine, each (L, K), by which queries and keys at these L positions are turned."""
    bias: Tensor | None = None
    """A number that is added to each score, broadcastable to (B, H, L, M)."""


class RotaryPositions(nn.Module):
    """Queries and keys turned by angles that grow with their position (Su et al. 2021)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.head_width: int = config.head_width
        self.base: float = config.rotary_base
        self.factor: float = config.rotary_factor
        self.wavelengths: tuple[float, ...] = config.rotary_wavelengths

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Distances:
        """Returns the rotation of queries and new keys, at positions (L,). The keys in a cache were turned before."""
        return Distances(rotation=rotation(query_positions, self.head_width, self.base, self.factor, self.wavelengths))


class RelativePositions(nn.Module):
    """A learned number for each head and each bucket of distances (Raffel et al. 2020, section 2.1)."""

    def __init__(self, config: ModelConfig, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.max_distance: int = config.relative_distance
        self.bias: nn.Embedding = nn.Embedding(config.relative_buckets, config.num_heads)

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Distances:
        """Returns the bias for queries at positions (L,) and keys at (M,)."""
        buckets = self.buckets(key_positions[None, :] - query_positions[:, None])  # (L, M)
        bias = self.bias(buckets).permute(2, 0, 1)[None]  # (1, H, L, M)
        return Distances(bias=bias)

    def buckets(self, offset: Tensor) -> Tensor:
        """Returns the bucket of each offset of a key from its query.

        Near offsets have a bucket each; farther away buckets grow wider by the logarithm.
        """
        count, first = self.bias.num_embeddings, torch.zeros_like(offset)
        if self.causal:
            distance = (-offset).clamp(min=0)
        else:
            count //= 2
            first, distance = (offset > 0).long() * count, offset.abs()
        exact = count // 2
        # The clamp keeps log(0) away; those distances are among the exact ones.
        growth = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        wide = (exact + (growth * (count - exact)).long()).clamp(max=count - 1)
        return first + torch.where(distance < exact, distance, wide)


def make_distances(config: ModelConfig, parts: Parts = OURS, *, causal: bool) -> nn.Module | None:
    """Returns what tells the layers of a stack their Distances; None where positions are added to the embeddings.

    Positions of your own are made here and for each embedding, since only what is made tells where it belongs; what
    does not belong is dropped.
    """
    if parts.positions is not None:
        made = parts.make("positions", config, parts.positions)
        if isinstance(made, AddedPositions):
            return None
        made.register_forward_hook(_check_distances)
        return made
    if config.positions == "rotary":
        return RotaryPositions(config)
    return RelativePositions(config, causal) if config.positions == "relative" else None


def positions_of(x: Tensor, cache: LayerCache | DecoderCache | None = None) -> tuple[Tensor, Tensor]:
    """Returns where the queries and keys of self-attention stand: (B, L, D) -> (L,), (M,).

    Without a cache both are 0, 1, 2 ...; with one the queries are the last of the keys.
    """
    keys = torch.arange(x.size(1), device=x.device) if cache is None else cache.positions
    return keys[-x.size(1) :], keys


def _check_distances(part: nn.Module, given: tuple[Tensor, Tensor], returned: object) -> None:
    """Raises ConfigError where positions of your own return something else than Distances of their places."""
    if not isinstance(returned, Distances):
        raise ConfigError(
            f"`positions` of Parts ({type(part).__name__}) returned {type(returned).__name__}, not Distances",
            "return pellucid.Distances(bias=...), with a tensor broadcastable to (B, H, L, M)",
        )
    L, M = map(len, given)
    shape = () if returned.bias is None else tuple(returned.bias.shape)
    if len(shape) > 4 or any(found not in (1, places) for found, places in zip(shape[::-1], (M, L), strict=False)):
        raise ConfigError(
            f"`positions` of Parts ({type(part).__name__}) returned a bias {shape} for {L} queries and {M} keys",
            f"give one that is broadcastable to (B, H, {L}, {M})",
        )


def rotation(
    positions: Tensor,
    head_width: int,
    base: float = 10000.0,
    factor: float = 1.0,
    wavelengths: tuple[float, ...] = (),
) -> tuple[Tensor, Tensor]:
    """Returns cosine and sine of the angles of rotary positions (Su et al. 2021): (L,) -> two of (L, K).

    Dimension i turns with dimension i + K/2, as Llama and GPT-NeoX have it. The angles are taken in single precision,
    as in the programs that trained published weights. Rates are divided by `factor`: all of them (Chen et al. 2023),
    or with two `wavelengths` those of longer waves, and in between by a part (Llama 3).
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


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Returns queries or keys (B, H, L, K), each turned by its position's angles: cosine and sine of `rotation`."""
    cos, sin = (part.to(x.dtype) for part in rotation)  # (L, K)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin
