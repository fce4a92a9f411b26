"""Follows attention through all layers: the origin of each position's content, and how much attention moves.

Attention weights give the mixture of values, but neither their content nor their later use: attention alone is not an
explanation (Jain and Wallace 2019). `pellucid.ablate` measures what a head does for the model's output.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from pellucid.analysis.weights import all_weights
from pellucid.errors import DataError
from pellucid.tracing.attention import Array, AttentionTrace
from pellucid.tracing.trace import Trace

FORMULAS: Mapping[str, str] = MappingProxyType(
    {
        "raw": "A = softmax(q kᵀ / √K)",
        "rollout": "R₀ = I,  Rₙ = ½ (I + mean over heads of Aₙ) Rₙ₋₁   (Abnar and Zuidema 2020)",
        "norm": "‖αᵢⱼ f(xⱼ)‖ = αᵢⱼ ‖xⱼ Wⱽ Wᴼ‖   (Kobayashi et al. 2020)",
    }
)
LIMITS: Mapping[str, str] = MappingProxyType(
    {
        "raw": "How a head mixes values. What the values hold after the first layer, it does not say.",
        "rollout": "It takes the residual stream for as strong as all heads together and the heads for equal, and it "
        "leaves out values, feed-forward networks and norms.",
        "norm": "One head in one layer: the outputs of heads can cancel out, and later norms are ignored.",
    }
)
NOTE = "Attention is not by itself an explanation: `pellucid.ablate` measures the effect of a head."


def compute_rollout(trace: Trace) -> dict[str, Array]:
    """Computes how much of each input is in each position after each layer, (N, L, M) by the attention's name.

    Source: Abnar and Zuidema, "Quantifying Attention Flow in Transformers" (2020), equation 1: a self-attention block
    leaves half of a position unchanged and mixes the other half, R_n = (I + A_n) / 2 · R_{n-1}, A the mean over heads.
    For an encoder-decoder both blocks of a decoder layer are treated this way; cross-attention mixes in the memory,
    which the encoder's last R describes. "decoder.self" then holds the shares of the target read so far, "cross" the
    shares of the source; together their rows sum to one.
    """
    found: dict[str, Array] = {}
    if "encoder.self" in trace.attentions:
        found["encoder.self"] = _through_layers(_mean_heads(trace["encoder.self"]))
    if "decoder.self" in trace.attentions:
        own = _mean_heads(trace["decoder.self"])
        if "cross" not in trace.attentions:
            found["decoder.self"] = _through_layers(own)
        else:
            memory = found["encoder.self"][-1] if "encoder.self" in found else None
            found["decoder.self"], found["cross"] = _through_decoder(own, _mean_heads(trace["cross"]), memory)
    return found


def norm_weighted(attention: AttentionTrace) -> Array:
    """Computes the norm of the vector that each key adds to each query's output, (N, H, L, M).

    Source: Kobayashi et al., "Attention is Not Only a Weight" (2020), section 3: ||a_ij f(x_j)||, with f(x) = x W^V W^O
    of the head. Raises DataError for weights without values.
    """
    if attention.value_norms is None:
        raise DataError(
            f"`{attention.name}` has no value norms: the trace was made from weights",
            "trace the model that computes them",
        )
    return all_weights(attention) * attention.value_norms[:, :, None, :]


def share_of_rows(values: Array) -> Array:
    """Scales each row of (..., L, M) to sum to one, for comparison with weights; a row of zeros is unchanged."""
    sums = values.sum(axis=-1, keepdims=True)
    scaled: Array = np.divide(values, sums, out=np.zeros_like(values), where=sums > 0)
    return scaled


def _mean_heads(attention: AttentionTrace) -> Array:
    """Computes the mean over the heads, (N, L, M), one layer at a time to save memory on long texts."""
    heads = range(attention.num_heads)
    layers = range(attention.num_layers)
    return np.stack([np.mean([attention.weights(n, h) for h in heads], axis=0, dtype=np.float32) for n in layers])


def _through_layers(mixed: Array) -> Array:
    """Computes R of each layer from (N, L, L)."""
    so_far = np.eye(mixed.shape[1], dtype=np.float32)
    found = []
    for weights in mixed:
        so_far = (so_far + weights @ so_far) / 2
        found.append(so_far)
    return np.stack(found)


def _through_decoder(own: Array, cross: Array, memory: Array | None) -> tuple[Array, Array]:
    """Computes R of each layer over the target read, (N, T, T), and over the source, (N, T, S)."""
    target = np.eye(own.shape[1], dtype=np.float32)
    source = np.zeros(cross.shape[1:], dtype=np.float32)
    of_target, of_source = [], []
    for self_weights, cross_weights in zip(own, cross, strict=True):
        target, source = (target + self_weights @ target) / 2, (source + self_weights @ source) / 2
        read = cross_weights if memory is None else cross_weights @ memory
        target, source = target / 2, (source + read) / 2
        of_target.append(target)
        of_source.append(source)
    return np.stack(of_target), np.stack(of_source)
