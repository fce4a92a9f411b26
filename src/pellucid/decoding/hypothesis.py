"""What a search returns, and what all searches share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.errors import DecodingError


@dataclass(frozen=True)
class Hypothesis:
    """A finished output: its ids without start and end token, and the sum of log-probabilities, end token included."""

    ids: list[int]
    score: float
    prefix_length: int = 0
    """Tokens that it had to begin with: neither in `ids` nor in the score."""

    def rank(self, length_penalty: float) -> float:
        """score / length ** length_penalty, the end token and the prefix counted; higher is better."""
        return self.score / self.divisor(length_penalty)

    def divisor(self, length_penalty: float) -> float:
        """length ** length_penalty, the end token and the prefix counted."""
        divisor: float = (self.prefix_length + len(self.ids) + 1) ** length_penalty
        return divisor


@dataclass(frozen=True)
class Found:
    """A sentence's hypotheses, best first, and how near the search was to another outcome.

    While no sum of log-probabilities changes by as much as half of `margin` (nats), the ids stay what they are.
    """

    hypotheses: list[Hypothesis]
    margin: float


@dataclass(frozen=True)
class Weighed:
    """A continuation that a step of a search weighed."""

    parent: int
    """The place of the live hypothesis that it continues."""
    token: int
    log_prob: float
    """Of the token."""
    score: float
    """Of the whole, its prefix left out."""
    fate: Literal["live", "finished", "pruned"]
    """live: goes on, and the n-th such is at place n of the next step; finished: ended; pruned: dropped."""


Watcher = Callable[[list[Weighed]], None]
"""Called at each step of the search of one sentence with what it weighed, best first."""


def length_limits(src: Tensor, decode: DecodeConfig, config: ModelConfig) -> list[int]:
    """The most tokens that each of the sources (B, S) may give: `max_length`, or twice its tokens + 50.

    The end tokens and what stands before and behind every source or target do not count, and the model's positions
    are the upper bound.
    """
    room = config.max_positions - 1 - len(decode.target_prefix)
    lengths = [src.size(1)] * src.size(0) if config.pad_id is None else (src != config.pad_id).sum(dim=1).tolist()
    return [min(decode.max_length or 2 * (length - decode.added) + 50, room) for length in lengths]


def suppressed_ids(config: ModelConfig, suppress: Sequence[int] = ()) -> list[int]:
    """Ids that no search may give: padding, the start token, and those of `suppress`."""
    special = {i for i in (config.pad_id, config.bos_id) if i is not None and i != config.eos_id}
    special -= {i for i in special if i >= config.tgt_vocab_size}  # the source's padding, where it has more words
    return sorted(special | set(suppress))


def check_ids(decode: DecodeConfig, config: ModelConfig) -> None:
    """Raises DecodingError where a search would begin with, or leave out, what the model does not have."""
    sides = {"source_prefix": config.src_vocab_size, "source_suffix": config.src_vocab_size}
    sides |= {"target_prefix": config.tgt_vocab_size, "suppress": config.tgt_vocab_size}
    for name, size in sides.items():
        if (largest := max(getattr(decode, name), default=0)) >= size:
            raise DecodingError(f"`{name}` holds the id {largest}, the model's vocabulary has {size:,} ids")
    for name in ("bos_id", "eos_id"):
        if (number := getattr(config, name)) >= config.tgt_vocab_size:
            raise DecodingError(f"`{name}` is {number}, the model's vocabulary has {config.tgt_vocab_size:,} ids")
    if config.tgt_vocab_size < 2:
        raise DecodingError(
            f"the model's vocabulary has {config.tgt_vocab_size} id: there is nothing to choose from",
            "a vocabulary needs an end token and something to write",
        )
    if config.eos_id in decode.suppress:
        raise DecodingError(f"`suppress` holds the end token ({config.eos_id}): no output would end", "leave it out")
    if len(decode.target_prefix) >= config.max_positions:
        raise DecodingError(
            f"`target_prefix` has {len(decode.target_prefix)} ids, the model {config.max_positions} positions"
        )


class NotANumberError(DecodingError):
    """The model gives no numbers: its weights are damaged, or its training has diverged."""


def log_probs_of(logits: Tensor) -> Tensor:
    """Log-probabilities (..., V) of logits. Raises NotANumberError where the model gives no numbers."""
    log_probs = logits.float().log_softmax(dim=-1)
    if log_probs[..., 0].isnan().any():  # the softmax spreads one NaN over its whole row
        raise NotANumberError(
            "the model's output is not a number (NaN)", "its weights are damaged, or `dtype` is too narrow: use float32"
        )
    return log_probs


def next_log_probs(logits: Tensor, at_limit: list[bool], config: ModelConfig, suppress: Sequence[int] = ()) -> Tensor:
    """Log-probabilities (B, W, V) of the next token; the sentences at their limit may only end.

    Raises DecodingError where the model gives no numbers.
    """
    log_probs = log_probs_of(logits)
    log_probs[..., suppressed_ids(config, suppress)] = -torch.inf
    if any(at_limit):
        limited = torch.tensor(at_limit, device=logits.device)
        end = log_probs[limited, :, config.eos_id]
        log_probs[limited] = -torch.inf
        log_probs[limited, :, config.eos_id] = end
    return log_probs
