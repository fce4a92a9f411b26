"""How well links agree with what people say is aligned, and by which head they agree best."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pellucid.analysis.alignment import Extraction, Row, SoftAlignment, extract_links, soft_alignment
from pellucid.analysis.mixture import all_weights
from pellucid.analysis.pharaoh import Gold, Link
from pellucid.errors import DataError
from pellucid.tracing.trace import Trace


@dataclass(frozen=True, slots=True)
class Agreement:
    """Links A against sure links S and possible links P, counted over sentences; P contains S.

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
        """Of one sentence."""
        return cls(len(links), len(gold.sure), len(links & gold.sure), len(links & gold.possible))

    def __add__(self, other: "Agreement") -> "Agreement":
        return Agreement(
            self.links + other.links, self.sure + other.sure,
            self.links_sure + other.links_sure, self.links_possible + other.links_possible,
        )  # fmt: skip

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|, 0 to 1; 0 without links."""
        return self.links_possible / self.links if self.links else 0.0

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|."""
        return self.links_sure / self.sure if self.sure else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def aer(self) -> float:
        """The alignment error rate, 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|): 0 is best."""
        total = self.links + self.sure
        return 1 - (self.links_sure + self.links_possible) / total if total else 0.0

    def to_json(self) -> dict[str, Any]:
        """Rates and how many links they rest on."""
        rates = {"precision": self.precision, "recall": self.recall, "f1": self.f1, "aer": self.aer}
        return rates | {"links": self.links, "sure": self.sure}

    def report(self) -> str:
        """A line for the screen."""
        return f"AER {self.aer:.3f}  F1 {self.f1:.3f}  precision {self.precision:.3f}  recall {self.recall:.3f}"


@dataclass(frozen=True, slots=True)
class HeadAgreement:
    """What the links by a head come to; by the mean of its layer's heads where `head` is None, of all, `layer`, too."""

    layer: int | None
    head: int | None
    agreement: Agreement
    row: Row = "writes"
    """Whose weights a target token had."""

    @property
    def name(self) -> str:
        """As a table says it."""
        return head_name(self.layer, self.head, self.row)


def score_heads(
    traces: Iterable[Trace], gold: Sequence[Gold], extraction: Extraction | None = None
) -> list[HeadAgreement]:
    """The agreement by each head of the cross-attention, by the mean of each layer's, and of all.

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
    """The single head of the lowest alignment error rate; of equal ones that of more F1, then the first."""
    heads = [row for row in rows if row.layer is not None and row.head is not None]
    if not heads:
        raise DataError("there is no head to choose from: nothing was aligned")
    return min(heads, key=lambda row: (row.agreement.aer, -row.agreement.f1))


def heads_and_means(soft: SoftAlignment) -> list[tuple[tuple[int | None, int | None], SoftAlignment]]:
    """Each head of (N, H, targets, sources), then the means, with layer and head."""
    weights = soft.weights
    layers, heads = weights.shape[:2]
    found: list[tuple[tuple[int | None, int | None], SoftAlignment]] = [
        ((n, h), SoftAlignment(weights[n, h], soft.targets, soft.sources)) for n in range(layers) for h in range(heads)
    ]
    found += [((n, None), SoftAlignment(weights[n].mean(0), soft.targets, soft.sources)) for n in range(layers)]
    found.append(((None, None), SoftAlignment(weights.mean((0, 1)), soft.targets, soft.sources)))
    return found


def head_name(layer: int | None, head: int | None, row: Row) -> str:
    """A head, or the mean of several, as a table says it."""
    of_layer = "all layers" if layer is None else f"layer {layer}"
    return f"{of_layer}, {'mean of the heads' if head is None else f'head {head}'}, row that {row}"
