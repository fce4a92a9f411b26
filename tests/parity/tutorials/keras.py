"""The Keras tutorial's model in NumPy, from its weights alone: pre-norm, no final norm, sinusoids of each column."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Weights = Mapping[str, Array]


def random_weights(
    seed: int, src_words: int, tgt_words: int, n: int, width: int, inner: int, shared: bool
) -> dict[str, Array]:
    """Weights by attribute path; with `shared`, the output is the target's embedding."""
    normal = np.random.default_rng(seed).normal
    weights: dict[str, Array] = {}

    def dense(path: str, inputs: int, outputs: int) -> None:
        weights[f"{path}/kernel"] = normal(size=(inputs, outputs)) * inputs**-0.5
        weights[f"{path}/bias"] = normal(size=outputs) * 0.1

    for side, attentions in (("enc", ["enc_self_attn"]), ("dec", ["dec_self_attn", "enc_dec_attn"])):
        weights[f"{side}_emb/embeddings"] = normal(size=(src_words if side == "enc" else tgt_words, width)) * 0.5
        for layer in (f"{side}oder/{side}_layers/{i}" for i in range(n)):
            for attention in attentions:
                for part in ("W_q", "W_k", "W_v", "linear"):
                    dense(f"{layer}/{attention}/{part}", width, width)
            dense(f"{layer}/ffn/w_1", width, inner)
            dense(f"{layer}/ffn/w_2", inner, width)
            for number in range(1, len(attentions) + 2):
                weights[f"{layer}/norm_{number}/gamma"] = 1 + 0.1 * normal(size=width)
                weights[f"{layer}/norm_{number}/beta"] = 0.1 * normal(size=width)
    if not shared:
        dense("fc", width, tgt_words)
    return weights


def logits(
    weights: Weights,
    heads: int,
    src: npt.NDArray[np.int64],
    tgt: npt.NDArray[np.int64],
    pad: int,
    as_written: bool = False,
) -> Array:
    """(B, S), (B, T) -> (B, T, V). As written, a target word does not see the source behind its own place."""
    shared = "fc/kernel" not in weights
    src_mask = (src == pad)[:, None, None, :]
    tgt_mask = (tgt == pad)[:, None, None, :] | (1 - np.tri(tgt.shape[1])).astype(bool)
    cross_mask = src_mask
    if as_written:
        cross_mask = src_mask | (1 - np.tri(tgt.shape[1], src.shape[1])).astype(bool)
    memory = embedded(weights["enc_emb/embeddings"], src, shared)
    for layer in layers(weights, "encoder/enc_layers"):
        y = norm(weights, f"{layer}/norm_1", memory)
        memory = memory + attend(weights, f"{layer}/enc_self_attn", heads, y, y, src_mask)
        memory = memory + inner(weights, f"{layer}/ffn", norm(weights, f"{layer}/norm_2", memory))
    x = embedded(weights["dec_emb/embeddings"], tgt, shared)
    for layer in layers(weights, "decoder/dec_layers"):
        y = norm(weights, f"{layer}/norm_1", x)
        x = x + attend(weights, f"{layer}/dec_self_attn", heads, y, y, tgt_mask)
        x = x + attend(weights, f"{layer}/enc_dec_attn", heads, norm(weights, f"{layer}/norm_2", x), memory, cross_mask)
        x = x + inner(weights, f"{layer}/ffn", norm(weights, f"{layer}/norm_3", x))
    return x @ weights["dec_emb/embeddings"].T if shared else dense(weights, "fc", x)


def layers(weights: Weights, before: str) -> list[str]:
    """The paths of the layers, in order."""
    numbers = {int(name.split("/")[2]) for name in weights if name.startswith(before)}
    return [f"{before}/{number}" for number in sorted(numbers)]


def embedded(table: Array, ids: npt.NDArray[np.int64], shared: bool) -> Array:
    x = table[ids] * (np.sqrt(table.shape[1]) if shared else 1.0)
    angle = np.arange(ids.shape[1])[:, None] / np.power(10000, np.arange(table.shape[1]) / table.shape[1])
    angle[:, 0::2], angle[:, 1::2] = np.sin(angle[:, 0::2]), np.cos(angle[:, 1::2])
    return np.asarray(x + angle)


def dense(weights: Weights, path: str, x: Array) -> Array:
    return x @ weights[f"{path}/kernel"] + weights[f"{path}/bias"]


def inner(weights: Weights, path: str, x: Array) -> Array:
    return dense(weights, f"{path}/w_2", np.maximum(dense(weights, f"{path}/w_1", x), 0))


def norm(weights: Weights, path: str, x: Array) -> Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + 1e-6) * weights[f"{path}/gamma"] + weights[f"{path}/beta"])


def attend(weights: Weights, path: str, heads: int, queries: Array, keys: Array, mask: npt.NDArray[np.bool_]) -> Array:
    q, k, v = map(
        partial(split, heads),
        (dense(weights, f"{path}/{part}", x) for part, x in (("W_q", queries), ("W_k", keys), ("W_v", keys))),
    )
    scores = q @ k.swapaxes(-2, -1) / np.sqrt(k.shape[-1]) + mask * -1e9
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    joined = (exponents / exponents.sum(-1, keepdims=True) @ v).swapaxes(1, 2)
    return dense(weights, f"{path}/linear", joined.reshape(*joined.shape[:2], -1))


def split(heads: int, x: Array) -> Array:
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)
