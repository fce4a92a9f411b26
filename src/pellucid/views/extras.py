"""What views of the page are given beside the traces: what Python computes better, or alone knows."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.analysis.ablation import Ablation
from pellucid.analysis.compare import compare
from pellucid.analysis.flow import FORMULAS, LIMITS, NOTE, rollout
from pellucid.analysis.pharaoh import Gold
from pellucid.errors import DataError
from pellucid.tracing.trace import Array, Trace

MOST = 200_000
"""Numbers of a rollout: of a longer text its last layer alone is shown, which is the one that counts."""


def view_extras(
    traces: Sequence[Trace],
    views: Collection[str],
    *,
    gold: Sequence[Gold | None] = (),
    ablation: Ablation | None = None,
) -> dict[str, Any]:
    """The extras of those of `views` that have some.

    Args:
        gold: right alignments of each trace, for "alignment".
        ablation: what the heads are worth, laid over those of "model".
    """
    found: dict[str, Any] = {}
    if "alignment" in views and any(gold):
        found["alignment"] = {"gold": [None if one is None else _gold(one) for one in gold]}
    if "compare" in views and len(traces) > 1:
        found["compare"] = {"distances": _distances(traces)}
    if "flow" in views:
        found["flow"] = {
            "formulas": dict(FORMULAS),
            "limits": dict(LIMITS),
            "note": NOTE,
            "traces": [_flow(trace) for trace in traces],
        }
    if "model" in views and ablation is not None:
        found["ablation"] = overlay(ablation)
    return found


def overlay(ablation: Ablation, metric: str | None = None) -> dict[str, Any]:
    """What the model view lays over its heads: a metric's change (None: the first one) and the ends of its interval."""
    name = metric or next(iter(ablation.whole))
    attentions = dict.fromkeys(head.attention for head in ablation.changes)
    return {
        "metric": name,
        "attentions": {attention: _matrices(ablation, attention, name) for attention in attentions},
    }


def _matrices(ablation: Ablation, attention: str, metric: str) -> dict[str, Any]:
    found = (matrix.astype(float).round(6).tolist() for matrix in ablation.matrices(attention, metric))
    return dict(zip(("values", "low", "high"), found, strict=True))


def _gold(gold: Gold) -> dict[str, Any]:
    return {"sure": sorted(map(list, gold.sure)), "possible": sorted(map(list, gold.possible - gold.sure))}


def _distances(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """Of the first trace from each other one, by attention; without those that cannot be compared."""
    found: list[dict[str, Any]] = []
    for other in traces[1:]:
        try:
            compared: Mapping[str, Any] = compare(traces[0], other)
        except DataError:
            compared = {}
        found.append({name: pair.distances().astype(float).round(5).tolist() for name, pair in compared.items()})
    return found


def _flow(trace: Trace) -> dict[str, Any]:
    """The rollout of each attention, its layers from `first` on, and the lengths of its values."""
    return {name: {**_coded(mixed), "norms": trace[name].value_norms} for name, mixed in rollout(trace).items()}


def _coded(mixed: Array) -> dict[str, Any]:
    """(N, L, M) as whole numbers u = round(255 sqrt(r)): r = (u / 255)^2 is off by 0.004 at most."""
    first = 0 if mixed.size <= MOST else len(mixed) - 1
    coded: npt.NDArray[np.uint8] = np.rint(255 * np.sqrt(mixed[first:].clip(0, 1))).astype(np.uint8)
    return {"first": first, "rollout": coded}
