"""Traces Hugging Face models that Pellucid does not open, through transformers' own interface for attention."""

import re
from collections.abc import Sequence
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError, DataError, install
from pellucid.tracing.apart import apart, in_evaluation
from pellucid.tracing.passes import checksum, provenance
from pellucid.tracing.recorder import SEQUENCES, Call, difference, gather, largest_difference
from pellucid.tracing.tokens import Token, tokens_of_pieces
from pellucid.tracing.trace import Trace

NAME = "pellucid_recorded"
"""The name of the recording attention in transformers' interface."""

HIDDEN = -1e4
"""Added to a score that a layer's own mask hides, where layers have different masks; float16 can hold it."""

_CROSS = re.compile(r"cross|encoder_attn|EncDecAttention", re.IGNORECASE)
Calls = list[tuple[nn.Module, bool, Call, float | None]]
_calls: ContextVar[Calls] = ContextVar("pellucid_foreign_calls")


def trace_hugging_face(
    model: Any, tokenizer: Any, text: str, text_pair: str | None = None, *, target: str | None = None
) -> Trace:
    """Returns a trace of all attentions of a transformers model's pass over a text, or over a pair of texts.

        trace = pellucid.trace_hugging_face(model, tokenizer, "time flies", "fruit flies")

    The pass runs PyTorch's fused kernel (sdpa), the model need not be loaded again, and afterwards it is as it was.

    Args:
        model: a model of transformers 5 whose attention goes through its AttentionInterface: most do.
        tokenizer: the model's own.
        text_pair: a second text, read together with the first.
        target: what an encoder-decoder is to write; None: what `model.generate` does.

    Raises ConfigError where transformers is missing, DataError where the model's attention cannot be recorded, a text
    is longer than its positions, or a target is given to a model without a decoder of its own.
    """
    _check_transformers()
    seq2seq = bool(model.config.is_encoder_decoder)
    if target is not None and not seq2seq:
        raise DataError("`target` is given, but the model is not an encoder-decoder", "give what it reads as `text`")
    encoded = tokenizer(text, text_pair, return_tensors="pt")
    inputs = {name: tensor.to(model.device) for name, tensor in encoded.items()}
    _check_length(inputs["input_ids"].size(1), model)
    with torch.inference_mode():
        written = _written(in_evaluation(model), tokenizer, inputs, target) if seq2seq else None
        recorded = _recorded(model)
        calls: Calls = []
        token = _calls.set(calls)
        try:
            outputs = recorded(**inputs) if written is None else recorded(**inputs, decoder_input_ids=written[:, :-1])
        finally:
            _calls.reset(token)
    if not calls:
        raise DataError(
            f"{type(model).__name__} does not compute its attention through transformers' AttentionInterface",
            'load it with `attn_implementation="eager"`, run it with `output_attentions=True`, and give the weights to '
            "pellucid.trace_from_weights",
        )
    kinds = _by_kind(recorded, calls)
    attentions = {name: gather(name, *SEQUENCES[name], _with_one_mask(found)) for name, found in kinds.items()}
    sequences = _sequences(tokenizer, encoded, written, None if "encoder.self" in kinds else outputs)
    return Trace(
        model=_described(model, "encoder-decoder" if seq2seq else "encoder" if "src" in sequences else "decoder")
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
            "this needs transformers 5 or newer, which is not installed",
            f"install the extra `verify`: {install('verify')}",
        ) from error


def _check_length(length: int, model: Any) -> None:
    limit = getattr(model.config, "max_position_embeddings", None)
    if isinstance(limit, int) and length > limit:
        raise DataError(f"the text has {length:,} tokens, the model {limit:,} positions", "cut the text")


def _recorded(model: Any) -> Any:
    """Returns the model's modules apart from it, in evaluation mode, which compute with the recording attention."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    recorded: Any = apart(model).eval()
    memo: dict[int, Any] = {}
    for module in recorded.modules():
        if "config" in module.__dict__:
            module.config = deepcopy(module.config, memo)  # the memo: what two modules share, their copies share, too
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
    found = difference(q, k, v, mask, bias, output[0].transpose(0, 1).float())
    _calls.get().append((module, causal, Call(q, k, mask, bias, None, found), scaling))
    return output, None


def _mask_and_bias(
    attention_mask: Tensor | None, position_bias: Tensor | None, causal: bool, L: int, M: int, device: torch.device
) -> tuple[Tensor | None, Tensor | None]:
    """Returns the mask (L, M) and the numbers added to the scores (1 or H, L, M) that sdpa makes of its arguments."""
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


def _by_kind(model: Any, calls: Calls) -> dict[str, list[Call]]:
    """Returns the calls by the kind of attention, each in the order of the layers."""
    names = {module: name for name, module in model.named_modules()}
    kinds: dict[str, list[Call]] = {}
    for module, causal, call, _ in calls:
        stack = "decoder" if causal else "encoder"
        if model.config.is_encoder_decoder:
            stack = next(part for part in names[module].split(".") if part in ("encoder", "decoder"))
        kind = "cross" if _CROSS.search(names[module]) else f"{stack}.self"
        kinds.setdefault(kind, []).append(call)
    return kinds


def _with_one_mask(calls: list[Call]) -> list[Call]:
    """Returns the calls with the mask of what any layer may attend to; a layer that hides more has a bias for it."""
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
        replace(call, mask=union, bias=(0.0 if call.bias is None else call.bias) + _hiding(union & ~mask))
        for call, mask in zip(calls, dense, strict=True)
    ]


def _hiding(hidden: Tensor) -> Tensor:
    """Returns a bias that hides these places: (L, M), bool -> (1, L, M)."""
    return torch.zeros(hidden.shape, device=hidden.device).masked_fill(hidden, HIDDEN)[None]


def _written(model: Any, tokenizer: Any, inputs: dict[str, Tensor], target: str | None) -> Tensor:
    """Returns the ids that the decoder reads and the one that it writes last, (1, T + 1)."""
    if target is None:
        found: Tensor = model.generate(**inputs)
        return found
    labels = tokenizer(text_target=target, return_tensors="pt")["input_ids"].to(model.device)
    return torch.cat([model.prepare_decoder_input_ids_from_labels(labels), labels[:, -1:]], dim=1)


def _sequences(tokenizer: Any, encoded: Any, written: Tensor | None, outputs: Any) -> dict[str, tuple[Token, ...]]:
    """Returns the tokens by sequence; `outputs` are those of a decoder alone."""
    ids = encoded["input_ids"][0].tolist()
    read = _tokens(tokenizer, ids, _segments(encoded, len(ids)))
    if written is not None:
        tgt = written[0].tolist()
        return {"src": read, "tgt": _tokens(tokenizer, tgt[:-1]), "out": _tokens(tokenizer, tgt[1:])}
    if outputs is None:
        return {"src": read}
    return {"tgt": read, "out": _tokens(tokenizer, [*ids[1:], _next(outputs, ids)])}


def _next(outputs: Any, ids: Sequence[int]) -> int:
    """Returns the most probable id behind the last one; without a head over the vocabulary the last one again."""
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


def _described(model: Any, family: str) -> dict[str, str | int | float]:
    width: Any = getattr(model.config, "d_model", None) or getattr(model.config, "hidden_size", 0)
    return {"name": type(model).__name__, "family": family, "d_model": int(width), "weights": checksum(model)}
