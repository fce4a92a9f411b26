"""Measures which heads matter: each head is disabled in turn, and the same sentences are scored again.

A disabled head's output is zero at the input of W^O: its contribution is missing, and nothing else differs (Michel et
al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3). No weight is changed, and other threads that use
the model at the same time use all of its heads.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.evaluation.scores import Interval, compute_interval, score_with_bootstrap
from pellucid.evaluation.tokenization import bleu_metric, tokenizer_for
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.families import Model
from pellucid.tracing.attention import Array
from pellucid.tracing.recorder import list_attention

RESAMPLES, SEED = 1000, 12345
LOWER_IS_BETTER = ("loss",)

# Per thread or asyncio task: a model's hooks run for all of its users, and act only where heads are disabled.
_off: ContextVar[tuple[object, ...]] = ContextVar("pellucid_switched_off", default=())

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, order=True, slots=True)
class Head:
    """Identifies a head by its attention, layer and index."""

    attention: str
    """"encoder.self", "decoder.self" or "cross"."""
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.attention} layer {self.layer} head {self.head}"


@dataclass(frozen=True, slots=True)
class ModelOutputs:
    """Holds a model's outputs for n sentences; fields that do not apply to a task are None."""

    losses: Floats | None = None
    """(n,) nats, the sum over the tokens of a sentence."""
    tokens: Floats | None = None
    """(n,) the number of tokens in each sum."""
    outputs: Sequence[str] | None = None
    """Translations."""
    right: Floats | None = None
    """(n,) 1 if the predicted label is right, else 0."""


