"""What stands on an encoder."""

import torch
from torch import Tensor, nn

from pellucid.kernels.dropout import Dropout
from pellucid.kernels.linear import Linear

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


class ClassificationHead(nn.Module):
    """Logits of classes from the first token's state; with an `activation`, by way of a layer (BERT's pooler)."""

    def __init__(self, d_model: int, num_classes: int, dropout: float = 0.0, activation: str = "none") -> None:
        super().__init__()
        self.hidden = None if activation == "none" else Linear(d_model, d_model)
        self.activation = ACTIVATIONS.get(activation)
        self.dropout = Dropout(dropout)
        self.class_projection = Linear(d_model, num_classes)

    def forward(self, states: Tensor) -> Tensor:
        """(B, S, D) -> (B, C)."""
        first = states[:, 0]  # (B, D)
        if self.hidden is not None and self.activation is not None:
            first = self.activation(self.hidden(first))  # (B, D)
        logits: Tensor = self.class_projection(self.dropout(first))  # (B, C)
        return logits
