"""Does the job of `pellucid align`: aligns the words of a parallel text by a translator's cross-attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pellucid.analysis.aligning_head import HeadAgreement, best_head, find_head, score_heads
from pellucid.analysis.alignment import Extraction, Gold, Link, Row, align_trace, by_spaces, read_gold
from pellucid.data.lines import read_lines
from pellucid.errors import DataError
from pellucid.evaluation.held_out import read_columns
from pellucid.process import keep_freed_memory
from pellucid.tasks.translator import Translator
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
                        "align the very lines that were aligned by hand; --gold-from-one if they count from 1",
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


def open_translator(model: str | Path, device: str, dtype: str | None) -> Translator:
    """Opens the translator of a folder. Raises CheckpointError where it holds none."""
    keep_freed_memory()
    return Translator.load(model, device, dtype)


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
    return "\n".join([*lines, f"best head: --layer {best.layer} --head {best.head} --row {best.row}"])
