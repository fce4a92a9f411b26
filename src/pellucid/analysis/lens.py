"""The logit lens: the tokens that a model would predict if it stopped after each sublayer.

Source: nostalgebraist, "interpreting GPT: the logit lens" (2020). The residual stream after each sublayer goes through
the stack's final norm, if it has one, and the output projection, like the output of the last layer. Layers are not
trained for this: the prediction of an early layer is only the output projection's reading of it.
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
class LogitLens:
    """Holds the predictions of each layer of a model; N stages, R rows, the k most probable tokens of each."""

    sequence: str
    """"out", the output sequence, or "classes" for a classifier, which has one row."""
    rows: tuple[Token, ...]
    """The actual output tokens; a classifier's label."""
    stages: tuple[str, ...]
    """"embedding", "layer 0 self_attn", "layer 0 cross_attn", "layer 0 feed_forward" and so on."""
    top: tuple[tuple[tuple[Token, ...], ...], ...]
    """By stage and row the most probable tokens, best first."""
    probabilities: Array
    """(N, R, k), the probabilities of these tokens."""
    chosen: Array
    """(N, R): the probability of the actual output token."""
    ranks: npt.NDArray[np.int64]
    """(N, R): the number of tokens more probable than the actual one; 0 if it is the most probable."""

    def __repr__(self) -> str:
        decided = [len(self.stages) - self.find_decision_stage(row) for row in range(len(self.rows))]
        return (
            f"Lens({len(self.stages)} stages x {len(self.rows)} rows of `{self.sequence}`; the generated word "
            f"is the first for the last {np.mean(decided):.1f} stages on average)"
        )

    def find_decision_stage(self, row: int) -> int:
        """Returns the stage from which a row's token stays the most probable; the number of stages if it never is."""
        wrong = np.flatnonzero(self.ranks[:, row])
        return int(wrong[-1]) + 1 if len(wrong) else 0

    def to_json(self) -> dict[str, Any]:
        """Returns the data of a page: `cells` by stage and row."""
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


def logit_lens(model: TextModel[Any] | Model, trace: Trace, *, top: int = 5) -> LogitLens:
    """Returns the predictions of each layer of the output stack for each row of a trace.

        trace = translator.trace("Ein Hund läuft.")
        found = pellucid.logit_lens(translator, trace)
        found.stages[3], found.rows[0].text, found.top[3][0][0].text        # the first layer's first token

    Args:
        model: a Translator, Classifier or LanguageModel, or a model without a tokenizer: the one that was traced.
        top: the number of most probable tokens kept per position.

    For a classifier each stage is pooled and goes through the head, so there is one row, its label.

    Raises DataError for a `top` below 1, a trace of another model or of another library's weights, a model without
    outputs, and custom layers that do not report their residual sums.
    """
    if top < 1:
        raise DataError(f"`top` ({top}) must be at least 1")
    replay = Replay(model, trace)
    stream = replay.stream()
    found = [_read(replay, states, top) for states in [stream.embedded, *(one.after for one in stream.sums)]]
    return LogitLens(
        sequence="classes" if replay.writes_classes else "out",
        rows=replay.rows,
        stages=(EMBEDDING, *(f"layer {one.layer} {one.sublayer}" for one in stream.sums)),
        top=tuple(tuple(replay.label_ids(row) for row in best.tolist()) for _, best, _, _ in found),
        probabilities=np.stack([values.cpu().numpy() for values, _, _, _ in found]),
        chosen=np.stack([chosen.cpu().numpy() for _, _, chosen, _ in found]),
        ranks=np.stack([ranks.cpu().numpy() for _, _, _, ranks in found]),
    )


@torch.inference_mode()
def _read(replay: Replay, states: Tensor, top: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes the predictions from a residual stream (L, D).

    Returns the probabilities (R, k) and ids (R, k) of the best tokens, the probability (R,) of the actual output token,
    and its rank (R,).
    """
    probabilities = replay.readout(states).float().softmax(dim=-1)  # (R, V)
    best = probabilities.topk(min(top, probabilities.size(-1)))
    chosen = probabilities.gather(-1, replay.out[:, None])  # (R, 1)
    return best.values, best.indices, chosen[:, 0], (probabilities > chosen).sum(dim=-1)
