"""Implements `pellucid heads`: statistics of each head, and the loss of a model without it.

A `HeadStudy` is a model opened for its task with the sentences for evaluation, the argument of `head_statistics` and
`ablate_heads`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np

from pellucid.analysis.ablation import Ablation, Head, ModelOutputs
from pellucid.analysis.ablation import ablate as ablate_model
from pellucid.analysis.statistics import HeadTable, mean_statistics
from pellucid.config import RECIPE, DataConfig, Recipe, Task
from pellucid.config.tasks import TrainedTask
from pellucid.data.lines import read_lines
from pellucid.data.parallel import ParallelText, get_held_out_text, holds_both_sides
from pellucid.data.prepare import open_corpus
from pellucid.decoding.scoring import score_outputs
from pellucid.errors import ConfigError, DataError, format_argument
from pellucid.evaluation.held_out import read_columns
from pellucid.model.parts import Parts
from pellucid.process import keep_freed_memory
from pellucid.tasks.classifier import Classifier
from pellucid.tasks.encoder import BEGIN_WITH_IT
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.languages import set_languages
from pellucid.tasks.search_options import SearchOptions
from pellucid.tasks.task import TextModel, check_openable, detect_task, open_task, resolve_model
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.tracing.trace import Trace

Metric = Literal["loss", "bleu", "accuracy"]
UNITS: dict[Metric, str] = {"loss": "nats per token", "bleu": "of greedy translations", "accuracy": "per cent"}
NAMES: dict[Metric, str] = {"loss": "loss", "bleu": "BLEU", "accuracy": "accuracy"}
LEAST = 2
"""The least number of sentences: a bootstrap over a single sentence has no variance."""
PASSAGE = 400
"""The least number of characters, in whole lines, of the passages that continuous text is split into."""


@dataclass(frozen=True, slots=True)
class EvaluationTexts:
    """Holds sentences with their translations or labels; each text twice for a language model."""

    pairs: list[tuple[str, str]]
    origin: str
    """The origin of the texts, for messages."""
    running: bool = False
    """True if the texts are passages of continuous text."""
    tagged: bool = False
    """True if each source begins with a language tag."""

    def some(self, count: int) -> "EvaluationTexts":
        """Returns at most `count` texts, spread evenly over all."""
        places = np.linspace(0, len(self.pairs) - 1, min(count, len(self.pairs))).round().astype(int)
        return EvaluationTexts([self.pairs[place] for place in places], self.origin, self.running, self.tagged)


@dataclass(frozen=True)
class HeadStudy:
    """Holds a model opened for its task, and the sentences for evaluation."""

    task: Task
    reader: TextModel[Any]
    texts: EvaluationTexts

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
    ) -> "HeadStudy":
        """Opens the model with at most `sentences` sentences of two files, or of the text that the run was tested on.

        `languages` are the codes of source and target, for a multilingual model.

        Raises ConfigError for missing or superfluous texts, CheckpointError for a folder without a model.
        """
        if sentences < LEAST:
            raise ConfigError(
                f"`sentences={sentences}` must be at least {LEAST}",
                "confidence intervals require hundreds of sentences",
            )
        if src is None and tgt is not None:
            raise ConfigError(f"`targets={tgt}` is given without `sources=`", "pass the texts as `sources=`")
        keep_freed_memory()
        # The settings of a Hugging Face encoder do not show if it has a head: it is evaluated without labels.
        task, reader = detect_task(model), open_task(model, device, dtype)
        running = isinstance(reader, LanguageModel) and not reader.reads_lines
        texts = read_run_texts(model, task) if src is None else read_evaluation_texts(task, src, tgt, running)
        if isinstance(reader, Translator):
            spoken = reader.config, reader.tokenizers, reader.languages, *languages
            reader.decode = set_languages(reader.decode, *spoken, reader.pairs)
            if texts.tagged:
                if languages != (None, None):
                    named = "` and `".join(filter(None, languages))
                    raise ConfigError(
                        f"languages are given (`{named}`), but {texts.origin} has the languages of each sentence",
                        "leave them out, or pass texts as `sources=` and `targets=`",
                    )
                reader = Translator(reader.model, reader.tokenizers, replace(reader.decode, source_prefix=()))
        return cls(task, reader, texts.some(sentences))


def read_evaluation_texts(task: Task, src: str, tgt: str | None, running: bool = False) -> EvaluationTexts:
    """Reads the texts of `src` with the translations or labels of `tgt`, or both from the columns of `src`.

    Raises ConfigError if one of them is missing or superfluous, DataError for files that cannot be read, are empty or
    differ in length.
    """
    if not task.targets:
        if tgt is not None:
            raise ConfigError(f"the model uses `sources=` alone, not `targets={tgt}`", "leave it out")
        return _drop_empty(_pair_with_itself(read_lines(src), running), f"`{src}`", running)
    if tgt is not None:
        columns = read_columns([src, tgt])
        return _drop_empty(zip(columns[src], columns[tgt], strict=True), f"`{src}`")
    if holds_both_sides(src):
        data = DataConfig()
        return _drop_empty(_iterate_pairs(ParallelText(src, "", data.tsv_columns, data.jsonl_keys)), f"`{src}`")
    raise ConfigError(f"the {task.targets} of `{src}` are not given", "give them as `targets=`")


def read_run_texts(model: str | Path, task: Task, revision: str | None = None) -> EvaluationTexts:
    """Reads the texts that the run in a folder was tested on; without a test set, the validation texts.

    Raises ConfigError if the folder is not a run folder, or its texts no longer exist.
    """
    hint = "give texts as `sources=`" + (" and `targets=`" if task.targets else "")
    if not task.trained_on:
        raise ConfigError(f"`{model}` has no texts", hint)
    try:
        data = Recipe.load(resolve_model(model, revision) / RECIPE).data
    except ConfigError as error:
        raise ConfigError(f"`{model}` is not a run with texts", hint) from error
    if not data.files("src"):
        raise ConfigError(f"the texts of the run `{model}` were passed in memory", hint)
    if missing := [path for path in (*data.files("src"), *data.files("tgt")) if not Path(path).exists()]:
        raise ConfigError(f"the texts of the run `{model}` are missing: no `{missing[0]}`", hint)
    running = not task.targets and data.text == "continuous"
    test = get_held_out_text(data, "test", alone=not task.targets)
    if test is not None and Path(test.src).is_file():
        pairs = (
            _pair_with_itself((text for text, _ in _iterate_pairs(test)), running)
            if not task.targets
            else _iterate_pairs(test)
        )
        return _drop_empty(pairs, f"the run's test set, `{test.src}`", running)
    valid = open_corpus(data, cast(TrainedTask, task.name)).valid
    if running:
        valid = _pair_with_itself((line for chunk, _ in valid for line in chunk.splitlines()), running)
    return replace(_drop_empty(valid, "the run's validation set", running), tagged=bool(data.tgt_lang))


def _iterate_pairs(text: ParallelText) -> Iterator[tuple[str, str]]:
    return ((source or "", target or "") for source, target in text.pairs("replace"))


def _pair_with_itself(lines: Iterable[str], running: bool) -> Iterator[tuple[str, str]]:
    """Yields each text as its own target: lines, or passages of continuous text."""
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


def _drop_empty(pairs: Iterable[tuple[str, str]], origin: str, running: bool = False) -> EvaluationTexts:
    """Removes empty texts. Raises DataError if none is left."""
    found = [(source, target) for source, target in pairs if source.strip() and target.strip()]
    if not found:
        raise DataError(f"there is no text in {origin}", "give texts as `sources=`")
    return EvaluationTexts(found, origin, running)


def head_statistics(subject: HeadStudy) -> tuple[HeadTable, int]:
    """Computes the statistics of all heads over the sentences, with the references for a translator.

    Returns the statistics, and the number of sentences skipped because they are longer than the model allows. Raises
    DataError if all of them are skipped.
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
    """Traces a sentence, with its translation for a translator; a passage is cut to the model's maximum length."""
    if isinstance(reader, Translator):
        return reader.trace(source, target)
    if not isinstance(reader, LanguageModel):
        return reader.trace(source)
    room = reader.model.config.max_positions - len(reader.decode.source_prefix)
    ids = reader.tokenizer.encode(source)
    return reader.trace(source if reader.reads_lines or len(ids) <= room else reader.tokenizer.decode(ids[:room]))


