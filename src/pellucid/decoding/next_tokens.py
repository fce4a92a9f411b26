"""The most probable next tokens behind what an output begins with, for outputs that part there."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pellucid.config import DecodeConfig
from pellucid.decoding.beam import top_by_place
from pellucid.decoding.hypothesis import Found, Hypothesis
from pellucid.decoding.steps import Steps
from pellucid.model.fast.queue import send


@dataclass(frozen=True)
class NextTokens:
    """A search that stops behind the prefixes: it finds the `count` most probable tokens that may stand there.

    A hypothesis is a prefix and such a token, which may be the end token; its score is that of this token alone.
    """

    count: int
    lengths: Sequence[int]
    """The tokens of each text's prefix, by the place that the search was given for it."""

    def __call__(self, steps: Steps, config: DecodeConfig) -> list[Found]:
        """Returns the hypotheses of each output, the most probable first."""
        steps.start(1)
        found: dict[int, Found] = {}
        while steps.rows:
            log_probs = steps.log_probs()[:, 0]  # (B, V)
            # One more tells how near the choice was. Of a prefix one token is left, which is the first.
            best, tokens = (each.cpu() for each in top_by_place(log_probs, min(self.count + 1, log_probs.size(1))))
            going_on = []
            for row, output in enumerate(steps.rows):
                if steps.length < self.lengths[steps.places[output]]:
                    going_on.append(row)
                    continue
                begun, values = steps.ids[row, 0].tolist(), best[row].tolist()
                hypotheses = [
                    Hypothesis([*begun, token], value, steps.prefix_length)
                    for token, value in zip(tokens[row].tolist()[: self.count], values, strict=False)
                    if value > -torch.inf
                ]
                margin = values[self.count - 1] - values[self.count] if len(values) > self.count else torch.inf
                found[output] = Found(hypotheses, margin)
            steps.advance(send(tokens[:, :1], steps.device))
            steps.select(torch.tensor(going_on, dtype=torch.long))
        return [found[output] for output in range(len(found))]
