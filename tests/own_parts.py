"""Parts of one's own, of each kind, as a researcher would write them: with public names alone."""

import torch
from torch import Tensor, nn

import pellucid


class Windowed(pellucid.MultiHeadAttention):
    """Self-attention to the nearest positions alone."""

    width = 3

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        cache: pellucid.LayerCache | None = None,
        distances: pellucid.Distances | None = None,
    ) -> Tensor:
        if memory is None:
            queries, keys = pellucid.get_query_key_positions(x, cache)
            near = ((queries[:, None] - keys[None, :]).abs() < self.width)[None, None]
            mask = near if mask is None else mask & near
        return super().forward(x, memory, mask=mask, cache=cache, distances=distances)


class Averaging(nn.Module):
    """Mixes without weights: each position gets the mean of what it may see (Zhang et al. 2018)."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.value_proj = pellucid.Linear(config.d_model, config.d_model)
        self.gate = nn.Linear(config.d_model, config.d_model)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        *,
        mask: Tensor | None,
        cache: pellucid.LayerCache | None,
        distances: pellucid.Distances | None,
    ) -> Tensor:
        values = self.value_proj(x if memory is None else memory)  # (B, M, D)
        if memory is None and cache is not None:
            kept = cache.get_state(self)
            kept["sum"] = kept.get("sum", 0) + values  # (B, W, D)
            mean = kept["sum"] / (cache.positions[-1] + 1)
        else:
            seen = values.new_ones(1, 1, values.size(1)) if mask is None else mask[:, 0].to(values.dtype)
            mean = (seen / seen.sum(-1, keepdim=True).clamp(min=1)) @ values
        return self.gate(x).sigmoid() * mean


class Linearised(nn.Module):
    """Linear attention of one head (Katharopoulos et al. 2020): in decoding it keeps two sums."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            pellucid.Linear(config.d_model, config.d_model) for _ in range(4)
        )

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        *,
        mask: Tensor | None,
        cache: pellucid.LayerCache | None,
        distances: pellucid.Distances | None,
    ) -> Tensor:
        source = x if memory is None else memory
        q, k = (nn.functional.elu(part) + 1 for part in (self.q_proj(x), self.k_proj(source)))
        v = self.v_proj(source)
        if memory is None and cache is not None:
            kept = cache.get_state(self)
            kept["products"] = kept.get("products", 0) + k[..., :, None] * v[..., None, :]  # (B, W, D, D)
            kept["keys"] = kept.get("keys", 0) + k  # (B, W, D)
            total, norm = (q[..., None, :] @ kept["products"])[..., 0, :], (q * kept["keys"]).sum(-1, keepdim=True)
        else:
            scores = q @ k.mT if mask is None else (q @ k.mT) * mask[:, 0]  # (B, L, M)
            total, norm = scores @ v, scores.sum(-1, keepdim=True)
        return self.out_proj(total / (norm + 1e-6))


class Alibi(nn.Module):
    """Scores that fall with the distance, at a slope of its own for each head (Press et al. 2022)."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        heads = torch.arange(1, config.num_heads + 1)
        self.register_buffer("slopes", 2.0 ** (-8 * heads / config.num_heads), persistent=False)

    def forward(self, queries: Tensor, keys: Tensor) -> pellucid.Distances:
        distance = (queries[:, None] - keys[None, :]).abs()  # (L, M)
        return pellucid.Distances(bias=-self.slopes[:, None, None] * distance)


class Ramp(pellucid.AbsolutePositions):
    """A position added to the embeddings: one learned direction, times the place."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.linspace(-1, 1, config.d_model))

    def forward(self, start: int, end: int) -> Tensor:
        return torch.arange(start, end, device=self.direction.device)[:, None] * 0.1 * self.direction


class Squared(nn.Module):
    """A feed-forward network with the square of a ReLU (So et al. 2021)."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.up_proj = pellucid.Linear(config.d_model, config.d_ff)
        self.down_proj = pellucid.Linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.up_proj(x).relu().square())


class ScaleNorm(nn.Module):
    """A norm with a single learned length (Nguyen and Salazar 2019), which counts how often it ran."""

    def __init__(self, config: pellucid.ModelConfig) -> None:
        super().__init__()
        self.length = nn.Parameter(torch.tensor(config.d_model**0.5))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        return self.length * nn.functional.normalize(x, dim=-1)


class Reversed(pellucid.EncoderLayer):
    """An encoder layer whose feed-forward network comes first."""

    def forward(self, x: Tensor, mask: Tensor | None, distances: pellucid.Distances | None = None) -> Tensor:
        x = self.add(x, self.feed_forward_norm, self.feed_forward)
        return self.add(x, self.self_attn_norm, lambda x: self.self_attn(x, None, mask=mask, distances=distances))


def mixing_layer(config: pellucid.ModelConfig) -> pellucid.DecoderLayer:
    """A decoder layer that mixes its own past, and attends to the memory as usual."""
    layer = pellucid.DecoderLayer.from_config(config, has_memory=config.family == "encoder-decoder")
    layer.self_attn = Averaging(config)
    return layer


ALL: dict[str, pellucid.Parts] = {
    "windowed": pellucid.Parts(attention=Windowed.from_config),
    "averaging": pellucid.Parts(attention=Averaging),
    "linearised": pellucid.Parts(attention=Linearised),
    "alibi": pellucid.Parts(positions=Alibi),
    "ramp": pellucid.Parts(positions=Ramp),
    "windowed alibi": pellucid.Parts(attention=Windowed.from_config, positions=Alibi),
    "squared": pellucid.Parts(feed_forward=Squared),
    "scale norm": pellucid.Parts(norm=ScaleNorm),
    "encoder layer": pellucid.Parts(encoder_layer=Reversed.from_config),
    "decoder layer": pellucid.Parts(decoder_layer=mixing_layer),
}
"""Every kind, by a name for people."""
