"""`pellucid heads`: what a model loses without each of its heads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np

from pellucid.analysis.ablation import Ablation, Head, Outcome, ablate
from pellucid.analysis.head_texts import Texts, given_texts, own_texts
from pellucid.config import Task
from pellucid.errors import ConfigError, DataError
from pellucid.process import keep_freed_memory
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.task import TextModel, open_task, task_in
from pellucid.tasks.translator import Translator

Metric = Literal["loss", "bleu", "accuracy"]
UNITS: dict[Metric, str] = {"loss": "nats a token", "bleu": "of greedy translations", "accuracy": "per cent"}
NAMES: dict[Metric, str] = {"loss": "loss", "bleu": "BLEU", "accuracy": "accuracy"}
LEAST = 2
"""Sentences: of one, no draw differs from another."""


@dataclass(frozen=True)
class Subject:
    """A model opened for its task, and the sentences it is judged by."""

    task: Task
    reader: TextModel[Any]
    texts: Texts

    @classmethod
    def open(
        cls, model: str, src: str | None, tgt: str | None, sentences: int, *, device: str, dtype: str | None
    ) -> "Subject":
        """At most `sentences` of two files, or of those that the run was tested on.

        Raises ConfigError for texts that are missing or not wanted, CheckpointError for a folder that holds no model.
        """
        if sentences < LEAST:
            raise ConfigError(
                f"`--sentences` ({sentences}) must be at least {LEAST}", "intervals are drawn from hundreds of them"
            )
        if src is None and tgt is not None:
            raise ConfigError(f"`--tgt {tgt}` stands without its texts", "name them with --src")
        keep_freed_memory()
        # Of a foreign encoder the settings do not tell whether it has a head: it is looked at without labels.
        task, reader = task_in(model), open_task(model, device, dtype)
        running = isinstance(reader, LanguageModel) and not reader.reads_lines
        texts = own_texts(model, task) if src is None else given_texts(task, src, tgt, running)
        return cls(task, reader, texts.some(sentences))


def ablate_heads(
    subject: Subject, metric: str | None = None, say: Callable[[Head], object] = lambda head: None
) -> Ablation:
    """What each head is worth by `metric`; None: by all that the task has.

    Raises ConfigError for a metric that the task has not, DataError for labels that the model does not know.
    """
    metrics = cast(tuple[Metric, ...], subject.task.metrics)
    reader = subject.reader
    if not metrics:
        raise ConfigError(
            f"{subject.task.noun} has no task that its heads could be judged by",
            "leave --ablate out, or train a classifier on it with --init-from",
        )
    if metric is not None:
        if metric not in metrics:
            raise ConfigError(
                f"`--metric {metric}` is nothing that can be measured of this model",
                f"choose one of {', '.join(metrics)}",
            )
        metrics = tuple(name for name in get_args(Metric) if name == metric)
    sources, targets = (list(side) for side in zip(*subject.texts.pairs, strict=True))
    return ablate(reader.model, _scorer(reader, subject.texts, sources, targets, metrics), targets, say)


def report(found: Ablation, texts: Texts) -> str:
    """A table for the screen, the heads first without which the model is worst."""
    metrics: list[Metric] = [name for name in get_args(Metric) if name in found.whole]
    head = "".join(f"{NAMES[m]:>10}{'change':>10}  {'95 % interval':<20}" for m in metrics)
    whole = "".join(f"{_number(m, found.whole[m]):>10}{'':>32}" for m in metrics)
    rows = [f"{place!s:<30}{_cells(found, place, metrics)}" for place in found.ranked(metrics[0])]
    units = "; ".join(f"{NAMES[m]}: {UNITS[m]}" for m in metrics)
    return "\n".join(
        [f"{'without':<30}{head}".rstrip(), f"{'(the whole model)':<30}{whole}".rstrip(), *rows,
         f"{found.sentences:,} sentences of {texts.origin}",
         f"{units}; intervals by paired bootstrap over the sentences"]
    )  # fmt: skip


def _cells(found: Ablation, place: Head, metrics: Sequence[Metric]) -> str:
    cells = ""
    for metric in metrics:
        change = found.changes[place][metric]
        low, high = (_number(metric, end, "+") for end in change.interval)
        cells += (
            f"{_number(metric, change.score):>10}{_number(metric, change.change, '+'):>10}  {f'[{low}, {high}]':<20}"
        )
    return cells.rstrip()


def _number(metric: Metric, value: float, sign: str = "") -> str:
    digits = 4 if metric == "loss" else 2
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}"


def _scorer(
    reader: TextModel[Any],
    texts: Texts,
    sources: Sequence[str],
    targets: Sequence[str],
    metrics: Sequence[Metric],
) -> Callable[[], Outcome]:
    if isinstance(reader, Translator):
        return _translations(reader, sources, targets, metrics)
    if isinstance(reader, Classifier):
        return _labels(reader, sources, [target.strip() for target in targets], metrics)
    assert isinstance(reader, LanguageModel), "no other task has metrics"
    as_lines = not texts.running

    def outcome() -> Outcome:
        scores = reader.token_scores(sources, as_lines=as_lines)
        return Outcome(-np.array([sum(values) for values in scores]), np.array([float(len(v)) for v in scores]))

    return outcome


def _translations(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], metrics: Sequence[Metric]
) -> Callable[[], Outcome]:
    """The loss of the references, and greedy translations."""
    tokens = np.array([len(ids) + 1.0 for ids in translator.tokenizers.target.encode_lines(list(targets))])

    def outcome() -> Outcome:
        losses = -np.array(translator.score(sources, targets)) if "loss" in metrics else None
        found = translator.translate(sources, beam_size=1, n_best=1) if "bleu" in metrics else None
        return Outcome(losses, tokens, None if found is None else [translation.text for translation in found])

    return outcome


def _labels(
    classifier: Classifier, texts: Sequence[str], labels: Sequence[str], metrics: Sequence[Metric]
) -> Callable[[], Outcome]:
    """The loss of the right labels, and how often they are the most probable ones."""
    if unknown := sorted({*labels} - {*classifier.labels}):
        raise DataError(
            f"the model does not know {len(unknown)} of the labels: {', '.join(f'`{label}`' for label in unknown[:5])}",
            f"it knows {', '.join(classifier.labels[:20])}",
        )

    def outcome() -> Outcome:
        found = classifier.classify(texts)
        # A probability that single precision takes for 0 must not make the loss infinite.
        probabilities = [max(c.probabilities[label], 1e-45) for c, label in zip(found, labels, strict=True)]
        right = np.array([float(c.label == label) for c, label in zip(found, labels, strict=True)])
        return Outcome(
            -np.log(probabilities) if "loss" in metrics else None,
            np.ones(len(found)) if "loss" in metrics else None,
            right=right if "accuracy" in metrics else None,
        )

    return outcome
