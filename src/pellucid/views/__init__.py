"""Shows attention as pages and pictures, and draws masks, positions, schedules and runs."""

VIEWS = ("heads", "matrix", "model", "neuron", "beam", "alignment", "compare", "evolution", "flow", "text", "step", "lens", "contributions")
"""All views, in the order in which a page offers them. Here, so that a shell completes them without what draws them."""
