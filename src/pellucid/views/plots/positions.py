"""Plots positional encodings: their vectors or angles, and the similarity of each two positions."""

from typing import Literal

import torch
from torch import Tensor

from pellucid.errors import ConfigError, DataError
from pellucid.model.attention_positions import RelativePositions, RotaryPositions, apply_rotary
from pellucid.model.families import DecoderOnly, Model
from pellucid.model.positions import LearnedPositions, SinusoidalPositions, sinusoids
from pellucid.model.transformer import Transformer
from pellucid.views.canvas.colours import map_diverging_colours
from pellucid.views.canvas.drawing import MARGIN, PAGE, Drawing, picture_width
from pellucid.views.canvas.grid import MapPanel, draw_map, scale_bar

LARGEST_CELL = 9.0
Stack = Literal["encoder", "decoder"]
Maps = list[tuple[MapPanel, str, float]]
"""Heat maps, each with the meaning of its colors, and its largest value."""


def plot_positions(
    length: int = 64,
    d_model: int = 128,
    *,
    model: Model | None = None,
    stack: Stack | None = None,
    title: str = "",
    width: str | float | None = None,
) -> Drawing:
    """Plots the positional encodings of `length` positions, and the similarity of each two of them.

    Without a model: the sinusoids of section 3.5 at width `d_model`, and their dot products divided by d_model / 2,
    which is the dot product of a vector with itself. With a model: the vectors that its encoder (or decoder: `stack`)
    adds to the embeddings, and their cosines; for rotary positions the cosines of the angles, and the score of a query
    of ones with a key of ones by distance, relative to distance 0; for relative positions the bias on each head's
    scores.

    Raises DataError for a length outside of 1..`max_positions`, ConfigError for a stack that the model does not have.
    """
    shown = picture_width(width)
    page = shown or PAGE
    limit = 4096 if model is None else model.config.max_positions
    if not 1 <= length <= limit:
        raise DataError(f"`length` ({length}) must be in 1..{limit}")
    if model is None:
        table = sinusoids(length, d_model)
        name, maps = "Sinusoidal positions", _map_vectors(table, (table @ table.T) * 2 / d_model, "dot product")
    else:
        name, maps = _map_model(model, length, _choose_stack(model, stack))
    drawing = Drawing(title or name, f"Heat maps over {length} positions: {'; '.join(p.title for p, _, _ in maps)}.")
    y = drawing.add_heading(drawing.title, "", page) + 4
    return _lay_out(drawing, maps, y, shown)


def _lay_out(drawing: Drawing, maps: Maps, y: float, shown: float | None) -> Drawing:
    """Draws the maps in rows: a single map alone, up to four maps two per row, more maps four per row."""
    room = (shown or PAGE) - 2 * MARGIN
    across = 1 if len(maps) == 1 else 2 if len(maps) <= 4 else 4
    share = (room - (across - 1) * 16) / across
    for first in range(0, len(maps), across):
        x, bottom = MARGIN, y
        for panel, meaning, strongest in maps[first : first + across]:
            _, below = draw_map(drawing, panel, x, y, share, LARGEST_CELL)
            ends = (f"−{strongest:.3g}", f"{strongest:.3g}")
            scale_bar(drawing, x + 16, below + 8, meaning, ends, two_sided=True)
            x, bottom = x + share + 16, max(bottom, below + 20)
        y = bottom + 14
    return drawing.finish(shown)


def _choose_stack(model: Model, stack: Stack | None) -> Stack:
    has = ["decoder"] if isinstance(model, DecoderOnly) else ["encoder"]
    has = ["encoder", "decoder"] if isinstance(model, Transformer) else has
    if stack is not None and stack not in has:
        raise ConfigError(f"the model has no `stack` {stack!r}", f"it has {' and '.join(has)}")
    found: Stack = "encoder" if stack is None and "encoder" in has else stack or "decoder"
    return found


@torch.inference_mode()
def _map_model(model: Model, length: int, stack: Stack) -> tuple[str, Maps]:
    embedding = getattr(model, "src_embedding" if stack == "encoder" else "tgt_embedding")
    relative = getattr(model, stack).relative
    places = torch.arange(length, device=next(model.parameters()).device)
    if embedding.positions is not None:
        table = embedding.positions(0, length).float().cpu()
        unit = torch.nn.functional.normalize(table, dim=-1)
        kinds = {SinusoidalPositions: "Sinusoidal", LearnedPositions: "Learned"}
        kind = kinds.get(type(embedding.positions), type(embedding.positions).__name__)
        return f"{kind} positions of the {stack}", _map_vectors(table, unit @ unit.T, "cosine")
    turn, bias = (None, None) if relative is None else relative(places, places)
    if turn is not None:
        cos, width = turn[0], turn[0].size(1)
        turned = apply_rotary(torch.ones(1, 1, length, width, device=places.device), turn)[0, 0]
        score = (turned @ turned.T / width).cpu()
        kind = "Rotary positions" if isinstance(relative, RotaryPositions) else type(relative).__name__
        return f"{kind} of the {stack}", _map_vectors(cos.cpu(), score, "score of equal vectors", "cosine")
    if bias is not None:
        kind = "Relative positions" if isinstance(relative, RelativePositions) else type(relative).__name__
        return f"{kind} of the {stack}", _map_heads(bias.expand(1, -1, length, length)[0].float().cpu())
    raise DataError(f"the {stack} has no positions to show")


def _map_vectors(table: Tensor, similarity: Tensor, meaning: str, of_table: str = "value") -> Maps:
    positions, dimensions = _numbers(len(table)), _numbers(table.size(1))
    strongest = max(float(table.abs().max()), 1e-9)
    by_position = MapPanel(
        "Encodings", map_diverging_colours(table / strongest), positions, dimensions, "position", "dimension"
    )  # fmt: skip
    alike = MapPanel(
        "Similarity", map_diverging_colours(similarity.clamp(-1, 1)), positions, positions, "position", "position"
    )
    return [(by_position, of_table, strongest), (alike, meaning, 1.0)]


def _map_heads(bias: Tensor) -> Maps:
    strongest, positions = max(float(bias.abs().max()), 1e-9), _numbers(bias.size(1))
    return [
        (
            MapPanel(
                f"Head {number}", map_diverging_colours(of_head / strongest), positions, positions, "query", "key"
            ),
            "",
            strongest,
        )
        for number, of_head in enumerate(bias)
    ]


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]
