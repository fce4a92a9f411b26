"""Ensembles: at each step the mean of the models' log-probabilities; each model has its own cache and source ids.

    log p(token) = (log p_1(token) + ... + log p_n(token)) / n

The mean is not renormalized, so the score of an output is the mean of its scores by the models.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.batches import pad
from pellucid.decoding.fast_step import make_step
from pellucid.decoding.ids import add_special_ids, check_decoding_ids

if TYPE_CHECKING:
    from pellucid.model.transformer import Transformer


class EnsembleSource(list[int]):
    """A source as ids of an ensemble's first model, with the ids of the other models."""

    def __init__(self, ids: Sequence[int], others: Sequence[list[int]]) -> None:
        super().__init__(ids)
        self.others: list[list[int]] = list(others)

    @property
    def each(self) -> list[list[int]]:
        """The ids of the source for each model."""
        return [list(self), *self.others]


class Ensemble:
    """Encoder-decoders with the same target ids, in the form that a search requires: sources are `EnsembleSource`."""

    def __init__(self, models: Sequence["Transformer"], decodes: Sequence[DecodeConfig]) -> None:
        """Takes the models, and for each the settings with the special tokens of its sources."""
        self.models: list[Transformer] = list(models)
        self.decodes: list[DecodeConfig] = list(decodes)
        first = self.models[0].config
        room = min(model.config.max_positions for model in self.models)
        self.config: ModelConfig = first if room == first.max_positions else replace(first, max_positions=room)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yields the weights of all models."""
        for model in self.models:
            yield from model.parameters()

    @property
    def padded(self) -> bool:
        """True if one batch may have sources of different lengths."""
        return all(model.config.pad_id is not None for model in self.models)

    def add_special_ids(self, source: Sequence[int]) -> list[list[int]]:
        """Returns the source of each model, with its special tokens."""
        ids = source.each if isinstance(source, EnsembleSource) else [list(source)] * len(self.models)
        return [
            add_special_ids(own, model.config, decode)
            for own, model, decode in zip(ids, self.models, self.decodes, strict=True)
        ]

    def check(self) -> None:
        """Raises DecodingError if a model lacks a prefix id or suppressed id of the search."""
        for model, decode in zip(self.models, self.decodes, strict=True):
            check_decoding_ids(decode, model.config)

    def start_batch(self, sources: Sequence[Sequence[int]], device: torch.device) -> "EnsembleStepModel":
        """Returns the StepModel of the sources of one batch."""
        sides = zip(*map(self.add_special_ids, sources), strict=True)
        padded = [
            pad(side, model.config.pad_id or 0).to(device) for side, model in zip(sides, self.models, strict=True)
        ]
        return EnsembleStepModel(self.models, padded, self.config)


class EnsembleStepModel:
    """A StepModel of several models: `step` returns the mean of their log-probabilities in place of logits."""

    def __init__(self, models: Sequence["Transformer"], sources: Sequence[Tensor], config: ModelConfig) -> None:
        """Takes a batch of sources (B, S) for each of the models."""
        self.config = config
        self._models = models
        self._sources = sources

    def start(self, ids: Tensor, beam_size: int, /) -> "Caches":
        """Returns the caches of all models for the batch's sources; `ids` are the first model's sources."""
        caches = [model.start(own, beam_size) for model, own in zip(self._models, self._sources, strict=True)]
        return Caches(caches, [make_step(model, own) for model, own in zip(self._models, caches, strict=True)])

    def step(self, tokens: Tensor, cache: "Caches", /) -> Tensor:
        """Reads one more token of each hypothesis, (B, W), into all caches; returns log-probabilities (B, W, V)."""
        return average_log_probs([step(tokens).float().log_softmax(dim=-1) for step in cache.steps])


class Caches:
    """The caches of all models of an ensemble as one, and the functions that take a step of each model."""

    def __init__(self, caches: list[Any], steps: list[Callable[[Tensor], Tensor]]) -> None:
        self.caches = caches
        self.steps = steps

    @property
    def length(self) -> int:
        """The number of positions in use."""
        length: int = self.caches[0].length
        return length

    def reorder(self, parents: Tensor, /) -> None:
        """Replaces the caches of hypothesis w of each sentence by the caches of hypothesis parents[:, w]: (B, W)."""
        for cache in self.caches:
            cache.reorder(parents)

    def select(self, sentences: Tensor, /) -> None:
        """Keeps some of the sentences: their indices (B',)."""
        for cache in self.caches:
            cache.select(sentences)


def average_log_probs(log_probs: Sequence[Tensor]) -> Tensor:
    """Returns the mean of log-probabilities of one shape, written into the first; exact for two equal tensors."""
    total = log_probs[0]
    for one in log_probs[1:]:
        total += one
    return total.div_(len(log_probs))
