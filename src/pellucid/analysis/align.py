"""Implements `pellucid align`: aligns the words of a parallel text by a translator's cross-attention."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import get_args

from pellucid.analysis.aligning_head import Agreement, HeadAgreement, best_head, find_head, head_name, score_heads
from pellucid.analysis.alignment import (
    Gold,
    Level,
    Link,
    LinkExtraction,
    Method,
    align_trace,
    assign_words,
    read_gold,
    words_of_line,
    write_links,
)
from pellucid.data.lines import read_lines
from pellucid.errors import ConfigError, DataError, format_argument
from pellucid.evaluation.held_out import read_columns
from pellucid.model.parts import Parts
from pellucid.process import keep_freed_memory
from pellucid.tasks.task import check_openable
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.tracing.trace import Trace
from pellucid.weights.aligning_head import Row

LOOKED_AT = 200
"""The number of pairs to select a head on without gold: on Multi30k 20 pairs select the same head."""
MOST_NAMED = 10
"""The number of pairs that cannot be aligned that have separate warnings; the rest are only counted."""
NOTHING = "no pair of lines can be aligned"


@dataclass(frozen=True)
class ParallelLines:
    """Holds source lines, their translations and, if given, gold alignments."""

    sources: Sequence[str]
    targets: Sequence[str]
    gold: Sequence[Gold] | None = None

    @classmethod
    def read(cls, src: str, tgt: str, gold: str | None, one_based: bool) -> "ParallelLines":
        """Reads the files. Raises DataError if one cannot be read, has no alignments, or differs in length."""
        columns = read_columns([src, tgt])
        aligned = None if gold is None else list(read_gold(read_lines(gold), one_based))
        if aligned is not None and len(aligned) != len(columns[src]):
            raise DataError(
                f"`{gold}` has {len(aligned):,} lines, but `{src}` and `{tgt}` have {len(columns[src]):,}",
                "line n of each file must belong to the same sentence",
            )
        return cls(columns[src], columns[tgt], aligned)

    def check_gold(self) -> None:
        """Raises DataError, with the line, if a gold link refers to a word that the line does not have."""
        for number, links in enumerate(self.gold or (), start=1):
            source, target = (len(words_of_line(side[number - 1])) for side in (self.sources, self.targets))
            for i, j in sorted(links.possible):
                if source and target and (i >= source or j >= target):
                    raise DataError(
                        f"line {number} of the alignments links word {i} to word {j}, counted from 0, but the lines "
                        f"have {source} and {target} words",
                        "align the same lines as the gold alignments; set `gold_one_based=True` if they count from 1",
                    )

    def traces(
        self, translator: Translator, extraction: LinkExtraction, tell: Callable[[int, DataError], None] | None = None
    ) -> Iterator[Trace | None]:
        """Traces each pair, with the words of its lines; yields None if a side is empty, or the pair cannot be aligned.

        Args:
            tell: called with the number of a pair, from 1, and the reason why it cannot be aligned.
        """
        for number, (source, target) in enumerate(zip(self.sources, self.targets, strict=True), start=1):
            if not words_of_line(source) or not words_of_line(target):
                yield None
                continue
            try:
                trace = translator.trace(source, target)
                if extraction.level == "words":
                    trace = use_line_words(trace, source, target)
            except DataError as error:
                if tell is not None:
                    tell(number, error)
                yield None
                continue
            yield trace


def use_line_words(trace: Trace, source: str, target: str) -> Trace:
    """Returns the trace with the words of its lines, as alignments count them."""
    src, out = assign_words(trace.sequences["src"], source), assign_words(trace.sequences["out"], target)
    return replace(trace, sequences={**trace.sequences, "src": src, "out": out})


def open_translator(
    model: str | Path,
    device: str,
    dtype: str | None,
    revision: str | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> Translator:
    """Opens the translator in a folder. Raises CheckpointError if the folder has none."""
    keep_freed_memory()
    return Translator.load(model, device, dtype, *languages, revision=revision, parts=parts, tokenizer=tokenizer)


def align_lines(
    translator: Translator, lines: ParallelLines, layer: int | None, head: int | None, extraction: LinkExtraction
) -> Iterator[frozenset[Link]]:
    """Yields the links of each pair; none, with a warning, if a side is empty or a pair cannot be aligned.

    Raises DataError for an unknown head.
    """
    untold = 0

    def tell(number: int, error: DataError) -> None:
        nonlocal untold
        untold += 1
        if untold <= MOST_NAMED:
            warnings.warn(f"line {number:,} is not aligned: {error.args[0]}", stacklevel=3)

    for trace in lines.traces(translator, extraction, tell):
        yield frozenset() if trace is None else align_trace(trace, layer, head, extraction)
    if untold > MOST_NAMED:
        warnings.warn(f"{untold:,} of {len(lines.sources):,} lines are not aligned", stacklevel=2)


@dataclass(frozen=True, slots=True)
class ChosenHead:
    """Names the alignment head, and how it was selected."""

    layer: int
    head: int
    row: Row
    reason: str


def choose_head(
    translator: Translator, lines: ParallelLines, extraction: LinkExtraction, rows: Sequence[Row]
) -> ChosenHead | None:
    """Selects the head, and one of `rows`, that agrees best with gold.

    Without gold, it is the head that the translator's folder names, which was selected on validation text; if the
    folder names none, the head that agrees best with its reverse alignment on these lines. Returns None if no pair can
    be aligned.
    """
    if lines.gold is not None:
        scored = score_lines(translator, lines, extraction, rows)
        if not scored:
            return None
        best = best_head(scored)
        assert best.layer is not None
        assert best.head is not None
        return ChosenHead(best.layer, best.head, best.row, f"{best.name}, which agrees best with the gold alignments")
    traces = (trace for trace in lines.traces(translator, extraction) if trace is not None)
    first = next(traces, None)
    if first is None:
        return None
    kept = translator.aligning_head
    if kept is not None and kept.row in rows:
        name = head_name(kept.layer, kept.head, kept.row)
        told = f"{name}, stored in its folder: in {kept.sentences:,} validation sentences {_share(kept.share)}"
        return ChosenHead(kept.layer, kept.head, kept.row, told)
    found = find_head(chain([first], islice(traces, LOOKED_AT - 1)), extraction, rows)
    return ChosenHead(found.layer, found.head, found.row, f"{found.name}: {_share(found.share)}")


def _share(share: float) -> str:
    """Returns the share of mutual links of a head as text."""
    return f"{share:.0%} of its links are the same from source to target".replace("%", " %")


def score_lines(
    translator: Translator, lines: ParallelLines, extraction: LinkExtraction, rows: Sequence[Row]
) -> list[HeadAgreement]:
    """Scores the agreement of each head's links with the gold links, for each of `rows`."""
    assert lines.gold is not None, "there are alignments to agree with"
    found: list[HeadAgreement] = []
    for row in rows:  # traces are large: each is recorded again rather than kept
        gold: list[Gold] = []
        found += score_heads(_collect_gold(translator, lines, extraction, gold), gold, replace(extraction, row=row))
    return found


