"""The check of traces: what is shown of each attention is what the model went on with."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.examining.subject import ModelCheck, Subject, apart, bad, not_applicable
from pellucid.model.families import Model
from pellucid.model.observing import observing
from pellucid.tracing.passes import record_pass
from pellucid.tracing.recorder import sites_of, watched

TINY = torch.finfo(torch.float32).tiny
EXPONENTIAL = 4
"""By how many units of rounding exp() may be off: libraries promise one or two."""


@torch.inference_mode()
def faithfulness(subject: Subject) -> ModelCheck:
    """Checks that the trace's weights times its values are what attention gave, and that the layer goes on with it."""
    name, model = "faithfulness", subject.model
    src, tgt = (subject.sources or [[]])[0], (subject.targets or [[]])[0]
    dtype = next(model.parameters()).dtype
    try:
        trace = record_pass(model, src, tgt)
    except DataError as error:
        return not_applicable(name, f"it cannot be traced: {error}")
    missing = sum(map(len, trace.without_weights.values()))
    if not trace.attentions:
        return not_applicable(name, "no attention of it calls pellucid.attention, so nothing is shown")
    worst, bound, where = 0.0, 0.0, ""
    order = {name: [layer for layer in range(_layers(model, name)) if layer not in trace.without_weights.get(name, ())]
             for name in trace.attentions}  # fmt: skip
    given: dict[tuple[str, int], Tensor] = {}

    def see(attention: str, layer: int, block: nn.Module, q: Tensor, k: Tensor, v: Tensor,
            mask: Tensor | None, bias: Tensor | None, output: Tensor) -> None:  # fmt: skip
        nonlocal worst, bound, where
        given[attention, layer] = output.clone()
        shown, row = trace.attentions[attention], order[attention].index(layer)
        if shown.v is None:
            return
        shared = shown.num_heads // shown.v.shape[1]
        rebuilt = np.stack([shown.weights(row, head).astype(np.float64) @ shown.v[row, head // shared]
                            for head in range(shown.num_heads)])  # fmt: skip
        figure = float((torch.from_numpy(rebuilt) - output[0].double().cpu()).abs().max())
        allowed = max(_of_attention(q[0], k[0], v[0], bias, dtype), TINY)  # values may all be zero
        if not where or not figure / allowed <= worst / bound:
            worst, bound, where = figure, allowed, f"{attention} layer {layer}"

    with watched(model, see) as copied:
        _read(copied, subject, src, tgt)
        if idle := _shown_only(copied, subject, src, tgt):
            return bad(name, f"{idle} shows weights that it does not go on with", "return what pellucid.attention gave",
                       1.0)  # fmt: skip
    without = f"; {missing} layers show nothing, since they do not call pellucid.attention" if missing else ""
    said = f"what is shown and what was computed differ by {{}}, most in {where}{without}"
    if not where:
        said = f"what is shown and what was computed differ by {{}}{without}"
    return subject.result(name, said, worst, "what attention gives must come of the q, k, v and mask that it is given",
                          max(bound, TINY))  # fmt: skip


def _layers(model: Model, attention: str) -> int:
    return sum(name == attention for name, _ in sites_of(model))


def _read(model: Any, subject: Subject, src: list[int], tgt: list[int]) -> None:
    subject.output(src, tgt, model)


def _shown_only(model: Any, subject: Subject, src: list[int], tgt: list[int]) -> str:
    """Names the attention whose output stays the same when what attention() gave it is set to zero; "" if there is
    none."""
    sites = [(f"{name} layer", block) for name, block in sites_of(model) if block is not None]
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
        if len(outputs) == 2 and apart(*outputs) == 0 and float(outputs[0].abs().max()):
            return f"{label} {number}"
    return ""


def _reads(model: Any, subject: Subject, src: list[int], tgt: list[int], zeroed: nn.Module | None) -> set[nn.Module]:
    """Reads a text, with what attention() gives one module set to zero; returns the modules that called it."""
    told: set[nn.Module] = set()
    running: list[nn.Module] = []

    def begin(block: nn.Module) -> Callable[..., None]:
        return lambda *_: running.append(block)

    def see(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, output: Tensor) -> None:
        if running:
            told.add(running[-1])
            if running[-1] is zeroed:
                output.zero_()

    blocks = [block for _, block in sites_of(model) if block is not None]
    hooks = [block.register_forward_pre_hook(begin(block)) for block in blocks]
    hooks += [block.register_forward_hook(lambda *_: running.pop() and None) for block in blocks]
    try:
        with observing(see, model):
            subject.output(src, tgt, model)
    finally:
        for hook in hooks:
            hook.remove()
    return told


def _of_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dtype: torch.dtype) -> float:
    """Returns how far two computations of softmax(q k^T / sqrt(K) + bias) v may be apart: (H, L, K), (H, M, K) twice.

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
