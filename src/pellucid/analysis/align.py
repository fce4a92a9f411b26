"""Does the job of `pellucid align`: aligns the words of a parallel text by a translator's cross-attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from pellucid.analysis.aligning_head import Agreement, HeadAgreement, best_head, find_head, score_heads
from pellucid.analysis.alignment import (
    Extraction,
    Gold,
    Level,
    Link,
    Method,
    Row,
    align_trace,
    by_spaces,
    read_gold,
    write_links,
)
from pellucid.data.lines import read_lines
from pellucid.errors import ConfigError, DataError, argument
from pellucid.evaluation.held_out import read_columns
from pellucid.model.parts import Parts
from pellucid.process import keep_freed_memory
from pellucid.tasks.task import check_openable
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.tracing.trace import Trace

LOOKED_AT = 200
"""The pairs that a head is chosen by where there is no gold: with 20 of Multi30k it is the same one."""


@dataclass(frozen=True)
class ParallelLines:
    """Holds source lines, their translations and, where people have aligned them, their alignments."""

    sources: Sequence[str]
    targets: Sequence[str]
    gold: Sequence[Gold] | None = None

    @classmethod
    def read(cls, src: str, tgt: str, gold: str | None, one_based: bool) -> "ParallelLines":
        """Reads the files. Raises DataError where one cannot be read, holds no alignments, or differs in length."""
        columns = read_columns([src, tgt])
        aligned = None if gold is None else list(read_gold(read_lines(gold), one_based))
        if aligned is not None and len(aligned) != len(columns[src]):
            raise DataError(
                f"`{gold}` has {len(aligned):,} lines, but `{src}` and `{tgt}` have {len(columns[src]):,}",
                "line n of each file must belong to the same sentence",
            )
        return cls(columns[src], columns[tgt], aligned)

    def check_gold(self) -> None:
        """Raises DataError, with the line, where a gold link names a word that the line does not have."""
        for number, links in enumerate(self.gold or (), start=1):
            source, target = (len(side[number - 1].split()) for side in (self.sources, self.targets))
            for i, j in sorted(links.possible):
                if source and target and (i >= source or j >= target):
                    raise DataError(
                        f"line {number} of the alignments links word {i} to word {j}, counted from 0, but the lines "
                        f"have {source} and {target} words",
                        "align the very lines that were aligned by hand; `gold_from_one=True` if they count from 1",
                    )

    def traces(self, translator: Translator, extraction: Extraction) -> Iterator[Trace | None]:
        """Traces each pair, with the words of its lines; yields None where a side is empty."""
        for source, target in zip(self.sources, self.targets, strict=True):
            if not source.strip() or not target.strip():
                yield None
                continue
            trace = translator.trace(source, target)
            yield trace if extraction.level == "tokens" else with_line_words(trace, source, target)


def with_line_words(trace: Trace, source: str, target: str) -> Trace:
    """Returns the trace with the words of its lines, as alignments count them."""
    src, out = by_spaces(trace.sequences["src"], source), by_spaces(trace.sequences["out"], target)
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
    """Opens the translator of a folder. Raises CheckpointError where it holds none."""
    keep_freed_memory()
    return Translator.load(model, device, dtype, *languages, revision=revision, parts=parts, tokenizer=tokenizer)


def align_lines(
    translator: Translator, lines: ParallelLines, layer: int | None, head: int | None, extraction: Extraction
) -> Iterator[frozenset[Link]]:
    """Yields the links of each pair, none where a side is empty. Raises DataError for an unknown head."""
    for trace in lines.traces(translator, extraction):
        yield frozenset() if trace is None else align_trace(trace, layer, head, extraction)


@dataclass(frozen=True, slots=True)
class ChosenHead:
    """Names the head that aligns, and says how it was found."""

    layer: int
    head: int
    row: Row
    reason: str


def choose_head(
    translator: Translator, lines: ParallelLines, extraction: Extraction, rows: Sequence[Row]
) -> ChosenHead:
    """Chooses the head, and one of `rows`, that agrees best with gold; without it, with itself from the other side."""
    if lines.gold is not None:
        best = best_head(score_lines(translator, lines, extraction, rows))
        assert best.layer is not None
        assert best.head is not None
        return ChosenHead(best.layer, best.head, best.row, f"{best.name}, which agrees best with the gold alignments")
    some = replace(lines, sources=lines.sources[:LOOKED_AT], targets=lines.targets[:LOOKED_AT])
    traces = (trace for trace in some.traces(translator, extraction) if trace is not None)
    found = find_head(traces, extraction, rows)
    reason = f"{found.name}: {found.share:.0%} of its links are the same from source to target".replace("%", " %")
    return ChosenHead(found.layer, found.head, found.row, reason)


def score_lines(
    translator: Translator, lines: ParallelLines, extraction: Extraction, rows: Sequence[Row]
) -> list[HeadAgreement]:
    """Scores how well the links of each head agree with the gold ones, by each of `rows`."""
    assert lines.gold is not None, "there is something to agree with"
    sides = zip(lines.sources, lines.targets, lines.gold, strict=True)
    gold = [links for source, target, links in sides if source.strip() and target.strip()]
    found: list[HeadAgreement] = []
    for row in rows:  # traces are large: each is made again rather than kept
        traces = (trace for trace in lines.traces(translator, extraction) if trace is not None)
        found += score_heads(traces, gold, replace(extraction, row=row))
    return found


def report(rows: Sequence[HeadAgreement]) -> str:
    """Returns a table for the screen, the lowest error rate first, with the best single head named below it."""
    lines = [f"{'by':<48}{'AER':>8}{'F1':>8}{'precision':>11}{'recall':>8}{'links':>9}"]
    for row in sorted(rows, key=lambda row: row.agreement.aer):
        found = row.agreement
        rates = f"{found.aer:>8.3f}{found.f1:>8.3f}{found.precision:>11.3f}{found.recall:>8.3f}"
        lines.append(f"{row.name:<48}{rates}{found.links:>9,}")
    best = best_head(rows)
    return "\n".join([*lines, f"best head: {best.name}"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Alignments:
    """Holds the word alignments of a parallel text, and the head that they were read off."""

    links: list[frozenset[Link]]
    """For each pair of lines the numbers of a source word and of a target word, from 0; none where a line is empty."""
    layer: int | None
    """The decoder layer, from 0."""
    head: int | None
    """Its head, from 0; None: the mean of its heads."""
    row: Row
    """The step whose weights a target word was given: the one that writes it, or the one that reads it."""
    reason: str
    """The reason for this head, in words; empty where it was given."""
    agreement: Agreement | None = None
    """The agreement with the links that people have made; None where there are none."""

    def __str__(self) -> str:
        """Returns a line a pair, as the common tools write them: `0-0 1-2`."""
        return "\n".join(map(write_links, self.links))


def align(
    translator: Translator | str | Path,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    layer: int | None = None,
    head: int | None = None,
    gold: Sequence[str] | None = None,
    gold_from_one: bool = False,
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
    """Returns the word alignment of each pair of lines, as a head of the translator's cross-attention shows it.

        found = pellucid.align("run", ["Ein Hund läuft."], ["A dog runs."])
        found.links[0]                                                      # frozenset({(0, 0), (1, 1), (2, 2)})

    Args:
        translator: a Translator, or the folder of one.
        sources, targets: lines and their translations; words are what stands between spaces.
        layer: the decoder layer, from 0. None: that of the head that agrees best with `gold`; without gold, of the head
            most of whose links are the same from source to target.
        head: its head; None: the mean of the layer's, or the head that is found.
        gold: for each pair what people have aligned, `0-0 1-2 2?3`, with `?` where they were not sure.
        gold_from_one: True where the words of `gold` are counted from 1.
        method: argmax, mutual or threshold, as Extraction says.
        threshold: of the method of that name, the least weight of a link, 0 to 1; None: 0.2.
        row: the weights of the step that "writes" a target word, or of the one that "reads" it; None: both are tried.
        level: words, or the tokens of the model's own.
        device, dtype: where a folder is opened, and in what numbers; they mean nothing to a Translator.
        revision, parts, tokenizer: how a folder's model is opened, as `Translator.load` takes them.

    Raises ConfigError for options that do not go together, or that mean nothing to a Translator, which is open;
    DataError for lines or gold that differ in number, and for a layer or head that the model does not have;
    CheckpointError for a folder that holds no translator.
    """
    if head is not None and layer is None:
        raise ConfigError(f"{argument('head', head)} is given without its layer", "give `layer=`, too")
    extraction = extraction_of(method, threshold, row, level)
    aligned = None if gold is None else list(read_gold(gold, gold_from_one))
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
        layer, head, extraction, reason = chosen.layer, chosen.head, replace(extraction, row=chosen.row), chosen.reason
    links = list(align_lines(opened, lines, layer, head, extraction))
    agreement = None
    if lines.gold is not None:
        agreement = sum(map(Agreement.of, links, lines.gold), Agreement())
    return Alignments(links=links, layer=layer, head=head, row=extraction.row, reason=reason, agreement=agreement)


def extraction_of(method: Method, threshold: float | None, row: Row | None, level: Level) -> Extraction:
    """Returns how links are read off weights. Raises ConfigError for a threshold that the method has no use for."""
    if threshold is not None and method != "threshold":
        raise ConfigError(
            f"{argument('threshold', threshold)} means nothing to {argument('method', method)}",
            f"give {argument('method', 'threshold')}, too",
        )
    how = Extraction(method=method, row=row or "writes", level=level)
    return how if threshold is None else replace(how, threshold=threshold)
