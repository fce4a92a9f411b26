"""Detects without data whether an imported translator makes sense, by its outputs for sources of random words."""

from dataclasses import replace

import torch
from torch import Tensor

from pellucid.decoding.batched_search import search
from pellucid.model.masks import causal_mask
from pellucid.model.transformer import Transformer
from pellucid.text.tokenizer import SPECIAL_TOKENS
from pellucid.weights.folder import SavedModel

SOURCES = 24
"""The number of random sources to translate."""
LENGTHS = (3, 8)
"""Their least and most words."""
ROOM = 10
"""The tokens allowed in an output beyond the source's."""
DEPENDS = 0.8
"""The threshold, in nats per token, by which an output is likelier for its own source than for the others: below it a
model translates nothing (decision 59).
"""
COPIED = 0.5
"""The largest share of random target words that a model may predict when they are visible; a model trained with masks
never learned to copy them.
"""


def find_fault(saved: SavedModel, has_slips: bool) -> str:
    """Returns a sentence on why an imported translator makes no sense, or an empty text if no fault was found.

    Three faults are checked: it was trained without masks, so that it copies each next word from the target that it
    reads; it writes nothing for any source; it writes the same for all sources. The last two count only if its code has
    slips, so that another reading may be right.
    """
    model = saved.model
    if not isinstance(model, Transformer):
        return ""
    with torch.inference_mode():
        seen, hidden = (_measure_leak(saved, model, everything) for everything in (True, False))
        if seen >= COPIED and seen > 2 * hidden:
            return (
                f"it was trained without masks: given the whole target, it predicts {seen:.0%} of random words by "
                "copying them. It has learned to copy, not to translate; apply the masks, and train it again"
            )
        if not has_slips:
            return ""
        sources = _random_sources(saved, model)
        written = _write(saved, model, sources)
    if not any(written):
        return f"it writes an empty line for each of {len(sources)} sources of random words"
    if len(set(map(tuple, written))) == 1 and len(set(map(tuple, sources))) > 1:
        return f"it writes the same line for each of {len(sources)} sources of random words"
    return ""


def dependence(saved: SavedModel) -> float:
    """Returns how much likelier an output is for its own source than for other sources of random words: nats per token,
    the mean over all.
    """
    model = saved.model
    assert isinstance(model, Transformer)
    config = model.config
    with torch.inference_mode():
        sources = _random_sources(saved, model)
        src = _pad([saved.decode.add_special_ids(ids, config.eos_id) for ids in sources], config.pad_id)
        gained, tokens = 0.0, 0
        for place, ids in enumerate(_write(saved, model, sources)):
            tgt_out = torch.tensor([*ids, config.eos_id]).expand(len(sources), -1)  # (B, T)
            tgt_in = torch.tensor([config.bos_id, *ids]).expand(len(sources), -1)  # (B, T)
            log_probs = model(src, tgt_in).log_softmax(dim=-1).gather(2, tgt_out[..., None]).sum(dim=(1, 2))  # (B,)
            own = log_probs[place]
            gained += float(own - (log_probs.sum() - own) / (len(sources) - 1))
            tokens += tgt_out.size(1)
    return gained / tokens


def _write(saved: SavedModel, model: Transformer, sources: list[list[int]]) -> list[list[int]]:
    """Returns the outputs of greedy search."""
    decode = replace(saved.decode, beam_size=1, n_best=1, max_length=max(LENGTHS) + ROOM, target_prefix=())
    return [found[0].ids for found in search(model, sources, decode)]


def _random_sources(saved: SavedModel, model: Transformer) -> list[list[int]]:
    """Returns sources of random vocabulary words, as long as the positions allow."""
    first, size = len(SPECIAL_TOKENS), model.config.src_vocab_size
    generator = torch.Generator().manual_seed(0)
    most = max(1, min(max(LENGTHS), model.config.max_positions - 2, saved.decode.max_source_length))
    lengths = torch.randint(min(min(LENGTHS), most), most + 1, (SOURCES,), generator=generator)
    if size <= first:
        return [[]] * SOURCES
    return [torch.randint(first, size, (int(length),), generator=generator).tolist() for length in lengths]


def _measure_leak(saved: SavedModel, model: Transformer, everything: bool) -> float:
    """Returns the share of random target words that a model predicts at the position before them.

    Args:
        everything: if True, the model attends to the whole target, else only to the words up to that position.
    """
    first, size = len(SPECIAL_TOKENS), model.config.tgt_vocab_size
    length = min(max(LENGTHS), model.config.max_positions - 2)
    if size <= first or length < 1:
        return 0.0
    generator = torch.Generator().manual_seed(1)
    words = torch.randint(first, size, (SOURCES, length), generator=generator)
    config = model.config
    start, end = (words.new_full((SOURCES, 1), number) for number in (config.bos_id, config.eos_id))
    tgt = torch.cat([start, words, end], dim=1)
    src = _pad(
        [saved.decode.add_special_ids(ids, config.eos_id) for ids in _random_sources(saved, model)], config.pad_id
    )
    mask = causal_mask(tgt.size(1), tgt.device)
    logits = model(src, tgt, tgt_mask=torch.ones_like(mask) if everything else mask)
    told = logits[:, :length].argmax(dim=-1) == words
    return float(told.float().mean())


def _pad(rows: list[list[int]], pad_id: int | None) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=pad_id or 0
    )
