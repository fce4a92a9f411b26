"""Summarizes a model: its parameters, and each step of a forward pass with its shape and values."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.data.labels import classifier_input
from pellucid.decoding.batches import pad
from pellucid.errors import ConfigError, DataError
from pellucid.model.attention import MultiHeadAttention, attention_weights
from pellucid.model.attention_positions import RelativePositions, RotaryPositions
from pellucid.model.embeddings import Embeddings
from pellucid.model.families import DecoderOnly, Model
from pellucid.model.layers import DecoderLayer, EncoderLayer
from pellucid.model.observers import observe_attention
from pellucid.model.transformer import Transformer
from pellucid.tasks.languages import set_languages
from pellucid.tasks.task import require_tokenizers
from pellucid.tasks.translator import Translator
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.tokenizers import TokenizerPair
from pellucid.tracing.module_copy import copy_module_tree
from pellucid.weights.folder import SavedModel

Read = tuple[str, TokenizerBase, list[int]]
"""One input of a forward pass: its name, its tokenizer, its ids."""


MOST_SHOWN = 8
"""The largest number of tokens whose attention is printed: the rows and columns that fit into 120 characters."""
MOST_PROBABLE = 3


def list_parameters(model: Model) -> list[str]:
    """Returns a line per parameter: name, shape, count; then the sum. A tied one is listed once, with all names."""
    names: dict[Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    rows = [(found[0], _shape(p), f"{p.numel():,}", _also(found[1:])) for p, found in names.items()]
    total = sum(p.numel() for p in names)
    return [*_align(rows), f"{total:,} parameters"]


def _also(names: list[str]) -> str:
    """Returns the remark on the other names of a tied parameter."""
    return f"also {', '.join(names)}" if names else ""


@torch.inference_mode()
def summarize_pass(
    saved: SavedModel,
    text: str,
    target: str = "",
    source_language: str | None = None,
    target_language: str | None = None,
) -> list[str]:
    """Returns the steps of a forward pass in the order of computation: module name, output shape, role of the output.

    Vectors are summarized by their norm, averaged over the positions; attention by the first head's probabilities for
    the first 8 tokens; logits by the most probable next tokens. All values come from one actual forward pass.

    Args:
        saved: a model of any family, in evaluation mode.
        text: the input: the source, or the text.
        target: the decoder's input in an encoder-decoder; empty: the model's best translation.
        source_language, target_language: codes, for a multilingual translator.

    Raises CheckpointError for a model without tokenizer; ConfigError for a target or a language that the model does not
    support; DataError for a text that is longer than the model allows.
    """
    tokenizers = require_tokenizers(saved)
    model, spoken = saved.model, (source_language, target_language)
    if isinstance(model, Transformer):
        read = _translation(saved, model, tokenizers, text, target, spoken)
    elif target or any(spoken):
        raise ConfigError(
            "a target and languages are for an encoder-decoder; this model has one side", "leave them out"
        )
    else:
        read = [_text(saved, tokenizers, text)]
    if (longest := max(len(ids) for _, _, ids in read)) > model.config.max_positions:
        raise DataError(
            f"{longest:,} tokens are too many: the model's limit is {model.config.max_positions:,}", "shorten the text"
        )
    rows: list[tuple[str, ...]] = [
        (name, f"(1, {len(ids)})", " ".join(tokenizer.tokens(ids))) for name, tokenizer, ids in read
    ]
    device = next(model.parameters()).device
    inputs = [pad([ids], model.config.pad_id or 0).to(device) for _, _, ids in read]
    walked = copy_module_tree(model)  # its hooks run only in this pass
    for name, module in _steps(walked):
        module.register_forward_hook(_reporter(rows, name))
    with observe_attention(lambda *seen: rows.extend(_attention_rows(*seen)), walked):
        logits = walked(*inputs)
    if isinstance(model, Transformer | DecoderOnly):
        _, tokenizer, ids = read[-1]
        rows += _next_tokens(logits[0], tokenizer, ids)
    elif saved.labels:
        probabilities = logits[0].float().softmax(-1).tolist()
        rows += [("    label", "", f"{label} {p:.3f}") for label, p in zip(saved.labels, probabilities, strict=True)]
    return _align(rows)


def _translation(
    saved: SavedModel,
    model: Transformer,
    tokenizers: TokenizerPair,
    text: str,
    target: str,
    spoken: tuple[str | None, str | None],
) -> list[Read]:
    """Returns both sides of a translation as inputs of the model."""
    decode = set_languages(saved.decode, model.config, tokenizers, saved.languages, *spoken)
    translation = target or Translator(model, tokenizers, decode, saved.languages).translate([text])[0].text
    source_ids = decode.add_special_ids(tokenizers.source.encode(text), model.config.eos_id)
    target_ids = [model.config.bos_id, *decode.target_prefix, *tokenizers.target.encode(translation)]
    return [("source ids", tokenizers.source, source_ids), ("target ids", tokenizers.target, target_ids)]


def _text(saved: SavedModel, tokenizers: TokenizerPair, text: str) -> Read:
    """Returns a text as the input of an encoder or a decoder-only model."""
    config = saved.model.config
    if isinstance(saved.model, DecoderOnly):
        ids = [*saved.decode.source_prefix, *tokenizers.target.encode(text)] or [config.bos_id]
        return "ids", tokenizers.target, ids
    return "ids", tokenizers.source, classifier_input(tokenizers.source.encode(text), config, None)


def _steps(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """Returns the modules to list: modules that compute, without containers and modules that have no effect here."""
    quiet = (nn.ModuleList, nn.Identity, RelativePositions, RotaryPositions)
    return [(n, m) for n, m in model.named_modules() if n and not isinstance(m, quiet) and "dropout" not in n]


def _reporter(rows: list[tuple[str, ...]], name: str) -> Any:
    def report(module: nn.Module, inputs: Any, output: Tensor) -> None:
        rows.append((name, _shape(output), ", ".join(filter(None, (_role(module, name), _norm(output))))))

    return report


def _role(module: nn.Module, name: str) -> str:
    """Returns a description of a module's output, if its name is not enough."""
    if isinstance(module, MultiHeadAttention):
        return f"{module.num_heads} heads joined and projected"
    if isinstance(module, Embeddings):
        scaled = f"tokens times {module.scale:.4g}" if module.scale != 1 else "tokens"
        return scaled + ("" if module.positions is None else " plus positions")
    return "residual stream" if isinstance(module, EncoderLayer | DecoderLayer) else ""


