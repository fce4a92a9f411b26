"""Forced scoring: the log-probability of a given output."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pellucid.model.transformer import Transformer


@torch.inference_mode()
def forced_scores(
    model: Transformer, src: Tensor, tgt_in: Tensor, tgt_out: Tensor, lengths: Sequence[int], begin: int = 0
) -> list[float]:
    """Sums of log-probabilities of the targets (B, T), given the sources (B, S).

    A target counts from place `begin` as far as its length, end token included; what stands behind is padding.
    """
    log_probs = model(src, tgt_in).float().log_softmax(dim=-1)  # (B, T, V)
    chosen = log_probs.gather(2, tgt_out[:, :, None])[:, :, 0].cpu()  # (B, T)
    places = torch.arange(chosen.size(1))
    left_out = (places < begin) | (places >= torch.tensor(lengths)[:, None])
    scores: list[float] = chosen.masked_fill(left_out, 0.0).double().sum(dim=1).tolist()
    return scores
