"""Measures the importance of each input word for each output: by occlusion, gradients or direct attribution.

The methods are compared on known alignments in benchmarks/attribution_methods.py.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch

from pellucid.analysis.contributions import source_contributions
from pellucid.analysis.gradients import gradients
from pellucid.analysis.replay import Replay
from pellucid.analysis.weights import group_tokens_by_word, word_tokens
from pellucid.errors import DataError, format_argument
from pellucid.model.families import Model
from pellucid.tasks.task import TextModel
from pellucid.tracing.attention import Array
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace

AttributionMethod = Literal["occlusion", "gradient", "integrated", "direct"]


@dataclass(frozen=True, slots=True)
class Attribution:
    """Holds how much each output token depends on each input word."""

    method: AttributionMethod
    rows: tuple[Token, ...]
    """The output tokens; a classifier's label."""
    words: tuple[Token, ...]
    """The input words, without special tokens."""
    places: tuple[tuple[int, ...], ...]
    """The positions of each word's tokens."""
    values: Array
    """(rows, words), nats: positive if the word supports the output."""

    def __repr__(self) -> str:
        return f"Attribution({self.method}: {len(self.rows)} output tokens, {len(self.words)} input words)"

    def get_values(self, row: int | None = None) -> Array:
        """Returns the values of a row, or the sum of all rows: (words,). Raises DataError for an unknown row."""
        if row is None:
            summed: Array = self.values.sum(axis=0)
            return summed
        if not 0 <= row < len(self.rows):
            raise DataError(f"{format_argument('row', row)} must be in 0..{len(self.rows) - 1}")
        one: Array = self.values[row]
        return one

    def to_json(self, row: int | None = None) -> dict[str, Any]:
        """Returns the words with the values of a row, for JSON; None: summed over all rows."""
        words = zip(self.places, self.words, self.get_values(row).tolist(), strict=True)
        return {
            "row": row,
            "words": [{"places": list(places), "text": word.text, "change": change} for places, word, change in words],
        }


def attribute(
    model: TextModel[Any] | Model, trace: Trace, *, method: AttributionMethod = "occlusion", steps: int = 16
) -> Attribution:
    """Returns how much each output token depends on each input word.

        trace = translator.trace("Ein Hund läuft.")
        found = pellucid.attribute(translator, trace)
        found.words[found.values[1].argmax()].text                          # " Hund"

    Args:
        model: a Translator, Classifier or LanguageModel, or a model without a tokenizer: the one that was traced.
        method: "occlusion" hides the word from all attention, and measures the loss of log-probability; "gradient"
            is gradient times input; "integrated" integrates gradients along the way from zero vectors (Sundararajan
            et al. 2017); "direct" is attention's direct contribution to the logit (`pellucid.attribute_logits`).
        steps: the number of steps of "integrated".

    The output is fixed, not searched again. Special tokens are not hidden. In a decoder-only model a position always
    attends to itself, so a word can only be hidden from later positions.

    Raises DataError for an unknown method, fewer than one step, a trace of another model or of another library's
    weights, a model without outputs, and for "direct" with custom attention.
    """
    if method not in get_args(AttributionMethod):
        raise DataError(
            f"unknown {format_argument('method', method)}", f"choose one of {', '.join(get_args(AttributionMethod))}"
        )
    if method == "integrated" and steps < 1:
        raise DataError(f"{format_argument('steps', steps)} must be at least 1", "16 are enough for most texts")
    replay = Replay(model, trace)
    groups = [group for group in group_tokens_by_word(replay.read) if not replay.read[group[0]].special]
    words = tuple(token for token in word_tokens(replay.read) if not token.special)
    if method == "occlusion":
        values = occlusion(replay, groups)
    else:
        found = source_contributions(replay) if method == "direct" else gradients(
            replay, steps if method == "integrated" else 0
        )  # fmt: skip
        by_place = found.cpu().numpy()  # (R, M)
        values = np.stack([by_place[:, group].sum(axis=1) for group in groups], axis=1) if groups else by_place[:, :0]
    return Attribution(method, replay.rows, words, tuple(map(tuple, groups)), values.astype(np.float32))


def occlusion(replay: Replay, groups: list[list[int]]) -> Array:
    """Returns log p(output | input) - log p(output | input without a group of positions), (R, groups)."""
    visible = torch.ones(len(groups) + 1, len(replay.read), dtype=torch.bool, device=replay.out.device)
    for number, group in enumerate(groups):
        visible[number + 1, group] = False
    found = replay.log_probs(visible)  # (groups + 1, R)
    changes: Array = (found[0] - found[1:]).T.cpu().numpy()
    return changes
