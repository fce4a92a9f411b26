"""Section 3.5: how a model knows the order of its tokens.

Two kinds are added to the embeddings: the paper's sinusoids, and a learned table. Two act within self-attention, on the
distance between query and key: rotary positions turn both, relative positions raise their score.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError


class LearnedPositions(nn.Embedding):
    """A learned vector for each position."""

    def forward(self, start: int, end: int) -> Tensor:  # type: ignore[override]
        """Rows `start` to `end`, (end - start, D)."""
        return self.weight[start:end]


class SinusoidalPositions(nn.Module):
    """Section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same angle."""

    table: Tensor

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        # On the meta device a table is a shape alone, and counting on it would have PyTorch import sympy for seconds.
        counted = torch.get_default_device().type != "meta"
        table = sinusoids(max_positions, d_model) if counted else torch.empty(max_positions, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, start: int, end: int) -> Tensor:
        """Rows `start` to `end`, (end - start, D)."""
        return self.table[start:end]


def sinusoids(length: int, d_model: int) -> Tensor:
    """The table of section 3.5, (length, D), sine and cosine interleaved; computed in double precision.

    Raises ConfigError for an odd `d_model`, where a last sine would have no cosine, and for one below 2.
    """
    if d_model % 2 or d_model < 2:
        raise ConfigError(f"`d_model` ({d_model}) must be even for sinusoidal positions, and at least 2", "as 128 is")
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
    angle = position * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()


class Distances(NamedTuple):
    """What self-attention is told about where its queries and keys stand."""

    rotation: tuple[Tensor, Tensor] | None = None
    """Cosine and sine, each (L, K), by which queries and keys at these L positions are turned."""
    bias: Tensor | None = None
    """What is added to the scores, (1, H, L, M)."""


class RelativePositions(nn.Module):
    """Rotary or relative positions, shared by the layers of a stack; with other kinds there is nothing to tell."""

    def __init__(self, config: ModelConfig, causal: bool) -> None:
        super().__init__()
        self.head_width = config.head_width
        self.rotary_base = config.rotary_base if config.positions == "rotary" else None
        self.stretch = config.rotary_factor, config.rotary_wavelengths
        self.bias = RelativeBias(config, causal) if config.positions == "relative" else None

    def forward(self, queries: Tensor, keys: Tensor) -> Distances:
        """For queries at the positions (L,) and keys at (M,)."""
        if self.rotary_base is not None:
            return Distances(rotation=rotation(queries, self.head_width, self.rotary_base, *self.stretch))
        return Distances() if self.bias is None else Distances(bias=self.bias(queries, keys))


def rotation(
    positions: Tensor,
    head_width: int,
    base: float = 10000.0,
    factor: float = 1.0,
    wavelengths: tuple[float, ...] = (),
) -> tuple[Tensor, Tensor]:
    """Returns cosine and sine of the angles of rotary positions (Su et al. 2021): (L,) -> two of (L, K).

    Dimension i turns with dimension i + K/2, as Llama and GPT-NeoX have it. The angles are taken in single precision,
    with which everyone's weights were trained. Rates are divided by `factor`: all of them (Chen et al. 2023), or with
    two `wavelengths` those of longer waves, and in between by a part (Llama 3).
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


def rotate(x: Tensor, by: tuple[Tensor, Tensor]) -> Tensor:
    """Queries or keys (B, H, L, K), each turned by its position's angles."""
    cos, sin = (part.to(x.dtype) for part in by)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class RelativeBias(nn.Embedding):
    """A learned number for each head and each bucket of distances (Raffel et al. 2020, section 2.1)."""

    def __init__(self, config: ModelConfig, causal: bool) -> None:
        super().__init__(config.relative_buckets, config.num_heads)
        self.causal = causal
        self.distance = config.relative_distance

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:  # type: ignore[override]
        """For queries at the positions (L,) and keys at (M,): (1, H, L, M)."""
        buckets = self.buckets(keys[None, :] - queries[:, None])  # (L, M)
        return super().forward(buckets).permute(2, 0, 1)[None]  # (1, H, L, M)

    def buckets(self, offset: Tensor) -> Tensor:
        """The bucket of each offset of a key from its query: one each for near ones, then logarithmically wider."""
        count, first = self.num_embeddings, torch.zeros_like(offset)
        if self.causal:
            distance = (-offset).clamp(min=0)
        else:
            count //= 2
            first, distance = (offset > 0).long() * count, offset.abs()
        exact = count // 2
        # The clamp keeps log(0) away; those distances are among the exact ones.
        growth = (distance.clamp(min=1).float() / exact).log() / math.log(self.distance / exact)
        wide = (exact + (growth * (count - exact)).long()).clamp(max=count - 1)
        return first + torch.where(distance < exact, distance, wide)
