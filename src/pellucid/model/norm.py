"""Layer norm (section 3.1), or its root-mean-square part (Zhang and Sennrich 2019)."""

from torch import nn

from pellucid.config import ModelConfig
from pellucid.model.parts import OURS, Parts


def make_norm(config: ModelConfig, parts: Parts = OURS) -> nn.Module:
    """Returns the norm beside a residual sum, behind a stack or behind embeddings: over vectors of d_model."""
    return parts.make("norm", config, lambda config: norm_of_width(config, config.d_model))


def norm_of_width(config: ModelConfig, width: int) -> nn.Module:
    """Returns a norm of ours over a last dimension of `width`; attention takes it for queries and keys.

    "rms" neither subtracts the mean nor adds a bias.
    """
    if config.norm_type == "rms":
        return nn.RMSNorm(width, config.norm_eps)
    return nn.LayerNorm(width, config.norm_eps, bias=config.bias)
