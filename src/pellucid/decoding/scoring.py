"""Forced scoring: the log-probability of a given output."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pellucid.model.transformer import Transformer


@torch.inference_mode()
def forced_scores(
    model: Transformer, src: Tensor, tgt_in: Tensor, tgt_out: Tensor, lengths: Sequence[int]
) -> list[float]:
    """Sums of log-probabilities of the targets (B, T), given the sources (B, S).

    A target counts as far as its length, end token included; what stands behind is padding.
    """
    log_probs = model(src, tgt_in).float().log_softmax(dim=-1)  # (B, T, V)
    chosen = log_probs.gather(2, tgt_out[:, :, None])[:, :, 0].cpu()  # (B, T)
    padding = torch.arange(chosen.size(1)) >= torch.tensor(lengths)[:, None]
    scores: list[float] = chosen.masked_fill(padding, 0.0).double().sum(dim=1).tolist()
    return scores
