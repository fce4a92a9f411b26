"""Measures how much each word that was read counts for what was written: hidden, by gradients, by direct attribution.

Which method tells most is measured against alignments that are known (benchmarks/attribution_methods.py).
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch

from pellucid.analysis.contributions import source_contributions
from pellucid.analysis.gradients import gradients
from pellucid.analysis.replay import Replay
from pellucid.analysis.weights import word_tokens, words_of
from pellucid.errors import DataError, argument
from pellucid.model.families import Model
from pellucid.tasks.task import TextModel
from pellucid.tracing.attention import Array
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace

AttributionMethod = Literal["occlusion", "gradient", "integrated", "direct"]


@dataclass(frozen=True, slots=True)
class Attribution:
    """Holds how much each token that was written depends on each word that was read."""

    method: AttributionMethod
    rows: tuple[Token, ...]
    """The tokens that were written; of a classifier its label."""
    words: tuple[Token, ...]
    """The words that were read; special tokens are left out."""
    places: tuple[tuple[int, ...], ...]
    """The places of each word's tokens."""
    values: Array
    """(rows, words), nats: above 0 where the word speaks for what was written."""

    def __repr__(self) -> str:
        return f"Attribution({self.method}: {len(self.rows)} tokens written, {len(self.words)} words read)"

    def of(self, row: int | None = None) -> Array:
        """Returns the values of a row, or of all rows together: (words,). Raises DataError for an unknown row."""
        if row is None:
            summed: Array = self.values.sum(axis=0)
            return summed
        if not 0 <= row < len(self.rows):
            raise DataError(f"{argument('row', row)} must be in 0..{len(self.rows) - 1}")
        one: Array = self.values[row]
        return one

    def to_json(self, row: int | None = None) -> dict[str, Any]:
        """Returns the words with the values of a row, for JSON; None: of all rows together."""
        words = zip(self.places, self.words, self.of(row).tolist(), strict=True)
        return {
            "row": row,
            "words": [{"places": list(places), "text": word.text, "change": change} for places, word, change in words],
        }


def attribute(
    model: TextModel[Any] | Model, trace: Trace, *, method: AttributionMethod = "occlusion", steps: int = 16
) -> Attribution:
    """Returns how much each token that was written depends on each word that was read.

        trace = translator.trace("Ein Hund läuft.")
        found = pellucid.attribute(translator, trace)
        found.words[found.values[1].argmax()].text                          # " Hund"

    Args:
        model: a Translator, Classifier or LanguageModel, or a model without a tokenizer: the one that was traced.
        method: "occlusion" hides the word from all that attends, and takes the log-probability that is lost; "gradient"
            is gradient times input; "integrated" the same along the way from vectors of zeros (Sundararajan et al.
            2017); "direct" what attention carries from the word straight into the logit (`pellucid.contributions`).
        steps: of "integrated".

    What was written is given, not searched anew. Special tokens are not hidden. In a decoder alone a place always
    attends to itself, so a word can be hidden from later places alone.

    Raises DataError for an unknown method, fewer than one step, a trace of another model or one that came from
    elsewhere, a model that writes nothing, and by "direct" for attention of somebody's own.
    """
    if method not in get_args(AttributionMethod):
        raise DataError(
            f"unknown {argument('method', method)}", f"choose one of {', '.join(get_args(AttributionMethod))}"
        )
    if method == "integrated" and steps < 1:
        raise DataError(f"{argument('steps', steps)} must be at least 1", "16 are enough for most texts")
    replay = Replay(model, trace)
    groups = [group for group in words_of(replay.read) if not replay.read[group[0]].special]
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
    """Returns log p(written | whole) - log p(written | without a group of places), (R, groups)."""
    visible = torch.ones(len(groups) + 1, len(replay.read), dtype=torch.bool, device=replay.out.device)
    for number, group in enumerate(groups):
        visible[number + 1, group] = False
    found = replay.log_probs(visible)  # (groups + 1, R)
    changes: Array = (found[0] - found[1:]).T.cpu().numpy()
    return changes
