"""Subword regularization: samples a new segmentation of a training sentence each time it is used."""

from dataclasses import dataclass
from random import Random
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pellucid.data.sentences import Sentences
from pellucid.data.shards import EncodedCorpus
from pellucid.text.sampling import SubwordSampler
from pellucid.text.tokenizers import TokenizerPair

Ids = list[npt.NDArray[Any]]


@dataclass(frozen=True)
class SubwordSampling:
    """Samples the subwords of a sentence: a function of (seed, epoch, draw) alone, independent of rank and order."""

    source: SubwordSampler
    target: SubwordSampler
    seed: int
    longest: int
    """Tokens at most: a longer sample is replaced by the stored segmentation."""

    @classmethod
    def for_tokenizers(cls, tokenizers: TokenizerPair, strength: float, seed: int, longest: int) -> Self | None:
        """Returns the sampling with a strength, or None if it is 0. Raises ConfigError for tokenizers that have no
        alternative segmentations.
        """
        if not strength:
            return None
        source = SubwordSampler(tokenizers.source, strength)
        return cls(source, source if tokenizers.joint else SubwordSampler(tokenizers.target, strength), seed, longest)

    def draw(self, shard: EncodedCorpus, epoch: int, draws: npt.NDArray[np.int64]) -> tuple[Ids, Ids]:
        """Samples source and target ids for BucketBatchSampler's `draws` from a shard that stores its texts."""
        numbers = draws.tolist()
        return (
            [self._side(self.source, shard.source, f"{self.seed}/{epoch}/{i}/source", i % len(shard)) for i in numbers],
            [self._side(self.target, shard.target, f"{self.seed}/{epoch}/{i}/target", i % len(shard)) for i in numbers],
        )

    def sample_line(
        self, line: tuple[str, str], ids: tuple[npt.NDArray[Any], npt.NDArray[Any]], epoch: int, draw: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Samples source and target ids of a line concatenated from sentences; `ids` are its stored segmentation."""
        return (
            self._sample_ids(self.source, line[0], ids[0], f"{self.seed}/{epoch}/{draw}/source"),
            self._sample_ids(self.target, line[1], ids[1], f"{self.seed}/{epoch}/{draw}/target"),
        )

    def _side(self, sampler: SubwordSampler, sentences: Sentences, seed: str, index: int) -> npt.NDArray[Any]:
        assert sentences.texts is not None
        stored, text = sentences[index], sentences.texts[index]
        # Truncated ids have no text.
        return self._sample_ids(sampler, text, stored, seed) if text else stored

    def _sample_ids(self, sampler: SubwordSampler, text: str, stored: npt.NDArray[Any], seed: str) -> npt.NDArray[Any]:
        sampled = np.array(sampler.sample(text, Random(seed)), np.int64)
        unknown = np.count_nonzero(sampled == sampler.unk_id), np.count_nonzero(stored == sampler.unk_id)
        return stored if len(sampled) > self.longest or unknown[0] > unknown[1] else sampled
