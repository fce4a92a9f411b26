"""Adam as section 5.3 has it, in PyTorch's fused form."""

import torch
from torch import nn

from pellucid.config import TrainConfig


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW over the trainable parameters; weight decay, where there is some, on matrices alone."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [g for g in groups if g["params"]], lr=0.0, betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_eps, fused=True,
    )  # fmt: skip
