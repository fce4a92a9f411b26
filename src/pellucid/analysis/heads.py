"""`pellucid heads`: what a model loses without each of its heads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from pellucid.analysis.ablation import Ablation, Head, Outcome
from pellucid.analysis.ablation import ablate as ablate_model
from pellucid.analysis.head_texts import Purpose, Texts, given_texts, own_texts
from pellucid.errors import CheckpointError, ConfigError, DataError, argument
from pellucid.evaluation.measure import task_in
from pellucid.model.transformer import EncoderOnly
from pellucid.process import keep_freed_memory
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.saved import open_model
from pellucid.tasks.tracing import trace_text
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizer import Tokenizer
from pellucid.tracing.trace import Trace

Metric = Literal["loss", "bleu", "accuracy"]
METRICS: dict[Purpose, tuple[Metric, ...]] = {
    "translate": ("loss", "bleu"),
    "classify": ("loss", "accuracy"),
    "generate": ("loss",),
    "encode": (),
}
UNITS: dict[Metric, str] = {"loss": "nats a token", "bleu": "of greedy translations", "accuracy": "per cent"}
NAMES: dict[Metric, str] = {"loss": "loss", "bleu": "BLEU", "accuracy": "accuracy"}
LEAST = 2
"""Sentences: of one, no draw differs from another."""


@dataclass(frozen=True)
class BareEncoder:
    """An encoder without a head: it can be traced, and has no task that its heads could be judged by."""

    model: EncoderOnly
    tokenizer: Tokenizer

    def trace(self, text: str) -> Trace:
        """All attentions of the pass over a text."""
        return trace_text(self.model, self.tokenizer, text)


Reader = Translator | Classifier | LanguageModel | BareEncoder


@dataclass(frozen=True)
class Subject:
    """A model opened for its task, and the sentences it is judged by."""

    task: Purpose
    reader: Reader
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
        task, reader = _open(model, device, dtype)
        running = isinstance(reader, LanguageModel) and not reader.reads_lines
        texts = own_texts(model, task) if src is None else given_texts(task, src, tgt, running)
        return cls(task, reader, texts.some(sentences))


def _open(model: str, device: str, dtype: str | None) -> tuple[Purpose, Reader]:
    task = task_in(model)
    if task == "translate":
        return "translate", Translator.load(model, device, dtype)
    if task == "classify":
        return "classify", Classifier.load(model, device, dtype)
    if task == "generate":
        return "generate", LanguageModel.load(model, device, dtype)
    saved = open_model(model, device, dtype)
    if saved.tokenizers is None:
        raise CheckpointError(
            f"the model in `{model}` has no tokenizer, so it cannot read text", "copy its files there"
        )
    assert isinstance(saved.model, EncoderOnly)
    return "encode", BareEncoder(saved.model, saved.tokenizers.source)


def ablate_heads(
    subject: Subject, metric: str | None = None, say: Callable[[Head], object] = lambda head: None
) -> Ablation:
    """What each head is worth by `metric`; None: by all that the task has.

    Raises ConfigError for a metric that the task has not, DataError for labels that the model does not know.
    """
    metrics, reader = METRICS[subject.task], subject.reader
    if isinstance(reader, BareEncoder):
        raise ConfigError(
            "an encoder without a head has no task that its heads could be judged by",
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
    return ablate_model(reader.model, _scorer(reader, subject.texts, sources, targets, metrics), targets, say)


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
    reader: Translator | Classifier | LanguageModel,
    texts: Texts,
    sources: Sequence[str],
    targets: Sequence[str],
    metrics: Sequence[Metric],
) -> Callable[[], Outcome]:
    if isinstance(reader, Translator):
        return _translations(reader, sources, targets, metrics)
    if isinstance(reader, Classifier):
        return _labels(reader, sources, [target.strip() for target in targets], metrics)
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


def ablate(
    model: Translator | Classifier | LanguageModel | str | Path,
    sources: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    *,
    metric: Metric | None = None,
    sentences: int = 200,
    device: str = "auto",
    dtype: str | None = None,
    say: Callable[[Head], object] = lambda head: None,
) -> Ablation:
    """Measures what a model loses without each of its heads, switched off in turn, on the same sentences.

        found = pellucid.ablate("run", sources, targets)
        worst = found.ranked("loss")[0]
        found.changes[worst]["loss"].change                                 # nats a token, with its .interval

    Args:
        model: a Translator, Classifier or LanguageModel, or the folder of one.
        sources: the sentences; None: those that the run in the folder was tested on, else validated on.
        targets: their translations or labels; a language model needs none.
        metric: loss, bleu (of a translator) or accuracy (of a classifier); None: both that the task has.
        sentences: how many of them are taken, spread evenly over all.
        device, dtype: where a folder is opened, and in what numbers; they mean nothing to a model that is open.
        say: is told of each head before it is switched off.

    Raises ConfigError for texts that are missing or not wanted, and a metric that the task has not; DataError for
    labels that the model does not know; CheckpointError for a folder that holds no model.
    """
    if sentences < LEAST:
        raise ConfigError(
            f"{argument('sentences', sentences)} must be at least {LEAST}", "intervals are drawn from hundreds of them"
        )
    if sources is None and targets is not None:
        raise ConfigError("`targets=` are given without their texts", "give them as `sources=`")
    if isinstance(model, str | Path):
        task, reader = _open(str(model), device, dtype)
    else:
        task, reader = _task_of(model), model
    if sources is not None:
        running = isinstance(reader, LanguageModel) and not reader.reads_lines
        texts = replace(_texts_of(task, sources, targets), running=running)
    elif isinstance(model, str | Path):
        texts = own_texts(model, task)
    else:
        raise ConfigError("there is no text: only a run's folder knows its own", "give `sources=`")
    return ablate_heads(Subject(task, reader, texts.some(sentences)), metric, say)


def _task_of(reader: Translator | Classifier | LanguageModel) -> Purpose:
    if isinstance(reader, Translator):
        return "translate"
    return "classify" if isinstance(reader, Classifier) else "generate"


def _texts_of(task: Purpose, sources: Sequence[str], targets: Sequence[str] | None) -> Texts:
    """Returns texts that are at hand, with their translations or labels; without empty ones.

    Raises ConfigError where targets are missing or not wanted, DataError where they differ in number or none is left.
    """
    if task in ("generate", "encode"):
        if targets is not None:
            raise ConfigError("the model reads the texts of `sources=` alone", "leave `targets=` out")
        targets = sources
    if targets is None:
        what = "translations" if task == "translate" else "labels"
        raise ConfigError(f"the {what} of the texts are not given", "give them as `targets=`")
    if len(sources) != len(targets):
        raise DataError(
            f"`sources=` has {len(sources):,} texts and `targets=` {len(targets):,}",
            "number n of each must belong to the same sentence",
        )
    pairs = [pair for pair in zip(sources, targets, strict=True) if all(side.strip() for side in pair)]
    if not pairs:
        raise DataError("there is no text to score: all that were given are empty", "give texts that are not")
    return Texts(pairs, "the texts that were given")
