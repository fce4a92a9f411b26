"""Text in, a label out: an encoder with a classification head and its tokenizer."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from pellucid.config import TASKS, DecodeConfig, Task
from pellucid.data.classified import classifier_input
from pellucid.decoding.batches import batches_by_length, pad
from pellucid.decoding.steps import log_probs_of
from pellucid.errors import ConfigError, DataError
from pellucid.model.families import SequenceClassifier
from pellucid.tasks.task import TextModel, check_batch_tokens, listing, several
from pellucid.tasks.tracing import segments_of, trace_text
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.text.tokenizers import GivenTokenizers, Tokenizers
from pellucid.tracing.trace import Trace
from pellucid.weights.folder import SavedModel

if TYPE_CHECKING:
    from pellucid.evaluation.label_scores import LabelScores

Text = str | tuple[str, str]
"""A text, or a pair of them for a model that tells two segments apart."""


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
        """Puts the parts of a classifier together.

        Args:
            labels: the names of the classes, by number; without them the numbers are the names.
            batch_tokens: tokens of all texts that are read together; None: those of `decode`.
            decode: the model's settings, of which `batch_tokens` alone counts.

        Raises ConfigError where there are not as many labels as classes.
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
    def _opened(cls, saved: SavedModel, tokenizers: Tokenizers) -> Self:
        assert isinstance(saved.model, SequenceClassifier), "the task's record says so"
        return cls(saved.model, tokenizers, saved.labels, decode=saved.decode)

    @property
    def tokenizer(self) -> CompleteTokenizer:
        """The tokenizer of the texts: `tokenizers.source`."""
        return self.tokenizers.source

    @property
    def batch_tokens(self) -> int:
        """The tokens of all texts that are read together, where a call does not say otherwise."""
        return self.decode.batch_tokens

    def _traits(self) -> list[str]:
        return [f"labels {listing(self.labels)}"]

    def classify(self, texts: Sequence[Text], *, batch_tokens: int | None = None) -> list[Classification]:
        """Returns the label of each text; of equally probable ones the first.

        Args:
            texts: lines of text; for a model with segments also pairs (first, second). What is beyond the model's
                positions is cut off the end (of a pair: off the longer one), with a warning.
            batch_tokens: tokens of all texts that are read together; None: the model's own.

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

    def answer(self, lines: Sequence[Text], place: int = 0, *, batch_tokens: int | None = None) -> list[Classification]:
        """Classifies some lines of a stream; how many came before changes nothing."""
        return self.classify(lines, batch_tokens=batch_tokens)

    def stream(self, texts: Iterable[Text], *, batch_tokens: int | None = None) -> Iterator[Classification]:
        """Classifies texts one after another, however many there are; at most 2,048 are held at a time."""
        return super().stream(texts, batch_tokens=batch_tokens)

    def evaluate(
        self, texts: Sequence[Text], labels: Sequence[str], *, batch_tokens: int | None = None
    ) -> "LabelScores":
        """Classifies `texts` and scores the labels found against the right ones.

        Raises DataError where the lists differ in length or are empty, or for a label that the model does not know.
        """
        from pellucid.evaluation.label_scores import score_labels

        if unknown := sorted({*labels} - {*self.labels}):
            names = ", ".join(f"`{label}`" for label in unknown[:5])
            raise DataError(
                f"the model does not know {len(unknown)} of the labels: {names}",
                f"it knows {', '.join(self.labels[:20])}",
            )
        return score_labels([found.label for found in self.classify(texts, batch_tokens=batch_tokens)], labels)

    def trace(self, text: Text, *, residual: bool = False) -> Trace:
        """Records all attentions of the pass over a text, or over a pair (first, second) with its segments.

        The trace has the probabilities of the labels, too, and with `residual` the residual stream.

        Raises DataError for a pair where the model has no segments, and for what exceeds its positions.
        """
        first, second = (text, None) if isinstance(text, str) else text
        return trace_text(self.model, self.tokenizer, first, second, labels=self.labels, residual=residual)

    def _inputs(self, texts: Sequence[Text]) -> list[list[int]]:
        """Returns the ids of each text or pair, as the model reads them."""
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
        """Raises DataError for what is neither a text nor a pair, and for a pair where the model takes none."""
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
        """Returns the log-probabilities (B, C) of the labels, from the ids of B texts."""
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
