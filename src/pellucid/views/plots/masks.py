"""Draws attention masks: which position may attend to which."""

from collections.abc import Sequence

import numpy as np
import torch

from pellucid.errors import DataError
from pellucid.model.masks import causal_mask, padding_mask
from pellucid.views.canvas.colours import HUE, hatch_masked, make_masked_swatch, rgb
from pellucid.views.canvas.drawing import MARGIN, PAGE, Drawing, picture_width
from pellucid.views.canvas.grid import MapPanel, draw_map, swatch
from pellucid.views.canvas.shapes import Label
from pellucid.views.canvas.text import shorten, visible

PAD, WORD = 0, 1
PAD_LABEL = "<pad>"
LONGEST = 1024
"""The largest number of tokens of a sentence in a picture."""
LARGEST_CELL = 20.0
PANEL_GAP, SENTENCE_SIZE = 16.0, 12.0


def plot_masks(
    lengths: Sequence[int] = (),
    texts: Sequence[str] = (),
    *,
    targets: Sequence[int] = (),
    title: str = "",
    width: str | float | None = None,
) -> Drawing:
    """Draws the padding mask, the causal mask and both together, for each sentence of a batch.

    The batch has sentences of these `lengths`, or these `texts`, split at spaces; the masks come from `padding_mask`
    and `causal_mask`, which all models use. With `targets`, the length of each sentence's translation, it is the mask
    of cross-attention instead, (T, S): every target position may attend to its whole source.

    Raises DataError if both or none of `lengths` and `texts` are given, for a length outside of 1..1024, and if the
    numbers of targets and sentences differ.
    """
    if bool(lengths) == bool(texts):
        raise DataError("the masks of a batch require either `lengths` or `texts`", "for instance lengths 5 and 3")
    shown = picture_width(width)
    page = shown or PAGE
    for name, given in (("lengths", lengths), ("targets", targets)):
        for length in given:
            if length < 1:
                raise DataError(
                    f"`{name}` {list(given)}: {length} must be at least 1", "use at least one token per sentence"
                )
    longest = max([*lengths, *(len(text.split()) for text in texts)])
    if (largest := max([longest, *targets])) > LONGEST:
        raise DataError(
            f"a sentence of {largest:,} tokens is too long for a picture; at most {LONGEST:,}", "use a shorter one"
        )
    if targets and len(targets) != (sentences := len(lengths) or len(texts)):
        raise DataError(
            f"`targets` {list(targets)} must have one value per sentence ({sentences})", "pass one value per sentence"
        )
    batch = [text.split() for text in texts] or [[str(n + 1) for n in range(length)] for length in lengths]
    if not all(batch):
        raise DataError("a text without words has no mask", "use texts with at least one word")
    ids = torch.tensor([[WORD] * len(words) + [PAD] * (longest - len(words)) for words in batch])
    padding, causal = padding_mask(ids, PAD), causal_mask(longest)
    assert padding is not None, "there is a pad id"
    drawing = Drawing(title or "Masks", "Filled: the row may attend to the column. Hatched: it may not.")
    note = "Rows attend to columns. A source's mask is for padding, a target's is causal; both together are drawn last."
    if targets:
        note = "Rows, the target, attend to columns, the source: to all of it but its padding."
    y = drawing.add_heading(drawing.title, note, page)
    _legend(drawing, y + 4)
    y += 26
    for number, words in enumerate(batch):
        labels = [shorten(visible(word), 10) for word in words] + [PAD_LABEL] * (longest - len(words))
        drawing.add(Label(f"Sentence {number + 1}", MARGIN, y + 12, SENTENCE_SIZE, bold=True))
        if targets:
            steps = [str(n + 1) for n in range(targets[number])] + [PAD_LABEL] * (max(targets) - targets[number])
            panels = {"cross": padding[number, 0].expand(len(steps), longest)}
        else:
            steps = labels
            panels = {
                "padding": padding[number, 0].expand(longest, longest),
                "causal": causal[0, 0],
                "both": (padding[number, 0] & causal[0, 0]),
            }
        y = _line(drawing, panels, steps, labels, y + 18, page - 2 * MARGIN)
    return drawing.finish(shown)


def _line(
    drawing: Drawing, panels: dict[str, torch.Tensor], rows: list[str], columns: list[str], y: float, room: float
) -> float:
    """Draws the masks of a sentence side by side; returns the lower end of the masks."""
    x, bottom, share = MARGIN, y, (room - (len(panels) - 1) * PANEL_GAP) / len(panels)
    for name, mask in panels.items():
        filled = np.broadcast_to(rgb(HUE).astype(np.uint8), (*mask.shape, 3))
        pixels = hatch_masked(np.ascontiguousarray(filled), mask.numpy())
        right, below = draw_map(drawing, MapPanel(name, pixels, rows, columns, strong=False), x, y, share, LARGEST_CELL)
        x, bottom = max(right, x + share) + PANEL_GAP, max(bottom, below)
    return bottom + PANEL_GAP


def _legend(drawing: Drawing, y: float) -> None:
    reach = swatch(drawing, MARGIN, y, HUE, "may attend")
    swatch(drawing, reach + 18, y, make_masked_swatch(), "masked")
