"""Finds the head that aligns: the one that agrees best with people, or else with itself from the other side."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, get_args

from pellucid.analysis.alignment import Extraction, Gold, Link, Row, SoftAlignment, extract_links, soft_alignment
from pellucid.analysis.weights import all_weights, words_of
from pellucid.errors import DataError
from pellucid.tracing.trace import Trace


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
    def of(cls, links: frozenset[Link], gold: Gold) -> Self:
        """Counts the links of one sentence."""
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
        """Returns the rates and how many links they rest on."""
        rates = {"precision": self.precision, "recall": self.recall, "f1": self.f1, "aer": self.aer}
        return rates | {"links": self.links, "sure": self.sure}

    def report(self) -> str:
        """Returns a line for the screen."""
        return f"AER {self.aer:.3f}  F1 {self.f1:.3f}  precision {self.precision:.3f}  recall {self.recall:.3f}"


@dataclass(frozen=True, slots=True)
class HeadAgreement:
    """Holds how well the links by a head agree; without `head` by the mean of its layer, without `layer` of all."""

    layer: int | None
    head: int | None
    agreement: Agreement
    row: Row = "writes"
    """The step whose weights a target token had."""

    @property
    def name(self) -> str:
        """Returns the head in words, as tables name it."""
        return head_name(self.layer, self.head, self.row)


def score_heads(
    traces: Iterable[Trace], gold: Sequence[Gold], extraction: Extraction | None = None
) -> list[HeadAgreement]:
    """Scores the links by each head of the cross-attention, by the mean of each layer's, and of all.

    Raises DataError where there are not as many traces as gold alignments.
    """
    how, total, count = extraction or Extraction(), dict[tuple[int | None, int | None], Agreement](), 0
    for count, trace in enumerate(traces, start=1):
        if count > len(gold):
            break
        cross = trace["cross"]
        soft = soft_alignment(all_weights(cross), trace.sequences[cross.queries], trace.sequences[cross.keys], how)
        for place, mixed in heads_and_means(soft):
            total[place] = total.get(place, Agreement()) + Agreement.of(extract_links(mixed, how), gold[count - 1])
    if count != len(gold):
        raise DataError(f"{len(gold)} gold alignments do not belong to {count} sentence pairs")
    return [HeadAgreement(layer, head, agreement, how.row) for (layer, head), agreement in total.items()]


def best_head(rows: Iterable[HeadAgreement]) -> HeadAgreement:
    """Returns the single head of the lowest alignment error rate; of equal ones that of more F1, then the first."""
    heads = [row for row in rows if row.layer is not None and row.head is not None]
    if not heads:
        raise DataError("there is no head to choose from: nothing was aligned")
    return min(heads, key=lambda row: (row.agreement.aer, -row.agreement.f1))


@dataclass(frozen=True, slots=True)
class HeadSelfAgreement:
    """Counts how many of the links from target to source are found from source to target, too."""

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
        """Returns the head in words, as tables name it."""
        return head_name(self.layer, self.head, self.row)


def find_head(
    traces: Iterable[Trace], extraction: Extraction | None = None, rows: Sequence[Row] = get_args(Row)
) -> HeadSelfAgreement:
    """Returns the head, and which of `rows`, with the largest share of mutual links; of equal ones the heavier.

    A head that looks at one place whatever it writes, or just along the diagonal of texts of other lengths, has few.
    Raises DataError where there is nothing to align.
    """
    how, found = extraction or Extraction(), dict[tuple[Row, int, int], HeadSelfAgreement]()
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
        raise DataError("there is no head to choose from: nothing was aligned")
    return max(found.values(), key=lambda head: (head.share, head.weight))


def aligning_head(trace: Trace, extraction: Extraction | None, gold: Gold | None) -> tuple[int, int, Extraction]:
    """Finds layer and head of the cross-attention, and how links are read off; either row where `extraction` is None.

    With gold it is the head that agrees with it best, else the one whose links are most often the same from either
    side. Raises DataError where there is nothing to align.
    """
    rows: Sequence[Row] = get_args(Row) if extraction is None else [extraction.row]
    how = extraction or usual_extraction(trace, gold)
    if gold is None:
        found = find_head([trace], how, rows)
        return found.layer, found.head, replace(how, row=found.row)
    best = best_head([one for row in rows for one in score_heads([trace], [gold], replace(how, row=row))])
    assert best.layer is not None
    assert best.head is not None
    return best.layer, best.head, replace(how, row=best.row)


def usual_extraction(trace: Trace, gold: Gold | None) -> Extraction:
    """Returns how links are read off where nobody says: between words.

    Where a side is a single word, to which everything would be aligned, it is between tokens; gold is of words always.
    """
    cross = trace["cross"]
    sides = (trace.sequences[name] for name in (cross.queries, cross.keys))
    usable = [[token for token in side if not token.special] for side in sides]
    single = any(len(words_of(side)) < 2 <= len(side) for side in usable)
    return Extraction(level="tokens" if single and gold is None else "words")


def heads_and_means(soft: SoftAlignment) -> list[tuple[tuple[int | None, int | None], SoftAlignment]]:
    """Returns each head of (N, H, targets, sources), then the means of layers and of all, each with layer and head."""
    weights = soft.weights
    layers, heads = weights.shape[:2]
    found: list[tuple[tuple[int | None, int | None], SoftAlignment]] = [
        ((n, h), SoftAlignment(weights[n, h], soft.targets, soft.sources)) for n in range(layers) for h in range(heads)
    ]
    found += [((n, None), SoftAlignment(weights[n].mean(0), soft.targets, soft.sources)) for n in range(layers)]
    found.append(((None, None), SoftAlignment(weights.mean((0, 1)), soft.targets, soft.sources)))
    return found


def head_name(layer: int | None, head: int | None, row: Row) -> str:
    """Names a head, or the mean of several, as tables do."""
    of_layer = "all layers" if layer is None else f"layer {layer}"
    return f"{of_layer}, {'mean of the heads' if head is None else f'head {head}'}, row that {row}"
