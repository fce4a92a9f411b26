"""Text in, a label out: an encoder with a classification head and its tokenizer."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from pellucid.config import TASKS, DecodeConfig, Task
from pellucid.data.labels import classifier_input
from pellucid.decoding.batches import batches_by_length, pad
from pellucid.decoding.steps import compute_log_probs
from pellucid.errors import ConfigError, DataError
from pellucid.model.families import SequenceClassifier
from pellucid.tasks.task import TextModel, check_batch_tokens, format_names, to_list
from pellucid.tasks.tracing import find_segment_ids, trace_text
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.tokenizers import GivenTokenizers, TokenizerPair
from pellucid.tracing.trace import Trace
from pellucid.weights.folder import SavedModel

if TYPE_CHECKING:
    from pellucid.evaluation.label_scores import LabelScores

Text = str | tuple[str, str]
"""A text, or a pair of texts for a model with two segments."""


@dataclass(frozen=True)
class Classification:
    """The most probable label of a text."""

    label: str
    probability: float
    probabilities: dict[str, float]
    """The probability of each label, in the model's order."""

    def to_json(self) -> dict[str, Any]:
        """Returns the label, and the probability of each."""
        probabilities = {label: round(probability, 6) for label, probability in self.probabilities.items()}
        return {"label": self.label, "probabilities": probabilities}


class Classifier(TextModel[SequenceClassifier]):
    """A trained classifier.

        classifier = Classifier.load("run")
        classifier.classify(["a gorgeous , witty film"])[0].label

    It puts its model into evaluation mode.
    """

    task: ClassVar[Task] = TASKS["classify"]

    def __init__(
        self,
        model: SequenceClassifier,
        tokenizers: GivenTokenizers,
        labels: Sequence[str] = (),
        batch_tokens: int | None = None,
        *,
        decode: DecodeConfig | None = None,
    ) -> None:
        """Takes the parts of a classifier.

        Args:
            labels: the names of the classes, by number; without them the numbers are the names.
            batch_tokens: tokens per batch; None: the setting in `decode`.
            decode: the model's settings, of which `batch_tokens` alone applies.

        Raises ConfigError if the numbers of labels and classes differ.
        """
        settings = decode or DecodeConfig()
        settings = settings if batch_tokens is None else replace(settings, batch_tokens=batch_tokens)
        super().__init__(
            model, tokenizers, settings, labels=labels or [str(i) for i in range(model.config.num_classes)]
        )
        if len(self.labels) != model.config.num_classes:
            raise ConfigError(
                f"{len(self.labels)} labels are given, but the model has {model.config.num_classes} classes"
            )

    @classmethod
    def _from_saved(cls, saved: SavedModel, tokenizers: TokenizerPair) -> Self:
        assert isinstance(saved.model, SequenceClassifier), "the task's record has them"
        return cls(saved.model, tokenizers, saved.labels, decode=saved.decode)

    @property
    def tokenizer(self) -> TokenizerBase:
        """The tokenizer of the texts: `tokenizers.source`."""
        return self.tokenizers.source

    @property
    def batch_tokens(self) -> int:
        """The default tokens per batch."""
        return self.decode.batch_tokens

    def _traits(self) -> list[str]:
        return [f"labels {format_names(self.labels)}"]

    def classify(self, texts: Sequence[Text], *, batch_tokens: int | None = None) -> list[Classification]:
        """Returns the label of each text; on ties the first.

        Args:
            texts: lines of text; for a model with segments also pairs (first, second). A text that exceeds the model's
                positions is truncated at its end (of a pair, the longer one), with a warning.
            batch_tokens: tokens per batch; None: the model's setting.

        Raises DataError for a pair if the model has no segments, or a single text instead of a list.
        """
        check_batch_tokens(batch_tokens)
        given = to_list(texts)
        inputs = self._inputs(given)
        found: dict[int, Tensor] = {}
        # The ids hold their end token, which a shape does not count.
        shapes, padded = [(len(ids) - 1,) for ids in inputs], self.model.config.pad_id is not None
        for places in batches_by_length(shapes, batch_tokens or self.batch_tokens, padded):
            found.update(zip(places, self._log_probs([inputs[i] for i in places]), strict=True))
        return [self._classification(found[i]) for i in range(len(given))]

    def process_lines(
        self, lines: Sequence[Text], place: int = 0, *, batch_tokens: int | None = None
    ) -> list[Classification]:
        """Classifies lines of a stream; their index has no effect."""
        return self.classify(lines, batch_tokens=batch_tokens)

    def stream(self, texts: Iterable[Text], *, batch_tokens: int | None = None) -> Iterator[Classification]:
        """Classifies texts one after another, in chunks of about four seconds and at most 2,048 lines."""
        return super().stream(texts, batch_tokens=batch_tokens)

    def evaluate(
        self, texts: Sequence[Text], labels: Sequence[str], *, batch_tokens: int | None = None
    ) -> "LabelScores":
        """Classifies `texts` and scores the predicted labels against the right ones.

        Raises DataError if the lists differ in length or are empty, and for a label that the model lacks.
        """
        from pellucid.evaluation.label_scores import score_labels

        if unknown := sorted({*labels} - {*self.labels}):
            names = ", ".join(f"`{label}`" for label in unknown[:5])
            raise DataError(
                f"{len(unknown)} labels are unknown to the model: {names}",
                f"its labels: {', '.join(self.labels[:20])}",
            )
        return score_labels([found.label for found in self.classify(texts, batch_tokens=batch_tokens)], labels)

    def trace(self, text: Text, *, residual: bool = False) -> Trace:
        """Records all attentions of the pass over a text, or over a pair (first, second) with its segments.

        The trace has the probabilities of the labels, too, and with `residual` the residual stream.

        Raises DataError for a pair if the model has no segments, and for texts that exceed its positions.
        """
        first, second = (text, None) if isinstance(text, str) else text
        return trace_text(self.model, self.tokenizer, first, second, labels=self.labels, residual=residual)

    def _inputs(self, texts: Sequence[Text]) -> list[list[int]]:
        """Returns the input ids of each text or pair."""
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
                "positions: longer texts are truncated",
                stacklevel=3,
            )
        return inputs

    def _check_pairs(self, pairs: Sequence[tuple[object, ...]]) -> None:
        """Raises DataError for an element that is neither a text nor a pair, and for a pair if the model takes none."""
        for number, pair in enumerate(pairs, start=1):
            if len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], str | None):
                raise DataError(f"text {number} is neither a string nor a pair of strings: {pair!r}")
            if pair[1] is not None and self.model.config.num_segments < 2:
                raise DataError(
                    f"text {number} is a pair, but the model has no segments (`num_segments` is "
                    f"{self.model.config.num_segments})",
                    "pass single texts",
                )

    @torch.inference_mode()
    def _log_probs(self, inputs: Sequence[list[int]]) -> Tensor:
        """Returns the log-probabilities (B, C) of the labels, from the ids of B texts."""
        config, device = self.model.config, next(self.model.parameters()).device
        ids = pad(inputs, config.pad_id or 0).to(device)
        segments = None
        if config.num_segments > 1:
            segments = pad([find_segment_ids(row, config) for row in inputs], 1).to(device)  # (B, S)
        return compute_log_probs(self.model(ids, segments)).cpu()

    def _classification(self, log_probs: Tensor) -> Classification:
        probs = log_probs.double().softmax(dim=-1).tolist()
        best = max(range(len(probs)), key=lambda i: (probs[i], -i))
        return Classification(self.labels[best], probs[best], dict(zip(self.labels, probs, strict=True)))
