"""The check of traces: the recorded attention must be the attention that the model uses."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.model.families import Model
from pellucid.model.observers import observe_attention
from pellucid.properties.subject import (
    ExaminedModel,
    ModelCheck,
    relative_difference,
    report_bad,
    report_not_applicable,
)
from pellucid.tracing.recorder import AttentionCall, list_attention, observe_model
from pellucid.tracing.recording import record_pass

TINY = torch.finfo(torch.float32).tiny
EXPONENTIAL = 4
"""The rounding units by which exp() may be off: libraries promise one or two."""


@torch.inference_mode()
def check_trace(subject: ExaminedModel) -> ModelCheck:
    """Checks that the trace's weights times its values equal the attention's output, and that the layer uses that
    output.
    """
    name, model = "faithfulness", subject.model
    src, tgt = (subject.sources or [[]])[0], (subject.targets or [[]])[0]
    dtype = next(model.parameters()).dtype
    try:
        trace = record_pass(model, src, tgt)
    except DataError as error:
        return report_not_applicable(name, f"it cannot be traced: {error}")
    missing = sum(map(len, trace.without_weights.values()))
    if not trace.attentions:
        return report_not_applicable(
            name, "none of its attention modules calls pellucid.attention, so nothing is recorded"
        )
    worst, bound, where = 0.0, 0.0, ""
    order = {name: [layer for layer in range(_layers(model, name)) if layer not in trace.without_weights.get(name, ())]
             for name in trace.attentions}  # fmt: skip

    def see(call: AttentionCall) -> None:
        nonlocal worst, bound, where
        shown, row = trace.attentions[call.name], order[call.name].index(call.layer)
        if shown.v is None:
            return
        shared = shown.num_heads // shown.v.shape[1]
        rebuilt = np.stack([shown.weights(row, head).astype(np.float64) @ shown.v[row, head // shared]
                            for head in range(shown.num_heads)])  # fmt: skip
        figure = float((torch.from_numpy(rebuilt) - call.output[0].double().cpu()).abs().max())
        error = _compare_attention(call.q[0], call.k[0], call.v[0], call.bias, dtype)
        allowed = max(error, TINY)  # values may all be zero
        if not where or not figure / allowed <= worst / bound:
            worst, bound, where = figure, allowed, f"{call.name} layer {call.layer}"

    with observe_model(model, see) as copied:
        _read(copied, subject, src, tgt)
        if idle := _find_display_only(copied, subject, src, tgt):
            text = f"{idle} records weights, but does not use the result of pellucid.attention"
            return report_bad(name, text, "return the output of pellucid.attention", 1.0)
    without = f"; {missing} layers are not recorded, since they do not call pellucid.attention" if missing else ""
    said = f"the recorded and the computed attention differ by {{}}, most in {where}{without}"
    if not where:
        said = f"the recorded and the computed attention differ by {{}}{without}"
    advice = "the output of attention must be computed from its arguments q, k, v and mask"
    return subject.result(name, said, worst, advice, max(bound, TINY))


def _layers(model: Model, attention: str) -> int:
    return sum(name == attention for name, _ in list_attention(model))


def _read(model: Any, subject: ExaminedModel, src: list[int], tgt: list[int]) -> None:
    subject.output(src, tgt, model)


def _find_display_only(model: Any, subject: ExaminedModel, src: list[int], tgt: list[int]) -> str:
    """Returns the name of the attention whose output stays the same when the result of attention() is set to zero, or
    "".
    """
    sites = [(f"{name} layer", block) for name, block in list_attention(model) if block is not None]
    counts: dict[str, int] = {}
    for label, block in sites:
        number = counts[label] = counts.get(label, -1) + 1
        outputs: list[Tensor] = []
        hook = block.register_forward_hook(
            lambda module, given, output, outputs=outputs: outputs.append(output.clone())
        )
        try:
            told = _reads(model, subject, src, tgt, None)
            if block not in told:
                continue
            _reads(model, subject, src, tgt, block)
        finally:
            hook.remove()
        if len(outputs) == 2 and relative_difference(*outputs) == 0 and float(outputs[0].abs().max()):
            return f"{label} {number}"
    return ""


def _reads(
    model: Any, subject: ExaminedModel, src: list[int], tgt: list[int], zeroed: nn.Module | None
) -> set[nn.Module]:
    """Runs a text with the result of attention() set to zero in one module; returns the modules that called it."""
    told: set[nn.Module] = set()
    running: list[nn.Module] = []

    def begin(block: nn.Module) -> Callable[..., None]:
        return lambda *_: running.append(block)

    def see(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, output: Tensor) -> None:
        if running:
            told.add(running[-1])
            if running[-1] is zeroed:
                output.zero_()

    blocks = [block for _, block in list_attention(model) if block is not None]
    hooks = [block.register_forward_pre_hook(begin(block)) for block in blocks]
    hooks += [block.register_forward_hook(lambda *_: running.pop() and None) for block in blocks]
    try:
        with observe_attention(see, model):
            subject.output(src, tgt, model)
    finally:
        for hook in hooks:
            hook.remove()
    return told


def _compare_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dtype: torch.dtype) -> float:
    """Returns the rounding error bound of two computations of softmax(q k^T / sqrt(K) + bias) v: (H, L, K), (H, M, K)
    twice.

    A sum of n products errs by at most n u / (1 - n u) times the sum of their absolute values (Higham 2002, section
    3.1); so a score, and a weight by its score, by the largest score, by exp() and by the sum that divides it.
    """
    u, width, length = torch.finfo(dtype).eps / 2, q.size(-1), k.size(-2)
    q, k, v = q.double().abs(), k.double().abs(), v.double().abs()
    scores = (q * width**-0.5) @ k.transpose(-2, -1)
    largest = float(scores.max()) + (0.0 if bias is None else float(bias[bias.isfinite()].abs().max()))
    of_scores = ((width + 2) * u / (1 - (width + 2) * u) + 2 * u) * largest
    of_sum = length * u / (1 - length * u)
    of_weights = 2 * (2 * of_scores + 2 * u * largest + (EXPONENTIAL + 2) * u + of_sum)
    return (of_weights + 2 * of_sum) * float(v.max())
