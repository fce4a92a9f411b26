"""An exponential moving average of the weights, which is validated and kept in their place."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from pellucid.weights.tensors import parameters


class MovingAverage:
    """The average of a model's weights over steps, with `decay` a step.

    The first steps weigh more, as the average must first forget the random weights that it begins with: at step t the
    decay is min(decay, (1 + t) / (10 + t)), as TensorFlow's ExponentialMovingAverage has it.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = model
        self.decay = decay
        self.tensors: dict[str, Tensor] = {name: p.detach().clone() for name, p in parameters(model).items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Takes in the weights after `step`, counted from 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, parameter in parameters(self.model).items():
            if parameter.is_floating_point():
                self.tensors[name].lerp_(parameter, 1 - decay)
            else:  # a counter in a part of somebody's own
                self.tensors[name].copy_(parameter)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the context the model's weights are the average."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for name, parameter in parameters(self.model).items():
            parameter.data, self.tensors[name] = self.tensors[name], parameter.data
