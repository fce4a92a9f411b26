"""The norm of a residual stream: layer norm (section 3.1), or its root-mean-square part (Zhang and Sennrich 2019)."""

from torch import nn

from pellucid.config import ModelConfig


def make_norm(d_model: int, eps: float, bias: bool = True, norm_type: str = "layer") -> nn.Module:
    """A norm over the last dimension; "rms" neither subtracts the mean nor adds a bias."""
    return nn.RMSNorm(d_model, eps) if norm_type == "rms" else nn.LayerNorm(d_model, eps, bias=bias)


def norm_of(config: ModelConfig, width: int | None = None) -> nn.Module:
    """Returns the norm that `config` describes, of the residual stream or of another `width`."""
    return make_norm(config.d_model if width is None else width, config.norm_eps, config.bias, config.norm_type)
