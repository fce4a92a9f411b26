"""Plots label smoothing (section 5.4): the loss's target distribution, and the loss by the model's confidence."""

import numpy as np
import torch

from pellucid.errors import DataError
from pellucid.training.loss import smoothed_cross_entropy
from pellucid.views.canvas.chart import Panel, Series, draw_panel
from pellucid.views.canvas.colours import EMPTY, FAINT_INK, HUE, INK
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing, picture_width
from pellucid.views.canvas.shapes import Box, Label

BARS_HEIGHT = 120.0
MOST_BARS = 60


def plot_smoothing(
    label_smoothing: float = 0.1, vocab_size: int = 12, *, title: str = "", width: str | float | None = None
) -> Drawing:
    """Plots the distribution over `vocab_size` tokens with the lowest loss, and the loss by the right token's
    probability.

    Both are computed from `smoothed_cross_entropy`: its gradient is the model's distribution minus the target's.
    Raises DataError for a smoothing outside of 0..1, or a vocabulary outside of 2..60.
    """
    if not 0 <= label_smoothing < 1:
        raise DataError(f"`label_smoothing` ({label_smoothing}) must be at least 0 and below 1")
    if not 2 <= vocab_size <= MOST_BARS:
        raise DataError(f"`vocab_size` ({vocab_size}) must be in 2..{MOST_BARS}, so that each word has a bar")
    shown = picture_width(width)
    page = shown or PAGE
    room = page - 2 * MARGIN
    target = target_distribution(label_smoothing, vocab_size, vocab_size // 3)
    drawing = Drawing(
        title or f"Label smoothing, {label_smoothing:g}",
        f"The right word has the target {target.max():.3f}, each of the {vocab_size - 1} others {target.min():.4f}.",
    )
    y = drawing.add_heading(drawing.title, drawing.description, page) + 6
    y = _bars(drawing, target, y, room)
    lines = tuple(
        Series(f"smoothing {smoothing:g}", *loss_by_confidence(smoothing, vocab_size))
        for smoothing in dict.fromkeys([label_smoothing, 0.0])
    )
    panel = Panel("Loss", "probability of the right word, the rest spread evenly", lines, from_zero=True)
    draw_panel(drawing, panel, MARGIN, y, room)
    return drawing.finish(shown)


def target_distribution(label_smoothing: float, vocab_size: int, word: int) -> np.ndarray:
    """Returns the distribution with the lowest loss, (V,): the softmax minus the loss's gradient."""
    logits = torch.zeros(1, vocab_size, dtype=torch.float64, requires_grad=True)
    smoothed_cross_entropy(logits, torch.tensor([word]), label_smoothing).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    return (logits.detach().softmax(-1) - logits.grad)[0].numpy()


def loss_by_confidence(label_smoothing: float, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns probabilities of the right token, and the loss at each."""
    right = torch.linspace(0.02, 0.999, 240, dtype=torch.float64)
    others = ((1 - right) / (vocab_size - 1))[:, None].expand(-1, vocab_size - 1)
    logits = torch.cat([right[:, None], others], dim=1).log()
    words = torch.zeros(1, dtype=torch.long)
    losses = [float(smoothed_cross_entropy(row[None], words, label_smoothing)) for row in logits]
    return right.numpy(), np.array(losses)


def _bars(drawing: Drawing, target: np.ndarray, y: float, room: float) -> float:
    """Draws a bar per token; returns the lower end of the bars."""
    step = min(40.0, room / len(target))
    drawing.add(Label("Target", MARGIN, y + 12, 11.5, fill=INK, bold=True))
    bottom = y + 30 + BARS_HEIGHT
    for word, share in enumerate(target):
        x, height = MARGIN + word * step, float(share) * BARS_HEIGHT
        drawing.add(
            Box(x, bottom - BARS_HEIGHT, step - 3, BARS_HEIGHT, EMPTY), Box(x, bottom - height, step - 3, height, HUE)
        )
        if step >= 24:
            text = f"{share:.3f}"
            drawing.add(Label(text, x + (step - 3) / 2, bottom - height - 3, 8.5, "middle", INK))
    drawing.add(Label("words of the vocabulary", MARGIN, bottom + 14, SMALL_SIZE, fill=FAINT_INK))
    return bottom + 30
