"""Measures which heads matter: each is switched off in turn, and the same sentences are scored again.

A head is off when its output is zero where W^O takes it in: all that it would have added is missing, and nothing else
differs (Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3). No weight is touched for it, and
whoever uses the model meanwhile in another thread uses all of its heads.
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
from pellucid.evaluation.scores import Interval, measure, middle
from pellucid.evaluation.tokenization import bleu_metric, tokenizer_for
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.families import Model
from pellucid.tracing.attention import Array
from pellucid.tracing.recorder import sites_of

RESAMPLES, SEED = 1000, 12345
LOWER_IS_BETTER = ("loss",)

# Of a thread or an asyncio task: hooks stand in a model for all who use it, and act for those who asked for them.
_off: ContextVar[tuple[object, ...]] = ContextVar("pellucid_switched_off", default=())

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, order=True, slots=True)
class Head:
    """Names a head by its place in a model."""

    attention: str
    """"encoder.self", "decoder.self" or "cross"."""
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.attention} layer {self.layer} head {self.head}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Holds what a model makes of n sentences; fields that a task has no use for are None."""

    losses: Floats | None = None
    """(n,) nats, the sum over a sentence's tokens."""
    tokens: Floats | None = None
    """(n,) the number of tokens that each sum is over."""
    outputs: Sequence[str] | None = None
    """Translations."""
    right: Floats | None = None
    """(n,) 1 where the label is right, else 0."""


@dataclass(frozen=True, slots=True)
class Change:
    """Holds a score with a head switched off."""

    score: float
    change: float
    """The difference from the score of the whole model."""
    interval: Interval
    """95 %, by paired bootstrap over the sentences (Koehn 2004): whole and ablated model on the same draws."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """Holds what each head is worth on some sentences, by metric: loss (nats a token), bleu and accuracy (0 to 100)."""

    whole: Mapping[str, float]
    """The scores of the whole model."""
    changes: Mapping[Head, Mapping[str, Change]]
    sentences: int

    def ranked(self, metric: str) -> list[Head]:
        """Returns the heads, those first without which the model is worst."""
        sign = -1 if metric in LOWER_IS_BETTER else 1
        return sorted(self.changes, key=lambda head: sign * self.changes[head][metric].change)

    def matrices(self, attention: str, metric: str) -> tuple[Array, Array, Array]:
        """Returns the changes of one kind of attention and both ends of their intervals, (N, H) each.

        Raises DataError where no head of it was switched off.
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
        """Returns the fields as json.dumps() takes them."""
        return {
            "format": "pellucid-ablation/1",
            "whole": dict(self.whole),
            "sentences": self.sentences,
            "resamples": RESAMPLES,
            "seed": SEED,
            "heads": [
                {**asdict(head), **{metric: asdict(change) for metric, change in changes.items()}}
                for head, changes in self.changes.items()
            ],
        }


def ablate(
    model: Model, score: Callable[[], Outcome], references: Sequence[str] = (), say: Callable[[Head], object] = print
) -> Ablation:
    """Scores the model whole, then without each of its heads.

    Args:
        score: runs the model on the sentences. It must give the same each time that the model is the same.
        references: of the sentences, where there are outputs to compare with them.
        say: is told of each head before it is switched off.

    Raises DataError where there are no sentences.
    """
    whole = _Measured(score(), references)
    changes = {}
    for head in heads_of(model):
        say(head)
        with switched_off(model, head):
            changes[head] = whole.changes_to(_Measured(score(), references))
    return Ablation(whole.scores, changes, whole.sentences)


def heads_of(model: Model) -> list[Head]:
    """Returns all heads of a model, attention by attention."""
    return [
        Head(name, layer, head)
        for name, blocks in _blocks(model).items()
        for layer, block in enumerate(blocks)
        if isinstance(block, MultiHeadAttention)
        for head in range(block.num_heads)
    ]


@contextmanager
def switched_off(model: Model, *heads: Head) -> Iterator[None]:
    """Sets the outputs of these heads to zero within it, in this thread. Raises DataError for an unknown head."""
    blocks, hooks, asked = _blocks(model), [], object()
    known = set(heads_of(model))
    for head in heads:
        if head not in known:
            raise DataError(f"the model has no {head}", f"it has {', '.join(blocks)}, layers and heads from 0")
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
    """Returns the attention blocks by kind, one a layer; parts of somebody's own have no heads to switch off."""
    found: dict[str, list[nn.Module | None]] = {}
    for name, block in sites_of(model):
        found.setdefault(name, []).append(block)
    return found


class _Measured:
    """Holds an outcome's scores, and those of the corpora drawn from its sentences."""

    def __init__(self, outcome: Outcome, references: Sequence[str]) -> None:
        self.sentences = max(
            len(part) for part in (outcome.losses, outcome.outputs, outcome.right, ()) if part is not None
        )
        if not self.sentences:
            raise DataError("there is nothing to score: 0 sentences", "give sentences")
        self.scores: dict[str, float] = {}
        self.drawn: dict[str, Floats] = {}
        if outcome.losses is not None and outcome.tokens is not None:
            self._add("loss", outcome.losses, outcome.tokens)
        if outcome.outputs is not None:
            bleu = measure(bleu_metric(tokenizer_for(references)), outcome.outputs, [references], RESAMPLES, SEED)
            self.scores["bleu"], self.drawn["bleu"] = bleu.score, bleu.resampled
        if outcome.right is not None:
            self._add("accuracy", 100 * outcome.right, np.ones_like(outcome.right))

    def changes_to(self, other: "_Measured") -> dict[str, Change]:
        """Returns for each score how far another outcome differs, with its interval."""
        return {
            name: Change(
                other.scores[name], other.scores[name] - score, middle(other.drawn[name] - self.drawn[name])
            )
            for name, score in self.scores.items()
        }  # fmt: skip

    def _add(self, name: str, sums: Floats, counts: Floats) -> None:
        """Adds a score that is the quotient of two sums over sentences."""
        draws = _draws(len(sums))  # equal ones for each outcome: that is what makes the intervals paired
        self.scores[name] = float(sums.sum() / counts.sum())
        self.drawn[name] = (draws @ sums) / (draws @ counts)


def _draws(sentences: int) -> Floats:
    """Draws corpora: how often each sentence is in each of them, (resamples, sentences)."""
    even = np.full(sentences, 1 / sentences)
    return np.random.default_rng(SEED).multinomial(sentences, even, size=RESAMPLES).astype(np.float64)
