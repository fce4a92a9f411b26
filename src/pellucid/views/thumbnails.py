"""Every head as a picture of 32 x 32: what the model view shows, and what is quick to make whatever the length."""

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.tracing.trace import Array, AttentionTrace

SIZE = 32


def thumbnails(attention: AttentionTrace, size: int = SIZE) -> npt.NDArray[np.uint8]:
    """The weights of all heads, (N, H, size, size), 255 for a weight of 1.

    A pixel is the largest of the weights that it lies over, so that a single strong one is not lost; where there are
    fewer tokens than pixels, a weight is several pixels.
    """
    pooled = [_pooled(_layer_weights(attention, layer), size) for layer in range(attention.num_layers)]
    found: npt.NDArray[np.uint8] = torch.stack(pooled).numpy()
    return found


def layer_weights(attention: AttentionTrace, layer: int) -> Array:
    """The weights of all heads of a layer at once, (H, L, M): AttentionTrace.weights() for each head."""
    weights: Array = _layer_weights(attention, layer).numpy()
    return weights


def _layer_weights(attention: AttentionTrace, layer: int) -> Tensor:
    if attention.q is None or attention.k is None:
        heads = [attention.weights(layer, head) for head in range(attention.num_heads)]
        return torch.from_numpy(np.stack(heads)).float()
    q, k = (_tensor(part[layer]) for part in (attention.q, attention.k))
    k = k.repeat_interleave(q.size(0) // k.size(0), dim=0)  # (H, M, K)
    scores = torch.bmm(q * q.size(-1) ** -0.5, k.transpose(1, 2))  # (H, L, M)
    if attention.bias is not None:
        scores += _tensor(attention.bias[layer % len(attention.bias)])
    if attention.mask is None:
        return scores.softmax(dim=-1)
    mask = torch.from_numpy(attention.mask.copy())
    scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).mul_(mask.any(dim=-1, keepdim=True))


def _tensor(array: Array) -> Tensor:
    """A copy: arrays of a trace file cannot be written to, which torch does not like."""
    return torch.from_numpy(np.array(array, np.float32))


def _pooled(weights: Tensor, size: int) -> Tensor:
    """(H, L, M) -> (H, size, size), as whole numbers up to 255."""
    pooled: Tensor = F.adaptive_max_pool2d(weights[None], size)[0]
    return (pooled * 255).round_().clamp_(0, 255).to(torch.uint8)
