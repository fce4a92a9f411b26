"""Does the job of `pellucid heads`: what kind of head each one is, and what a model loses without it.

A `Subject` is a model opened for its task with the sentences that it is judged by; `head_statistics` and `ablate_heads`
take it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np

from pellucid.analysis.ablation import Ablation, Head, Outcome
from pellucid.analysis.ablation import ablate as ablate_model
from pellucid.analysis.statistics import HeadTable, mean_statistics
from pellucid.config import DataConfig, Task
from pellucid.config.tasks import TrainedTask
from pellucid.data.lines import read_lines
from pellucid.data.parallel import ParallelText, held_out_text, holds_both_sides
from pellucid.data.prepare import open_corpus
from pellucid.errors import ConfigError, DataError, argument
from pellucid.evaluation.held_out import read_columns
from pellucid.model.parts import Parts
from pellucid.process import keep_freed_memory
from pellucid.run.folder import stored_recipe
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.encoder import BEGIN_WITH_IT
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.languages import speaking
from pellucid.tasks.task import TextModel, check_openable, model_folder, open_task, task_in
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.tracing.trace import Trace

Metric = Literal["loss", "bleu", "accuracy"]
UNITS: dict[Metric, str] = {"loss": "nats a token", "bleu": "of greedy translations", "accuracy": "per cent"}
NAMES: dict[Metric, str] = {"loss": "loss", "bleu": "BLEU", "accuracy": "accuracy"}
LEAST = 2
"""The least number of sentences: of one, no draw differs from another."""
PASSAGE = 400
"""The least number of characters, in whole lines, of the passages that a running text is cut into."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Holds sentences with their translations or labels; of a language model each text twice."""

    pairs: list[tuple[str, str]]
    origin: str
    """The place that they are from, in words."""
    running: bool = False
    """True where they are passages of one running text."""
    tagged: bool = False
    """True where the tag of a language stands before each source."""

    def some(self, count: int) -> "Texts":
        """Returns at most `count` of them, spread evenly over all."""
        places = np.linspace(0, len(self.pairs) - 1, min(count, len(self.pairs))).round().astype(int)
        return Texts([self.pairs[place] for place in places], self.origin, self.running, self.tagged)


@dataclass(frozen=True)
class Subject:
    """Holds a model opened for its task, and the sentences that it is judged by."""

    task: Task
    reader: TextModel[Any]
    texts: Texts

    @classmethod
    def open(
        cls,
        model: str,
        src: str | None,
        tgt: str | None,
        sentences: int,
        *,
        device: str,
        dtype: str | None,
        languages: tuple[str | None, str | None] = (None, None),
    ) -> "Subject":
        """Opens the model with at most `sentences` of two files, or of those that the run was tested on.

        `languages` are the codes of source and target, for a multilingual model.

        Raises ConfigError for texts that are missing or not wanted, CheckpointError for a folder that holds no model.
        """
        if sentences < LEAST:
            raise ConfigError(
                f"`sentences={sentences}` must be at least {LEAST}", "intervals are drawn from hundreds of them"
            )
        if src is None and tgt is not None:
            raise ConfigError(f"`targets={tgt}` stands without its texts", "give them as `sources=`")
        keep_freed_memory()
        # Of a foreign encoder the settings do not tell whether it has a head: it is looked at without labels.
        task, reader = task_in(model), open_task(model, device, dtype)
        running = isinstance(reader, LanguageModel) and not reader.reads_lines
        texts = own_texts(model, task) if src is None else given_texts(task, src, tgt, running)
        if isinstance(reader, Translator):
            spoken = reader.config, reader.tokenizers, reader.languages, *languages
            reader.decode = speaking(reader.decode, *spoken, reader.pairs)
            if texts.tagged:
                if languages != (None, None):
                    named = "` and `".join(filter(None, languages))
                    raise ConfigError(
                        f"languages are given (`{named}`), but {texts.origin} names those of each sentence",
                        "leave them out, or give texts as `sources=` and `targets=`",
                    )
                reader = Translator(reader.model, reader.tokenizers, replace(reader.decode, source_prefix=()))
        return cls(task, reader, texts.some(sentences))


