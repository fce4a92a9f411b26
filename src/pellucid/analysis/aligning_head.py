"""Selects the alignment head: the head that agrees best with gold links, or else with its own reverse alignment."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, get_args

from pellucid.analysis.alignment import Gold, Link, LinkExtraction, SoftAlignment, extract_links, soft_alignment
from pellucid.analysis.weights import all_weights, group_tokens_by_word
from pellucid.errors import DataError
from pellucid.tracing.trace import Trace
from pellucid.weights.aligning_head import AligningHead, Row, head_in_trace

if TYPE_CHECKING:
    from pellucid.tasks.translator import Translator

VALIDATED_ON = 20
"""The number of validation sentences for the head to keep: on Multi30k 60 sentences select the same head."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Counts links A against sure links S and possible links P over sentences; P contains S.

    Source: Och and Ney, "A Systematic Comparison of Various Statistical Alignment Models" (2003), section 6.
    """

    links: int = 0
    """|A|"""
    sure: int = 0
    """|S|"""
    links_sure: int = 0
    """|A ∩ S|"""
    links_possible: int = 0
    """|A ∩ P|"""

    @classmethod
    def from_links(cls, links: frozenset[Link], gold: Gold) -> Self:
        """Returns the counts of one sentence."""
        return cls(len(links), len(gold.sure), len(links & gold.sure), len(links & gold.possible))

    def __add__(self, other: "Agreement") -> "Agreement":
        return Agreement(
            self.links + other.links, self.sure + other.sure,
            self.links_sure + other.links_sure, self.links_possible + other.links_possible,
        )  # fmt: skip

    @property
    def precision(self) -> float:
        """Returns |A ∩ P| / |A|, 0 to 1; 0 without links."""
        return self.links_possible / self.links if self.links else 0.0

    @property
    def recall(self) -> float:
        """Returns |A ∩ S| / |S|."""
        return self.links_sure / self.sure if self.sure else 0.0

    @property
    def f1(self) -> float:
        """Returns the harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def aer(self) -> float:
        """Returns the alignment error rate, 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|): 0 is best."""
        total = self.links + self.sure
        return 1 - (self.links_sure + self.links_possible) / total if total else 0.0

    def to_json(self) -> dict[str, Any]:
        """Returns the rates and the number of links."""
        rates = {"precision": self.precision, "recall": self.recall, "f1": self.f1, "aer": self.aer}
        return rates | {"links": self.links, "sure": self.sure}

    def report(self) -> str:
        """Returns a line for the terminal."""
        return f"AER {self.aer:.3f}  F1 {self.f1:.3f}  precision {self.precision:.3f}  recall {self.recall:.3f}"


@dataclass(frozen=True, slots=True)
class HeadAgreement:
    """Holds a head's agreement with gold links; without `head` a layer's mean, without `layer` the mean of all."""

    layer: int | None
    head: int | None
    agreement: Agreement
    row: Row = "writes"
    """The step that the weights of a target token are taken from."""

    @property
    def name(self) -> str:
        """Returns the name of the head for tables."""
        return head_name(self.layer, self.head, self.row)


def score_heads(
    traces: Iterable[Trace], gold: Sequence[Gold], extraction: LinkExtraction | None = None
) -> list[HeadAgreement]:
    """Scores the links of each head of the cross-attention, of each layer's mean, and of the mean of all heads.

    Raises DataError if the numbers of traces and gold alignments differ.
    """
    how, total, count = extraction or LinkExtraction(), dict[tuple[int | None, int | None], Agreement](), 0
    for count, trace in enumerate(traces, start=1):
        if count > len(gold):
            break
        cross = trace["cross"]
        soft = soft_alignment(all_weights(cross), trace.sequences[cross.queries], trace.sequences[cross.keys], how)
        for place, mixed in heads_and_means(soft):
            total[place] = total.get(place, Agreement()) + Agreement.from_links(
                extract_links(mixed, how), gold[count - 1]
            )
    if count != len(gold):
        raise DataError(f"{len(gold)} gold alignments do not match {count} sentence pairs")
    return [HeadAgreement(layer, head, agreement, how.row) for (layer, head), agreement in total.items()]


def best_head(rows: Iterable[HeadAgreement]) -> HeadAgreement:
    """Returns the single head of the lowest alignment error rate; ties are broken by larger F1, then by order."""
    heads = [row for row in rows if row.layer is not None and row.head is not None]
    if not heads:
        raise DataError("no head can be selected: nothing was aligned")
    return min(heads, key=lambda row: (row.agreement.aer, -row.agreement.f1))


@dataclass(frozen=True, slots=True)
class HeadSelfAgreement:
    """Counts the links from target to source that are also found from source to target."""

    layer: int
    head: int
    row: Row
    mutual: int
    links: int
    weight: float = 0.0
    """The weight on the linked source words, summed over the links."""

    @property
    def share(self) -> float:
        """Returns the share of links that are mutual, 0 to 1."""
        return self.mutual / self.links if self.links else 0.0

    @property
    def name(self) -> str:
        """Returns the name of the head for tables."""
        return head_name(self.layer, self.head, self.row)


