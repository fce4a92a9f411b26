"""Shows attention as pages and pictures, and draws masks, positions, schedules and runs."""

VIEWS = (
    "translate", "overview", "text", "step", "heads", "matrix", "model", "neuron", "beam", "alignment", "compare",
    "evolution", "flow", "lens", "contributions", "what_if", "card",
)  # fmt: skip
"""All views, in the order in which a page offers them. Here, so that a shell completes them without what draws them."""

ASKING = ("translate", "step", "what_if", "card")
"""The views that ask a model, which only a page that holds one has."""

OF_TRACES = tuple(name for name in VIEWS if name not in ASKING)
"""The views that a trace can serve, with what comes with it."""
