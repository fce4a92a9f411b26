"""The cross-attention of one translation, as the model that runs computes it."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.decoding.padding import pad
from pellucid.model.attention import attention_weights, observing
from pellucid.tasks.translator import Translator


@torch.inference_mode()
def cross_attention(
    translator: Translator, source: str, target: str
) -> tuple[npt.NDArray[np.float32], list[str], list[str]]:
    """Which source tokens the decoder attends to when it writes each target token.

    Returns: weights (N, H, T, S) by decoder layer and head; the T target tokens, the end token included, each with the
    weights by which it was predicted; the S source tokens.
    """
    model, config = translator.model, translator.model.config
    source_ids = [*translator.tokenizers.source.encode(source), config.eos_id]
    target_ids = translator.tokenizers.target.encode(target)
    device = next(model.parameters()).device
    src = pad([source_ids], config.pad_id or 0).to(device)
    tgt_in = pad([[config.bos_id, *target_ids]], config.pad_id or 0).to(device)
    seen: list[Tensor] = []
    memory = model.encode(src)
    with observing(lambda q, k, v, mask, bias, output: seen.append(attention_weights(q, k, mask, bias)[0])):
        model.decode(tgt_in, memory, src)
    weights = torch.stack(seen[1::2])  # each layer attends to itself, then to the memory
    rows = translator.tokenizers.target.tokens([*target_ids, config.eos_id])
    return weights.float().cpu().numpy(), rows, translator.tokenizers.source.tokens(source_ids)
