"""What a single view takes beside the choice of attention, layer and heads."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from pellucid.analysis.ablation import Ablation
from pellucid.analysis.alignment import Extraction
from pellucid.analysis.evolution import Evolution
from pellucid.analysis.pharaoh import Gold
from pellucid.errors import ConfigError
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.drawing import picture_width


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What a single view takes; None leaves it to the view."""

    title: str | None = None
    """What stands above; None: what is shown, in words."""
    width: str | float | None = None
    """The most that a still picture is to take: "column" or "page" of a journal, or millimetres."""
    row: int | None = None
    """neuron: the query, counted from 0; None: the first that is no special token."""
    top_k: int | None = None
    """heads: how many arcs; None: 4,000."""
    pruned: bool | None = None
    """beam: whether hypotheses that were dropped are shown; None: they are."""
    other: Trace | None = None
    """compare: the trace to compare with."""
    names: tuple[str, str] | None = None
    """compare: what the two are called; None: by their models."""
    gold: Gold | None = None
    """alignment: what people say is aligned."""
    extraction: Extraction | None = None
    """alignment: how links are read off weights."""
    evolution: Evolution | None = None
    """evolution: the statistics of a run's checkpoints."""
    statistic: str | None = None
    """evolution: which one is shown; None: the entropy."""
    ablation: Ablation | None = None
    """model: what heads are worth, which a page lays over them."""

    def pixels(self) -> float | None:
        """The width in pixels; None where it is open."""
        return picture_width(self.width)


OWNERS: Mapping[str, str] = {
    "row": "neuron", "top_k": "heads", "pruned": "beam", "other": "compare", "names": "compare", "gold": "alignment",
    "extraction": "alignment", "evolution": "evolution", "statistic": "evolution", "ablation": "model",
}  # fmt: skip


def check_options(view: str, options: Options) -> None:
    """Raises ConfigError for an option that means nothing to a view."""
    for field in fields(options):
        owner = OWNERS.get(field.name, view)
        if owner != view and getattr(options, field.name) is not None:
            raise ConfigError(f"`{field.name}` means nothing to the view `{view}`", f"it belongs to the view {owner}")