def find_head(
    traces: Iterable[Trace], extraction: LinkExtraction | None = None, rows: Sequence[Row] = get_args(Row)
) -> HeadSelfAgreement:
    """Returns the head, and one of `rows`, with the largest share of mutual links; ties are broken by larger weight.

    A head that always attends to one position, or just along the diagonal of texts of different lengths, has few.
    Raises DataError if there is nothing to align.
    """
    how, found = extraction or LinkExtraction(), dict[tuple[Row, int, int], HeadSelfAgreement]()
    for trace in traces:
        cross = trace["cross"]
        weights, out, src = all_weights(cross), trace.sequences[cross.queries], trace.sequences[cross.keys]
        for row in rows:
            to_source, both = (replace(how, row=row, method=method) for method in ("argmax", "mutual"))
            for (layer, head), soft in heads_and_means(soft_alignment(weights, out, src, to_source)):
                if layer is None or head is None:
                    continue
                before = found.get((row, layer, head), HeadSelfAgreement(layer, head, row, 0, 0))
                found[row, layer, head] = HeadSelfAgreement(
                    layer, head, row,
                    before.mutual + len(extract_links(soft, both)),
                    before.links + len(extract_links(soft, to_source)),
                    before.weight + float(soft.weights.max(axis=1).sum() if soft.weights.size else 0),
                )  # fmt: skip
    if not found:
        raise DataError("no head can be selected: nothing was aligned")
    return max(found.values(), key=lambda head: (head.share, head.weight))


def head_to_keep(translator: "Translator", pairs: Iterable[tuple[str, str]]) -> AligningHead | None:
    """Selects the head that is stored with a translator's weights, on the first 20 validation pairs that it can read.

    Returns None if no link is mutual, or the cross-attention cannot be recorded, as with custom modules.
    """
    usable = ((source, target) for source, target in pairs if source.strip() and target.strip())
    count = 0

    def traces() -> Iterator[Trace]:
        nonlocal count
        for source, target in islice(usable, VALIDATED_ON):
            with suppress(DataError), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # pairs of several sentences or too long ones are read as one text
                trace = translator.trace(source, target)
                trace["cross"]
                count += 1
                yield trace

    try:
        found = find_head(traces())
    except DataError:
        return None
    return AligningHead(found.layer, found.head, found.row, round(found.share, 4), count) if found.mutual else None


def find_aligning_head(
    trace: Trace, extraction: LinkExtraction | None, gold: Gold | None
) -> tuple[int, int, LinkExtraction]:
    """Returns layer and head of the cross-attention, and the extraction; tries both rows if `extraction` is None.

    With gold, it is the head that agrees with it best. Without gold, it is the head that the model's folder names,
    which was selected on validation text, or else the head with the largest share of mutual links in this trace. Raises
    DataError if there is nothing to align.
    """
    rows: Sequence[Row] = get_args(Row) if extraction is None else [extraction.row]
    how = extraction or choose_extraction(trace, gold)
    cross = trace["cross"]
    kept = None if gold else head_in_trace(trace.model, cross.num_layers, cross.num_heads)
    if kept and kept[2] in rows:
        layer, head, row = kept
        return layer, head, replace(how, row=row)
    if gold is None:
        found = find_head([trace], how, rows)
        return found.layer, found.head, replace(how, row=found.row)
    best = best_head([one for row in rows for one in score_heads([trace], [gold], replace(how, row=row))])
    assert best.layer is not None
    assert best.head is not None
    return best.layer, best.head, replace(how, row=best.row)


def choose_extraction(trace: Trace, gold: Gold | None) -> LinkExtraction:
    """Returns the default extraction: links between words.

    If a side is a single word, to which all would be aligned, links are between tokens; gold links are always of words.
    """
    cross = trace["cross"]
    sides = (trace.sequences[name] for name in (cross.queries, cross.keys))
    usable = [[token for token in side if not token.special] for side in sides]
    single = any(len(group_tokens_by_word(side)) < 2 <= len(side) for side in usable)
    return LinkExtraction(level="tokens" if single and gold is None else "words")


def heads_and_means(soft: SoftAlignment) -> list[tuple[tuple[int | None, int | None], SoftAlignment]]:
    """Returns each head of (N, H, targets, sources), then each layer's mean and the total mean, with layer and head."""
    weights = soft.weights
    layers, heads = weights.shape[:2]
    found: list[tuple[tuple[int | None, int | None], SoftAlignment]] = [
        ((n, h), SoftAlignment(weights[n, h], soft.targets, soft.sources)) for n in range(layers) for h in range(heads)
    ]
    found += [((n, None), SoftAlignment(weights[n].mean(0), soft.targets, soft.sources)) for n in range(layers)]
    found.append(((None, None), SoftAlignment(weights.mean((0, 1)), soft.targets, soft.sources)))
    return found


def head_name(layer: int | None, head: int | None, row: Row) -> str:
    """Returns the name of a head, or of a mean of heads, for tables."""
    of_layer = "all layers" if layer is None else f"layer {layer}"
    return f"{of_layer}, {'mean of the heads' if head is None else f'head {head}'}, row that {row}"