def _collect_gold(
    translator: Translator, lines: ParallelLines, extraction: LinkExtraction, gold: list[Gold]
) -> Iterator[Trace]:
    """Yields the traces that are not None, and appends the gold alignment of each to `gold` before."""
    for trace, links in zip(lines.traces(translator, extraction), lines.gold or (), strict=True):
        if trace is not None:
            gold.append(links)
            yield trace


def report(rows: Sequence[HeadAgreement]) -> str:
    """Returns a table for the terminal, lowest error rate first, followed by the best single head."""
    lines = [f"{'by':<48}{'AER':>8}{'F1':>8}{'precision':>11}{'recall':>8}{'links':>9}"]
    for row in sorted(rows, key=lambda row: row.agreement.aer):
        found = row.agreement
        rates = f"{found.aer:>8.3f}{found.f1:>8.3f}{found.precision:>11.3f}{found.recall:>8.3f}"
        lines.append(f"{row.name:<48}{rates}{found.links:>9,}")
    best = best_head(rows)
    return "\n".join([*lines, f"best head: {best.name}"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Alignments:
    """Holds the word alignments of a parallel text, and the head that they were extracted from."""

    links: list[frozenset[Link]]
    """For each pair of lines, pairs of source and target word index, from 0; empty, with a warning, if a line is empty
    or cannot be aligned."""
    layer: int | None
    """The decoder layer, from 0; None: no pair could be aligned."""
    head: int | None
    """The head, from 0; None: the mean of the layer's heads."""
    row: Row
    """The step that a target word's weights are taken from: the one that writes it, or the one that reads it."""
    reason: str
    """The reason for this head as text; empty if the head was given."""
    agreement: Agreement | None = None
    """The agreement with the gold links; None without gold."""

    def __str__(self) -> str:
        """Returns one line per pair in the Pharaoh format: `0-0 1-2`."""
        return "\n".join(map(write_links, self.links))


def align(
    translator: Translator | str | Path,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    layer: int | None = None,
    head: int | None = None,
    gold: Sequence[str] | None = None,
    gold_one_based: bool = False,
    method: Method = "argmax",
    threshold: float | None = None,
    row: Row | None = None,
    level: Level = "words",
    device: str = "auto",
    dtype: str | None = None,
    revision: str | None = None,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
) -> Alignments:
    """Returns the word alignment of each pair of lines, from a head of the translator's cross-attention.

        found = pellucid.align("run", ["Ein Hund läuft."], ["A dog runs."])
        found.links[0]                                                      # frozenset({(0, 0), (1, 1), (2, 2)})

    Args:
        translator: a Translator, or the folder of one.
        sources, targets: lines and their translations; words are separated by spaces in the normalized lines.
        layer: the decoder layer, from 0. None: the layer of the head that agrees best with `gold`; without gold, of
            the head that the model's folder names, or else of the head with the largest share of mutual links.
        head: the head; None: the mean of the layer's heads, or the selected head.
        gold: the manual alignment of each pair, `0-0 1-2 2?3`, with `?` for possible links.
        gold_one_based: True if the words of `gold` are counted from 1.
        method: argmax, mutual or threshold; see LinkExtraction.
        threshold: for the method threshold, the least weight of a link, 0 to 1; None: 0.2.
        row: the weights of the step that "writes" a target word, or that "reads" it; None: both are tried.
        level: words, or the model's tokens.
        device, dtype: of the model that is loaded from a folder; not allowed with a Translator.
        revision, parts, tokenizer: arguments of `Translator.load` for a folder.

    Raises ConfigError for options that exclude each other, and for options for a folder if a Translator is given;
    DataError if lines or gold differ in number, and for a layer or head that the model does not have; CheckpointError
    for a folder without a translator.
    """
    if head is not None and layer is None:
        raise ConfigError(f"{format_argument('head', head)} is given without a layer", "also set `layer=`")
    extraction = make_extraction(method, threshold, row, level)
    aligned = None if gold is None else list(read_gold(gold, gold_one_based))
    for name, count in (("targets", len(targets)), ("gold", len(sources) if aligned is None else len(aligned))):
        if count != len(sources):
            raise DataError(
                f"`sources=` has {len(sources):,} lines and `{name}=` {count:,}",
                "line n of each must belong to the same sentence",
            )
    lines = ParallelLines(sources, targets, aligned)
    if level == "words":
        lines.check_gold()
    check_openable(translator, revision=revision, parts=parts, tokenizer=tokenizer)
    opened = (
        open_translator(translator, device, dtype, revision, parts, tokenizer)
        if isinstance(translator, str | Path)
        else translator
    )
    reason = ""
    if layer is None:
        chosen = choose_head(opened, lines, extraction, [row] if row else get_args(Row))
        if chosen is None:
            reason = NOTHING
        else:
            layer, head, reason = chosen.layer, chosen.head, chosen.reason
            extraction = replace(extraction, row=chosen.row)
    links = list(align_lines(opened, lines, layer, head, extraction))
    agreement = None
    if lines.gold is not None:
        agreement = sum(map(Agreement.from_links, links, lines.gold), Agreement())
    return Alignments(links=links, layer=layer, head=head, row=extraction.row, reason=reason, agreement=agreement)


def make_extraction(method: Method, threshold: float | None, row: Row | None, level: Level) -> LinkExtraction:
    """Returns the extraction of links. Raises ConfigError for a threshold that the method does not use."""
    if threshold is not None and method != "threshold":
        raise ConfigError(
            f"{format_argument('threshold', threshold)} has no effect with {format_argument('method', method)}",
            f"also set {format_argument('method', 'threshold')}",
        )
    how = LinkExtraction(method=method, row=row or "writes", level=level)
    return how if threshold is None else replace(how, threshold=threshold)