def _norm(output: Tensor) -> str:
    """Returns the mean norm of a position's vector as text; empty for an output without such vectors."""
    return f"norm {output.float().norm(dim=-1).mean().item():.4g}" if output.dim() == 3 else ""


def _next_tokens(logits: Tensor, tokenizer: TokenizerBase, ids: Sequence[int]) -> list[tuple[str, ...]]:
    """Returns one row per position: the tokens that the model predicts after it; (T, V) logits."""
    best = logits.float().softmax(-1).topk(min(MOST_PROBABLE, logits.size(-1)))
    rows: list[tuple[str, ...]] = []
    for token, values, indices in zip(tokenizer.tokens(ids), best.values.tolist(), best.indices.tolist(), strict=True):
        names = tokenizer.tokens(indices)
        found = "  ".join(f"{name} {value:.3f}" for name, value in zip(names, values, strict=True))
        rows.append((f"    after {token}", "", found))
    return rows


def _attention_rows(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, output: Tensor
) -> list[tuple[str, ...]]:
    weights = attention_weights(q, k, mask, bias)
    return [
        ("    q", _shape(q), "split into heads"),
        ("    k", _shape(k), ""),
        ("    v", _shape(v), ""),
        ("    mask", "none" if mask is None else _shape(mask), "True = may attend"),
        ("    weights", _shape(weights), f"softmax(q k^T / sqrt({q.size(-1)})); each row sums to 1"),
        *_first_head(weights[0, 0]),
        ("    weights v", _shape(output), ""),
    ]


def _first_head(weights: Tensor) -> list[tuple[str, ...]]:
    """Returns the probabilities of a head, one row per query; (L, M), shortened for a long text."""
    more = " ..." if weights.size(1) > MOST_SHOWN else ""
    rows: list[tuple[str, ...]] = [
        (f"    head 0, query {query}", "", "  ".join(f"{value:.3f}" for value in row[:MOST_SHOWN]) + more)
        for query, row in enumerate(weights[:MOST_SHOWN].tolist())
    ]
    return [*rows, ("    ...", "", "")] if weights.size(0) > MOST_SHOWN else rows


def _shape(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def _align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
