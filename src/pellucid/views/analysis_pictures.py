"""The views of what is computed from weights as drawings: alignment, compare, evolution, flow."""

from dataclasses import replace

import numpy as np

from pellucid.analysis.aligning_head import aligning_head, usual_extraction
from pellucid.analysis.alignment import Extraction, SoftAlignment, extract_links, soft_alignment
from pellucid.analysis.alignment_scores import Agreement
from pellucid.analysis.compare import compare
from pellucid.analysis.flow import FORMULAS, NOTE, norm_weighted, rollout, share_of_rows
from pellucid.analysis.mixture import mixed_weights
from pellucid.analysis.statistics import STATISTICS
from pellucid.errors import ConfigError, DataError, did_you_mean
from pellucid.tracing.trace import Array, Token, Trace
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.text import shorten, visible
from pellucid.views.choice import Choice, Heads, Resolved, choose
from pellucid.views.pictures.alignment import draw_alignment, joined_weights
from pellucid.views.pictures.compare import draw_compare
from pellucid.views.pictures.evolution import draw_evolution
from pellucid.views.pictures.matrix import Heading, draw_matrix
from pellucid.views.view_options import Options
from pellucid.views.weight_pictures import title_of

NAMES = {"raw": "raw", "rollout": "rollout", "norm": "norm-weighted"}


def alignment_picture(trace: Trace, choice: Choice, options: Options) -> Drawing:
    """Target words against source words, with the links read off a head, or off the mean of several."""
    cross = trace["cross"]
    layer, head, extraction = alignment_choice(trace, choice, options)
    rows, columns = trace.sequences[cross.queries], trace.sequences[cross.keys]
    soft = soft_alignment(mixed_weights(cross, layer, head), rows, columns, extraction)
    if not soft.weights.size:
        raise DataError("there is no word to align: one side has special tokens alone")
    links = _by_place(extract_links(soft, extraction), soft)
    of = (
        "mean of all layers"
        if layer is None
        else f"layer {layer}, " + ("mean of its heads" if head is None else f"head {head}")
    )
    notes = [f"{extraction.method}; the step that {extraction.row} a target word"]
    sure, possible = frozenset[tuple[int, int]](), frozenset[tuple[int, int]]()
    if options.gold is not None:
        found = Agreement.of(extract_links(soft, extraction), options.gold)
        notes.append(f"precision {found.precision:.2f}, recall {found.recall:.2f}, AER {found.aer:.2f}")
        sure, possible = _by_place(options.gold.sure, soft), _by_place(options.gold.possible, soft)
    heading = Heading(title=options.title or f"Alignment, {of}", note="; ".join(notes))
    row_names, column_names = (
        _unit_names(side, numbers, extraction) for side, numbers in ((rows, soft.targets), (columns, soft.sources))
    )
    weights = joined_weights(soft.weights)
    return draw_alignment(weights, row_names, column_names, heading, links, sure, possible, options.pixels())


def alignment_choice(trace: Trace, choice: Choice, options: Options) -> tuple[int | None, int | None, Extraction]:
    """The chosen head, and how links are read off it; without a choice, what aligning_head() finds."""
    if choice.head is not None and not isinstance(choice.head, int):
        raise DataError(f"an alignment is by one head or by the mean of a layer, not by `head` {choice.head!r}")
    if choice.layer is not None or choice.head is not None:
        layer = replace(choice, attention="cross").resolved(trace).layer
        return layer, choice.head, options.extraction or usual_extraction(trace, options.gold)
    return aligning_head(trace, options.extraction, options.gold)


def _by_place(links: frozenset[tuple[int, int]], soft: SoftAlignment) -> frozenset[tuple[int, int]]:
    """Links between numbered words as (column, row); those of words that are not there are left out."""
    rows, columns = ({number: place for place, number in enumerate(side)} for side in (soft.targets, soft.sources))
    return frozenset((columns[s], rows[t]) for s, t in links if s in columns and t in rows)


def _unit_names(tokens: tuple[Token, ...], numbers: list[int], extraction: Extraction) -> list[str]:
    """What each word, or token, reads."""
    usable = [token for token in tokens if not token.special]
    if extraction.level == "tokens":
        return [shorten(visible(usable[number].text.strip())) for number in numbers]
    words: dict[int | None, str] = {}
    for token in usable:
        words[token.word] = words.get(token.word, "") + token.written
    return [shorten(visible(words[number].strip())) for number in numbers]


