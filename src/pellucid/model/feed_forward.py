"""Section 3.3: the position-wise feed-forward network."""

from collections.abc import Callable
from functools import partial
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.fast.dropout import Dropout
from pellucid.model.fast.linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,  # only for a classifier's hidden layer
}


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2, equation 2 of the paper; gated: (activation(x Wg + bg) * (x W1 + b1)) W2 + b2.

    W1 is `up_proj`, W2 `down_proj` and Wg `gate_proj`. `dropout` applies to the activation's output; the paper has none
    there.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: str = "relu",
        gated: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.activation: Callable[[Tensor], Tensor] = ACTIVATIONS[activation]
        self.dropout: Dropout = Dropout(dropout)
        self.gate_proj: Linear | None = Linear(d_model, d_ff, bias=bias) if gated else None
        self.up_proj: Linear = Linear(d_model, d_ff, bias=bias)
        self.down_proj: Linear = Linear(d_ff, d_model, bias=bias)

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """Returns the network for `config`."""
        dropout = config.feed_forward_dropout
        return cls(config.d_model, config.d_ff, config.activation, config.gated_feed_forward, dropout, config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) -> (B, L, D)."""
        if self.gate_proj is None:
            inner = self.activation(self.up_proj(x))  # (B, L, F)
        else:
            inner = self.activation(self.gate_proj(x)) * self.up_proj(x)  # (B, L, F)
        return self.down_proj(self.dropout(inner))  # (B, L, D)
