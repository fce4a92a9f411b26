"""The classification head on an encoder's states, which the paper does not have."""

from collections.abc import Callable

from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.fast.dropout import Dropout
from pellucid.model.fast.linear import Linear
from pellucid.model.feed_forward import ACTIVATIONS


class ClassificationHead(nn.Module):
    """Logits of classes from a text's pooled states; with an activation, through a hidden layer (BERT's pooler)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.takes_mean: bool = config.pooling == "mean"
        self.activation: Callable[[Tensor], Tensor] | None = ACTIVATIONS.get(config.classifier_activation)
        self.hidden: Linear | None = None if self.activation is None else Linear(config.d_model, config.d_model)
        self.dropout: Dropout = Dropout(config.dropout)
        self.class_projection: Linear = Linear(config.d_model, config.num_classes)

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, S, D) -> (B, C). `mask` (B, 1, 1, S): True = a word; None: all are."""
        if not self.takes_mean:
            pooled = states[:, 0]  # (B, D)
        elif mask is None:
            pooled = states.mean(dim=1)  # (B, D)
        else:
            words = mask[:, 0, 0, :, None]  # (B, S, 1)
            pooled = (states * words).sum(dim=1) / words.sum(dim=1)  # (B, D)
        if self.hidden is not None and self.activation is not None:
            pooled = self.activation(self.hidden(pooled))  # (B, D)
        return self.class_projection(self.dropout(pooled))  # (B, C)
