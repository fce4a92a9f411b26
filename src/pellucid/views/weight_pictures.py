"""The views of weights as drawings: heads, matrix, model, neuron; and beam."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pellucid.errors import DataError
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.choice import Choice, Resolved, Shown, choose
from pellucid.views.pictures.beam import draw_beam
from pellucid.views.pictures.heads import MOST_ARCS, draw_heads
from pellucid.views.pictures.matrix import Heading, draw_matrix
from pellucid.views.pictures.model import IN_WORDS, draw_model
from pellucid.views.pictures.neuron import Products, draw_neuron
from pellucid.views.thumbnails import thumbnails
from pellucid.views.view_options import Options


def heads_picture(trace: Trace, choice: Choice, options: Options) -> Drawing:
    """Two columns of tokens with arcs."""
    resolved = choice.resolved(trace)
    shown = choose(trace, resolved)
    if shown.heads == [-1]:
        raise DataError(f"the view heads tells heads apart, and `head` {choice.head!r} mixes them", "view a matrix")
    top_k = MOST_ARCS if options.top_k is None else options.top_k
    heading = _heading(resolved, shown, options)
    return draw_heads(shown.weights, shown.rows, shown.columns, heading, shown.heads, top_k, options.pixels())


def matrix_picture(trace: Trace, choice: Choice, options: Options) -> Drawing:
    """Heat maps, one a head."""
    resolved = choice.resolved(trace)
    shown = choose(trace, resolved)
    names = [f"head {head}" for head in shown.heads] if len(shown.heads) > 1 else [""]
    heading = _heading(resolved, shown, options)
    return draw_matrix(shown.weights, shown.rows, shown.columns, heading, names, shown.mask, options.pixels())


def model_picture(trace: Trace, choice: Choice, options: Options) -> Drawing:
    """All attentions, or the one that is chosen; a single head that is chosen has a frame."""
    names = [name for name in trace.attentions if name != "search.cross"]
    marked = {}
    if choice.attention or choice.layer is not None or choice.head is not None:
        resolved = choice.resolved(trace)
        if isinstance(resolved.head, int):
            marked = {resolved.attention: [(resolved.layer, resolved.head)]}
    if choice.attention and not marked:
        names = [choice.attention]
    parts = {name: thumbnails(trace[name]) for name in names}
    heading = Heading(title=options.title or f"Every head of {trace.model.get('name', 'the model')}")
    return draw_model(parts, heading, marked, options.pixels())


def neuron_picture(trace: Trace, choice: Choice, options: Options) -> Drawing:
    """One query beside every key."""
    resolved = replace(choice, head=0 if choice.head is None else choice.head).resolved(trace)
    attention, layer, head = trace[resolved.attention], resolved.layer, resolved.head
    if not isinstance(head, int):
        raise DataError(f"the view neuron is of one head, not of `head` {head!r}", "choose a number")
    if attention.q is None or attention.k is None:
        raise DataError(f"`{attention.name}` holds ready-made weights: there are no queries and keys to show")
    queries = trace.sequences[attention.queries]
    row = next((n for n, token in enumerate(queries) if not token.special), 0) if options.row is None else options.row
    if not 0 <= row < len(queries):
        raise DataError(f"`row` ({row}) of `{attention.name}` must be in 0..{len(queries) - 1}")
    key_head, bias = head // (attention.num_heads // attention.num_kv_heads), attention.bias
    products = Products(
        query=attention.q[layer, head, row].astype(np.float32),
        keys=attention.k[layer, key_head].astype(np.float32),
        bias=None if bias is None else bias[layer % len(bias), head % bias.shape[1], row].astype(np.float32),
        weights=attention.weights(layer, head)[row],
        masked=np.zeros(attention.size[1], np.bool_) if attention.mask is None else ~attention.mask[row],
    )
    shared = f"Keys of key head {key_head}, which heads share." if attention.num_kv_heads < attention.num_heads else ""
    turned = "Rotary positions have turned query and keys." if attention.rotary_base else ""
    heading = Heading(title=options.title or title_of(resolved, [head]), note=" ".join(filter(None, (shared, turned))))
    return draw_neuron(products, queries[row], trace.sequences[attention.keys], heading, options.pixels())


def beam_picture(trace: Trace, choice: Choice, options: Options) -> Drawing:
    """The tree of a search."""
    search = trace.search
    if search is None:
        raise DataError("the trace holds no search", "trace a translation without giving its target")
    title = f"Beam search, beam {search.beam_size}" if search.beam_size > 1 else "Greedy search"
    return draw_beam(search, Heading(title=options.title or title), options.pruned is not False, options.pixels())


def title_of(choice: Resolved, heads: Sequence[int]) -> str:
    """Attention, layer, and head where there is one, in words."""
    name = IN_WORDS.get(choice.attention, choice.attention)
    of = f", head {heads[0]}" if len(heads) == 1 else ""
    return f"{name[0].upper()}{name[1:]}, layer {choice.layer}{of}"


def _heading(choice: Resolved, shown: Shown, options: Options) -> Heading:
    mixed = f"{title_of(choice, [])}, {choice.head} of its heads"
    title = mixed if shown.heads == [-1] else title_of(choice, shown.heads)
    return Heading(title=options.title or title, note=shown.note)
