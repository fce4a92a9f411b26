"""Judges the sinusoids of section 3.5: a function that returns a table, or a module that adds it."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.judge.calling import SIZES, CallError, Names, bind, call, construct, list_parameters, to_tensor
from pellucid.judge.conventions import Conventions
from pellucid.judge.failures import Failures
from pellucid.judge.findings import Finding
from pellucid.judge.mistakes import MISTAKES
from pellucid.judge.variants import Axes, Choices, Variants, is_same

B, L, D, LONGEST = 2, 7, 10, 12

AXES: Axes = {
    "exponent": {"own": "positions-own-exponent", "half": "positions-half-exponent",
                 "cosine": "positions-cosine-exponent",
                 "times": "positions-multiplied", "none": "positions-no-exponent"},
    "base": {"1000": "positions-other-base", "100": "positions-base-100"},
    "order": {"halves": "positions-halves", "swapped": "positions-cosine-first"},
    "waves": {"sines": "positions-only-sines", "cosines": "positions-only-cosines"},
    "start": {"one": "positions-start-at-one"},
}  # fmt: skip

NAMES: Names = {
    "length": (*SIZES["max_length"], "n", "l", "nposition", "maxposition", "positions", "size", "seq",
               "sequencelength", "m"),
    "d_model": SIZES["d_model"],
    "x": ("x", "emb", "embeddings", "inputs", "input", "embedded", "tokenembedding", "tokens"),
    "start": ("start",),
    "end": ("end", "stop"),
    "device": ("device",),
    "base": ("base", "n10000", "theta"),
}  # fmt: skip


def compute_table(choices: Choices) -> Tensor:
    """Returns the table of section 3.5, (LONGEST, D), with wrong choices."""
    exponent, order, waves = choices.get("exponent", ""), choices.get("order", ""), choices.get("waves", "")
    position = torch.arange(LONGEST, dtype=torch.float64)[:, None] + (choices.get("start") == "one")
    pairs = torch.arange(D // 2, dtype=torch.float64)
    base = float(choices.get("base", 10000))
    powers = {"half": pairs / D, "none": torch.zeros_like(pairs)}.get(exponent, 2 * pairs / D)
    sine_angles = position * base**powers if exponent == "times" else position / base**powers
    cosine_angles = sine_angles
    if exponent == "own":  # each dimension has its own exponent, i / d_model
        cosine_angles = position / base ** ((2 * pairs + 1) / D)
    elif exponent == "cosine":  # 2i with i counted over all dimensions
        cosine_angles = position / base ** (2 * (2 * pairs + 1) / D)
        sine_angles = position / base ** (2 * (2 * pairs) / D)
    first, second = sine_angles.sin(), cosine_angles.cos()
    if waves == "sines":
        second = cosine_angles.sin()
    if waves == "cosines":
        first = sine_angles.cos()
    if order == "swapped":
        first, second = second, first
    if order == "halves":
        return torch.cat([first, second], dim=-1)
    return torch.stack([first, second], dim=-1).flatten(1)


def judge_positions(given: Any, conventions: Conventions) -> Finding:
    """Judges a function that returns the table, or a class or module that adds it to (B, L, D).

    Raises CallError if no way of calling it works, and Undecided for a parameter that the judge does not know.
    """
    sizes = {"d_model": D, "max_length": LONGEST, "num_heads": 1}
    module = construct(given, sizes, ("d_model", "max_length")) if isinstance(given, type) else given
    failures = Failures("positional_encoding")
    if isinstance(module, nn.Module) or (isinstance(given, type) and callable(module)):
        return _judge_module(module, conventions, failures)
    values: dict[str, Any] = {
        "length": LONGEST,
        "d_model": D,
        "base": 10000.0,
        "device": "cpu",
        "x": torch.zeros(B, LONGEST, D),
    }
    args, kwargs = bind(module, values, NAMES, ("length", "d_model"))
    try:
        output = to_tensor(call(module, args, kwargs))
    except CallError as error:
        failures.fail(error)
        return failures.make_finding()
    return _name(_squeeze(output), failures)


def _squeeze(output: Any) -> Any:
    """Returns a table without axes of length 1, and without rows that are equal for each sentence."""
    if isinstance(output, Tensor) and output.dim() == 3:
        if output.size(0) == 1 or (output.size(0) == B and is_same(output[0], output[1])):
            return output[0]
        if output.size(1) == 1:
            return output[:, 0]
    return output


def _name(table: Any, failures: Failures, *flags: str) -> Finding:
    if table is None:
        return Finding("positional_encoding", False, ("returns-nothing",))
    variants = Variants(AXES, lambda choices: compute_table(choices)[: len(table)])
    if isinstance(table, Tensor):
        # Tables are often made in single precision.
        choices = variants.find(table, same=partial(is_same, rtol=1e-4, atol=1e-4))
        if choices is not None:
            names = (*variants.name(choices), *flags)
            return Finding("positional_encoding", all(MISTAKES[name].is_note for name in names), names)
    failures.miss(table, compute_table({})[: len(table)] if isinstance(table, Tensor) else torch.empty(0))
    return failures.make_finding()


def _judge_module(module: Any, conventions: Conventions, failures: Failures) -> Finding:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(B, L, D, generator=generator, dtype=torch.float64)
    parameters = list_parameters(module) or []
    if len([each for each in parameters if each.default is each.empty]) == 2:
        args, kwargs = bind(module, {"start": 0, "end": L, "length": L, "d_model": D}, NAMES, ("start", "end"))
        return _name(_squeeze(to_tensor(call(module, args, kwargs))), failures)
    tables: list[tuple[Tensor, tuple[str, ...]]] = []
    for form in ("x", "ids", "length"):
        value = {"x": x, "ids": torch.ones(B, L, dtype=torch.long), "length": L}[form]
        try:
            args, kwargs = bind(module, {"x": value, "length": value}, NAMES, ("x",))
            output = to_tensor(call(module, args, kwargs))
        except CallError as error:
            failures.fail(error)
            continue
        if output is None:
            return Finding("positional_encoding", False, ("returns-nothing",))
        if not isinstance(output, Tensor):
            continue
        if form != "x":
            tables.append((output, ()))
            continue
        for factor in (1.0, math.sqrt(D)):
            tables.append((output - factor * x, ()) if output.shape == x.shape else (output, ()))
        tables.append((output, ()))
    learned = [each.weight for each in getattr(module, "modules", list)() if isinstance(each, nn.Embedding)]
    learned += [each for each in getattr(module, "parameters", list)() if each.dim() >= 2 and each.size(-1) == D]
    for table, flags in tables:
        for seen, more in _list_tables(table, conventions):
            if any(is_same(seen, weight.detach().reshape(-1, D)[: len(seen)]) for weight in learned):
                return Finding("positional_encoding", not (flags or more), (*flags, *more))
            finding = _name(seen, Failures("positional_encoding"), *flags, *more)
            if not finding.is_unknown:
                return finding
    if tables:
        failures.miss(tables[0][0], compute_table({})[:L].expand(B, L, D))
    return failures.make_finding()


def _list_tables(table: Tensor, conventions: Conventions) -> list[tuple[Tensor, tuple[str, ...]]]:
    """Returns the (L, D) that an addition to (B, L, D) may mean, with the mistake of rows along the batch."""
    if table.dim() == 2:
        return [(table, ())]
    if table.dim() != 3:
        return []
    if table.size(0) == 1 or is_same(table[0], table[-1]):
        return [(table[0], ())]
    if table.size(1) == 1 or is_same(table[:, 0], table[:, -1]):
        # (L, B, D) is a style; between parts with (B, L, D) it is a mistake.
        return [(table[:, 0], ("positions-on-batch",) if conventions.batch_first else ())]
    return []
