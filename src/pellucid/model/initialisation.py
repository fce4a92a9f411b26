"""The initial weights of a model, which the paper does not specify (decision 4)."""

import torch
from torch import nn

from pellucid.config import ModelConfig
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.attention_positions import RelativePositions
from pellucid.model.embeddings import Embeddings
from pellucid.model.fast.linear import Linear
from pellucid.model.layers import Stack
from pellucid.model.positions import LearnedPositions


def initialise(model: nn.Module, config: ModelConfig) -> None:
    """Sets Xavier uniform matrices, zero biases, and normal embeddings with standard deviation d_model^-0.5.

    That gives embeddings unit variance after the scale of section 3.4, and tied logits too. Without that scale, the
    output weights of a pre-norm sublayer are divided by the square root of the number of residual sums in its stack
    (Radford et al. 2019, section 2.3).

    It sets every `Linear` of Pellucid's and the tables of its embeddings and positions. All other parameters, as of
    norms and custom modules, keep the values of their constructor.
    """
    # Projections packed in one matrix are initialized separately.
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    packed: dict[nn.Module, list[int]] = {attention.qkv_proj: attention.qkv_widths for attention in attentions}
    for module in model.modules():
        if isinstance(module, Linear):
            for matrix in torch.split(module.weight, packed.get(module, [module.out_features])):
                nn.init.xavier_uniform_(matrix)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Embeddings):
            _draw(module.tokens, config)
            _draw(module.positions if isinstance(module.positions, LearnedPositions) else None, config)
            _draw(module.segments, config)
        elif isinstance(module, RelativePositions):
            _draw(module.bias, config)
    if config.norm == "pre" and not config.scale_embeddings:
        for stack in (module for module in model.modules() if isinstance(module, Stack)):
            ends = [m for name, m in stack.named_modules() if name.endswith(("out_proj", "down_proj"))]
            ends = [module for module in ends if isinstance(module, Linear)]
            for module in ends:
                module.weight.data *= len(ends) ** -0.5


@torch.no_grad()
def scale_embeddings(model: nn.Module, factor: float) -> None:
    """Multiplies a model's token embeddings by a factor, and an output projection that is the same matrix with them."""
    for table in {module.tokens.weight for module in model.modules() if isinstance(module, Embeddings)}:
        table.mul_(factor)


def _draw(table: nn.Module | None, config: ModelConfig) -> None:
    if isinstance(table, nn.Embedding):
        nn.init.normal_(table.weight, std=config.d_model**-0.5)
