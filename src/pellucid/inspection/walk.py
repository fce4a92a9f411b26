"""A model in figures: its parameters, and each step of a real pass with its shape."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.decoding.padding import pad
from pellucid.model.attention import MultiHeadAttention, attention_weights, observing
from pellucid.model.positions import RelativePositions
from pellucid.model.transformer import Transformer
from pellucid.tasks.translator import Translator


def list_parameters(model: Transformer) -> list[str]:
    """A line a parameter: name, shape, count; then the sum. A tied one stands once, with its other names."""
    names: dict[Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    rows = [(found[0], _shape(p), f"{p.numel():,}", _also(found[1:])) for p, found in names.items()]
    total = sum(p.numel() for p in names)
    return [*_aligned(rows), f"{total:,} parameters"]


def _also(names: list[str]) -> str:
    """A remark on the other names of a tied parameter."""
    return f"also {', '.join(names)}" if names else ""


@torch.inference_mode()
def walk_pass(translator: Translator, source: str, target: str = "") -> list[str]:
    """A line a step, in the order of computation: the module's name, what it gave, and its shape.

    `target` is the translation fed to the decoder; empty: the model's own best.
    """
    model, config = translator.model, translator.model.config
    translation = target or translator.translate([source])[0].text
    source_ids = [*translator.tokenizers.source.encode(source), config.eos_id]
    target_ids = [config.bos_id, *translator.tokenizers.target.encode(translation)]
    rows: list[tuple[str, ...]] = [
        ("source ids", f"(1, {len(source_ids)})", " ".join(translator.tokenizers.source.tokens(source_ids))),
        ("target ids", f"(1, {len(target_ids)})", " ".join(translator.tokenizers.target.tokens(target_ids))),
    ]
    device = next(model.parameters()).device
    src, tgt = (pad([ids], config.pad_id or 0).to(device) for ids in (source_ids, target_ids))
    hooks = [module.register_forward_hook(_reporter(rows, name)) for name, module in _steps(model)]
    try:
        with observing(lambda *seen: rows.extend(_attention_rows(*seen))):
            model(src, tgt)
    finally:
        for hook in hooks:
            hook.remove()
    return _aligned(rows)


def _steps(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """The modules worth a line: those that compute, not those that only hold others or do nothing here."""
    quiet = (nn.ModuleList, RelativePositions)
    return [(n, m) for n, m in model.named_modules() if n and not isinstance(m, quiet) and "dropout" not in n]


def _reporter(rows: list[tuple[str, ...]], name: str) -> Any:
    def report(module: nn.Module, inputs: Any, output: Tensor) -> None:
        remark = f"{module.num_heads} heads joined and projected" if isinstance(module, MultiHeadAttention) else ""
        rows.append((name, _shape(output), remark))

    return report


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
        ("    weights v", _shape(output), ""),
    ]


def _shape(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
