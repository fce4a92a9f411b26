"""Judges layer normalization over the features, as a function or a module."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.judge.calling import (
    SIZES,
    CallError,
    Names,
    bind,
    call,
    construct,
    list_parameters,
    prepare,
    run,
    to_tensor,
)
from pellucid.judge.conventions import Conventions
from pellucid.judge.failures import Failures
from pellucid.judge.findings import Finding
from pellucid.judge.mistakes import MISTAKES
from pellucid.judge.properties import Inputs, PartCall, judge_properties
from pellucid.judge.variants import Axes, Choices, Variants, is_same

B, L, D = 3, 4, 6

AXES: Axes = {
    "over": {"batch": "norm-over-batch", "positions": "norm-over-positions", "sentence": "norm-over-sentence",
             "all": "norm-over-everything"},
    "center": {"none": "norm-not-centred"},
    "deviation": {"sample": "norm-sample-deviation", "variance": "norm-by-variance", "none": "norm-not-scaled"},
    "affine": {"none": "norm-no-gamma-beta", "swapped": "norm-gamma-beta-swapped", "gamma": "norm-beta-unused",
               "beta": "norm-gamma-unused", "inside": "norm-beta-scaled"},
}  # fmt: skip

NAMES: Names = {
    "x": ("x", "input", "inputs", "hidden", "hiddenstate"),
    "gamma": ("gamma", "weight", "scale", "g", "w", "a2", "gain", "a"),
    "beta": ("beta", "bias", "shift", "b", "b2", "offset"),
    "eps": ("eps", "epsilon"),
    "d_model": ("d", "dim", "dmodel", "normalizedshape", "features"),
}


def compute_norm(x: Tensor, gamma: Tensor | None, beta: Tensor | None, choices: Choices) -> Tensor:
    """Returns gamma * (x - mean) / deviation + beta for x (B, L, D), with wrong choices."""
    dims = {"batch": (0,), "positions": (1,), "sentence": (1, 2), "all": (0, 1, 2)}.get(choices.get("over", ""), (2,))
    deviation, affine = choices.get("deviation", ""), choices.get("affine", "")
    mean = x.mean(dims, keepdim=True)
    variance = x.var(dims, keepdim=True, correction=1 if deviation == "sample" else 0)
    y = x if choices.get("center") == "none" else x - mean
    y = y / {"variance": variance, "none": torch.ones_like(variance)}.get(deviation, variance.sqrt())
    if gamma is None or beta is None or affine == "none":
        return y
    if affine == "swapped":
        return beta * y + gamma
    if affine == "inside":
        return gamma * (y + beta)
    return (1.0 if affine == "beta" else gamma) * y + (0.0 if affine == "gamma" else beta)


def judge_norm(given: Any, conventions: Conventions) -> Finding:
    """Judges a function `layer_norm(x, gamma, beta)` or a class.

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    failures = Failures("LayerNorm")
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(B, L, D, generator=generator, dtype=torch.float64) * 2 + 1
    pair = [torch.randn(D, generator=generator, dtype=torch.float64) + 1.5 for _ in range(2)]
    part = construct(given, {"d_model": D}, ("d_model",)) if isinstance(given, type) else given
    takes = [each.name for each in list_parameters(part) or []]
    options: list[tuple[Tensor | None, Tensor | None]] = [(None, None)]
    if isinstance(part, nn.Module):
        weights = [each for each in prepare(part).parameters() if each.numel() == D]
        if len(weights) == 2:
            ones = [torch.ones(D), torch.zeros(D)]
            for weight, value in zip(weights, pair, strict=True):
                weight.data.copy_(value.view_as(weight))
            # The first one to be multiplied is gamma: initial values tell which it is.
            fresh = [each.detach().flatten() for each in _list_fresh(given, ones) if each.numel() == D]
            order = [0, 1] if not fresh or is_same(fresh[0], ones[0]) else [1, 0]
            options = [(pair[order[0]], pair[order[1]])]
    elif len(takes) >= 3:
        options = [(pair[0], pair[1])]
    values = {"x": x, "gamma": pair[0], "beta": pair[1], "eps": 1e-6, "d_model": D}
    args, kwargs = bind(part, values, NAMES, ("x", "gamma", "beta", "eps"))
    try:
        output = to_tensor(call(part, args, kwargs))
    except CallError as error:
        failures.fail(error)
        return failures.make_finding()
    if output is None:
        return Finding("LayerNorm", False, ("returns-nothing",))
    for gamma, beta in options:
        variants = Variants(AXES, partial(compute_norm, x, gamma, beta))
        # The small number below the root moves the output by up to 1e-5.
        choices = variants.find(output, same=partial(is_same, rtol=1e-3, atol=1e-4))
        if choices is None:
            failures.miss(output, compute_norm(x, gamma, beta, {}))
            continue
        names = variants.name(choices)
        if isinstance(part, nn.Module) and gamma is None and not isinstance(given, nn.Module):
            names = (*names, "norm-no-gamma-beta")
        if _lacks_eps(part, values):
            names = (*names, "norm-no-eps")
        return Finding("LayerNorm", all(MISTAKES[name].is_note for name in names), names)

    def repeat(inputs: Inputs) -> Any:
        args, kwargs = bind(part, {**values, **inputs}, NAMES, ("x", "gamma", "beta", "eps"))
        return to_tensor(call(part, args, kwargs))

    return judge_properties(failures.make_finding(), [PartCall(repeat, {"x": x}, x.shape, pointwise=True)])


def _list_fresh(given: Any, ones: list[Tensor]) -> list[Tensor]:
    """Returns the parameters of a class as it initializes them; of an instance the usual ones and zeros."""
    if not isinstance(given, type):
        return ones
    made = _construct_fresh(given)
    return list(made.parameters()) if isinstance(made, nn.Module) else ones


def _construct_fresh(given: type) -> Any:
    args, kwargs = bind(given, {"d_model": D, "eps": 1e-6, "dropout": 0.0, "bias": True}, SIZES, ("d_model",))
    return run(given, *args, **kwargs)


def _lacks_eps(part: Any, values: dict[str, Any]) -> bool:
    """Returns True if equal features give a number that is not finite."""
    args, kwargs = bind(part, {**values, "x": torch.full((B, L, D), 2.0)}, NAMES, ("x", "gamma", "beta", "eps"))
    try:
        output = to_tensor(call(part, args, kwargs))
    except CallError:
        return False
    return isinstance(output, Tensor) and not bool(output.isfinite().all())
