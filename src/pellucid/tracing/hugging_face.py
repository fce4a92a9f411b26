"""Traces Hugging Face models that Pellucid does not open, through transformers' own interface for attention."""

import re
from collections.abc import Sequence
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError, DataError, format_install_command
from pellucid.tracing.module_copy import copy_in_eval_mode, copy_module_tree
from pellucid.tracing.recorder import (
    SEQUENCES,
    AttentionRecord,
    build_attention_trace,
    largest_difference,
    measure_reconstruction_error,
)
from pellucid.tracing.recording import checksum, provenance
from pellucid.tracing.tokens import Token, tokens_of_pieces
from pellucid.tracing.trace import Trace

NAME = "pellucid_recorded"
"""The name of the recording attention in transformers' interface."""

HIDDEN = -1e4
"""Added to a score that a layer's mask hides, if layers have different masks; float16 can represent it."""

_CROSS = re.compile(r"cross|encoder_attn|EncDecAttention", re.IGNORECASE)
Calls = list[tuple[nn.Module, bool, AttentionRecord, float | None]]
_calls: ContextVar[Calls] = ContextVar("pellucid_foreign_calls")


def trace_hugging_face(
    model: Any, tokenizer: Any, text: str, text_pair: str | None = None, *, target: str | None = None
) -> Trace:
    """Returns a trace of all attentions in a forward pass of a transformers model over a text or a pair of texts.

        trace = pellucid.trace_hugging_face(model, tokenizer, "time flies", "fruit flies")

    The pass uses PyTorch's fused kernel (sdpa). The model need not be loaded again, and it is left unchanged.

    Args:
        model: a model of transformers 5 whose attention goes through its AttentionInterface: most do.
        tokenizer: the model's tokenizer.
        text_pair: a second text, read together with the first.
        target: the output of an encoder-decoder; None: the output of `model.generate`.

    Raises ConfigError if transformers is missing, DataError if the model's attention cannot be recorded, a text is
    longer than the model's maximum length, or a target is given for a model that has no decoder next to an encoder.
    """
    _check_transformers()
    seq2seq = bool(model.config.is_encoder_decoder)
    if target is not None and not seq2seq:
        raise DataError("`target` is given, but the model is not an encoder-decoder", "pass the input as `text`")
    encoded = tokenizer(text, text_pair, return_tensors="pt")
    inputs = {name: tensor.to(model.device) for name, tensor in encoded.items()}
    _check_length(inputs["input_ids"].size(1), model)
    with torch.inference_mode():
        written = _generate(copy_in_eval_mode(model), tokenizer, inputs, target) if seq2seq else None
        recorded = _copy_for_recording(model)
        calls: Calls = []
        token = _calls.set(calls)
        try:
            outputs = recorded(**inputs) if written is None else recorded(**inputs, decoder_input_ids=written[:, :-1])
        finally:
            _calls.reset(token)
    if not calls:
        raise DataError(
            f"{type(model).__name__} does not compute its attention through transformers' AttentionInterface",
            'load it with `attn_implementation="eager"`, run it with `output_attentions=True`, and pass the weights '
            "to pellucid.trace_from_weights",
        )
    kinds = _group_by_attention(recorded, calls)
    attentions = {
        name: build_attention_trace(name, *SEQUENCES[name], _merge_masks(found)) for name, found in kinds.items()
    }
    sequences = _sequences(tokenizer, encoded, written, None if "encoder.self" in kinds else outputs)
    return Trace(
        model=_describe(model, "encoder-decoder" if seq2seq else "encoder" if "src" in sequences else "decoder")
        | ({"score_scale": 1.0} if all(scaling == 1 for *_, scaling in calls) else {}),
        sequences=sequences,
        attentions=attentions,
        faithfulness=largest_difference(call for found in kinds.values() for call in found),
        provenance=provenance(model),
    )


def _check_transformers() -> None:
    try:
        from transformers import AttentionInterface, AttentionMaskInterface  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "this requires transformers 5 or newer, which is not installed",
            f"install the extra `verify`: {format_install_command('verify')}",
        ) from error


def _check_length(length: int, model: Any) -> None:
    limit = getattr(model.config, "max_position_embeddings", None)
    if isinstance(limit, int) and length > limit:
        raise DataError(f"the text has {length:,} tokens, but the model has {limit:,} positions", "shorten the text")


def _copy_for_recording(model: Any) -> Any:
    """Returns a copy of the model's modules, in evaluation mode, that computes with the recording attention."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    recorded: Any = copy_module_tree(model).eval()
    memo: dict[int, Any] = {}
    for module in recorded.modules():
        if "config" in module.__dict__:
            module.config = deepcopy(module.config, memo)  # the memo: a config shared by modules stays shared
    recorded.set_attn_implementation(NAME)
    return recorded


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, None]:
    """Computes transformers' sdpa attention and records it: (B, H, L, K), (B, Hkv, M, K) twice -> (B, L, H, K)."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    width, scaling = query.size(-1), settings.get("scaling")
    q, k, v = query[0].float(), key[0].float(), value[0].float()
    if scaling is not None and scaling != width**-0.5:
        q = q * (scaling * width**0.5)  # a trace divides by sqrt(K)
    told = settings.get("is_causal")
    causal = bool(getattr(module, "is_causal", True) if told is None else told)
    mask, bias = _mask_and_bias(attention_mask, settings.get("position_bias"), causal, q.size(1), k.size(1), q.device)
    found = measure_reconstruction_error(q, k, v, mask, bias, output[0].transpose(0, 1).float())
    _calls.get().append((module, causal, AttentionRecord(q, k, mask, bias, None, found), scaling))
    return output, None


