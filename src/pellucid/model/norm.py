"""Layer norm (section 3.1), or its root-mean-square part (Zhang and Sennrich 2019)."""

from torch import nn

from pellucid.config import ModelConfig


def make_norm(config: ModelConfig) -> nn.Module:
    """Returns the norm of a residual sum, of a stack's output or of embeddings: over vectors of d_model."""
    return make_norm_of_width(config, config.d_model)


def make_norm_of_width(config: ModelConfig, width: int) -> nn.Module:
    """Returns a built-in norm over a last dimension of `width`; attention uses it for queries and keys.

    "rms" neither subtracts the mean nor adds a bias.
    """
    if config.norm_type == "rms":
        return nn.RMSNorm(width, config.norm_eps)
    return nn.LayerNorm(width, config.norm_eps, bias=config.bias)
