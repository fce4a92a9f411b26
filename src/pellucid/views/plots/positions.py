"""Draws how a model tells positions apart: its vectors or angles, and how alike two positions look to it."""

from typing import Literal

import torch
from torch import Tensor

from pellucid.errors import ConfigError, DataError
from pellucid.model.families import DecoderOnly, Model
from pellucid.model.positions import LearnedPositions, SinusoidalPositions, sinusoids
from pellucid.model.relative import RelativePositions, RotaryPositions, rotate
from pellucid.model.transformer import Transformer
from pellucid.views.canvas.colours import diverging
from pellucid.views.canvas.drawing import MARGIN, PAGE, Drawing, picture_width
from pellucid.views.canvas.grid import MapPanel, draw_map, scale_bar

LARGEST_CELL = 9.0
Stack = Literal["encoder", "decoder"]
Maps = list[tuple[MapPanel, str, float]]
"""Heat maps, each with the meaning of its colours, and the value of the strongest one."""


def plot_positions(
    length: int = 64,
    d_model: int = 128,
    *,
    model: Model | None = None,
    stack: Stack | None = None,
    title: str = "",
    width: str | float | None = None,
) -> Drawing:
    """Draws the positional encodings of `length` positions, and how alike each two of them are.

    Without a model: the sinusoids of section 3.5 at width `d_model`, and their dot products over d_model / 2, which is
    that of a vector with itself. Of a model: what its encoder (or decoder: `stack`) adds to the embeddings, and their
    cosines; of rotary positions the cosines of the angles, and the score of a query of ones with a key of ones so far
    away, over that at no distance; of relative positions what is added to each head's scores.

    Raises DataError for a length outside of 1..`max_positions`, ConfigError for a stack that the model does not have.
    """
    shown = picture_width(width)
    page = shown or PAGE
    limit = 4096 if model is None else model.config.max_positions
    if not 1 <= length <= limit:
        raise DataError(f"`length` ({length}) must be in 1..{limit}")
    if model is None:
        table = sinusoids(length, d_model)
        name, maps = "Sinusoidal positions", _of_vectors(table, (table @ table.T) * 2 / d_model, "dot product")
    else:
        name, maps = _of_model(model, length, _stack_of(model, stack))
    drawing = Drawing(title or name, f"Heat maps over {length} positions: {'; '.join(p.title for p, _, _ in maps)}.")
    y = drawing.add_heading(drawing.title, "", page) + 4
    return _lay_out(drawing, maps, y, shown)


def _lay_out(drawing: Drawing, maps: Maps, y: float, shown: float | None) -> Drawing:
    """Draws two maps side by side, more below them."""
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


def _stack_of(model: Model, stack: Stack | None) -> Stack:
    has = ["decoder"] if isinstance(model, DecoderOnly) else ["encoder"]
    has = ["encoder", "decoder"] if isinstance(model, Transformer) else has
    if stack is not None and stack not in has:
        raise ConfigError(f"the model has no `stack` {stack!r}", f"it has {' and '.join(has)}")
    found: Stack = "encoder" if stack is None and "encoder" in has else stack or "decoder"
    return found


@torch.inference_mode()
def _of_model(model: Model, length: int, stack: Stack) -> tuple[str, Maps]:
    embedding = getattr(model, "src_embedding" if stack == "encoder" else "tgt_embedding")
    relative = getattr(model, stack).relative
    places = torch.arange(length, device=next(model.parameters()).device)
    if embedding.positions is not None:
        table = embedding.positions(0, length).float().cpu()
        unit = torch.nn.functional.normalize(table, dim=-1)
        kinds = {SinusoidalPositions: "Sinusoidal", LearnedPositions: "Learned"}
        kind = kinds.get(type(embedding.positions), type(embedding.positions).__name__)
        return f"{kind} positions of the {stack}", _of_vectors(table, unit @ unit.T, "cosine")
    turn, bias = (None, None) if relative is None else relative(places, places)
    if turn is not None:
        cos, width = turn[0], turn[0].size(1)
        turned = rotate(torch.ones(1, 1, length, width, device=places.device), turn)[0, 0]
        score = (turned @ turned.T / width).cpu()
        kind = "Rotary positions" if isinstance(relative, RotaryPositions) else type(relative).__name__
        return f"{kind} of the {stack}", _of_vectors(cos.cpu(), score, "score of equal vectors", "cosine")
    if bias is not None:
        kind = "Relative positions" if isinstance(relative, RelativePositions) else type(relative).__name__
        return f"{kind} of the {stack}", _of_heads(bias.expand(1, -1, length, length)[0].float().cpu())
    raise DataError(f"the {stack} has no positions to show")


def _of_vectors(table: Tensor, similarity: Tensor, meaning: str, of_table: str = "value") -> Maps:
    positions, dimensions = _numbers(len(table)), _numbers(table.size(1))
    strongest = max(float(table.abs().max()), 1e-9)
    by_position = MapPanel(
        "Encodings", diverging(table / strongest), positions, dimensions, "position", "dimension"
    )  # fmt: skip
    alike = MapPanel("Similarity", diverging(similarity.clamp(-1, 1)), positions, positions, "position", "position")
    return [(by_position, of_table, strongest), (alike, meaning, 1.0)]


def _of_heads(bias: Tensor) -> Maps:
    strongest, positions = max(float(bias.abs().max()), 1e-9), _numbers(bias.size(1))
    return [
        (
            MapPanel(f"Head {number}", diverging(of_head / strongest), positions, positions, "query", "key"),
            "",
            strongest,
        )
        for number, of_head in enumerate(bias)
    ]


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]