@dataclass(frozen=True, slots=True)
class HeadEffect:
    """Holds a score with a head disabled."""

    score: float
    change: float
    """The difference from the score of the unablated model."""
    interval: Interval
    """95 %, by paired bootstrap over the sentences (Koehn 2004): both models are scored on the same samples."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """Holds each head's effect on some sentences, by metric: loss (nats per token), bleu and accuracy (0 to 100)."""

    baseline: Mapping[str, float]
    """The scores of the unablated model."""
    changes: Mapping[Head, Mapping[str, HeadEffect]]
    sentences: int

    def rank_heads(self, metric: str) -> list[Head]:
        """Returns the heads, most important first: without it the model is worst."""
        sign = -1 if metric in LOWER_IS_BETTER else 1
        return sorted(self.changes, key=lambda head: sign * self.changes[head][metric].change)

    def matrices(self, attention: str, metric: str) -> tuple[Array, Array, Array]:
        """Returns the changes for one kind of attention, and the lower and upper ends of their intervals, (N, H) each.

        Raises DataError if none of its heads was disabled.
        """
        heads = [head for head in self.changes if head.attention == attention]
        if not heads:
            raise DataError(f"no head of `{attention}` was switched off")
        shape = max(head.layer for head in heads) + 1, max(head.head for head in heads) + 1
        values, low, high = (np.zeros(shape, np.float32) for _ in range(3))
        for head in heads:
            change, place = self.changes[head][metric], (head.layer, head.head)
            values[place], (low[place], high[place]) = change.change, change.interval
        return values, low, high

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON-compatible data."""
        return {
            "format": "pellucid-ablation/1",
            "whole": dict(self.baseline),
            "sentences": self.sentences,
            "resamples": RESAMPLES,
            "seed": SEED,
            "heads": [
                {**asdict(head), **{metric: asdict(change) for metric, change in changes.items()}}
                for head, changes in self.changes.items()
            ],
        }


def ablate(
    model: Model,
    score: Callable[[], ModelOutputs],
    references: Sequence[str] = (),
    log_line: Callable[[Head], object] = print,
) -> Ablation:
    """Scores the model, then again without each of its heads.

    Args:
        score: runs the model on the sentences. It must be deterministic.
        references: the reference translations, if outputs are to be compared with them.
        log_line: called with a message about each head before it is disabled.

    Raises DataError if there are no sentences.
    """
    whole = _Measured(score(), references)
    changes = {}
    for head in list_heads(model):
        log_line(head)
        with disable_heads(model, head):
            changes[head] = whole.changes_to(_Measured(score(), references))
    return Ablation(whole.scores, changes, whole.sentences)


def list_heads(model: Model) -> list[Head]:
    """Returns all heads of a model, ordered by attention."""
    return [
        Head(name, layer, head)
        for name, blocks in _blocks(model).items()
        for layer, block in enumerate(blocks)
        if isinstance(block, MultiHeadAttention)
        for head in range(block.num_heads)
    ]


@contextmanager
def disable_heads(model: Model, *heads: Head) -> Iterator[None]:
    """Sets the outputs of these heads to zero in the context, in this thread. Raises DataError for an unknown head."""
    blocks, hooks, asked = _blocks(model), [], object()
    known = set(list_heads(model))
    for head in heads:
        if head not in known:
            raise DataError(f"the model has no {head}", f"it has {', '.join(blocks)}, with layers and heads from 0")
    token = _off.set((*_off.get(), asked))
    try:
        for head in heads:
            block = blocks[head.attention][head.layer]
            assert isinstance(block, MultiHeadAttention)
            hooks.append(block.out_proj.register_forward_pre_hook(_silence(block, head.head, asked)))
        yield
    finally:
        _off.reset(token)
        for hook in hooks:
            hook.remove()


def _silence(
    block: MultiHeadAttention, head: int, asked: object
) -> Callable[[nn.Module, tuple[Tensor]], Tensor | None]:
    columns = slice(head * block.head_width, (head + 1) * block.head_width)

    def silence(module: nn.Module, inputs: tuple[Tensor]) -> Tensor | None:
        if asked not in _off.get():
            return None
        joined = inputs[0].clone()  # (B, L, H * K)
        joined[..., columns] = 0
        return joined

    return silence


def _blocks(model: Model) -> dict[str, list[nn.Module | None]]:
    """Returns the attention blocks by kind, one per layer; heads of custom modules cannot be disabled."""
    found: dict[str, list[nn.Module | None]] = {}
    for name, block in list_attention(model):
        found.setdefault(name, []).append(block)
    return found


class _Measured:
    """Holds the scores of some outputs, and the scores of bootstrap samples of the sentences."""

    def __init__(self, outcome: ModelOutputs, references: Sequence[str]) -> None:
        self.sentences = max(
            len(part) for part in (outcome.losses, outcome.outputs, outcome.right, ()) if part is not None
        )
        if not self.sentences:
            raise DataError("nothing to score: 0 sentences", "pass sentences")
        self.scores: dict[str, float] = {}
        self.resampled: dict[str, Floats] = {}
        if outcome.losses is not None and outcome.tokens is not None:
            self._add("loss", outcome.losses, outcome.tokens)
        if outcome.outputs is not None:
            bleu = score_with_bootstrap(
                bleu_metric(tokenizer_for(references)), outcome.outputs, [references], RESAMPLES, SEED
            )
            self.scores["bleu"], self.resampled["bleu"] = bleu.score, bleu.resampled
        if outcome.right is not None:
            self._add("accuracy", 100 * outcome.right, np.ones_like(outcome.right))

    def changes_to(self, other: "_Measured") -> dict[str, HeadEffect]:
        """Returns for each score the difference to other outputs, with its interval."""
        return {
            name: HeadEffect(
                other.scores[name],
                other.scores[name] - score,
                compute_interval(other.resampled[name] - self.resampled[name]),
            )
            for name, score in self.scores.items()
        }  # fmt: skip

    def _add(self, name: str, sums: Floats, counts: Floats) -> None:
        """Adds a score that is the ratio of two sums over sentences."""
        draws = _draws(len(sums))  # the same samples for all outputs, for paired intervals
        self.scores[name] = float(sums.sum() / counts.sum())
        self.resampled[name] = (draws @ sums) / (draws @ counts)


def _draws(sentences: int) -> Floats:
    """Samples corpora: how often each sentence occurs in each of them, (resamples, sentences)."""
    even = np.full(sentences, 1 / sentences)
    return np.random.default_rng(SEED).multinomial(sentences, even, size=RESAMPLES).astype(np.float64)
