"""The head that a sentence's alignment is shown by where nobody has chosen one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from pellucid.analysis.alignment import Extraction, Row
from pellucid.analysis.alignment_scores import best_head, score_heads
from pellucid.analysis.pharaoh import Gold
from pellucid.analysis.self_agreement import find_head
from pellucid.analysis.words import words_of
from pellucid.tracing.trace import Trace


def usual_extraction(trace: Trace, gold: Gold | None) -> Extraction:
    """How links are read off where nobody says: between words; between tokens where a side is a single word, to which
    everything would be aligned. Gold is of words."""
    cross = trace["cross"]
    sides = (trace.sequences[name] for name in (cross.queries, cross.keys))
    usable = [[token for token in side if not token.special] for side in sides]
    single = any(len(words_of(side)) < 2 <= len(side) for side in usable)
    return Extraction(level="tokens" if single and gold is None else "words")


def aligning_head(trace: Trace, extraction: Extraction | None, gold: Gold | None) -> tuple[int, int, Extraction]:
    """Layer and head of the cross-attention, and how links are read off it; either row where `extraction` is None.

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


def alignment_state(layer: int | None, head: int | None, extraction: Extraction) -> dict[str, str]:
    """The same as the address of a page spells it; without a head the mean of the layer's, without a layer of all."""
    by = "all" if layer is None else "layer" if head is None else "head"
    state = {"alignment.by": by, "alignment.row": extraction.row, "alignment.level": extraction.level}
    state |= {"alignment.method": extraction.method, "alignment.threshold": str(extraction.threshold)}
    return state | {name: str(value) for name, value in (("layer", layer), ("head", head)) if value is not None}
