"""Shows attention as pages and pictures, and draws masks, positions, schedules and runs.

The views are listed here, so that a shell completes their names without importing the drawing code.
"""

from dataclasses import dataclass
from typing import Literal

Data = Literal[
    "attention", "vectors", "search", "cross", "other", "evolution", "lens", "contributions", "model"
]  # fmt: skip
"""The data of a view: weights of any attention; queries and keys; a recorded search; cross-attention; the option of
this name; a page with a model."""


@dataclass(frozen=True, slots=True)
class ViewKind:
    """A view of a trace or of a model in a page. Its part of the page is `viewer/views/NAME.js`."""

    name: str
    needs: Data = "attention"
    """The data without which a page does not offer the view."""
    has_weights: bool = True
    """True if a page with the view contains the weights of the attentions."""
    picture: str = ""
    """The module of `pictures` that draws the view as `show_MODULE`; empty: the view's name. A view that needs a model
    has no picture."""


KINDS = {
    kind.name: kind
    for kind in (
        ViewKind("translate", needs="model", has_weights=False),
        ViewKind("overview", picture="model"),
        ViewKind("text"),
        ViewKind("step", needs="model", has_weights=False),
        ViewKind("heads"),
        ViewKind("matrix"),
        ViewKind("model", has_weights=False),
        ViewKind("neuron", needs="vectors", has_weights=False),
        ViewKind("beam", needs="search"),
        ViewKind("alignment", needs="cross"),
        ViewKind("compare", needs="other"),
        ViewKind("evolution", needs="evolution"),
        ViewKind("flow"),
        ViewKind("lens", needs="lens", has_weights=False),
        ViewKind("contributions", needs="contributions", has_weights=False),
        ViewKind("what_if", needs="model", has_weights=False),
        ViewKind("card", needs="model", has_weights=False),
    )
}
"""All views by name, in the order of a page."""

VIEWS = tuple(KINDS)

ASKING = tuple(name for name, kind in KINDS.items() if kind.needs == "model")
"""The views that run a model, available only in a page that contains one."""

OF_TRACES = tuple(name for name in VIEWS if name not in ASKING)
"""The views of a trace and its extra data."""
