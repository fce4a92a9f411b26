"""Section 5.3: Adam."""

from typing import Any

import torch
from torch import nn

from pellucid.config import TrainConfig


class PaperAdam(torch.optim.AdamW):
    """Adam of section 5.3, from the settings, in PyTorch's fused form.

    AdamW without weight decay is Adam; weight decay, if set, applies to matrices alone.
    """

    def __init__(self, trained: list[nn.Parameter], config: TrainConfig) -> None:
        groups = [
            {"params": [p for p in trained if p.dim() > 1], "weight_decay": config.weight_decay},
            {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
        ]
        super().__init__(
            [g for g in groups if g["params"]], lr=0.0, betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_eps, fused=True,
        )  # fmt: skip
        self.as_made: list[dict[str, Any]] = hyperparameters(self)


def hyperparameters(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Returns the settings of each parameter group except the learning rate, which the schedule sets."""
    return [{k: v for k, v in group.items() if k not in ("params", "lr")} for group in optimizer.param_groups]
