"""Draws the flow view: raw weights, the rollout up to the layer, and norm-weighted attention side by side."""

import numpy as np

from pellucid.analysis.flow import FORMULAS, NOTE, compute_rollout, norm_weighted, share_of_rows
from pellucid.analysis.weights import average_weights
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.pictures.matrix import draw_matrix
from pellucid.views.view_options import ViewOptions, format_title

NAMES = {"raw": "raw", "rollout": "rollout", "norm": "norm-weighted"}


def show_flow(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws a head of a trace, or the mean of its layer's heads; maps that the trace lacks data for are left out."""
    attention, layer = choice.place(trace)
    head = choice.head if isinstance(choice.head, int) else None
    panels = {"raw": average_weights(attention, layer, head)}
    if attention.name in (rolled := compute_rollout(trace)):
        panels["rollout"] = rolled[attention.name][layer]
    if attention.value_norms is not None:
        norms = norm_weighted(attention)[layer]
        panels["norm"] = share_of_rows(norms[head] if head is not None else norms.mean(axis=0))
    rows, columns = trace.sequences[attention.queries], trace.sequences[attention.keys]
    formulas = "; ".join(f"{NAMES[name]}: {' '.join(FORMULAS[name].split())}" for name in panels)
    scaled = ", rows scaled to one" if "norm" in panels else ""
    note = f"{formulas}{scaled}. {NOTE.replace('`', '')}"
    title = choice.title or format_title(attention.name, layer, [] if head is None else [head])
    mean = {"raw", "norm"} if head is None else set()
    names = [f"{NAMES[name]}{', mean of the heads' if name in mean else ''}" for name in panels]
    stacked = np.stack([np.clip(panel, 0, 1) for panel in panels.values()]).astype(np.float32)
    return draw_matrix(
        stacked, rows, columns, title, names, attention.mask, choice.pixels(), len(panels), "share", note
    )
