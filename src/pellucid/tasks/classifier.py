"""Text in, a label out: an encoder with a classification head and its tokenizer."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from pellucid.data.classified import classifier_input
from pellucid.decoding.batches import batches_by_length, pad
from pellucid.decoding.steps import log_probs_of
from pellucid.errors import ConfigError, DataError
from pellucid.model.transformer import SequenceClassifier
from pellucid.tasks.lines import check_batch_tokens, several
from pellucid.tasks.saved import load_for
from pellucid.tasks.summary import listing, summary
from pellucid.tasks.tracing import segments_of, trace_text
from pellucid.text.tokenizers import Tokenizers
from pellucid.tracing.trace import Trace

Text = str | tuple[str, str]
"""A text, or a pair of them for a model that tells two segments apart."""


@dataclass(frozen=True)
class Classification:
    """The most probable label of a text."""

    label: str
    probability: float
    probabilities: dict[str, float]
    """Of each label, in the model's order."""


class Classifier:
    """A trained classifier.

        classifier = Classifier.load("run")
        classifier.classify(["a gorgeous , witty film"])[0].label

    It puts its model into evaluation mode.
    """

    def __init__(
        self,
        model: SequenceClassifier,
        tokenizers: Tokenizers,
        labels: Sequence[str] = (),
        batch_tokens: int = 4096,
    ) -> None:
        """`labels` are the names of the classes, by number; without them the numbers are the names.

        Raises ConfigError where there are not as many as classes.
        """
        self.model = model.eval()
        self.tokenizer = tokenizers.source
        count = model.config.num_classes
        self.labels = tuple(labels) or tuple(map(str, range(count)))
        self.batch_tokens = batch_tokens
        if len(self.labels) != count:
            raise ConfigError(f"{len(self.labels)} labels are given, but the model has {count} classes")

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: str | torch.device = "auto",
        dtype: str | torch.dtype | None = None,
        *,
        revision: str | None = None,
    ) -> Self:
        """The classifier of a run, model or Hugging Face folder, or of a name on the hub (at a `revision`).

        Raises CheckpointError where there is none, it is damaged, or is for another task.
        """
        saved = load_for("classify", folder, device, dtype, revision)
        assert isinstance(saved.model, SequenceClassifier)
        return cls(saved.model, saved.tokenizers, saved.labels, saved.decode.batch_tokens)

    def __repr__(self) -> str:
        return summary(self, self.model, {self.tokenizer.kind: self.tokenizer.size}, f"labels {listing(self.labels)}")

    def classify(self, texts: Sequence[Text], *, batch_tokens: int | None = None) -> list[Classification]:
        """The label of each text; of equally probable ones the first.

        Args:
            texts: lines of text; for a model with segments also pairs (first, second). What is beyond the model's
                positions is cut off the end (of a pair: off the longer one), with a warning.
            batch_tokens: tokens of all texts that are read together; None: 4,096, or the model's own.

        Raises DataError for a pair where the model has no segments, or a single text instead of a list.
        """
        check_batch_tokens(batch_tokens)
        given = several(texts)
        inputs = self._inputs(given)
        found: dict[int, Tensor] = {}
        # The ids hold their end token, which a shape does not count.
        shapes, padded = [(len(ids) - 1,) for ids in inputs], self.model.config.pad_id is not None
        for places in batches_by_length(shapes, batch_tokens or self.batch_tokens, padded):
            found.update(zip(places, self._log_probs([inputs[i] for i in places]), strict=True))
        return [self._classification(found[i]) for i in range(len(given))]

    def trace(self, text: Text) -> Trace:
        """All attentions of the pass over a text, or over a pair (first, second) with its segments.

        Raises DataError for a pair where the model has no segments, and for what exceeds its positions.
        """
        first, second = (text, None) if isinstance(text, str) else text
        return trace_text(self.model, self.tokenizer, first, second)

    def _inputs(self, texts: Sequence[Text]) -> list[list[int]]:
        """The ids of each text or pair, as the model reads them."""
        pairs = [tuple(text) if isinstance(text, tuple | list) else (text, None) for text in texts]
        self._check_pairs(pairs)
        firsts = self.tokenizer.encode_lines([first for first, _ in pairs])
        seconds = self.tokenizer.encode_lines([second or "" for _, second in pairs])
        inputs, longest = [], 0
        for (_, second), a, b in zip(pairs, firsts, seconds, strict=True):
            inputs.append(classifier_input(a, self.model.config, None if second is None else b))
            longest = max(longest, len(a) + (0 if second is None else len(b) + 1) + 2)
        if longest > self.model.config.max_positions:
            warnings.warn(
                f"the longest text has {longest:,} tokens, and the model has {self.model.config.max_positions:,} "
                "positions: what does not fit is cut off",
                stacklevel=3,
            )
        return inputs

    def _check_pairs(self, pairs: Sequence[tuple[object, ...]]) -> None:
        """Raises DataError for what is no text and no pair, and for a pair where the model takes none."""
        for number, pair in enumerate(pairs, start=1):
            if len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], str | None):
                raise DataError(f"text {number} is no text and no pair of texts: {pair!r}")
            if pair[1] is not None and self.model.config.num_segments < 2:
                raise DataError(
                    f"text {number} is a pair, but the model tells no segments apart (`num_segments` is "
                    f"{self.model.config.num_segments})",
                    "give one text each",
                )

    @torch.inference_mode()
    def _log_probs(self, inputs: Sequence[list[int]]) -> Tensor:
        """(B, C) of the ids of B texts."""
        config, device = self.model.config, next(self.model.parameters()).device
        ids = pad(inputs, config.pad_id or 0).to(device)
        segments = None
        if config.num_segments > 1:
            segments = pad([segments_of(row, config) for row in inputs], 1).to(device)  # (B, S)
        return log_probs_of(self.model(ids, segments)).cpu()

    def _classification(self, log_probs: Tensor) -> Classification:
        probs = log_probs.double().softmax(dim=-1).tolist()
        best = max(range(len(probs)), key=lambda i: (probs[i], -i))
        return Classification(self.labels[best], probs[best], dict(zip(self.labels, probs, strict=True)))
