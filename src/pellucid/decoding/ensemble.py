"""Several models as one: at each step the mean of their log-probabilities, each with a cache and a source of its own.

    log p(token) = (log p_1(token) + ... + log p_n(token)) / n

It is not normalized again, so the score of an output is the mean of the scores that the models give it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.batches import pad
from pellucid.decoding.ids import check_ids, whole_source

if TYPE_CHECKING:
    from pellucid.model.transformer import Transformer


class Readings(list[int]):
    """A source by the ids of the first model of an ensemble, which also says by which ids the others read it."""

    def __init__(self, ids: Sequence[int], others: Sequence[list[int]]) -> None:
        super().__init__(ids)
        self.others: list[list[int]] = list(others)

    @property
    def each(self) -> list[list[int]]:
        """The ids by which each of the models reads it."""
        return [list(self), *self.others]


class Ensemble:
    """Encoder-decoders that write by the same ids, as a search takes them: sources are `Readings`."""

    def __init__(self, models: Sequence["Transformer"], decodes: Sequence[DecodeConfig]) -> None:
        """Takes the models, and of each the settings that say what stands around its sources."""
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
        """Tells whether sources of different lengths may stand in one batch."""
        return all(model.config.pad_id is not None for model in self.models)

    def whole_sources(self, source: Sequence[int]) -> list[list[int]]:
        """Returns a source as each model reads it, with all that stands around it there."""
        ids = source.each if isinstance(source, Readings) else [list(source)] * len(self.models)
        return [
            whole_source(own, model.config, decode)
            for own, model, decode in zip(ids, self.models, self.decodes, strict=True)
        ]

    def check(self) -> None:
        """Raises DecodingError where a search would begin with, or leave out, what a model does not have."""
        for model, decode in zip(self.models, self.decodes, strict=True):
            check_ids(decode, model.config)

    def of(self, sources: Sequence[Sequence[int]], device: torch.device) -> "MeanOfModels":
        """Returns the StepModel of the sources of one batch."""
        sides = zip(*map(self.whole_sources, sources), strict=True)
        padded = [
            pad(side, model.config.pad_id or 0).to(device) for side, model in zip(sides, self.models, strict=True)
        ]
        return MeanOfModels(self.models, padded, self.config)


class MeanOfModels:
    """A StepModel of several: `step` returns the mean of their log-probabilities, in place of logits."""

    def __init__(self, models: Sequence["Transformer"], sources: Sequence[Tensor], config: ModelConfig) -> None:
        """Takes a batch of sources (B, S) for each of the models."""
        self.config = config
        self._models = models
        self._sources = sources

    def start(self, ids: Tensor, beam_size: int, /) -> "Caches":
        """Returns the caches of all models, whose sources are known: `ids` are those of the first."""
        both = zip(self._models, self._sources, strict=True)
        return Caches([model.start(source, beam_size) for model, source in both])

    def step(self, tokens: Tensor, cache: "Caches", /) -> Tensor:
        """Reads one more token of each hypothesis, (B, W), into all caches; returns log-probabilities (B, W, V)."""
        both = zip(self._models, cache.caches, strict=True)
        return mean_of([model.step(tokens, own).float().log_softmax(dim=-1) for model, own in both])


class Caches:
    """The memories of all models of an ensemble as one."""

    def __init__(self, caches: list[Any]) -> None:
        self.caches = caches

    @property
    def length(self) -> int:
        """Positions that are taken."""
        length: int = self.caches[0].length
        return length

    def reorder(self, parents: Tensor, /) -> None:
        """Lets hypothesis w of each sentence go on from what hypothesis parents[:, w] has read: (B, W)."""
        for cache in self.caches:
            cache.reorder(parents)

    def select(self, sentences: Tensor, /) -> None:
        """Keeps some of the sentences: their places (B',)."""
        for cache in self.caches:
            cache.select(sentences)


def mean_of(log_probs: Sequence[Tensor]) -> Tensor:
    """Returns the mean of log-probabilities of the same shape, written into the first: of two equal ones just these."""
    total = log_probs[0]
    for one in log_probs[1:]:
        total += one
    return total.div_(len(log_probs))
