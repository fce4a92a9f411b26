"""Makes traces of attention weights that another library computed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pellucid.errors import DataError
from pellucid.tracing.attention import ROW_SUM, Array, AttentionTrace, attention_problems
from pellucid.tracing.tokens import Token, tokens_of_pieces
from pellucid.tracing.trace import Trace

HALF_SUM = 1e-2
"""The largest deviation from one of a row's sum in half precision, where each weight is rounded."""

_NARROW = (torch.float16, torch.bfloat16)


def trace_from_weights(
    attention: Any = None,
    tokens: Sequence[str | Token] | None = None,
    sentence_b_start: int | None = None,
    *,
    encoder_attention: Any = None,
    decoder_attention: Any = None,
    cross_attention: Any = None,
    encoder_tokens: Sequence[str | Token] | None = None,
    decoder_tokens: Sequence[str | Token] | None = None,
) -> Trace:
    """Returns a trace of another library's weights, such as `model(..., output_attentions=True).attentions`.

        trace = pellucid.trace_from_weights(outputs.attentions, tokenizer.convert_ids_to_tokens(ids))

    Such a trace has no queries and keys. Weights are a tuple of tensors or arrays, one per layer, (1, H, L, M), or a
    single array (N, H, L, M).

    Args:
        attention, tokens: of a single stack, which counts as a decoder if no row attends to a later column.
        sentence_b_start: the position at which the second of two texts begins.
        encoder_attention, decoder_attention, cross_attention, encoder_tokens, decoder_tokens: of an encoder-decoder;
            an omitted attention is not traced. A cross-attention's rows are the `decoder_tokens`.

    Raises DataError if weights and tokens do not match, the second text begins at no token, there are several texts,
    layers are missing (None), or rows do not sum to one.
    """
    given = {"encoder.self": encoder_attention, "decoder.self": decoder_attention, "cross": cross_attention}
    if attention is not None:
        if any(weights is not None for weights in given.values()):
            raise DataError(
                "`attention` is for a single stack", "pass it alone, or pass the parts of an encoder-decoder"
            )
        weights = _stack(attention, "attention")
        name = "decoder.self" if _looks_back(weights) else "encoder.self"
        side = {"encoder.self": "src", "decoder.self": "tgt"}[name]
        return _trace({name: weights}, {side: _label(tokens, "tokens", _segments(sentence_b_start, weights))})
    if sentence_b_start is not None:
        raise DataError("`sentence_b_start` is for a single stack", "pass its weights as `attention`")
    stacks = {
        name: _stack(weights, f"{name.partition('.')[0]}_attention")
        for name, weights in given.items()
        if weights is not None
    }
    if not stacks:
        raise DataError("no attention weights are given", "pass `attention`, or the weights of an encoder-decoder")
    sequences = {}
    if {"encoder.self", "cross"} & set(stacks):
        sequences["src"] = _label(encoder_tokens, "encoder_tokens")
    if {"decoder.self", "cross"} & set(stacks):
        sequences["tgt"] = _label(decoder_tokens, "decoder_tokens")
    return _trace(stacks, sequences)


def _trace(stacks: dict[str, Array], sequences: dict[str, tuple[Token, ...]]) -> Trace:
    """Returns the trace of weights by name, between the tokens of these sequences."""
    sides = {"encoder.self": ("src", "src"), "decoder.self": ("tgt", "tgt"), "cross": ("tgt", "src")}
    attentions = {
        name: AttentionTrace(name=name, queries=sides[name][0], keys=sides[name][1], ready=weights)
        for name, weights in stacks.items()
    }
    for name, attention in attentions.items():
        for problem in attention_problems(attention, sequences):
            raise DataError(f"`{name}` {problem}", "pass the weights after the softmax, with the tokens of both sides")
    family = "encoder-decoder" if len(sequences) == 2 else "encoder" if "src" in sequences else "decoder"
    return Trace(
        model={"name": "given weights", "family": family},
        sequences=sequences,
        attentions=attentions,
        faithfulness=0.0,
    )


def _segments(sentence_b_start: int | None, weights: Array) -> list[int]:
    """Returns 0 for each token of the first text, 1 for each of the second; an empty list for a single text."""
    if sentence_b_start is None:
        return []
    count = weights.shape[-1]
    if not 1 <= sentence_b_start < count:
        raise DataError(
            f"`sentence_b_start` ({sentence_b_start}) must be in 1..{count - 1}: there are {count} tokens",
            "it is the position of the second text's first token, counted from 0",
        )
    return [int(i >= sentence_b_start) for i in range(count)]


def _label(tokens: Sequence[str | Token] | None, name: str, segments: Sequence[int] = ()) -> tuple[Token, ...]:
    if tokens is None:
        raise DataError(f"`{name}` is not given", "pass the tokens, as from `tokenizer.convert_ids_to_tokens(ids)`")
    if isinstance(tokens, str):
        raise DataError(f"`{name}` is a string, not a list of tokens", "tokenize it with the model's tokenizer")
    labelled = [token for token in tokens if isinstance(token, Token)]
    if len(labelled) == len(tokens):
        return tuple(labelled)
    return tokens_of_pieces([str(token) for token in tokens], segments=segments)


def _stack(layers: Any, name: str) -> Array:
    """Returns the layers as one array (N, H, L, M) in single precision, whose rows sum to one."""
    arrays = [_layer(layer, number, name) for number, layer in enumerate(layers)]
    if len({array.shape for array in arrays}) != 1:
        raise DataError(
            f"`{name}` must be one array per layer, all of the same shape, not {[a.shape for a in arrays][:3]}"
        )
    return np.stack(arrays)


def _layer(layer: Any, number: int, name: str) -> Array:
    """Returns the weights of a layer, (H, L, M)."""
    if layer is None:
        raise DataError(
            f"`{name}` has no weights in layer {number} (None): the model was run with fused attention",
            'load it with `attn_implementation="eager"`, or use pellucid.trace_hugging_face, which works without '
            "reloading",
        )
    narrow = isinstance(layer, torch.Tensor) and layer.dtype in _NARROW
    array: npt.NDArray[np.float32] = (
        layer.detach().float().cpu().numpy() if isinstance(layer, torch.Tensor) else np.asarray(layer, np.float32)
    )
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != 3:
        raise DataError(
            f"`{name}` has shape {tuple(array.shape)} in layer {number}; a trace is of one text, (1, H, L, M)",
            f"select one: tuple(layer[i : i + 1] for layer in {name})",
        )
    return (
        _renormalise_rows(array) if narrow or (isinstance(layer, np.ndarray) and layer.dtype == np.float16) else array
    )


def _renormalise_rows(weights: Array) -> Array:
    """Scales weights (H, L, M) of half precision if rounding alone keeps a row's sum from one."""
    sums = weights.sum(axis=-1, keepdims=True)
    rounded = (np.abs(sums - 1) > ROW_SUM) & (np.abs(sums - 1) <= HALF_SUM)
    scaled: Array = np.where(rounded, weights / np.where(rounded, sums, 1), weights)
    return scaled


def _looks_back(weights: Array) -> bool:
    """Returns True if no row attends to a later column, in any layer and head."""
    length = min(weights.shape[-2:])
    return length > 1 and not np.triu(weights, k=1).any()
