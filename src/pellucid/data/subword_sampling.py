"""Training sentences cut into other pieces each time they are drawn."""

from dataclasses import dataclass
from random import Random
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pellucid.data.sentences import Sentences
from pellucid.data.shards import Shard
from pellucid.text.sampling import SubwordSampler
from pellucid.text.tokenizers import Tokenizers

Ids = list[npt.NDArray[Any]]


@dataclass(frozen=True)
class SubwordSampling:
    """Draws the pieces of a sentence: a function of (seed, epoch, draw) alone, whatever else is drawn, and where."""

    source: SubwordSampler
    target: SubwordSampler
    seed: int
    longest: int
    """In tokens: what is drawn longer than this keeps its stored pieces."""

    @classmethod
    def of(cls, tokenizers: Tokenizers, strength: float, seed: int, longest: int) -> Self | None:
        """Returns the sampling of a strength, None where it is 0. Raises ConfigError for tokenizers that have no pieces
        to choose from.
        """
        if not strength:
            return None
        source = SubwordSampler(tokenizers.source, strength)
        return cls(source, source if tokenizers.joint else SubwordSampler(tokenizers.target, strength), seed, longest)

    def draw(self, shard: Shard, epoch: int, draws: npt.NDArray[np.int64]) -> tuple[Ids, Ids]:
        """Draws source and target ids of BatchOrder's `draws` from a shard that keeps its texts."""
        numbers = draws.tolist()
        return (
            [self._side(self.source, shard.source, f"{self.seed}/{epoch}/{i}/source", i % len(shard)) for i in numbers],
            [self._side(self.target, shard.target, f"{self.seed}/{epoch}/{i}/target", i % len(shard)) for i in numbers],
        )

    def of_line(
        self, line: tuple[str, str], ids: tuple[npt.NDArray[Any], npt.NDArray[Any]], epoch: int, draw: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Draws source and target ids of a line that a draw makes of several sentences; `ids` are its best pieces."""
        return (
            self._cut(self.source, line[0], ids[0], f"{self.seed}/{epoch}/{draw}/source"),
            self._cut(self.target, line[1], ids[1], f"{self.seed}/{epoch}/{draw}/target"),
        )

    def _side(self, sampler: SubwordSampler, sentences: Sentences, seed: str, index: int) -> npt.NDArray[Any]:
        assert sentences.texts is not None
        stored, text = sentences[index], sentences.texts[index]
        # No text belongs to ids that were cut short.
        return self._cut(sampler, text, stored, seed) if text else stored

    def _cut(self, sampler: SubwordSampler, text: str, stored: npt.NDArray[Any], seed: str) -> npt.NDArray[Any]:
        drawn = np.array(sampler.sample(text, Random(seed)), np.int64)
        unknown = np.count_nonzero(drawn == sampler.unk_id), np.count_nonzero(stored == sampler.unk_id)
        return stored if len(drawn) > self.longest or unknown[0] > unknown[1] else drawn
