"""A view of a trace as a drawing, by its name; and why a trace cannot serve one."""

from collections.abc import Callable, Mapping

from pellucid.tracing.trace import Trace
from pellucid.views.analysis_pictures import alignment_picture, compare_picture, evolution_picture, flow_picture
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.choice import Choice
from pellucid.views.view_options import Options
from pellucid.views.weight_pictures import (
    beam_picture,
    heads_picture,
    matrix_picture,
    model_picture,
    neuron_picture,
)

PICTURES: Mapping[str, Callable[[Trace, Choice, Options], Drawing]] = {
    "heads": heads_picture,
    "matrix": matrix_picture,
    "model": model_picture,
    "neuron": neuron_picture,
    "beam": beam_picture,
    "alignment": alignment_picture,
    "compare": compare_picture,
    "evolution": evolution_picture,
    "flow": flow_picture,
}


def picture(name: str, trace: Trace, choice: Choice, options: Options) -> Drawing:
    """The view `name` of a trace. Raises DataError where the trace has not what it shows."""
    return PICTURES[name](trace, choice, options)


def can_serve(name: str, trace: Trace, options: Options) -> bool:
    """Whether a trace, with what comes with it, has what a view shows."""
    needs = {
        "neuron": any(attention.q is not None for attention in trace.attentions.values()),
        "beam": trace.search is not None,
        "alignment": "cross" in trace.attentions,
        "compare": options.other is not None,
        "evolution": options.evolution is not None,
    }
    return needs.get(name, bool(trace.attentions))
