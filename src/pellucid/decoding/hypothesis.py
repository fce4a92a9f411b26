"""What a search returns, and what all searches share."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.errors import DecodingError


@dataclass(frozen=True)
class Hypothesis:
    """A finished output: its ids without start and end token, and the sum of log-probabilities, end token included."""

    ids: list[int]
    score: float

    def rank(self, length_penalty: float) -> float:
        """score / length ** length_penalty, the end token counted; higher is better."""
        return self.score / self.divisor(length_penalty)

    def divisor(self, length_penalty: float) -> float:
        """length ** length_penalty, the end token counted."""
        divisor: float = (len(self.ids) + 1) ** length_penalty
        return divisor


@dataclass(frozen=True)
class Found:
    """A sentence's hypotheses, best first, and how near the search was to another outcome.

    While no sum of log-probabilities changes by as much as half of `margin` (nats), the ids stay what they are.
    """

    hypotheses: list[Hypothesis]
    margin: float


def length_limits(src: Tensor, max_length: int | None, config: ModelConfig) -> list[int]:
    """The most tokens that each of the sources (B, S) may give: `max_length`, or twice its tokens + 50.

    The end tokens of source and target do not count, and the model's positions are the upper bound.
    """
    lengths = [src.size(1)] * src.size(0) if config.pad_id is None else (src != config.pad_id).sum(dim=1).tolist()
    return [min(max_length or 2 * (length - 1) + 50, config.max_positions - 1) for length in lengths]


def suppressed_ids(config: ModelConfig) -> list[int]:
    """Ids that no search may give: padding and the start token."""
    return sorted({i for i in (config.pad_id, config.bos_id) if i is not None and i != config.eos_id})


def next_log_probs(logits: Tensor, at_limit: list[bool], config: ModelConfig) -> Tensor:
    """Log-probabilities (B, W, V) of the next token; the sentences at their limit may only end.

    Raises DecodingError where the model gives no numbers.
    """
    log_probs = logits.float().log_softmax(dim=-1)
    if log_probs[..., config.eos_id].isnan().any():  # the softmax spreads one NaN over its whole row
        raise DecodingError(
            "the model's output is not a number (NaN)", "its weights are damaged, or `dtype` is too narrow: use float32"
        )
    log_probs[..., suppressed_ids(config)] = -torch.inf
    if any(at_limit):
        limited = torch.tensor(at_limit, device=logits.device)
        end = log_probs[limited, :, config.eos_id]
        log_probs[limited] = -torch.inf
        log_probs[limited, :, config.eos_id] = end
    return log_probs
