"""`pellucid align`: the word alignments of a parallel text, by a translator's cross-attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from pellucid.analysis.alignment import Extraction, Level, Method, Row
from pellucid.analysis.alignment import align as align_trace
from pellucid.analysis.alignment_scores import Agreement, HeadAgreement, best_head, score_heads
from pellucid.analysis.line_words import by_spaces
from pellucid.analysis.pharaoh import Gold, Link, read_gold, write_links
from pellucid.analysis.self_agreement import find_head
from pellucid.data.corpus import read_lines
from pellucid.errors import ConfigError, DataError, argument
from pellucid.evaluation.evaluate import read_columns
from pellucid.process import keep_freed_memory
from pellucid.tasks.translator import Translator
from pellucid.tracing.trace import Trace

LOOKED_AT = 200
"""Pairs that a head is chosen by where there is no gold: with 20 of Multi30k it is the same one."""


@dataclass(frozen=True)
class ParallelLines:
    """Source lines, their translations and, where people have aligned them, how."""

    sources: Sequence[str]
    targets: Sequence[str]
    gold: Sequence[Gold] | None = None

    @classmethod
    def read(cls, src: str, tgt: str, gold: str | None, one_based: bool) -> "ParallelLines":
        """Raises DataError for files that cannot be read, differ in length, or hold what is no alignment."""
        columns = read_columns([src, tgt])
        aligned = None if gold is None else list(read_gold(read_lines(gold), one_based))
        if aligned is not None and len(aligned) != len(columns[src]):
            raise DataError(
                f"`{gold}` has {len(aligned):,} lines, but `{src}` and `{tgt}` have {len(columns[src]):,}",
                "line n of each file must belong to the same sentence",
            )
        return cls(columns[src], columns[tgt], aligned)

    def check_gold(self) -> None:
        """Raises DataError, with the line, where a gold link is of a word that the line has not."""
        for number, links in enumerate(self.gold or (), start=1):
            source, target = (len(side[number - 1].split()) for side in (self.sources, self.targets))
            for i, j in sorted(links.possible):
                if source and target and (i >= source or j >= target):
                    raise DataError(
                        f"line {number} of the alignments links word {i} to word {j}, counted from 0, but the lines "
                        f"have {source} and {target} words",
                        "align the very lines that were aligned by hand; --gold-from-one if they count from 1",
                    )

    def traces(self, translator: Translator, extraction: Extraction) -> Iterator[Trace | None]:
        """The trace of each pair, its words those of the lines; None where a side is empty."""
        for source, target in zip(self.sources, self.targets, strict=True):
            if not source.strip() or not target.strip():
                yield None
                continue
            trace = translator.trace(source, target)
            yield trace if extraction.level == "tokens" else with_line_words(trace, source, target)


def with_line_words(trace: Trace, source: str, target: str) -> Trace:
    """The trace with the words of its lines, as alignments count them."""
    src, out = by_spaces(trace.sequences["src"], source), by_spaces(trace.sequences["out"], target)
    return replace(trace, sequences={**trace.sequences, "src": src, "out": out})


def open_translator(model: str | Path, device: str, dtype: str | None) -> Translator:
    """The translator of a folder. Raises CheckpointError where it holds none."""
    keep_freed_memory()
    return Translator.load(model, device, dtype)


def align_lines(
    translator: Translator, lines: ParallelLines, layer: int | None, head: int | None, extraction: Extraction
) -> Iterator[frozenset[Link]]:
    """The links of each pair; none where a side is empty. Raises DataError for a head that there is not."""
    for trace in lines.traces(translator, extraction):
        yield frozenset() if trace is None else align_trace(trace, layer, head, extraction)


@dataclass(frozen=True, slots=True)
class ChosenHead:
    """Which head aligns, and how it was found."""

    layer: int
    head: int
    row: Row
    reason: str


def choose_head(
    translator: Translator, lines: ParallelLines, extraction: Extraction, rows: Sequence[Row]
) -> ChosenHead:
    """The head, and which of `rows`, that agrees best with gold; without gold, with itself from the other side."""
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
    """How well the links of each head agree with the gold ones, by each of `rows`."""
    assert lines.gold is not None, "there is something to agree with"
    sides = zip(lines.sources, lines.targets, lines.gold, strict=True)
    gold = [links for source, target, links in sides if source.strip() and target.strip()]
    found: list[HeadAgreement] = []
    for row in rows:  # traces are large: each is made again rather than kept
        traces = (trace for trace in lines.traces(translator, extraction) if trace is not None)
        found += score_heads(traces, gold, replace(extraction, row=row))
    return found


def report(rows: Sequence[HeadAgreement]) -> str:
    """A table for the screen, the lowest error rate first, with the best single head named below it."""
    lines = [f"{'by':<48}{'AER':>8}{'F1':>8}{'precision':>11}{'recall':>8}{'links':>9}"]
    for row in sorted(rows, key=lambda row: row.agreement.aer):
        found = row.agreement
        rates = f"{found.aer:>8.3f}{found.f1:>8.3f}{found.precision:>11.3f}{found.recall:>8.3f}"
        lines.append(f"{row.name:<48}{rates}{found.links:>9,}")
    best = best_head(rows)
    return "\n".join([*lines, f"best head: --layer {best.layer} --head {best.head} --row {best.row}"])


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
    """Whose weights a target word was given: those of the step that writes it, or of the one that reads it."""
    reason: str
    """Why this head, in words; empty where it was given."""
    agreement: Agreement | None = None
    """How well the links agree with those that people have made; None where there are none."""

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
        gold_from_one: whether the words of `gold` are counted from 1.
        method: argmax, mutual or threshold, as Extraction says.
        threshold: of the method of that name, the least weight of a link, 0 to 1; None: 0.2.
        row: the weights of the step that "writes" a target word, or of the one that "reads" it; None: both are tried.
        level: words, or the tokens of the model's own.
        device, dtype: where a folder is opened, and in what numbers; they mean nothing to a Translator.

    Raises ConfigError for options that do not go together; DataError for lines or gold that differ in number, and for a
    layer or head that the model has not; CheckpointError for a folder that holds no translator.
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
    opened = translator if isinstance(translator, Translator) else open_translator(translator, device, dtype)
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