def ablate_heads(
    subject: HeadStudy, metric: str | None = None, log_line: Callable[[Head], object] = lambda head: None
) -> Ablation:
    """Measures the effect of each head on `metric`; None: on all metrics of the task.

    Raises ConfigError for a metric that the task does not have, DataError for labels that the model does not have.
    """
    metrics, reader = cast(tuple[Metric, ...], subject.task.metrics), subject.reader
    if not metrics:
        raise ConfigError(
            f"{subject.task.noun} has no task to evaluate its heads with",
            BEGIN_WITH_IT,
        )
    if metric is not None:
        if metric not in metrics:
            raise ConfigError(
                f"`metric={metric}` cannot be measured for this model",
                f"choose one of {', '.join(metrics)}",
            )
        metrics = tuple(name for name in get_args(Metric) if name == metric)
    sources, targets = (list(side) for side in zip(*subject.texts.pairs, strict=True))
    return ablate_model(reader.model, _scorer(reader, subject.texts, sources, targets, metrics), targets, log_line)


def report(found: Ablation, texts: EvaluationTexts) -> str:
    """Returns a table for the terminal, most important heads first."""
    metrics: list[Metric] = [name for name in get_args(Metric) if name in found.baseline]
    head = "".join(f"{NAMES[m]:>10}{'change':>10}  {'95 % interval':<20}" for m in metrics)
    whole = "".join(f"{_number(m, found.baseline[m]):>10}{'':>32}" for m in metrics)
    rows = [f"{place!s:<30}{_cells(found, place, metrics)}" for place in found.rank_heads(metrics[0])]
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
    texts: EvaluationTexts,
    sources: Sequence[str],
    targets: Sequence[str],
    metrics: Sequence[Metric],
) -> Callable[[], ModelOutputs]:
    if isinstance(reader, Translator):
        return _translations(reader, sources, targets, metrics)
    if isinstance(reader, Classifier):
        return _labels(reader, sources, [target.strip() for target in targets], metrics)
    assert isinstance(reader, LanguageModel), "no other task has metrics"
    as_lines = not texts.running

    def outcome() -> ModelOutputs:
        scores = reader.token_scores(sources, as_lines=as_lines)
        return ModelOutputs(-np.array([sum(values) for values in scores]), np.array([float(len(v)) for v in scores]))

    return outcome