def given_texts(task: Task, src: str, tgt: str | None, running: bool = False) -> Texts:
    """Reads the texts of `src` with the translations or labels of `tgt`, or both from the columns of `src`.

    Raises ConfigError where one of them is missing or not wanted, DataError for files that cannot be read, are empty or
    differ in length.
    """
    if not task.targets:
        if tgt is not None:
            raise ConfigError(f"the model reads `sources=` alone, not `targets={tgt}`", "leave it out")
        return _checked(_alone(read_lines(src), running), f"`{src}`", running)
    if tgt is not None:
        columns = read_columns([src, tgt])
        return _checked(zip(columns[src], columns[tgt], strict=True), f"`{src}`")
    if holds_both_sides(src):
        data = DataConfig()
        return _checked(_whole(ParallelText(src, "", data.tsv_columns, data.jsonl_keys)), f"`{src}`")
    raise ConfigError(f"the {task.targets} of `{src}` are not given", "give them as `targets=`")


def own_texts(model: str | Path, task: Task, revision: str | None = None) -> Texts:
    """Reads the texts that the run in a folder was tested on; without a test set, those that it was validated on.

    Raises ConfigError where the folder does not hold a run, or its texts are not there any more.
    """
    hint = "give texts as `sources=`" + (" and `targets=`" if task.targets else "")
    if not task.trained_on:
        raise ConfigError(f"`{model}` has no texts of its own", hint)
    try:
        data = stored_recipe(model_folder(model, revision)).data
    except ConfigError as error:
        raise ConfigError(f"`{model}` is not a run with texts of its own", hint) from error
    if not data.files("src"):
        raise ConfigError(f"the texts of the run `{model}` were handed over by a script", hint)
    if missing := [path for path in (*data.files("src"), *data.files("tgt")) if not Path(path).exists()]:
        raise ConfigError(f"the texts of the run `{model}` are not there: no `{missing[0]}`", hint)
    running = not task.targets and data.text == "running"
    test = held_out_text(data, "test", alone=not task.targets)
    if test is not None and Path(test.src).is_file():
        pairs = _alone((text for text, _ in _whole(test)), running) if not task.targets else _whole(test)
        return _checked(pairs, f"the run's test set, `{test.src}`", running)
    valid = open_corpus(data, cast(TrainedTask, task.name)).valid
    if running:
        valid = _alone((line for chunk, _ in valid for line in chunk.splitlines()), running)
    return replace(_checked(valid, "the run's validation set", running), tagged=bool(data.tgt_lang))


def _whole(text: ParallelText) -> Iterator[tuple[str, str]]:
    return ((source or "", target or "") for source, target in text.pairs("replace"))


def _alone(lines: Iterable[str], running: bool) -> Iterator[tuple[str, str]]:
    """Yields each text as its own target: lines, or passages of a running text."""
    if not running:
        yield from ((line, line) for line in lines)
        return
    passage = ""
    for line in lines:
        passage += f"{line}\n"
        if len(passage) >= PASSAGE:
            yield passage, passage
            passage = ""
    if passage:
        yield passage, passage


def _checked(pairs: Iterable[tuple[str, str]], origin: str, running: bool = False) -> Texts:
    """Leaves empty texts out. Raises DataError where none is left."""
    found = [(source, target) for source, target in pairs if source.strip() and target.strip()]
    if not found:
        raise DataError(f"there is no text in {origin}", "give texts as `sources=`")
    return Texts(found, origin, running)


def head_statistics(subject: Subject) -> tuple[HeadTable, int]:
    """Takes the statistics of all heads over the sentences, of a translator with their references.

    Returns them, and how many sentences are left out since they are longer than the model takes. Raises DataError where
    all of them are.
    """
    pairs = subject.texts.pairs
    refused: list[DataError] = []

    def traces() -> Iterator[Trace]:
        for pair in pairs:
            try:
                yield trace_pair(subject.reader, *pair)
            except DataError as error:
                refused.append(error)
        if len(refused) == len(pairs):
            raise refused[0]

    return mean_statistics(traces()), len(refused)


def trace_pair(reader: TextModel[Any], source: str, target: str) -> Trace:
    """Traces one sentence, of a translator with its translation; of a passage as much as the model has room for."""
    if isinstance(reader, Translator):
        return reader.trace(source, target)
    if not isinstance(reader, LanguageModel):
        return reader.trace(source)
    room = reader.model.config.max_positions - len(reader.decode.source_prefix)
    ids = reader.tokenizer.encode(source)
    return reader.trace(source if reader.reads_lines or len(ids) <= room else reader.tokenizer.decode(ids[:room]))


