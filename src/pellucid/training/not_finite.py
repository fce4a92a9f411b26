"""Which sentence made a loss infinite or NaN, for the message that ends such a run."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from pellucid.data.batching import Batch
from pellucid.training.memory import in_parts

SHOWN = 3  # sentences of the step, where no single one is to blame
MOST_CHARACTERS = 300  # of a sentence's text


def explain(
    model: nn.Module,
    batches: Sequence[Batch],
    is_finite: Callable[[Batch], bool],
    text_of: Callable[[int], str],
) -> str:
    """Where it comes from, as far as can be found: the weights, one sentence of the step, or the step as a whole.

    Args:
        is_finite: computes loss and gradient of some sentences once more.
        text_of: a pair's text, by its index.
    """
    broken = [name for name, p in model.named_parameters() if not torch.isfinite(p).all()]
    if broken:
        return f"{len(broken)} parameters are not finite already (first: `{broken[0]}`)"
    for batch in batches:
        found = None if is_finite(batch) else _halved(batch, is_finite)
        if found is not None:
            return f"it comes from {_pair(found, text_of)}"
    first = [int(index) for batch in batches for index in batch.sentences[:SHOWN]][:SHOWN]
    return f"no pair gives it alone; those of the step begin with {'; '.join(_pair(n, text_of) for n in first)}"


def _halved(batch: Batch, is_finite: Callable[[Batch], bool]) -> int | None:
    """The first sentence that is not finite alone, by halving: some ten passes, however many sentences there are."""
    while len(batch.src) > 1:
        first, second = in_parts(batch, 2)
        batch = second if is_finite(first) else first
    return None if is_finite(batch) else int(batch.sentences[0])


def _pair(index: int, text_of: Callable[[int], str]) -> str:
    text = text_of(index)
    text = text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
    return f"training pair {index + 1:,}{text and f' ({text})'}"
