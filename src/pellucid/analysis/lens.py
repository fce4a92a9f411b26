"""The logit lens: the words that a model would write if it stopped behind each sublayer.

Source: nostalgebraist, "interpreting GPT: the logit lens" (2020). The residual stream behind each sublayer goes through
the stack's final norm, where there is one, and the output projection, as the last layer's does. Layers are not trained
to be read so: what an early one shows is what the output projection makes of it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.analysis.replay import Replay
from pellucid.errors import DataError
from pellucid.model.families import Model
from pellucid.tasks.task import TextModel
from pellucid.tracing.attention import Array
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace

EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True)
class Lens:
    """Holds what each layer of a model would write; N stages, R rows, the k most probable words of each."""

    sequence: str
    """"out", the sequence that was written, or "classes" of a classifier, which has one row."""
    rows: tuple[Token, ...]
    """The tokens that were written in the end; of a classifier its label."""
    stages: tuple[str, ...]
    """"embedding", "layer 0 self_attn", "layer 0 cross_attn", "layer 0 feed_forward" and so on."""
    top: tuple[tuple[tuple[Token, ...], ...], ...]
    """By stage and row the most probable words, the first most of all."""
    probabilities: Array
    """(N, R, k), theirs."""
    chosen: Array
    """(N, R): the probability of the word that was written in the end."""
    ranks: npt.NDArray[np.int64]
    """(N, R): how many words are more probable than that one; 0 where it is the first."""

    def __repr__(self) -> str:
        decided = [len(self.stages) - self.decided(row) for row in range(len(self.rows))]
        return (
            f"Lens({len(self.stages)} stages x {len(self.rows)} rows of `{self.sequence}`; the word that was written "
            f"is the first for the last {np.mean(decided):.1f} stages on average)"
        )

    def decided(self, row: int) -> int:
        """Returns the stage from which on a row's word is the most probable; the number of stages if it never is."""
        wrong = np.flatnonzero(self.ranks[:, row])
        return int(wrong[-1]) + 1 if len(wrong) else 0

    def to_json(self) -> dict[str, Any]:
        """Returns what a page shows: `cells` by stage and row."""
        return {
            "sequence": self.sequence,
            "stages": list(self.stages),
            "cells": [[self._cell(n, row) for row in range(len(self.rows))] for n in range(len(self.stages))],
        }

    def _cell(self, stage: int, row: int) -> dict[str, Any]:
        words = zip(self.top[stage][row], self.probabilities[stage, row].tolist(), strict=True)
        return {
            "top": [token.to_json() | {"probability": round(p, 7)} for token, p in words],
            "chosen": round(float(self.chosen[stage, row]), 7),
            "rank": int(self.ranks[stage, row]),
        }


def lens(model: TextModel[Any] | Model, trace: Trace, *, top: int = 5) -> Lens:
    """Returns what each layer of the stack that writes would write, row by row of a trace.

        trace = translator.trace("Ein Hund läuft.")
        found = pellucid.lens(translator, trace)
        found.stages[3], found.rows[0].text, found.top[3][0][0].text        # what the first layer would begin with

    Args:
        model: a Translator, Classifier or LanguageModel, or a model without a tokenizer: the one that was traced.
        top: the most probable words that are kept of each place.

    Of a classifier each stage is pooled and goes through the head, so there is one row, its label.

    Raises DataError for a `top` below 1, a trace of another model or one that came from elsewhere, a model that writes
    nothing, and layers of somebody's own that do not tell of their residual sums.
    """
    if top < 1:
        raise DataError(f"`top` ({top}) must be at least 1")
    replay = Replay(model, trace)
    stream = replay.stream()
    found = [_read(replay, states, top) for states in [stream.embedded, *(one.after for one in stream.sums)]]
    return Lens(
        sequence="classes" if replay.writes_classes else "out",
        rows=replay.rows,
        stages=(EMBEDDING, *(f"layer {one.layer} {one.sublayer}" for one in stream.sums)),
        top=tuple(tuple(replay.named(row) for row in best.tolist()) for _, best, _, _ in found),
        probabilities=np.stack([values.cpu().numpy() for values, _, _, _ in found]),
        chosen=np.stack([chosen.cpu().numpy() for _, _, chosen, _ in found]),
        ranks=np.stack([ranks.cpu().numpy() for _, _, _, ranks in found]),
    )


@torch.inference_mode()
def _read(replay: Replay, states: Tensor, top: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Reads what (L, D) would write.

    Returns the probabilities (R, k) and ids (R, k) of the best words, the probability (R,) of the word that was
    written, and its rank (R,).
    """
    probabilities = replay.readout(states).float().softmax(dim=-1)  # (R, V)
    best = probabilities.topk(min(top, probabilities.size(-1)))
    chosen = probabilities.gather(-1, replay.out[:, None])  # (R, 1)
    return best.values, best.indices, chosen[:, 0], (probabilities > chosen).sum(dim=-1)
