"""Judges equation 3: the learning rate d_model^-0.5 min(step^-0.5, step warmup^-1.5)."""

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from pellucid.judge.calling import SIZES, CallError, Names, bind, call, run, to_tensor
from pellucid.judge.conventions import Conventions
from pellucid.judge.failures import Failures
from pellucid.judge.findings import Finding
from pellucid.judge.mistakes import MISTAKES
from pellucid.judge.variants import Axes, Choices, Variants

D, WARMUP = 64, 10
STEPS = (1, 2, 5, 9, 10, 11, 20, 40, 90)

AXES: Axes = {
    "shorter": {"max": "rate-max", "decay": "rate-no-warmup", "warmup": "rate-no-decay"},
    "width": {"root": "rate-width-root", "none": "rate-no-width", "inverse": "rate-width-inverse"},
    "warmup": {"root": "rate-warmup-root", "linear": "rate-warmup-linear", "squared": "rate-warmup-squared"},
    "decay": {"linear": "rate-decay-linear", "root": "rate-grows"},
    "count": {"plus": "rate-one-early", "minus": "rate-one-late"},
}  # fmt: skip

NAMES: Names = {
    "step": (
        "step",
        "steps",
        "stepnum",
        "t",
        "i",
        "n",
        "epoch",
        "currentstep",
        "stepnumber",
        "globalstep",
        "ncurrentsteps",
        "s",
    ),
    "d_model": SIZES["d_model"],
    "warmup": ("warmup", "warmupsteps", "nwarmupsteps", "numwarmupsteps", "w", "warm", "warmups", "warmupstep"),
    "factor": ("factor", "scale", "lrmul", "k", "multiplier", "initlr"),
    "optimizer": ("optimizer", "optim", "opt"),
}


def compute_rates(choices: Choices) -> Tensor:
    """Returns the rates of STEPS, with wrong choices."""
    rates = []
    for number in STEPS:
        step = number + {"plus": 1, "minus": -1}.get(choices.get("count", ""), 0)
        if step == 0:
            rates.append(0.0)
            continue
        decay = step ** {"linear": -1.0, "root": 0.5}.get(choices.get("decay", ""), -0.5)
        power = {"root": -0.5, "linear": -1.0, "squared": -2.0}.get(choices.get("warmup", ""), -1.5)
        rising = step * WARMUP**power
        flat = min(rising, WARMUP**-0.5)
        shorter = choices.get("shorter", "")
        rate = max(decay, rising) if shorter == "max" else decay if shorter == "decay" else min(decay, rising)
        rate = flat if shorter == "warmup" else rate
        rates.append(rate * D ** {"root": 0.5, "none": 0.0, "inverse": -1.0}.get(choices.get("width", ""), -0.5))
    return torch.tensor(rates, dtype=torch.float64)


def judge_schedule(given: Any, conventions: Conventions) -> Finding:
    """Judges a function `learning_rate(step, d_model, warmup)`, or a class whose instances are called with a step.

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    failures = Failures("learning_rate")
    names = {**SIZES, **NAMES}
    values: dict[str, Any] = {
        "d_model": D,
        "warmup": WARMUP,
        "factor": 1.0,
        "optimizer": SimpleNamespace(param_groups=[{"lr": 1.0}]),
    }
    part = given
    if isinstance(given, type):
        args, kwargs = bind(given, values, names, ("d_model", "warmup"))
        part = run(given, *args, **kwargs)
    rates: list[float] = []
    for step in STEPS:
        args, kwargs = bind(part, {**values, "step": step}, NAMES, ("step", "d_model", "warmup", "factor"))
        rate = to_tensor(call(part, args, kwargs))
        if rate is None:
            return Finding("learning_rate", False, ("returns-nothing",))
        rates.append(float(rate) if isinstance(rate, Tensor) and rate.numel() == 1 else math.nan)
    output = torch.tensor(rates, dtype=torch.float64)
    variants = Variants(AXES, compute_rates)
    choices = variants.find(output)
    if choices is None:
        failures.miss(output, compute_rates({}))
        return failures.make_finding()
    found = variants.name(choices)
    args, kwargs = bind(part, {**values, "step": 0}, NAMES, ("step", "d_model", "warmup", "factor"))
    try:
        first = to_tensor(call(part, args, kwargs))
        defined = isinstance(first, Tensor) and bool(first.isfinite().all())
    except CallError:
        defined = False
    if not defined:
        found = (*found, "rate-step-zero")
    return Finding("learning_rate", all(MISTAKES[name].is_note for name in found), found)