def compare_picture(trace: Trace, choice: Choice, options: Options) -> Drawing:
    """A head of two traces, their difference, and the distances of all heads; without a head the one that differs
    most."""
    if options.other is None:
        raise DataError("there is nothing to compare with", "give the other trace as `other`, or with --compare")
    resolved = choice.resolved(trace)
    shared = compare(trace, options.other)
    if resolved.attention not in shared:
        raise DataError(f"the other trace has no attention `{resolved.attention}`", f"both have {', '.join(shared)}")
    distances = shared[resolved.attention].distances()
    layer, head = _differing(distances, choice, resolved)
    chosen = replace(resolved, layer=layer, head=head)
    a, b = choose(trace, chosen), choose(options.other, chosen.resolved(options.other))
    if a.weights.shape != b.weights.shape or len(a.heads) > 1:
        raise DataError(
            f"what is chosen has the shapes {a.weights.shape} and {b.weights.shape}; one head of each, and as many "
            "rows and columns, can be compared",
            "choose one head, and hide or merge nothing where the texts differ",
        )
    names = options.names or tuple(str(t.model.get("name", "model")) for t in (trace, options.other))
    marked = (layer, head) if isinstance(head, int) else None
    heading = Heading(title=options.title or title_of(chosen, a.heads if marked else []), note=a.note)
    both = (names[0], names[1])
    return draw_compare(
        a.weights[0], b.weights[0], a.rows, a.columns, heading, both, distances, marked, a.mask, options.pixels()
    )


def compared_place(trace: Trace, choice: Choice, other: Trace) -> tuple[int, Heads]:
    """The layer and the head that a comparison shows. Raises what compare_picture() raises."""
    resolved = choice.resolved(trace)
    shared = compare(trace, other)
    if resolved.head is not None or resolved.attention not in shared:
        return resolved.layer, resolved.head
    return _differing(shared[resolved.attention].distances(), choice, resolved)


def _differing(distances: Array, choice: Choice, resolved: Resolved) -> tuple[int, Heads]:
    """What is chosen; without a head the one that differs most, of the chosen layer where there is one."""
    if resolved.head is not None:
        return resolved.layer, resolved.head
    if choice.layer is not None:
        return resolved.layer, int(distances[resolved.layer].argmax())
    layer, head = np.unravel_index(int(distances.argmax()), distances.shape)
    return int(layer), int(head)


def evolution_picture(trace: Trace, choice: Choice, options: Options) -> Drawing:
    """A statistic of every head over the checkpoints of a run."""
    found = options.evolution
    if found is None:
        raise DataError("the trace is of one checkpoint", "give the statistics of a run's checkpoints as `evolution`")
    resolved, statistic = choice.resolved(trace), options.statistic or STATISTICS[0]
    if statistic not in STATISTICS:
        known = f"choose one of {', '.join(STATISTICS)}"
        raise ConfigError(f"unknown statistic `{statistic}`{did_you_mean(statistic, STATISTICS)}", known)
    title = options.title or f"{title_of(resolved, []).partition(',')[0]}: {statistic} over the steps"
    values = found.statistics[resolved.attention][statistic]
    return draw_evolution(values, found.steps, Heading(title=title), statistic, options.pixels())


def flow_picture(trace: Trace, choice: Choice, options: Options) -> Drawing:
    """Raw weights, the rollout up to the layer, and norm-weighted attention, beside each other."""
    resolved = choice.resolved(trace)
    head = resolved.head if isinstance(resolved.head, int) else None
    attention, layer = trace[resolved.attention], resolved.layer
    panels = {"raw": mixed_weights(attention, layer, head)}
    if resolved.attention in (rolled := rollout(trace)):
        panels["rollout"] = rolled[resolved.attention][layer]
    if attention.value_norms is not None:
        norms = norm_weighted(attention)[layer]
        panels["norm"] = share_of_rows(norms[head] if head is not None else norms.mean(axis=0))
    rows, columns = trace.sequences[attention.queries], trace.sequences[attention.keys]
    formulas = "; ".join(f"{NAMES[name]}: {' '.join(FORMULAS[name].split())}" for name in panels)
    scaled = ", rows scaled to one" if "norm" in panels else ""
    note = f"{formulas}{scaled}. {NOTE.replace('`', '')}"
    heading = Heading(title=options.title or title_of(resolved, [] if head is None else [head]), note=note)
    mean = {"raw", "norm"} if head is None else set()
    names = [f"{NAMES[name]}{', mean of the heads' if name in mean else ''}" for name in panels]
    stacked = np.stack([np.clip(panel, 0, 1) for panel in panels.values()]).astype(np.float32)
    return draw_matrix(
        stacked, rows, columns, heading, names, attention.mask, options.pixels(), across=len(panels), meaning="share"
    )
