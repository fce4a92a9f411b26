"""Which head aligns, found without gold: the one whose links are the same from either side."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from pellucid.analysis.alignment import Extraction, Row, extract_links, soft_alignment
from pellucid.analysis.alignment_scores import head_name, heads_and_means
from pellucid.analysis.mixture import all_weights
from pellucid.errors import DataError
from pellucid.tracing.trace import Trace


@dataclass(frozen=True, slots=True)
class HeadSelfAgreement:
    """How many of the links from target to source are found from source to target, too."""

    layer: int
    head: int
    row: Row
    mutual: int
    links: int
    weight: float = 0.0
    """Of the source words that are linked, the sum over the links."""

    @property
    def share(self) -> float:
        """Of the links, 0 to 1."""
        return self.mutual / self.links if self.links else 0.0

    @property
    def name(self) -> str:
        """As a table says it."""
        return head_name(self.layer, self.head, self.row)


def find_head(
    traces: Iterable[Trace], extraction: Extraction | None = None, rows: Sequence[Row] = get_args(Row)
) -> HeadSelfAgreement:
    """The head, and which of `rows`, with the largest share of mutual links; of equal ones that with most weight there.

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