def _mask_and_bias(
    attention_mask: Tensor | None, position_bias: Tensor | None, causal: bool, L: int, M: int, device: torch.device
) -> tuple[Tensor | None, Tensor | None]:
    """Returns the mask (L, M) and the bias (1 or H, L, M) that sdpa derives from its arguments."""
    bias = None if position_bias is None else position_bias[0, :, :, :M].float()
    if attention_mask is None:
        mask = torch.ones(L, M, dtype=torch.bool, device=device).tril() if causal and L > 1 else None
    elif attention_mask.dtype == torch.bool:
        mask = attention_mask[0, 0].expand(L, -1)
    else:
        hidden = attention_mask[0] <= torch.finfo(attention_mask.dtype).min / 2  # (1 or H, L, M)
        mask = ~hidden[0].expand(L, -1)
        added = attention_mask[0].float().masked_fill(hidden, 0.0).expand(-1, L, -1)
        if added.any():
            bias = added if bias is None else bias + added
    # T5's cross-attention adds zeros.
    return mask, None if bias is None or not bias.any() else bias.expand(-1, L, -1)


def _group_by_attention(model: Any, calls: Calls) -> dict[str, list[AttentionRecord]]:
    """Returns the calls by kind of attention, each kind in the order of the layers."""
    names = {module: name for name, module in model.named_modules()}
    kinds: dict[str, list[AttentionRecord]] = {}
    for module, causal, call, _ in calls:
        stack = "decoder" if causal else "encoder"
        if model.config.is_encoder_decoder:
            stack = next(part for part in names[module].split(".") if part in ("encoder", "decoder"))
        kind = "cross" if _CROSS.search(names[module]) else f"{stack}.self"
        kinds.setdefault(kind, []).append(call)
    return kinds


def _merge_masks(calls: list[AttentionRecord]) -> list[AttentionRecord]:
    """Returns the calls with the union of their masks; a layer that hides more positions gets a bias for them."""
    masks = [call.mask for call in calls]
    if all(mask is None for mask in masks):
        return calls
    L, M = calls[0].q.size(1), calls[0].k.size(1)
    full = torch.ones(L, M, dtype=torch.bool, device=calls[0].q.device)
    dense = [full if mask is None else mask for mask in masks]
    if all(torch.equal(mask, dense[0]) for mask in dense):
        return [replace(call, mask=dense[0]) for call in calls]
    union = torch.stack(dense).any(dim=0)
    return [
        replace(call, mask=union, bias=(0.0 if call.bias is None else call.bias) + _make_bias(union & ~mask))
        for call, mask in zip(calls, dense, strict=True)
    ]


def _make_bias(hidden: Tensor) -> Tensor:
    """Returns a bias that hides these positions: (L, M), bool -> (1, L, M)."""
    return torch.zeros(hidden.shape, device=hidden.device).masked_fill(hidden, HIDDEN)[None]


def _generate(model: Any, tokenizer: Any, inputs: dict[str, Tensor], target: str | None) -> Tensor:
    """Returns the ids that the decoder reads, followed by the last id that it writes, (1, T + 1)."""
    if target is None:
        found: Tensor = model.generate(**inputs)
        return found
    labels = tokenizer(text_target=target, return_tensors="pt")["input_ids"].to(model.device)
    return torch.cat([model.prepare_decoder_input_ids_from_labels(labels), labels[:, -1:]], dim=1)


def _sequences(tokenizer: Any, encoded: Any, written: Tensor | None, outputs: Any) -> dict[str, tuple[Token, ...]]:
    """Returns the tokens by sequence; `outputs` are the outputs of a decoder-only model."""
    ids = encoded["input_ids"][0].tolist()
    read = _tokens(tokenizer, ids, _segments(encoded, len(ids)))
    if written is not None:
        tgt = written[0].tolist()
        return {"src": read, "tgt": _tokens(tokenizer, tgt[:-1]), "out": _tokens(tokenizer, tgt[1:])}
    if outputs is None:
        return {"src": read}
    return {"tgt": read, "out": _tokens(tokenizer, [*ids[1:], _next(outputs, ids)])}


def _next(outputs: Any, ids: Sequence[int]) -> int:
    """Returns the most probable id after the last one; without a language modeling head the last id again."""
    logits = getattr(outputs, "logits", None)
    return int(logits[0, -1].argmax()) if logits is not None and logits.dim() == 3 else ids[-1]


def _segments(encoded: Any, length: int) -> list[int]:
    """Returns 0 for each token of the first text, 1 for the second; a special token goes with the text before it."""
    if not getattr(encoded, "is_fast", False):
        kinds = encoded.get("token_type_ids")
        return [0] * length if kinds is None else kinds[0].tolist()
    found, last = [], 0
    for number in encoded.sequence_ids(0):
        last = last if number is None else number
        found.append(last)
    return found


def _tokens(tokenizer: Any, ids: Sequence[int], segments: Sequence[int] = ()) -> tuple[Token, ...]:
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    special |= {i for i in (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id) if i is not None}
    pieces = tokenizer.convert_ids_to_tokens(list(ids))
    return tokens_of_pieces(pieces, ids, [i in special for i in ids], segments)


def _describe(model: Any, family: str) -> dict[str, str | int | float]:
    width: Any = getattr(model.config, "d_model", None) or getattr(model.config, "hidden_size", 0)
    return {"name": type(model).__name__, "family": family, "d_model": int(width), "weights": checksum(model)}