def _translations(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], metrics: Sequence[Metric]
) -> Callable[[], ModelOutputs]:
    """Returns the function that computes the loss of the references, and greedy translations."""
    decode = translator.configure(SearchOptions())
    src, tgt = translator.segmenter.encode_pairs(sources, targets)
    if "loss" in metrics:
        translator.segmenter.check_lengths(src, tgt, decode)
    tokens = np.array([len(ids) + 1.0 for ids in tgt])

    def outcome() -> ModelOutputs:
        # By the modules, which observers see: a compiled engine scores the whole model in other last digits.
        losses = -np.array(score_outputs(translator.model, src, tgt, decode)) if "loss" in metrics else None
        found = translator.translate(sources, beam_size=1, n_best=1) if "bleu" in metrics else None
        return ModelOutputs(losses, tokens, None if found is None else [translation.text for translation in found])

    return outcome


def _labels(
    classifier: Classifier, texts: Sequence[str], labels: Sequence[str], metrics: Sequence[Metric]
) -> Callable[[], ModelOutputs]:
    """Returns the function that computes the loss of the right labels, and which predictions are right."""
    if unknown := sorted({*labels} - {*classifier.labels}):
        raise DataError(
            f"{len(unknown)} labels are unknown to the model: {', '.join(f'`{label}`' for label in unknown[:5])}",
            f"its labels: {', '.join(classifier.labels[:20])}",
        )

    def outcome() -> ModelOutputs:
        found = classifier.classify(texts)
        # A probability that underflows to 0 must not make the loss infinite.
        probabilities = [max(c.probabilities[label], 1e-45) for c, label in zip(found, labels, strict=True)]
        right = np.array([float(c.label == label) for c, label in zip(found, labels, strict=True)])
        return ModelOutputs(
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
    log_line: Callable[[Head], object] = lambda head: None,
) -> Ablation:
    """Measures the loss of a model without each of its heads, disabled in turn, on the same sentences.

        found = pellucid.ablate("run", sources, targets)
        worst = found.rank_heads("loss")[0]
        found.changes[worst]["loss"].change                                 # nats per token, with its .interval

    Args:
        model: a Translator, Classifier or LanguageModel, or the folder of one.
        sources: the sentences; None: the test texts of the run in the folder, or else its validation texts.
        targets: the translations or labels of the sentences; not for a language model.
        metric: loss, bleu (for a translator) or accuracy (for a classifier); None: all metrics of the task.
        sentences: the number of sentences to use, spread evenly over all.
        device, dtype: of the model that is loaded from a folder; not allowed with an open model.
        revision, parts, tokenizer: arguments of `load` for a folder.
        log_line: called with a message about each head before it is disabled.

    Raises ConfigError for missing or superfluous texts, a metric that the task does not have, and options for a folder
    if a model is given; DataError for labels that the model does not have; CheckpointError for a folder without a
    model.
    """
    if sentences < LEAST:
        raise ConfigError(
            f"{format_argument('sentences', sentences)} must be at least {LEAST}",
            "confidence intervals require hundreds of sentences",
        )
    if sources is None and targets is not None:
        raise ConfigError("`targets=` are given without `sources=`", "pass the texts as `sources=`")
    if isinstance(model, str | Path):
        task = detect_task(model, revision)
        reader = open_task(model, device, dtype, revision=revision, parts=parts, tokenizer=tokenizer)
    else:
        check_openable(model, revision=revision, parts=parts, tokenizer=tokenizer)
        task, reader = model.task, model
    if sources is not None:
        running = isinstance(reader, LanguageModel) and not reader.reads_lines
        texts = replace(_make_texts(task, sources, targets), running=running)
    elif isinstance(model, str | Path):
        texts = read_run_texts(model, task, revision)
    else:
        raise ConfigError("no text is given, and only a run folder has texts", "give `sources=`")
    return ablate_heads(HeadStudy(task, reader, texts.some(sentences)), metric, log_line)


def _make_texts(task: Task, sources: Sequence[str], targets: Sequence[str] | None) -> EvaluationTexts:
    """Returns texts in memory with their translations or labels, without empty ones.

    Raises ConfigError if targets are missing or superfluous, DataError if they differ in number or none is left.
    """
    if not task.targets:
        if targets is not None:
            raise ConfigError("the model uses the texts of `sources=` alone", "leave `targets=` out")
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
        raise DataError("no text to score: all given texts are empty", "pass texts that are not empty")
    return EvaluationTexts(pairs, "the given texts")