def ablate_heads(
    subject: Subject, metric: str | None = None, say: Callable[[Head], object] = lambda head: None
) -> Ablation:
    """Measures what each head is worth by `metric`; None: by all that the task has.

    Raises ConfigError for a metric that the task has not, DataError for labels that the model does not know.
    """
    metrics, reader = cast(tuple[Metric, ...], subject.task.metrics), subject.reader
    if not metrics:
        raise ConfigError(
            f"{subject.task.noun} has no task that its heads could be judged by",
            BEGIN_WITH_IT,
        )
    if metric is not None:
        if metric not in metrics:
            raise ConfigError(
                f"`metric={metric}` cannot be measured of this model",
                f"choose one of {', '.join(metrics)}",
            )
        metrics = tuple(name for name in get_args(Metric) if name == metric)
    sources, targets = (list(side) for side in zip(*subject.texts.pairs, strict=True))
    return ablate_model(reader.model, _scorer(reader, subject.texts, sources, targets, metrics), targets, say)


def report(found: Ablation, texts: Texts) -> str:
    """Returns a table for the screen, the heads first without which the model is worst."""
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
    """Returns the function that takes the loss of the references, and greedy translations."""
    tokens = np.array([len(ids) + 1.0 for ids in translator.tokenizers.target.encode_lines(list(targets))])

    def outcome() -> Outcome:
        losses = -np.array(translator.score(sources, targets)) if "loss" in metrics else None
        found = translator.translate(sources, beam_size=1, n_best=1) if "bleu" in metrics else None
        return Outcome(losses, tokens, None if found is None else [translation.text for translation in found])

    return outcome


def _labels(
    classifier: Classifier, texts: Sequence[str], labels: Sequence[str], metrics: Sequence[Metric]
) -> Callable[[], Outcome]:
    """Returns the function that takes the loss of the right labels, and how often they are the most probable ones."""
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
    model: TextModel[Any] | str | Path,
    sources: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    *,
    metric: Metric | None = None,
    sentences: int = 200,
    device: str = "auto",
    dtype: str | None = None,
    revision: str | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
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
        revision, parts, tokenizer: how a folder's model is opened, as `load` takes them.
        say: is told of each head before it is switched off.

    Raises ConfigError for texts that are missing or not wanted, a metric that the task does not have, and options for a
    folder where a model is given; DataError for labels that the model does not know; CheckpointError for a folder that
    holds no model.
    """
    if sentences < LEAST:
        raise ConfigError(
            f"{argument('sentences', sentences)} must be at least {LEAST}", "intervals are drawn from hundreds of them"
        )
    if sources is None and targets is not None:
        raise ConfigError("`targets=` are given without their texts", "give them as `sources=`")
    if isinstance(model, str | Path):
        task = task_in(model, revision)
        reader = open_task(model, device, dtype, revision=revision, parts=parts, tokenizer=tokenizer)
    else:
        check_openable(model, revision=revision, parts=parts, tokenizer=tokenizer)
        task, reader = model.task, model
    if sources is not None:
        running = isinstance(reader, LanguageModel) and not reader.reads_lines
        texts = replace(_texts_of(task, sources, targets), running=running)
    elif isinstance(model, str | Path):
        texts = own_texts(model, task, revision)
    else:
        raise ConfigError("there is no text: only a run's folder knows its own", "give `sources=`")
    return ablate_heads(Subject(task, reader, texts.some(sentences)), metric, say)


def _texts_of(task: Task, sources: Sequence[str], targets: Sequence[str] | None) -> Texts:
    """Returns texts that are at hand, with their translations or labels; without empty ones.

    Raises ConfigError where targets are missing or not wanted, DataError where they differ in number or none is left.
    """
    if not task.targets:
        if targets is not None:
            raise ConfigError("the model reads the texts of `sources=` alone", "leave `targets=` out")
        targets = sources
    if targets is None:
        raise ConfigError(f"the {task.targets} of the texts are not given", "give them as `targets=`")
    if len(sources) != len(targets):
        raise DataError(
            f"`sources=` has {len(sources):,} texts and `targets=` {len(targets):,}",
            "number n of each must belong to the same sentence",
        )
    pairs = [pair for pair in zip(sources, targets, strict=True) if all(side.strip() for side in pair)]
    if not pairs:
        raise DataError("there is no text to score: all that were given are empty", "give texts that are not")
    return Texts(pairs, "the texts that were given")
