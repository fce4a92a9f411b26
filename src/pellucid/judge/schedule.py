"""Judges equation 3: the learning rate d_model^-0.5 min(step^-0.5, step warmup^-1.5)."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from pellucid.judge.calling import SIZES, CallError, Names, bind, call, find_role, list_parameters, run, to_tensor
from pellucid.judge.conventions import Conventions
from pellucid.judge.failures import Failures
from pellucid.judge.findings import Finding
from pellucid.judge.mistakes import MISTAKES
from pellucid.judge.properties import Violation, choose_way
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

    def compute(step: int) -> Any:
        args, kwargs = bind(part, {**values, "step": step}, NAMES, ("step", "d_model", "warmup", "factor"))
        return to_tensor(call(part, args, kwargs))

    rates: list[float] = []
    are_numbers = True
    for step in STEPS:
        rate = compute(step)
        if rate is None:
            return Finding("learning_rate", False, ("returns-nothing",))
        is_number = isinstance(rate, Tensor) and rate.numel() == 1
        are_numbers = are_numbers and is_number
        rates.append(float(rate) if is_number else math.nan)
    output = torch.tensor(rates, dtype=torch.float64)
    variants = Variants(AXES, compute_rates)
    choices = variants.find(output)
    if choices is None:
        failures.miss(output, compute_rates({}))
        roles = {find_role(each.name, names) for each in [*_list_own(given), *_list_own(part)]}
        way = partial(_find_violations, dict(zip(STEPS, rates, strict=True)), compute, roles)
        return choose_way(failures.make_finding(), [way] if are_numbers else [])
    found = variants.name(choices)
    try:
        first = compute(0)
        defined = isinstance(first, Tensor) and bool(first.isfinite().all())
    except CallError:
        defined = False
    if not defined:
        found = (*found, "rate-step-zero")
    return Finding("learning_rate", all(MISTAKES[name].is_note for name in found), found)


def _list_own(function: Any) -> list[Any]:
    return list_parameters(function) or []


def _find_violations(
    rates: Mapping[int, float], compute: Callable[[int], Any], roles: set[str | None]
) -> list[Violation]:
    """Returns the properties that the rates of any schedule with a warm-up have and these lack, with the first step.

    Another schedule than that of equation 3 may be right, so that only code whose warm-up is a parameter is asked what
    follows from its end.
    """
    found: list[Violation] = []
    for step, rate in rates.items():
        if not rate >= 0 or math.isinf(rate):
            found.append(("property-rate-negative", f"[{step}]: {rate:.4g}"))
            break
    if "step" not in roles or found:  # code that counts its steps itself has another step in each call
        return found
    for step, rate in rates.items():
        again = float(compute(step))
        if not math.isclose(again, rate, rel_tol=1e-6):
            return [("property-repeatable", f"[{step}]: {again:.4g} != {rate:.4g}")]
    if "warmup" not in roles:
        return found
    peak = max(rate for step, rate in rates.items() if abs(step - WARMUP) <= 1)  # steps count from 0 or from 1
    if rates[1] >= peak:
        found.append(("property-rate-warmup", f"[1]: {rates[1]:.4g} >= [{WARMUP}]: {rates[WARMUP]:.4g}"))
    for step, rate in rates.items():
        if step > WARMUP + 1 and rate > peak * (1 + 1e-6):
            found.append(("property-rate-decay", f"[{step}]: {rate:.4g} > [{WARMUP}]: {rates[WARMUP]:.4g}"))
            break
    return found
