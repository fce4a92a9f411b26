"""The most probable next tokens after the prefix of an output, for next-token alternatives."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pellucid.config import DecodeConfig
from pellucid.decoding.beam import stable_topk
from pellucid.decoding.hypothesis import Hypothesis, SearchResult
from pellucid.decoding.steps import SearchState
from pellucid.model.fast.gpu import to_device_async


@dataclass(frozen=True)
class NextTokens:
    """A search that stops after the prefixes: it finds the `count` most probable tokens that are allowed there.

    A hypothesis is a prefix and one such token, which may be the end token; its score is that of this token alone.
    """

    count: int
    lengths: Sequence[int]
    """The number of tokens of each text's prefix, by its entry in `text_indices`."""

    def __call__(self, steps: SearchState, config: DecodeConfig) -> list[SearchResult]:
        """Returns the hypotheses of each output, the most probable first."""
        steps.start(1)
        found: dict[int, SearchResult] = {}
        while steps.rows:
            log_probs = steps.log_probs()[:, 0]  # (B, V)
            # One more gives the margin of the choice. Within a prefix one token remains, which is the first.
            best, tokens = (each.cpu() for each in stable_topk(log_probs, min(self.count + 1, log_probs.size(1))))
            going_on = []
            for row, output in enumerate(steps.rows):
                if steps.length < self.lengths[steps.text_indices[output]]:
                    going_on.append(row)
                    continue
                begun, values = steps.ids[row, 0].tolist(), best[row].tolist()
                hypotheses = [
                    Hypothesis([*begun, token], value, steps.prefix_length)
                    for token, value in zip(tokens[row].tolist()[: self.count], values, strict=False)
                    if value > -torch.inf
                ]
                margin = values[self.count - 1] - values[self.count] if len(values) > self.count else torch.inf
                found[output] = SearchResult(hypotheses, margin)
            steps.advance(to_device_async(tokens[:, :1], steps.device))
            steps.select(torch.tensor(going_on, dtype=torch.long))
        return [found[output] for output in range(len(found))]
